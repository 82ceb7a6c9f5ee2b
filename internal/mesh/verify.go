package mesh

import (
	"errors"
	"fmt"
	"time"

	"github.com/steadycast/steadycast"
)

// Verify opens the signed report of an observation that somebody else brings as
// evidence. It returns what the vantage really said in it of that subject and
// service, and how long ago at most, by the nonce of this reader that it echoes.
// The error says why nothing is known: it is not signed, or not by a node of that
// vantage, or it echoes no nonce that this process remembers.
func (m *Mesh) Verify(o steadycast.Observation) (signed steadycast.Observation, age time.Duration, err error) {
	if o.Signed == nil {
		return o, 0, errors.New("its observation is not signed")
	}
	peer, err := m.creds.Relayed(o.Signed.Cert)
	switch {
	case err != nil:
		return o, 0, fmt.Errorf("its certificate is refused: %w", err)
	case peer.Site != o.Vantage:
		return o, 0, fmt.Errorf("its observation is signed by %s of site %s", peer.Node, peer.Site)
	}
	said, err := Signed(o.Signed.Report).Open(peer.Observe, m.o.Name)
	if err != nil {
		return o, 0, fmt.Errorf("its observation is forged: %w", err)
	}
	for _, x := range said {
		w := x.Observation
		if w.Vantage != o.Vantage || w.Subject != o.Subject || w.Service != o.Service || w.Seq != o.Seq {
			continue
		}
		var newest time.Time
		for _, n := range x.Nonces[:min(len(x.Nonces), maxEchoes)] {
			if at, ok := m.Issued(n); ok && at.After(newest) {
				newest = at
			}
		}
		if newest.IsZero() {
			return o, 0, errors.New("its observation echoes no nonce of this voter, so nobody knows how old it is")
		}
		return brief(w), time.Since(newest), nil
	}
	return o, 0, errors.New("the signed report does not say what the request says it does")
}
