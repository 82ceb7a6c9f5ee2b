package mesh

import (
	"encoding/binary"
	"time"
)

// Siblings are the nodes of one site. They tell each other what concerns the site
// alone, directly and to nobody else: no voter relays it. It is not signed, for it
// proves nothing to others; the link's certificate says who speaks. Each word
// echoes the reader's newest nonce, from which the reader takes its age.

// Told is what a sibling told this node.
type Told struct {
	Node string
	Body []byte
	// Issued is when the nonce that it echoes was issued, with a monotonic reading:
	// the age of what is told counts from here.
	Issued time.Time
}

// maxTold bounds what is told at once, in octets.
const maxTold = maxSigned

// Tell sends a few words to the sibling of that name, or to all where it is "". It
// never blocks, and reports whether there is a way to somebody who was meant; what is
// longer than 56 KiB has none.
func (m *Mesh) Tell(node string, body []byte) (sent bool) {
	if len(body) > maxTold {
		return false
	}
	now := time.Now()
	for _, l := range m.links() {
		if l.peer.Voter || l.peer.Site != m.self.Site || node != "" && l.peer.Node != node {
			continue
		}
		nonce := m.desk.nonce(l.peer.Name, now)
		if nonce == 0 {
			continue // not heard yet, so it could not tell how old this is
		}
		l.offer(encode(kindTold, binary.BigEndian.AppendUint64(nil, nonce), body), now)
		sent = true
	}
	return sent
}

// told takes what a caller tells. Who is no sibling has nothing to say, and what
// echoes no nonce of this reader's is of no known age.
func (c *caller) told(b []byte) {
	m := c.m
	switch {
	case m.o.OnTold == nil || len(b) < 8:
	case c.peer.Site != m.self.Site || c.peer.Node == m.self.Node:
		m.complain("words of one who is no sibling were not let in", c.name, string(NotForUs), "addr", c.from)
	default:
		if at, ok := m.in.issued(binary.BigEndian.Uint64(b)); ok {
			m.o.OnTold(Told{Node: c.peer.Node, Body: append([]byte(nil), b[8:]...), Issued: at})
		}
	}
}
