package bgp

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v3/api"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/sink"
)

// One message of each family is read back as what it withdraws, and what does
// not fit is left for GoBGP.
func TestWithdrawalMessage(t *testing.T) {
	var many []netip.Prefix
	for i := range 2000 {
		many = append(many, netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 32))
	}
	odd := []netip.Prefix{
		netip.MustParsePrefix("192.0.0.0/9").Masked(), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/33"),
		netip.MustParsePrefix("198.51.100.128/25"), netip.MustParsePrefix("2001:db8:53::53/128"),
	}
	for _, c := range []struct {
		name, family string
		in           []netip.Prefix
		want         int
	}{
		{"IPv4 of both", familyIPv4, odd, 3},
		{"IPv6 of both", familyIPv6, odd, 2},
		{"none of it", familyIPv6, many, 0},
		{"more than fit", familyIPv4, many, 813},
	} {
		m, in := withdrawal(c.family, c.in)
		if len(in) != c.want || len(m) > maxMessage {
			t.Errorf("%s: %d prefixes in %d octets, want %d", c.name, len(in), len(m), c.want)
		}
		if c.want == 0 {
			continue
		}
		u, err := readUpdate(m[headerLen:], true)
		if err != nil || !slices.Equal(u.withdrawn, in) || len(u.announced) > 0 {
			t.Errorf("%s: read back as %v, %v", c.name, u, err)
		}
	}
}

// A withdrawal is at the router while GoBGP stands still; when GoBGP comes to
// it, it is not said again. What is wanted in between is heard at last.
func TestWithdrawalWaitsForNoGoBGP(t *testing.T) {
	r := listenSink(t, sink.Options{})
	sp := speak(t, towards(r))
	eventually(t, sp, "established", established)
	apply(t, sp, routes(net1, net2, net6)...)
	hears(t, r, "all", func(tb sink.Table) bool { return held(tb) == 3 })
	eventually(t, sp, "all acknowledged", func(a steadycast.Actual) bool {
		return !slices.ContainsFunc(a.Sent, func(s steadycast.Sent) bool { return s.Acked.IsZero() })
	})
	peer := sp.Actual().Peers[0]
	source := slices.Collect(maps.Keys(r.Table()))[0]
	before := r.Updates(source)

	goOn := haltGoBGP(t, sp)
	noOneWrites(sp)
	applied := make(chan error, 2)
	next := func(version uint64, rs ...steadycast.Route) {
		set := steadycast.RouteSet{Incarnation: 1, Version: version, Routes: rs}
		go func() { applied <- sp.Apply(set) }()
	}
	now := sp.Actual().Version
	next(now+1, routes(net2)...)
	hears(t, r, "two withdrawn", func(tb sink.Table) bool { return held(tb) == 1 })
	if n := r.Updates(source) - before; n != 2 {
		t.Errorf("%d UPDATEs for one prefix of each family, want 2", n)
	}
	eventually(t, sp, "both recorded and acknowledged", func(a steadycast.Actual) bool {
		n := 0
		for _, s := range a.Sent {
			if !s.Announced && !s.Acked.IsZero() {
				n++
			}
		}
		return n == 2 && a.Peers[0].Announced == 1
	})
	next(now+2, routes(net1, net2)...) // wanted again before GoBGP knows that it was not
	goOn()
	for range 2 {
		if err := <-applied; err != nil {
			t.Error(err)
		}
	}
	hears(t, r, "the one that is wanted again", func(tb sink.Table) bool { return held(tb) == 2 })
	eventually(t, sp, "the record of it", func(a steadycast.Actual) bool { return a.Peers[0].Announced == 2 })
	if n := r.Updates(source) - before; n != 3 {
		t.Errorf("%d UPDATEs in all, want 3: nothing is said twice", n)
	}
	if p := sp.Actual().Peers[0]; p.Flaps != peer.Flaps {
		t.Error("the session was lost")
	}
}

// noOneWrites waits until nobody is writing to a router: whoever wrote what a
// router has heard may still be writing that down.
func noOneWrites(sp *Speaker) {
	for _, n := range sp.neighbors {
		n.mu.Lock()
		s := n.session
		n.mu.Unlock()
		if s != nil {
			s.routerWrite.Lock()
			s.routerWrite.Unlock() //lint:ignore SA2001 it is waited for, and nothing else
		}
	}
}

// haltGoBGP makes the speaker's GoBGP servers stand still, as during another
// one's start, until the returned function is called.
func haltGoBGP(t *testing.T, sp *Speaker) func() {
	t.Helper()
	world.mu.Lock()
	st := &standstill{live: map[*gobgpServer]struct{}{}, arrived: make(chan struct{}), over: make(chan struct{})}
	for _, n := range sp.neighbors {
		st.live[n.engine.srv] = struct{}{}
	}
	world.still.Store(st)
	for srv := range st.live {
		go srv.GetBgp(context.Background(), &api.GetBgpRequest{})
	}
	goOn := sync.OnceFunc(func() {
		world.still.Store(nil)
		close(st.over)
		world.mu.Unlock()
	})
	t.Cleanup(goOn) // before the speaker is stopped, which needs GoBGP
	for range st.live {
		select {
		case <-st.arrived:
		case <-time.After(patience):
			goOn()
			t.Fatal("GoBGP does not come to stand still")
		}
	}
	return goOn
}

// Whatever is wanted in whatever haste, in the end the router has what was
// wanted last, and no row is stale: an overtaken withdrawal never takes back
// what came after it, and none is lost.
func TestAheadInHaste(t *testing.T) {
	r := listenSink(t, sink.Options{})
	prefixes := []netip.Prefix{
		netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32"), netip.MustParsePrefix("192.0.2.3/32"),
		netip.MustParsePrefix("2001:db8::1/128"), netip.MustParsePrefix("2001:db8::2/128"),
	}
	s := speak(t, towards(r))
	eventually(t, s, "established", established)
	rng := rand.New(rand.NewPCG(1, 2))
	var set steadycast.RouteSet
	var haste sync.WaitGroup
	for i := range 400 {
		set = steadycast.RouteSet{Incarnation: 1, Version: uint64(i + 1)}
		for _, p := range prefixes {
			if rng.IntN(2) == 0 {
				set.Routes = append(set.Routes, steadycast.Route{Prefix: p, Stance: steadycast.Stance(rng.IntN(3))})
			}
		}
		// Some are wanted before the one before was carried out, or after a later one.
		now := set
		haste.Go(func() { _ = s.Apply(now) })
		if rng.IntN(3) == 0 {
			haste.Wait()
		}
		if i%20 == 19 { // now and then it comes to rest
			haste.Wait()
			set.Version++
			if err := s.Apply(set); err != nil {
				t.Fatal(err)
			}
			waitAgree(t, r, s, set)
		}
	}
}

// waitAgree waits until the router's table and the record of what was sent are
// what set says.
func waitAgree(t *testing.T, r *sink.Router, s *Speaker, set steadycast.RouteSet) {
	t.Helper()
	var table map[netip.Prefix]steadycast.Attributes
	var sent, stale []netip.Prefix
	eventually(t, s, "the router has what is wanted", func(now steadycast.Actual) bool {
		table, sent, stale = map[netip.Prefix]steadycast.Attributes{}, nil, nil
		for _, routes := range r.Table() {
			for p, a := range routes {
				table[p] = a
			}
		}
		for _, row := range now.Sent {
			if row.Announced {
				sent = append(sent, row.Prefix)
			}
			if row.Stale || row.Acked.IsZero() {
				stale = append(stale, row.Prefix)
			}
		}
		ok := len(table) == len(set.Routes) && len(sent) == len(set.Routes) && len(stale) == 0
		for _, route := range set.Routes {
			a, has := table[route.Prefix]
			ok = ok && has && slices.Contains(a.Communities, steadycast.GracefulShutdown) == (route.Stance != steadycast.Normal)
		}
		return ok
	})
}

// What is left out of a batch, message by message: only a withdrawal that was
// overtaken, that withdraws nothing else, and after which nothing was announced.
func TestLeaveOut(t *testing.T) {
	p, q := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	keepalive := message(msgKeepalive, nil)
	withdraws := func(ps ...netip.Prefix) (m []byte, u *update) {
		m, in := withdrawal(familyIPv4, ps)
		return m, &update{withdrawn: in}
	}
	announces := func(p netip.Prefix) ([]byte, *update) {
		return message(msgUpdate, []byte{0, 0, 0, 0, byte(p.Bits())}), &update{announced: []netip.Prefix{p}}
	}
	for _, c := range []struct {
		name  string
		ahead []netip.Prefix
		build func(add func([]byte, *update))
		left  string // one letter for each message that is left
	}{
		{"overtaken", []netip.Prefix{p}, func(add func([]byte, *update)) { add(withdraws(p)) }, ""},
		{"nothing went ahead", nil, func(add func([]byte, *update)) { add(withdraws(p)) }, "u"},
		{"another one", []netip.Prefix{q}, func(add func([]byte, *update)) { add(withdraws(p)) }, "u"},
		{"both, one ahead", []netip.Prefix{p}, func(add func([]byte, *update)) { add(withdraws(p, q)) }, "u"},
		{"between keepalives", []netip.Prefix{p}, func(add func([]byte, *update)) {
			add(keepalive, nil)
			add(withdraws(p))
			add(keepalive, nil)
		}, "kk"},
		{"announced since", []netip.Prefix{p}, func(add func([]byte, *update)) {
			add(announces(p))
			add(withdraws(p))
		}, "uu"},
		{"announced after", []netip.Prefix{p}, func(add func([]byte, *update)) {
			add(withdraws(p))
			add(keepalive, nil)
			add(announces(p))
			add(withdraws(p))
		}, "kuu"},
	} {
		s := &session{n: &neighbor{}, ahead: map[netip.Prefix]struct{}{}}
		for _, x := range c.ahead {
			s.ahead[x] = struct{}{}
		}
		var b batch
		c.build(func(m []byte, u *update) {
			b.octets = append(b.octets, m...)
			if u != nil {
				b.updates = append(b.updates, sentUpdate{u, len(m), len(b.octets)})
			}
		})
		s.leaveOut(&b)
		left, ends := "", []int{}
		for rest := b.octets; len(rest) > 0; {
			n := int(rest[16])<<8 | int(rest[17])
			if rest[18] == msgKeepalive {
				left += "k"
			} else {
				left += "u"
				ends = append(ends, len(b.octets)-len(rest)+n)
			}
			rest = rest[n:]
		}
		if left != c.left {
			t.Errorf("%s: left %q, want %q", c.name, left, c.left)
		}
		for i, u := range b.updates {
			if len(b.updates) != len(ends) || u.end != ends[i] {
				t.Errorf("%s: the record says ends %v, the octets %v", c.name, b.updates, ends)
			}
		}
	}
}
