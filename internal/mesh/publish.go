package mesh

import (
	"hash/fnv"
	"io"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// Publish sends what this site observed to the nodes of its subject, and to the
// voters if it differs from what they know; the rest they are told by digest. It
// never blocks. Took of its result is how long ago the round began, and decides
// which nonces it may echo.
func (m *Mesh) Publish(o steadycast.Observation) {
	now := time.Now()
	began := now.Add(-max(o.Result.Took, 0))
	o.Vantage, o.Nonce = m.self.Site, 0
	o = brief(o)
	changed := m.desk.write(o, began)
	var to []*link
	var names []string
	links := m.links()
	for _, l := range links {
		// A sibling makes up its own mind about the site.
		subject := l.peer.Site == o.Subject && o.Subject != m.self.Site
		if subject || l.peer.Voter && (changed || l.peer.Site == o.Subject) {
			to = append(to, l)
		}
		if l.peer.Site == o.Subject || l.peer.Voter {
			names = append(names, l.peer.Name)
		}
	}
	if len(to) == 0 {
		return
	}
	m.send(links, to, []said{{o, m.desk.echo(names, began)}}, now)
}

// digestSize is how many observations stand in one report of a digest.
const digestSize = 64

// digest tells the voters the newest of everything.
func (m *Mesh) digest(links []*link) {
	var to []*link
	var names []string
	for _, l := range links {
		if l.peer.Voter {
			to, names = append(to, l), append(names, l.peer.Name)
		}
	}
	if len(to) == 0 {
		return
	}
	now := time.Now()
	for part := range slices.Chunk(m.desk.untold(names, now), digestSize) {
		m.send(links, to, part, now)
	}
}

// send signs once, and gives each reader the same words. A reader that has no
// echo in them would drop them, so they are not sent to it.
func (m *Mesh) send(links, to []*link, words []said, now time.Time) {
	s, err := seal(m.creds, report{m.desk.inc, words})
	if err != nil {
		m.log.Error("an observation cannot be sent", "error", err)
		return
	}
	frame := encode(kindReport, s)
	for _, l := range to {
		echoed := false
		for _, w := range words {
			echoed = echoed || len(w.Echo[l.peer.Name]) > 0
		}
		if !echoed {
			l.unechoed()
			if !l.offer(nil, now) {
				m.relay(links, l, nil, now) // asks for its nonces
			}
			continue
		}
		// Both ways, while the direct one is in doubt: the reader drops repeats.
		if !l.offer(frame, now) {
			m.relay(links, l, s, now)
		}
	}
}

// relays is through how many voters a report goes that has no direct way: two,
// so that one voter that takes everything and passes nothing on cannot silence
// a vantage.
const relays = 2

// relay sends a report for a reader through voters that have a way to it. Which
// ones are asked first depends on the reader, so that a fleet's relays spread.
func (m *Mesh) relay(links []*link, reader *link, s Signed, now time.Time) {
	h := fnv.New32a()
	io.WriteString(h, reader.peer.Name)
	first := int(h.Sum32() % uint32(len(links)))
	sent := 0
	for i := range links {
		v := links[(first+i)%len(links)]
		if v.peer.Voter && v != reader && v.carries(reader.peer.Name, now) {
			v.q.push(encodeNamed(kindRelay, []byte(reader.peer.Name), s))
			if sent++; sent == relays {
				break
			}
		}
	}
	switch {
	case s == nil: // it only asked for the nonces
	case sent > 0:
		reader.relayed()
	default:
		reader.lost()
	}
}
