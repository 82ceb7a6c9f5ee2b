package bfd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const ms = time.Millisecond

var plain = Settings{Interval: 300 * ms, Multiplier: 3}

// says is a packet of the other end, which knows this one.
func says(s State) Packet {
	return Packet{State: s, Multiplier: 3, Mine: 7, Yours: 42, MinTx: 300 * ms, MinRx: 300 * ms}
}

// in is a machine brought to a state by what the other end says.
func in(t *testing.T, s State) *machine {
	t.Helper()
	m := newMachine(plain, 42, noon)
	switch s {
	case AdminDown:
		m.stop(noon)
	case Init:
		m.hear(says(Down), noon)
	case Up:
		m.hear(says(Init), noon)
	}
	if m.state != s {
		t.Fatalf("cannot bring it to %s: it is %s", s, m.state)
	}
	return m
}

// TestChart is the state machine of RFC 5880 §6.2 and §6.8.6: each state by each
// thing that can happen.
func TestChart(t *testing.T) {
	const want = `
at          hears admin-down  hears down       hears init       hears up         time expired
admin-down  admin-down        admin-down       admin-down       admin-down       admin-down
down        down              init             up               down             down
init        down/3            init             up               up               down/1
up          down/3            down/3           up               up               down/1
`
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-12s%-18s%-17s%-17s%-17s%s\n", "at", "hears admin-down", "hears down", "hears init", "hears up", "time expired")
	for s := AdminDown; s <= Up; s++ {
		fmt.Fprintf(&b, "%-12s", s)
		for heard := AdminDown; heard <= Up; heard++ {
			m := in(t, s)
			m.hear(says(heard), noon)
			width := 17
			if heard == AdminDown {
				width = 18
			}
			fmt.Fprintf(&b, "%-*s", width, outcome(s, m))
		}
		m := in(t, s)
		m.wake(noon.Add(m.detection()))
		b.WriteString(outcome(s, m) + "\n")
	}
	if b.String() != want {
		t.Errorf("got %s\nwant %s", b.String(), want)
	}
}

func outcome(was State, m *machine) string {
	if m.state == Down && was != Down {
		return fmt.Sprintf("%s/%d", m.state, m.diag)
	}
	return m.state.String()
}

func TestFailureIsSaidOnlyWhereTheWayFailed(t *testing.T) {
	for name, x := range map[string]struct {
		step func(m *machine)
		want string
	}{
		"down":       {func(m *machine) { m.hear(says(Down), noon) }, "the router's end went down: none"},
		"silence":    {func(m *machine) { m.wake(noon.Add(900 * ms)) }, "nothing was heard within the detection time"},
		"admin-down": {func(m *machine) { m.hear(says(AdminDown), noon) }, ""},
		"stopped":    {func(m *machine) { m.stop(noon) }, ""},
		// Down, and at once on the way up again, is a failure all the same.
		"down twice": {func(m *machine) { m.hear(says(Down), noon); m.hear(says(Down), noon) }, "the router's end went down: none"},
	} {
		m := in(t, Up)
		x.step(m)
		if m.fell != x.want {
			t.Errorf("%s: %q, want %q", name, m.fell, x.want)
		}
	}
}

// RFC 5880 §6.8.3 and §6.8.2: one packet a second until up, then as agreed.
func TestIntervals(t *testing.T) {
	m := newMachine(plain, 42, noon)
	m.sent(noon, 1)
	if d := m.next().Sub(noon); d != time.Second {
		t.Errorf("down: next packet after %s, want 1s", d)
	}
	m = in(t, Up)
	if p := m.packet(); !p.Poll || p.MinTx != 300*ms {
		t.Errorf("up: %+v must poll with the new interval", p)
	}
	m.sent(noon, 1)
	if d := m.next().Sub(noon); d != 300*ms {
		t.Errorf("up: next packet after %s, want 300ms", d)
	}
	final := says(Up)
	final.Final = true
	if m.hear(final, noon); m.polling {
		t.Error("the final must end the poll")
	}
	slower := says(Up)
	slower.MinRx = time.Second
	m.hear(slower, noon)
	if d := m.transmit(); d != time.Second {
		t.Errorf("a router that takes one a second gets one every %s", d)
	}
	slower.MinTx, slower.Multiplier = 2*time.Second, 5
	m.hear(slower, noon)
	if d := m.detection(); d != 10*time.Second { // §6.8.4
		t.Errorf("5 × 2s of the router's are a detection time of %s", d)
	}
}

// RFC 5880 §6.8.3: what would make the other end wrong waits for the final.
func TestTimersChangeByPoll(t *testing.T) {
	m := in(t, Up)
	final := says(Up)
	final.Final = true
	m.hear(final, noon)
	if !m.become(Settings{Interval: time.Second, Multiplier: 3}) {
		t.Fatal("new timers must be told at once")
	}
	if m.transmit() != 300*ms || m.expectEvery != time.Second {
		t.Errorf("slower: sends every %s, expects every %s before the final; want 300ms and 1s", m.transmit(), m.expectEvery)
	}
	m.hear(says(Up), noon)
	if p := m.packet(); !p.Poll || p.MinTx != time.Second {
		t.Errorf("%+v must poll until the final comes", p)
	}
	if m.hear(final, noon); m.transmit() != time.Second {
		t.Errorf("slower: sends every %s after the final, want 1s", m.transmit())
	}
	m.become(Settings{Interval: 100 * ms, Multiplier: 3})
	if m.sendEvery != 100*ms || m.expectEvery != time.Second {
		t.Errorf("faster: sends every %s, expects every %s before the final; want 100ms and 1s", m.sendEvery, m.expectEvery)
	}
	if m.hear(final, noon); m.expectEvery != 100*ms {
		t.Errorf("faster: expects every %s after the final, want 100ms", m.expectEvery)
	}
}

// RFC 5880 §6.8.7: a poll is answered at once, and never with a poll.
func TestPollIsAnswered(t *testing.T) {
	for s := Down; s <= Up; s++ {
		m := in(t, s)
		poll := says(Up)
		poll.Poll = true
		replies, ok := m.hear(poll, noon)
		if !ok || len(replies) == 0 || !replies[0].Final {
			t.Errorf("%s: a poll got %+v", s, replies)
		}
		for _, p := range replies {
			if p.Poll && p.Final {
				t.Errorf("%s: %+v is both", s, p)
			}
		}
	}
}

// A pause cut for another interval ends when the router asks for a shorter one.
func TestShorterIntervalIsNotLate(t *testing.T) {
	m := in(t, Up)
	slow := says(Up)
	slow.MinRx = 5 * time.Second
	m.hear(slow, noon)
	m.sent(noon, 1)
	m.hear(says(Up), noon.Add(ms))
	if d := m.next().Sub(noon); d > 300*ms {
		t.Errorf("the next packet waits %s, and the router takes one every 300ms", d)
	}
}

func TestSilenceThatTheRouterAsksFor(t *testing.T) {
	m := in(t, Up)
	final := says(Up)
	final.Final, final.Demand = true, true
	m.hear(final, noon)
	if !m.quiet() || !m.next().Equal(m.expireAt) {
		t.Error("demand mode: nothing periodic may leave (RFC 5880 §6.8.7)")
	}
	if m.become(Settings{Interval: 200 * ms, Multiplier: 3}); m.quiet() {
		t.Error("demand mode: a poll sequence leaves all the same")
	}
	m = in(t, Up)
	none := says(Up)
	none.MinRx = 0
	if m.hear(none, noon); !m.quiet() {
		t.Error("required minimum 0: nothing periodic may leave (RFC 5880 §6.8.7)")
	}
}

// A process that slept first hears what came while it did, once.
func TestOwnSleepIsNoSilence(t *testing.T) {
	m := in(t, Up)
	late := noon.Add(5 * time.Second)
	if m.wake(late); m.state != Up {
		t.Fatal("down after its own sleep, without a look at what came")
	}
	if m.wake(late.Add(10 * time.Second)); m.state != Down {
		t.Fatal("a second sleep is no further excuse")
	}
	m = in(t, Up)
	m.wake(late)
	m.hear(says(Up), late)
	if m.wake(late.Add(ms)); m.state != Up {
		t.Fatal("down although the router was heard")
	}
}

func TestForeignDiscriminator(t *testing.T) {
	m := in(t, Up)
	p := says(Down)
	p.Yours = 43
	if _, ok := m.hear(p, noon); ok || m.state != Up {
		t.Error("a packet of another session was taken for ours")
	}
}

// Jitter is what RFC 5880 §6.8.7 says, whatever the die.
func TestJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := Settings{
			Interval:   time.Duration(rapid.Int64Range(int64(leastInterval), int64(mostInterval)).Draw(t, "interval")).Truncate(time.Microsecond),
			Multiplier: rapid.Uint8Range(1, mostMultiplier).Draw(t, "multiplier"),
		}
		m := newMachine(set, 42, noon)
		p := says(Init)
		p.MinRx = time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "their MinRx"))
		m.hear(p, noon)
		m.sent(noon, rapid.Float64Range(0, 0.999).Draw(t, "die"))
		d, whole := m.sendAt.Sub(noon), m.transmit()
		most := whole
		if set.Multiplier == 1 {
			most = whole * 9 / 10
		}
		if d < whole*3/4 || d > most+1 {
			t.Fatalf("%s of %s with multiplier %d", d, whole, set.Multiplier)
		}
	})
}

// TestTwoMachines drives two ends over a lossy, slow way in virtual time. When
// the way is whole for long enough both are up; when it is cut for long enough
// neither is; and an end that is up heard the other within the detection time.
func TestTwoMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := rapid.Custom(func(t *rapid.T) Settings {
			return Settings{time.Duration(rapid.IntRange(10, 2000).Draw(t, "interval")) * ms, rapid.Uint8Range(1, 5).Draw(t, "multiplier")}
		})
		w := &twoEnds{now: noon, t: t}
		for i := range w.ends {
			w.ends[i] = newMachine(settings.Draw(t, "settings"), uint32(i+1), noon)
		}
		for range rapid.IntRange(0, 6).Draw(t, "phases") {
			w.cut = rapid.Bool().Draw(t, "cut")
			w.run(time.Duration(rapid.IntRange(0, 3000).Draw(t, "for")) * ms)
			if rapid.IntRange(0, 3).Draw(t, "retime") == 0 {
				i := rapid.IntRange(0, 1).Draw(t, "end")
				if m := w.ends[i]; m.become(settings.Draw(t, "other settings")) {
					w.carry(i, []Packet{m.packet()})
				}
			}
		}
		w.cut = false
		w.run(30 * time.Second)
		for i, m := range w.ends {
			if m.state != Up || m.polling {
				t.Fatalf("end %d is %s (polling %v) over a whole way: %s", i, m.state, m.polling, m.why())
			}
			if other := w.ends[1-i]; m.transmit() != max(m.set.Interval, other.set.Interval) {
				t.Fatalf("end %d sends every %s; the settings are %v and %v", i, m.transmit(), m.set, other.set)
			}
		}
		w.cut = true
		w.run(30 * time.Second)
		for i, m := range w.ends {
			if m.state != Down || m.downs == 0 {
				t.Fatalf("end %d is %s over a cut way", i, m.state)
			}
		}
	})
}

type twoEnds struct {
	t    *rapid.T
	now  time.Time
	ends [2]*machine
	cut  bool
}

// run is all that happens in d, in the order of time.
func (w *twoEnds) run(d time.Duration) {
	until := w.now.Add(d)
	for {
		i, at := 0, w.ends[0].next()
		if b := w.ends[1].next(); at.IsZero() || !b.IsZero() && b.Before(at) {
			i, at = 1, b
		}
		if at.IsZero() || at.After(until) {
			w.now = until
			return
		}
		if at.After(w.now) {
			w.now = at
		}
		m := w.ends[i]
		w.carry(i, m.wake(w.now))
		if m.state == Up && w.now.After(m.expireAt) {
			w.t.Fatalf("up %s after its time had expired", w.now.Sub(m.expireAt))
		}
	}
}

// carry takes packets of end i to the other one, and all that answers them, each
// in the order in which it was sent.
func (w *twoEnds) carry(i int, ps []Packet) {
	type sent struct {
		by int
		p  Packet
	}
	var way []sent
	send := func(by int, ps []Packet) {
		for _, p := range ps {
			w.ends[by].sent(w.now, rapid.Float64Range(0, 0.999).Draw(w.t, "jitter"))
			way = append(way, sent{by, p})
		}
	}
	steps := 0
	for send(i, ps); len(way) > 0; way = way[1:] {
		if steps++; steps > 100 {
			w.t.Fatal("they answer each other without end")
		}
		if s := way[0]; !w.cut {
			replies, _ := w.ends[1-s.by].hear(s.p, w.now)
			send(1-s.by, replies)
		}
	}
}
