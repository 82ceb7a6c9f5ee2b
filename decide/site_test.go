package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// startedSite is a solo site with n prefixes of one service, all In and on the wire.
func startedSite(n int) (*Site, View, steadycast.Actual) {
	none := time.Duration(0)
	s := Service{Name: "web", Health: Health{DownFor: &none}}
	for i := range n {
		s.Prefixes = append(s.Prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(i >> 8), byte(i), 0}), 24))
	}
	t := Table{Revision: 1, Sites: []Place{{Name: "fra"}}, Services: []Service{s}}
	site := NewSite(SiteOptions{Name: "fra", Incarnation: 1, Solo: true, Table: t})
	v := View{Fence: steadycast.Fence{Epoch: 1, Index: 5}, Table: t.WithDefaults()}
	a := steadycast.Actual{Started: 1, Peers: []steadycast.Peer{{Name: "p1", State: "established"}}}
	for _, p := range t.PrefixesAt("fra") {
		v.Units = append(v.Units, UnitView{Unit: steadycast.Unit{Site: "fra", Prefix: p}, Phase: steadycast.In})
		a.Sent = append(a.Sent, steadycast.Sent{Peer: "p1", Prefix: p, Announced: true, Acked: time.Unix(1, 0)})
	}
	site.Step(0, Proved{Actual: a})
	site.Step(0, Committed{View: v})
	return site, v, a
}

func observe(s *Site, now Now, seq uint64, r steadycast.Result) []Effect {
	return s.Step(now, Observed{From: now, Observation: steadycast.Observation{
		Vantage: "fra", Subject: "fra", Service: "web", Seq: seq, Result: r,
	}})
}

var (
	passes  = steadycast.Result{Outcome: steadycast.Up}
	refusal = steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard, Reason: "connection refused"}
)

func announced(es []Effect) (sets []steadycast.RouteSet) {
	for _, e := range es {
		if a, ok := e.(Announce); ok {
			sets = append(sets, a.Set)
		}
	}
	return sets
}

// TestLowerFence: a view of an old leader or a restored backup changes nothing,
// whatever it says (I11).
func TestLowerFence(t *testing.T) {
	site, v, _ := startedSite(1)
	old := v
	old.Units = slices.Clone(v.Units)
	old.Units[0].Phase = steadycast.Out
	for _, f := range []steadycast.Fence{{Epoch: 1, Index: 4}, {Epoch: 0, Index: 900}, {Epoch: 1, Term: 9, Index: 1}} {
		old.Fence = f
		if es := site.Step(time.Second, Committed{View: old}); len(es) > 0 {
			t.Errorf("a view at %v after one at %v did %+v", f, v.Fence, es)
		}
	}
	old.Fence = steadycast.Fence{Epoch: 2, Index: 1}
	if len(announced(site.Step(time.Second, Committed{View: old}))) != 1 {
		t.Error("a view of a higher epoch is not believed")
	}
}

// TestNewTable: a table with another revision is taken, what is known of the
// services and units that stay is kept, and an equal one changes nothing.
func TestNewTable(t *testing.T) {
	site, v, _ := startedSite(2)
	for i := range 3 {
		observe(site, Now(i)*200*time.Millisecond, uint64(i)+1, passes)
	}
	v.Fence.Index++
	same := v
	same.Table = v.Table.WithDefaults()
	if es := site.Step(time.Second, Committed{View: same}); len(announced(es)) > 0 {
		t.Errorf("an equal table did %+v", es)
	}
	next := v
	next.Table = v.Table.WithDefaults()
	next.Table.Revision++
	med := uint32(7)
	next.Table.Prefixes = []Prefix{{Prefix: v.Units[0].Unit.Prefix, MED: &med, Communities: []steadycast.Community{steadycast.GracefulShutdown}}}
	next.Table.Services[0].Health.Fall = 9
	sets := announced(site.Step(time.Second, Committed{View: next}))
	if len(sets) != 1 || len(sets[0].Routes) != 2 || sets[0].Routes[0].MED == nil || *sets[0].Routes[0].MED != 7 || len(sets[0].Routes[0].Communities) != 1 {
		t.Fatalf("a new MED and community gave %+v", sets)
	}
	if got := site.Verdicts()[0]; got.State != steadycast.Healthy || got.Good != 3 {
		t.Errorf("the verdict was forgotten: %+v", got)
	}
	next.Fence.Index++
	next.Table.Revision++
	next.Table.Services[0].Prefixes = next.Table.Services[0].Prefixes[:1]
	sets = announced(site.Step(time.Second, Committed{View: next}))
	if len(sets) != 1 || len(sets[0].Routes) != 1 {
		t.Errorf("a prefix taken out of the table is still wanted: %+v", sets)
	}
}

// TestEquipped: other addresses are one new set, the same ones are none.
func TestEquipped(t *testing.T) {
	site, _, _ := startedSite(1)
	vip := []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
	if sets := announced(site.Step(1, Equipped{VIPs: vip})); len(sets) != 1 || !slices.Equal(sets[0].VIPs, vip) || len(sets[0].Routes) != 1 {
		t.Errorf("new addresses gave %+v", sets)
	}
	if es := site.Step(2, Equipped{VIPs: slices.Clone(vip)}); len(es) > 0 {
		t.Errorf("the same addresses gave %+v", es)
	}
}

// TestStrangeInput: nothing that may come from outside makes a panic or a change.
func TestStrangeInput(t *testing.T) {
	site, v, a := startedSite(1)
	unit := v.Units[0].Unit
	for i, in := range []Input{
		Tick{}, nil,
		Observed{}, Observed{From: -5}, Observed{From: 1 << 62},
		Observed{Observation: steadycast.Observation{Vantage: "mars", Subject: "fra", Service: "web"}},
		Observed{Observation: steadycast.Observation{Vantage: "fra", Subject: "ams", Service: "web", Seq: 9}},
		Observed{Observation: steadycast.Observation{Vantage: "fra", Subject: "fra", Service: "ftp", Seq: 9}},
		Answered{}, Answered{Answer: Answer{Site: "fra", Rulings: []Ruling{{Unit: unit}}}},
		Answered{Answer: Answer{ID: steadycast.RequestID{Incarnation: 1, Seq: 1}, Site: "fra", Rulings: []Ruling{{Unit: unit, Permit: &steadycast.Permit{
			Unit: unit, ID: steadycast.RequestID{Incarnation: 1, Seq: 1}, Action: steadycast.Withdraw, Fence: steadycast.Fence{Epoch: 9},
		}}}}},
		Committed{}, Committed{View: v},
	} {
		if es := site.Step(Now(i), in); len(es) > 0 {
			t.Errorf("%T %+v did %+v", in, in, es)
		}
	}
	// A site that the table does not name wants nothing, and says so.
	lost := NewSite(SiteOptions{Name: "nowhere"})
	lost.Step(0, Committed{View: v})
	if es := announced(lost.Step(0, Proved{Actual: a})); len(es) != 1 || len(es[0].Routes) != 0 {
		t.Errorf("a site without a place announces %+v", es)
	}
	lost.Explain()
	lost.Beat()
}

// TestOneRequest: a hundred prefixes of one service leave by one request, one
// set, in one step each.
func TestOneRequest(t *testing.T) {
	site, v, _ := startedSite(100)
	for i := range 3 {
		observe(site, Now(i)*200*time.Millisecond, uint64(i)+1, passes)
	}
	observe(site, time.Second, 4, refusal)
	var req steadycast.Request
	for _, e := range observe(site, 1200*time.Millisecond, 5, refusal) {
		if a, ok := e.(Ask); ok {
			req = a.Request
		}
	}
	if len(req.Prefixes) != 100 {
		t.Fatalf("asked for %d prefixes", len(req.Prefixes))
	}
	ans := Answer{ID: req.ID, Site: "fra"}
	for _, p := range req.Prefixes {
		u := steadycast.Unit{Site: "fra", Prefix: p}
		fence := v.Fence
		fence.Index++
		ans.Rulings = append(ans.Rulings, Ruling{Unit: u, Permit: &steadycast.Permit{Unit: u, ID: req.ID, Action: steadycast.Withdraw, Fence: fence}})
	}
	if sets := announced(site.Step(1201*time.Millisecond, Answered{Answer: ans})); len(sets) != 1 || len(sets[0].Routes) != 0 {
		t.Errorf("gave %d sets", len(sets))
	}
}

// BenchmarkObserve is the price of one passing round, which nothing follows from.
func BenchmarkObserve(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			site, _, _ := startedSite(n)
			now := Now(0)
			seq := uint64(0)
			for b.Loop() {
				now += 200 * time.Millisecond
				seq++
				observe(site, now, seq, passes)
			}
		})
	}
}

// BenchmarkSettle is the price of one input from which something may follow.
func BenchmarkSettle(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			site, _, a := startedSite(n)
			a.Incarnation, a.Version = 1, 1
			for b.Loop() {
				site.Step(site.now, Proved{Actual: a})
			}
		})
	}
}

// TestBeatCarriesLoad: the newest figure, with its age; an older one changes nothing.
func TestBeatCarriesLoad(t *testing.T) {
	s := NewSite(SiteOptions{Name: "fra", Table: goodTable()})
	if b := s.Beat(); b.Load != nil {
		t.Errorf("a load that nobody reported: %+v", b.Load)
	}
	s.Step(10*time.Second, Loaded{Load: 40, From: 8 * time.Second})
	s.Step(12*time.Second, Loaded{Load: 90, From: 7 * time.Second})
	s.Step(15*time.Second, Tick{})
	if b := s.Beat(); b.Load == nil || *b.Load != (Load{Site: "fra", Load: 40, AgeSeconds: 7}) {
		t.Errorf("the beat says %+v", b.Load)
	}
}
