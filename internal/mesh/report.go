package mesh

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/pki"
)

// report is what a vantage signs: observations, each with the nonces that it
// echoes, by the name of the reader. There are several of one reader where they
// came by several ways and differ; the reader takes the newest that is its own.
type report struct {
	// Inc is the vantage's incarnation, which orders its sequence numbers.
	Inc  uint64 `json:"inc"`
	Said []said `json:"said"`
}

type said struct {
	Observation steadycast.Observation `json:"o"`
	Echo        map[string][]uint64    `json:"echo"`
}

// Signed is a report and its signature, as it travels and as it proves later,
// to whoever has the certificate, what was said.
type Signed []byte

// seal signs a report. The signature comes first, then exactly the octets signed.
func seal(c *pki.Credentials, r report) (Signed, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(body)+ed25519.SignatureSize > maxSigned {
		return nil, fmt.Errorf("a report of %d octets; at most %d", len(body), maxSigned-ed25519.SignatureSize)
	}
	return append(c.Sign(body), body...), nil
}

var errForged = errors.New("the signature does not fit the certificate")

// unseal returns what the holder of key said.
func unseal(s Signed, key ed25519.PublicKey) (report, error) {
	if len(s) <= ed25519.SignatureSize || !pki.VerifyObservation(key, s[ed25519.SignatureSize:], s[:ed25519.SignatureSize]) {
		return report{}, errForged
	}
	var r report
	if err := json.Unmarshal(s[ed25519.SignatureSize:], &r); err != nil {
		return report{}, fmt.Errorf("a report cannot be read: %w", err)
	}
	return r, nil
}

// Echoed is an observation of a signed report, and the nonces of one reader that
// it echoes.
type Echoed struct {
	Observation steadycast.Observation
	Nonces      []uint64
}

// Open verifies a signed report against a node's key, and returns what it says
// to a reader. Whether a nonce is fresh is for the reader to judge.
func (s Signed) Open(key ed25519.PublicKey, reader string) ([]Echoed, error) {
	r, err := unseal(s, key)
	if err != nil {
		return nil, err
	}
	out := make([]Echoed, len(r.Said))
	for i, x := range r.Said {
		out[i] = Echoed{x.Observation, x.Echo[reader]}
	}
	return out, nil
}

// maxReason bounds the words of one observation.
const maxReason = 512

// brief bounds what travels: the explanation of a round goes along only where it
// is small.
func brief(o steadycast.Observation) steadycast.Observation {
	for _, words := range []*string{&o.Result.Reason, &o.Ineligible} {
		if len(*words) > maxReason {
			*words = strings.ToValidUTF8((*words)[:maxReason], "") + "…"
		}
	}
	if len(o.Ineligible) > maxReason {
		o.Ineligible = strings.ToValidUTF8(o.Ineligible[:maxReason], "") + "…"
	}
	o.Signed = nil
	if o.Result.Why != nil && parts(*o.Result.Why) > 32 {
		o.Result.Why = nil
	}
	return o
}

// most is the longest name of anything in a configuration, and some more.
const most = 128

// fits reports whether an observation's names are such as a configuration may
// hold: what is longer would fill the memory of whoever keeps it.
func fits(o steadycast.Observation) bool {
	return len(o.Vantage) <= most && len(o.Node) <= most && len(o.Group) <= most && len(o.Subject) <= most && len(o.Service) <= most
}

func parts(t steadycast.Tree) int {
	n := 1
	for _, k := range t.Kids {
		n += parts(k)
	}
	return n
}
