package mesh

import (
	"sync"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/pki"
)

// Heard is one observation that was let in: signed, fresh, and not heard before.
type Heard struct {
	// Observation names in Nonce the one of ours that it echoes.
	Observation steadycast.Observation
	// Node of the vantage that said it.
	Node string
	// Via is the voter that passed it on; "" where it came directly.
	Via string
	// Issued is when the nonce was issued, with a monotonic reading: the age of the
	// observation counts from here.
	Issued time.Time
	// Proof is the report it stood in, as signed, and Cert the certificate in DER
	// that verifies it: what a request to the ledger shows. Neither may be changed.
	Proof Signed
	Cert  []byte
}

// Drop is why an observation was not let in; a closed set, fit for a counter's label.
type Drop string

// The reasons.
const (
	Forged    Drop = "forged"     // the signature does not fit, or there is nothing in it
	AsAnother Drop = "as_another" // of a site or a node that is not the certificate's
	NotForUs  Drop = "not_for_us" // of a subject that is not ours, or of a sibling; and we do not vote
	Unfit     Drop = "unfit"      // with names longer than a configuration allows
	NoEcho    Drop = "no_echo"    // with no nonce of ours
	Stale     Drop = "stale"      // with a nonce that is forgotten, or never was ours
	Repeated  Drop = "repeated"   // heard before, or older than what was
	TooMany   Drop = "too_many"   // of more subjects than anybody watches
)

// Drops are all of them.
var Drops = []Drop{Forged, AsAnother, NotForUs, Unfit, NoEcho, Stale, Repeated, TooMany}

// inbox judges what arrives, from whomever and whichever way. Any goroutine may
// use it; mu guards the fields below it.
type inbox struct {
	name, site string
	voter      bool
	deliver    func(Heard)
	clocks     func() (with, without time.Duration)

	mu      sync.Mutex
	still   stillness
	book    Book
	seen    seen
	heard   uint64
	dropped map[Drop]uint64
}

// keep is how long a mark of what was heard lasts: longer than any nonce, so
// that what is forgotten here is too old to be let in.
const keep = (remembered + 1) * time.Second

// maxEchoes bounds the ways by which a vantage may have heard our nonces: itself
// and each voter.
const maxEchoes = 8

func newInbox(name, site string, voter bool, deliver func(Heard)) *inbox {
	return &inbox{name: name, site: site, voter: voter, deliver: deliver, clocks: clocks, dropped: map[Drop]uint64{}}
}

// issue records the next nonce.
func (b *inbox) issue(nonce uint64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.still.look(b.clocks()) {
		b.book.Forget()
	}
	b.book.Issue(nonce, now)
}

func (b *inbox) newest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.book.Newest()
}

// issued is when a nonce of ours was issued.
func (b *inbox) issued(nonce uint64) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.book.Issued(nonce)
}

func (b *inbox) drop(d Drop) Drop {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped[d]++
	return d
}

// accept takes a report of peer, whose certificate has been judged. It returns
// the gravest reason for which something in it was dropped, or "".
func (b *inbox) accept(peer pki.Peer, cert []byte, via string, s Signed, now time.Time) Drop {
	r, err := unseal(s, peer.Observe)
	if err != nil || len(r.Said) == 0 {
		return b.drop(Forged)
	}
	for _, x := range r.Said {
		if o := x.Observation; o.Vantage != peer.Site || o.Node != "" && o.Node != peer.Node {
			return b.drop(AsAnother) // and nothing else it says
		}
	}
	var proof Signed // a copy, once there is something to prove: s is the stream's buffer
	var worst Drop
	for _, x := range r.Said {
		h, d := b.judge(peer, r.Inc, x, now)
		if d != "" {
			if worst == "" || worst == Repeated {
				worst = d
			}
			continue
		}
		if proof == nil {
			proof = append(Signed(nil), s...)
		}
		h.Node, h.Via, h.Proof, h.Cert = peer.Node, via, proof, cert
		h.Observation.Signed = &steadycast.Signed{Report: proof, Cert: cert}
		b.deliver(h)
	}
	return worst
}

func (b *inbox) judge(peer pki.Peer, inc uint64, x said, now time.Time) (Heard, Drop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.still.look(b.clocks()) {
		b.book.Forget()
	}
	h, d := b.judgeLocked(peer, inc, x, now)
	if d != "" {
		b.dropped[d]++
	} else {
		b.heard++
	}
	return h, d
}

// The order matters: what is too old must not mark a newer one as seen.
func (b *inbox) judgeLocked(peer pki.Peer, inc uint64, x said, now time.Time) (Heard, Drop) {
	o := brief(x.Observation)
	if !fits(o) {
		return Heard{}, Unfit
	}
	if !b.voter && (o.Subject != b.site || peer.Site == b.site) {
		return Heard{}, NotForUs
	}
	echoes := x.Echo[b.name]
	if len(echoes) == 0 {
		return Heard{}, NoEcho
	}
	// The newest that is ours: the vantage had all of them before its round began.
	var nonce uint64
	var issued time.Time
	for _, n := range echoes[:min(len(echoes), maxEchoes)] {
		if at, ok := b.book.Issued(n); ok && at.After(issued) {
			nonce, issued = n, at
		}
	}
	if nonce == 0 {
		return Heard{}, Stale
	}
	switch b.seen.take(peer.Node, about{o.Subject, o.Service}, inc, o.Seq, now, keep) {
	case repeat:
		return Heard{}, Repeated
	case tooMany:
		return Heard{}, TooMany
	}
	o.Nonce = nonce
	return Heard{Observation: o, Issued: issued}, ""
}
