package bfd

import (
	"fmt"
	"time"
)

// slow is the least interval of a session that is not up (RFC 5880 §6.8.3).
const slow = time.Second

// machine is one end of a session: the state variables of RFC 5880 §6.8.1 and
// the procedures of §6.8.2 to §6.8.7. Times are arguments.
//
//	        ┌──────── hears Down ───────▶ Init ── hears Init, Up ──┐
//	┌─▶ Down┤                              │ time expired          ▼
//	│       └──────── hears Init ──────────┼────────────────────▶  Up
//	└──── time expired, hears Down ────────┴───────────────────────┘
//	      hears AdminDown (§6.2: that is no failure of the way)
//
// Owned by its Session's goroutine.
type machine struct {
	set  Settings
	mine uint32 // bfd.LocalDiscr

	state State
	diag  Diag
	since time.Time // of state

	remote Packet // what the other end said last; MinRx 1µs until it spoke
	heard  bool   // remote is from the wire, and recent enough to speak of
	graced bool   // this silence was given its interval more
	downs  uint64 // how often Up was left for Down
	fell   string // why the way failed, until the session has said so

	// The intervals in force. They follow set, but one that makes the other end
	// wrong in the meantime waits for the end of the Poll Sequence (§6.8.3).
	sendEvery   time.Duration // bfd.DesiredMinTxInterval, as transmission uses it
	expectEvery time.Duration // bfd.RequiredMinRxInterval, as detection uses it
	polling     bool

	sendAt   time.Time // of the next periodic packet; zero: none is due
	sentAt   time.Time
	expireAt time.Time // when silence becomes a failure; zero: it does not count
}

// newMachine is a session that begins at now, Down. mine must not be 0.
func newMachine(set Settings, mine uint32, now time.Time) *machine {
	m := &machine{set: set, mine: mine, state: Down, since: now, sendAt: now}
	m.forget()
	m.sendEvery, m.expectEvery = m.wantTx(), set.Interval
	return m
}

// forget drops what the other end said (§6.8.1: the initial values).
func (m *machine) forget() {
	m.remote = Packet{State: Down, MinRx: time.Microsecond}
	m.heard, m.expireAt = false, time.Time{}
}

// wantTx is bfd.DesiredMinTxInterval: slow unless up.
func (m *machine) wantTx() time.Duration {
	if m.state == Up {
		return m.set.Interval
	}
	return max(slow, m.set.Interval)
}

// become takes over other settings, by a Poll Sequence where the other end has
// to know them first. It reports whether a packet should leave at once.
func (m *machine) become(set Settings) bool {
	if set == m.set {
		return false
	}
	m.set = set
	return m.retime()
}

// retime follows wantTx and the interval of the settings (§6.8.3).
func (m *machine) retime() bool {
	tx, rx := m.wantTx(), m.set.Interval
	changed := false
	if tx != m.sendEvery {
		changed = true
		if tx < m.sendEvery || m.state != Up {
			m.sendEvery = tx
		} // a longer one while up waits for the final
	}
	if rx != m.expectEvery {
		changed = true
		if rx > m.expectEvery || m.state != Up {
			m.expectEvery = rx
		} // a shorter one while up waits for the final
	}
	// Nobody answers a poll before there is somebody.
	m.polling = (m.polling || changed) && m.heard
	return changed && m.heard
}

// enter moves to a state, because of diag.
func (m *machine) enter(s State, diag Diag, now time.Time) {
	if s == m.state {
		return
	}
	was := m.state
	m.state, m.since = s, now
	// §6.8.1: kept until the next failure, so that the other end can learn it.
	switch s {
	case Down, AdminDown:
		m.diag = diag
	case Up:
		m.diag = NoDiag
	}
	if was == Up && s == Down {
		m.downs++
		// RFC 5882 §4.2: AdminDown says nothing of the way.
		if diag != NeighborDown || m.remote.State != AdminDown {
			m.fell = m.why()
		}
	}
	m.retime()
}

// hear is §6.8.6 from where Parse ends. replies have to leave at once; ok is
// false for a packet that is not of this session.
func (m *machine) hear(p Packet, now time.Time) (replies []Packet, ok bool) {
	if p.Yours != 0 && p.Yours != m.mine {
		return nil, false
	}
	was, wasMinRx := m.state, m.remote.MinRx
	m.remote, m.heard, m.graced = p, true, false
	if p.Final && m.polling { // the Poll Sequence ends
		m.polling = false
		m.sendEvery, m.expectEvery = m.wantTx(), m.set.Interval
	}
	if m.state == AdminDown {
		return nil, true
	}
	switch p.State {
	case AdminDown:
		if m.state != Down {
			m.enter(Down, NeighborDown, now)
		}
	case Down:
		switch m.state {
		case Down:
			m.enter(Init, NoDiag, now)
		case Up:
			m.enter(Down, NeighborDown, now)
		}
	case Init:
		if m.state != Up {
			m.enter(Up, NoDiag, now)
		}
	case Up:
		if m.state == Init {
			m.enter(Up, NoDiag, now)
		}
	}
	m.expireAt = now.Add(m.detection())
	switch {
	case p.Poll: // §6.8.7: as soon as practicable, whatever the interval says
		q := m.packet()
		q.Poll, q.Final = false, true
		replies = append(replies, q)
		if m.polling {
			replies = append(replies, m.packet())
		}
	case m.state != was:
		replies = append(replies, m.packet())
	}
	if len(replies) == 0 && wasMinRx != p.MinRx && !m.sentAt.IsZero() {
		// The pause under way was cut for another interval: a router that has just
		// asked for a shorter one would run out of patience.
		m.sendAt = m.sentAt.Add(m.transmit())
	}
	return replies, true
}

// detection is how long the other end may be silent (§6.8.4).
func (m *machine) detection() time.Duration {
	return time.Duration(m.remote.Multiplier) * max(m.expectEvery, m.remote.MinTx)
}

// transmit is the interval between packets, before jitter (§6.8.2, §6.8.7).
func (m *machine) transmit() time.Duration { return max(m.sendEvery, m.remote.MinRx) }

// quiet reports whether periodic packets must not be sent (§6.8.7).
func (m *machine) quiet() bool {
	return m.remote.MinRx == 0 || m.remote.Demand && m.state == Up && m.remote.State == Up && !m.polling
}

// packet is what this end has to say.
func (m *machine) packet() Packet {
	return Packet{
		Diag: m.diag, State: m.state, Poll: m.polling, Multiplier: m.set.Multiplier,
		Mine: m.mine, Yours: m.remote.Mine, MinTx: m.wantTx(), MinRx: m.set.Interval,
	}
}

// sent notes that a packet left at now, and when the next one is due. jitter is
// in [0, 1): the interval is shortened by up to a quarter, and for a multiplier
// of 1 by at least a tenth (§6.8.7).
func (m *machine) sent(now time.Time, jitter float64) {
	least, most := 0.75, 1.0
	if m.set.Multiplier == 1 {
		most = 0.9
	}
	m.sentAt = now
	m.sendAt = now.Add(time.Duration(float64(m.transmit()) * (least + (most-least)*jitter)))
}

// wake does what is due at now and says which packets have to leave for it.
func (m *machine) wake(now time.Time) (send []Packet) {
	if !m.expireAt.IsZero() && !now.Before(m.expireAt) {
		if now.Sub(m.expireAt) > m.expectEvery && !m.graced {
			// This process slept: what came in the meantime is still unread.
			m.expireAt, m.graced = now.Add(m.expectEvery), true
		} else if m.expire(now) {
			return []Packet{m.packet()}
		}
	}
	if !now.Before(m.sendAt) && !m.quiet() {
		return []Packet{m.packet()}
	}
	return nil
}

// next is when to wake; zero if nothing will be due.
func (m *machine) next() time.Time {
	switch {
	case m.quiet():
		return m.expireAt
	case m.expireAt.IsZero() || m.sendAt.Before(m.expireAt):
		return m.sendAt
	default:
		return m.expireAt
	}
}

// expire is what follows the detection time: the other end's discriminator is
// forgotten (§6.8.1), and a session that was on its way, or up, is down (§6.8.4).
func (m *machine) expire(now time.Time) (news bool) {
	news = m.state == Init || m.state == Up
	m.forget()
	if news {
		m.enter(Down, TimeExpired, now)
	}
	return news
}

// stop is AdminDown (§6.8.16).
func (m *machine) stop(now time.Time) Packet {
	m.enter(AdminDown, AdminReason, now)
	m.expireAt, m.polling = time.Time{}, false
	return m.packet()
}

// why says in words why the session is not up.
func (m *machine) why() string {
	switch {
	case m.state == Up:
		return ""
	case m.state == AdminDown:
		return "stopped here"
	case m.heard && m.remote.State == AdminDown:
		return "the router holds its end administratively down"
	case m.diag == TimeExpired:
		return "nothing was heard within the detection time"
	case m.diag == NeighborDown:
		return fmt.Sprintf("the router's end went down: %s", m.remote.Diag)
	case m.heard:
		return "the router is heard, and does not hear this node yet"
	default:
		return "the router sends no BFD"
	}
}
