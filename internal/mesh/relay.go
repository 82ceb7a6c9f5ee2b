package mesh

import (
	"time"
)

// asked is how long a voter passes a reader's nonces to whoever sent something
// for that reader.
const asked = silence

// thirdsPerCaller bounds the readers that one caller reaches through a voter.
const thirdsPerCaller = 512

// pass is a voter's part: a report for another reader goes down the link that
// the reader has to us, with the certificate of whom it came from. It was
// brought by its author, so nothing travels two hops.
func (m *Mesh) pass(c *caller, name string, s Signed, now time.Time) {
	m.mu.Lock()
	to := m.callers[name]
	m.mu.Unlock()
	if !m.o.Voter || to == nil || len(c.cert) > maxFrame-maxSigned-3 || len(s) > maxSigned {
		c.q.push(encode(kindNoRoute, []byte(name)))
		return
	}
	if len(s) > 0 { // else it asks for the nonces only
		to.q.push(encodeNamed(kindForward, c.cert, s))
	}
	to.mu.Lock()
	nonce := to.nonce
	to.mu.Unlock()
	c.mu.Lock()
	if len(s) > 0 {
		c.passed++
	}
	_, known := c.thirds[name]
	if known || len(c.thirds) < thirdsPerCaller {
		c.thirds[name] = now.Add(asked)
	}
	c.mu.Unlock()
	if !known && nonce != 0 {
		c.q.push(encodeJSON(kindThird, third{name, nonce}))
	}
}

// spread passes a reader's nonce to the callers that asked for it.
func (m *Mesh) spread(name string, nonce uint64, now time.Time) {
	var frame []byte
	for _, c := range m.calling() {
		c.mu.Lock()
		until, ok := c.thirds[name]
		if ok && now.After(until) {
			delete(c.thirds, name)
			ok = false
		}
		c.mu.Unlock()
		if ok {
			if frame == nil {
				frame = encodeJSON(kindThird, third{name, nonce})
			}
			c.q.push(frame)
		}
	}
}

// forwarded is the reader's part: what came through a voter is judged by the
// certificate and the signature that came along.
func (m *Mesh) forwarded(via string, b []byte, now time.Time) error {
	cert, s, err := decodeNamed(b)
	if err != nil {
		return err
	}
	peer, err := m.creds.Relayed(cert)
	if err != nil {
		m.complain("what a voter passed on was not let in", via, err.Error())
		m.in.drop(Forged)
		return nil
	}
	if d := m.in.accept(peer, append([]byte(nil), cert...), via, s, now); d != "" && d != Repeated {
		m.complain("what a voter passed on was not let in", peer.String(), string(d), "via", via)
	}
	return nil
}

// known reports whether we send to a reader of this name.
func (m *Mesh) known(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out[name] != nil
}
