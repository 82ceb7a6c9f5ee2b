package decide

import (
	"net/netip"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// fleetSite is fra of three sites, with two prefixes of one service, both In and
// on the wire, at the newest position that its voter passed on.
type fleetSite struct {
	*Site
	view   View
	now    Now
	seq    uint64
	set    steadycast.RouteSet
	actual steadycast.Actual
	ask    *steadycast.Request
}

func newFleetSite(fence steadycast.Fence) *fleetSite {
	none := time.Duration(0)
	t := Table{
		Revision: 1, Sites: []Place{{Name: "ams"}, {Name: "fra"}, {Name: "nyc"}},
		Services: []Service{{
			Name: "web", Health: Health{DownFor: &none, Rise: 3, HoldUp: time.Second},
			Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")},
		}},
	}
	f := &fleetSite{Site: NewSite(SiteOptions{Name: "fra", Incarnation: 1, Table: t, Fence: fence})}
	f.view = View{Fence: steadycast.Fence{Epoch: 1, Index: 5}, Table: t.WithDefaults()}
	f.actual = steadycast.Actual{Started: 1, Peers: []steadycast.Peer{{Name: "r1", State: steadycast.PeerEstablished}}}
	for _, p := range t.PrefixesAt("fra") {
		f.view.Units = append(f.view.Units, UnitView{Unit: steadycast.Unit{Site: "fra", Prefix: p}, Phase: steadycast.In, Ever: true})
		f.actual.Sent = append(f.actual.Sent, steadycast.Sent{Peer: "r1", Prefix: p, Announced: true, Acked: time.Unix(1, 0)})
	}
	f.step(Proved{Actual: f.actual})
	f.step(Committed{View: f.view})
	return f
}

// step carries out what the machine wants at once, and keeps what it asks.
func (f *fleetSite) step(in Input) {
	for _, e := range f.Step(f.now, in) {
		switch e := e.(type) {
		case Ask:
			f.ask = &e.Request
		case Announce:
			f.set = e.Set
			f.actual.Incarnation, f.actual.Version, f.actual.Sent = e.Set.Incarnation, e.Set.Version, nil
			for _, r := range e.Set.Routes {
				f.actual.Sent = append(f.actual.Sent, steadycast.Sent{Peer: "r1", Prefix: r.Prefix, Announced: true, Acked: time.Unix(1, 0)})
			}
			f.step(Proved{Actual: f.actual})
		}
	}
}

// look is n rounds in which everybody sees the service so.
func (f *fleetSite) look(n int, r steadycast.Result) {
	for range n {
		f.now, f.seq = f.now+time.Second, f.seq+1
		for _, o := range f.table.evidence("fra", "web", f.seq, r) {
			f.step(Observed{Observation: o, From: f.now})
		}
		f.step(Tick{})
	}
}

// TestLocalOrderWithoutAView: a host that lost power may have a view on disk that
// is older than what its speaker carried out, and no voter to ask. Nothing moves
// there by itself; a person's order at the node is carried out at once.
func TestLocalOrderWithoutAView(t *testing.T) {
	for _, kind := range []steadycast.OrderKind{steadycast.OrderAnnounce, steadycast.OrderWithdraw} {
		f := newFleetSite(steadycast.Fence{Epoch: 1, Index: 9})
		f.actual.Sent = f.actual.Sent[:1] // the first is on the wire
		f.step(Proved{Actual: f.actual})
		f.look(8, passes)
		if f.set.Version != 0 {
			t.Fatalf("it believed a view from before, and announces %+v", f.set.Routes)
		}
		f.step(Local{Order: &steadycast.Order{Kind: kind, Site: "fra", Prefixes: []netip.Prefix{f.view.Units[1].Unit.Prefix}, Actor: "ada", Reason: "an exercise"}})
		if f.set.Version != 1 || !f.announces(0) || f.announces(1) != (kind == steadycast.OrderAnnounce) {
			t.Errorf("%s of the second at the node gave %+v", kind, f.set.Routes)
		}
		f.step(Local{Order: &steadycast.Order{Kind: kind, Site: "fra", Actor: "ada", Reason: "an exercise"}})
		if f.announces(0) != (kind == steadycast.OrderAnnounce) || f.announces(1) != f.announces(0) {
			t.Errorf("%s of all at the node gave %+v", kind, f.set.Routes)
		}
		f.view.Fence.Index = 9
		f.step(Committed{View: f.view})
		f.step(Local{})
		f.look(8, passes)
		if !f.announces(0) || !f.announces(1) {
			t.Errorf("in, healthy and without an order it announces %+v", f.set.Routes)
		}
	}
}

func (f *fleetSite) announces(i int) bool {
	_, ok := f.set.Find(f.view.Units[i].Unit.Prefix)
	return ok
}

// TestLocalOrderBesideALeave: a site knows of its leave before its voter passes
// it on. What a person orders there meanwhile for another prefix brings back
// nothing that left.
func TestLocalOrderBesideALeave(t *testing.T) {
	f := newFleetSite(steadycast.Fence{})
	f.look(8, passes)
	f.look(3, refusal)
	if f.ask == nil || f.ask.Action != steadycast.Withdraw {
		t.Fatalf("it failed for certain, and asked %+v", f.ask)
	}
	first, second := f.view.Units[0].Unit, f.view.Units[1].Unit
	f.step(Answered{Answer: Answer{ID: f.ask.ID, Site: "fra", Rulings: []Ruling{
		{Unit: first, Permit: &steadycast.Permit{Unit: first, ID: f.ask.ID, Action: steadycast.Withdraw, Fence: steadycast.Fence{Epoch: 1, Index: 9}}},
		{Unit: second, Guards: []steadycast.GuardAnswer{{Guard: floorGuard, Text: "1 of 3 would announce it; floor 2"}}},
	}}})
	f.step(LedgerLost{Reason: "cut off"})
	f.look(8, passes)
	if f.announces(0) || !f.announces(1) {
		t.Fatalf("after its leave for %s it announces %+v", first, f.set.Routes)
	}
	local := steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "fra", Prefixes: []netip.Prefix{second.Prefix}, Actor: "ada", Reason: "an exercise"}
	f.step(Local{Order: &local})
	f.look(8, passes)
	if len(f.set.Routes) != 0 {
		t.Errorf("under a local order for %s it announces %+v", second, f.set.Routes)
	}
	f.step(Local{})
	f.look(8, passes)
	if f.announces(0) || !f.announces(1) {
		t.Errorf("when that is over it announces %+v", f.set.Routes)
	}
	local.Kind, local.Prefixes = steadycast.OrderAnnounce, nil
	f.step(Local{Order: &local})
	if !f.announces(0) || !f.announces(1) {
		t.Errorf("ordered to announce all, it announces %+v", f.set.Routes)
	}
}
