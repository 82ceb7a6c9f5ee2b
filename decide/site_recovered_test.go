package decide

import (
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// TestRecoveredLedger: a ledger that was recovered from an older copy counts out
// a unit that has come back since. Its route stays, and the ledger is told.
func TestRecoveredLedger(t *testing.T) {
	site, v, actual := startedSite(1)
	unit := v.Units[0].Unit
	now, seq := Now(0), uint64(0)
	grant := func(what steadycast.Action, r steadycast.Result) []Effect {
		t.Helper()
		for range 1000 {
			now, seq = now+time.Second, seq+1
			for _, e := range observe(site, now, seq, r) {
				if a, ok := e.(Ask); ok && a.Request.Action == what {
					v.Fence.Index++
					p := &steadycast.Permit{Unit: unit, ID: a.Request.ID, Action: what, Fence: v.Fence}
					return site.Step(now, Answered{Answer: Answer{ID: a.Request.ID, Site: "fra", Rulings: []Ruling{{Unit: unit, Permit: p}}}})
				}
			}
		}
		t.Fatalf("it never asked to %s", what)
		return nil
	}
	if sets := announced(grant(steadycast.Withdraw, refusal)); len(sets) != 1 || len(sets[0].Routes) != 0 {
		t.Fatalf("the permit gave %+v", sets)
	}
	copied := site.view
	copied.Fence = site.fence
	copied.Units = []UnitView{{Unit: unit, Phase: steadycast.Out, Ever: true, Permit: site.units[0].view.Permit}}
	site.Step(now, Committed{View: copied})
	if sets := announced(grant(steadycast.Return, passes)); len(sets) != 1 || len(sets[0].Routes) != 1 {
		t.Fatalf("the return gave %+v", sets)
	}
	actual.Incarnation, actual.Version = 1, site.set.Version
	site.Step(now, Proved{Actual: actual})

	copied.Fence = steadycast.Fence{Epoch: 2, Index: 1}
	es := site.Step(now, Committed{View: copied})
	if sets := announced(es); len(sets) > 0 {
		t.Errorf("the route left for the older copy: %+v", sets)
	}
	told := false
	for _, e := range es {
		g, ok := e.(GiveUp)
		told = told || ok && g.ID.Compare(copied.Units[0].Permit.ID) >= 0 && len(g.Units) == 1 && g.Units[0] == unit
	}
	if !told {
		t.Errorf("the ledger was not told: %+v", es)
	}
}

// TestUnheard: what a recovered ledger says of a unit before it has heard the site moves
// nothing, whatever the copy has, and the site's beat says what is so and why.
func TestUnheard(t *testing.T) {
	const (
		announcing = "announcing"
		wanted     = "wanted"
		left       = "left"
		lost       = "neither"
	)
	for _, truth := range []string{announcing, wanted, left, lost} {
		for _, copied := range []steadycast.Phase{steadycast.Out, steadycast.Returning, steadycast.In} {
			t.Run(truth+" "+copied.String(), func(t *testing.T) {
				site, v, actual := startedSite(1)
				unit := v.Units[0].Unit
				now := Now(time.Second)
				v.Units = []UnitView{{Unit: unit, Phase: steadycast.In, Ever: true}}
				next := func(f steadycast.Fence, change func(u *UnitView)) []Effect {
					v.Fence = f
					v.Units = slices.Clone(v.Units)
					change(&v.Units[0])
					return site.Step(now, Committed{View: v})
				}
				next(steadycast.Fence{Epoch: 1, Index: 6}, func(*UnitView) {})
				switch truth {
				case wanted: // the only session is gone
					actual.Sent = nil
					actual.Peers = []steadycast.Peer{{Name: "p1", State: "idle"}}
					site.Step(now, Proved{Actual: actual})
				case left:
					next(steadycast.Fence{Epoch: 1, Index: 7}, func(u *UnitView) { u.Phase, u.Order = steadycast.Out, steadycast.OrderWithdraw })
					actual.Sent = nil
					actual.Incarnation, actual.Version = 1, site.set.Version
					site.Step(now, Proved{Actual: actual})
				case lost: // a new agent, and a speaker that has nothing
					site = NewSite(SiteOptions{Name: "fra", Incarnation: 2, Solo: true, Table: v.Table})
					actual.Sent = nil
					site.Step(now, Proved{Actual: actual})
				}
				es := next(steadycast.Fence{Epoch: 2, Index: 3}, func(u *UnitView) {
					u.Phase, u.Order, u.Unheard, u.Frozen = copied, steadycast.OrderNone, true, "ann: burnt"
					u.Permit = steadycast.Permit{Unit: unit, Action: steadycast.Withdraw, Fence: steadycast.Fence{Epoch: 1, Index: 2}}
				})
				stays := truth == announcing || truth == wanted
				for k := range uint64(30) {
					for _, set := range announced(es) {
						if _, is := set.Find(unit.Prefix); is != stays && (truth != lost || copied != steadycast.In) {
							t.Fatalf("round %d gave %+v", k, set.Routes)
						}
					}
					for _, e := range es {
						if a, asks := e.(Ask); asks {
							t.Fatalf("it asks %+v", a.Request)
						}
					}
					b := site.Beat()
					on := slices.Contains(b.Announcing, unit)
					if on != (truth == announcing) && truth != lost || slices.Contains(b.Wanted, unit) != (truth == wanted) && truth != lost || slices.Contains(b.Left, unit) != (truth == left) {
						t.Fatalf("round %d: %s, and the beat says %+v", k, truth, b)
					}
					if b.At.Epoch != 2 {
						t.Fatalf("the beat rests on %v", b.At)
					}
					r := passes
					if truth == announcing && k > 15 {
						r = refusal // and nobody may leave for it
					}
					now += time.Second
					es = observe(site, now, 100+k, r)
					if at, ok := site.Wake(); ok && at < now {
						t.Fatalf("it would be woken at %s, and it is %s", at, now)
					}
				}
				// Once it was heard, the phase is so.
				phase := steadycast.In
				if truth == left {
					phase = steadycast.Out
				}
				es = next(steadycast.Fence{Epoch: 2, Index: 4}, func(u *UnitView) {
					u.Phase, u.Unheard, u.Permit = phase, false, steadycast.Permit{}
				})
				if sets := announced(es); truth != lost && len(sets) > 0 {
					t.Errorf("heard as it is, it gave %+v", sets)
				}
				if b := site.Beat(); len(b.Left)+len(b.Wanted) > 0 {
					t.Errorf("it was heard, and says %+v", b)
				}
			})
		}
	}
}

// TestUnheardOrders: what a person orders since the recovery is done before the site
// was heard; a permit of before is not carried out any more.
func TestUnheardOrders(t *testing.T) {
	site, v, _ := startedSite(1)
	unit := v.Units[0].Unit
	now, seq := Now(0), uint64(0)
	var asked steadycast.Request
	for asked.ID == (steadycast.RequestID{}) {
		now, seq = now+time.Second, seq+1
		for _, e := range observe(site, now, seq, refusal) {
			if a, ok := e.(Ask); ok {
				asked = a.Request
			}
		}
	}
	v.Fence = steadycast.Fence{Epoch: 2, Index: 1}
	v.Units = []UnitView{{Unit: unit, Phase: steadycast.In, Ever: true, Unheard: true}}
	es := site.Step(now, Committed{View: v})
	p := &steadycast.Permit{Unit: unit, ID: asked.ID, Action: steadycast.Withdraw, Fence: steadycast.Fence{Epoch: 1, Index: 90}}
	es = append(es, site.Step(now, Answered{Answer: Answer{ID: asked.ID, Site: "fra", Rulings: []Ruling{{Unit: unit, Permit: p}}}})...)
	if sets := announced(es); len(sets) > 0 {
		t.Fatalf("a permit of the old epoch gave %+v", sets)
	}
	if d := site.Beat().DeadThrough; d.Compare(asked.ID) < 0 {
		t.Errorf("it says that it may carry out %s", asked.ID)
	}
	v.Fence.Index++
	v.Units = []UnitView{{Unit: unit, Phase: steadycast.Out, Ever: true, Order: steadycast.OrderWithdraw}}
	if sets := announced(site.Step(now, Committed{View: v})); len(sets) != 1 || len(sets[0].Routes) != 0 {
		t.Errorf("an order of the new epoch gave %+v", sets)
	}
}

// TestUnheardNodes: orders over single nodes, which the copy has and which it has not.
// Nobody moves by the recovery; who was heard to be out by an order is so by it again.
func TestUnheardNodes(t *testing.T) {
	c := newCamp(t, 3, 1, "")
	order := func(k steadycast.OrderKind, node string) {
		t.Helper()
		if r := c.orderNode(steadycast.Order{Kind: k, Site: "ams", Node: node, Actor: "ann", Reason: "a line card"}); r.Refused != nil {
			t.Fatal(r.Refused)
		}
		c.run(time.Minute)
	}
	are := func(what string, want ...string) {
		t.Helper()
		var is []string
		for _, n := range c.at[:c.nodes] {
			if n.announces() {
				is = append(is, n.node)
			}
		}
		if !slices.Equal(is, want) {
			t.Fatalf("%s: %v announce, not %v\n%s", what, is, want, c.why())
		}
	}
	order(steadycast.OrderWithdraw, "ams-1")
	are("before the copy", "ams-2", "ams-3")
	copied := c.fleet.Snapshot()
	c.clearNode("ams-1")
	c.run(10 * time.Second)
	order(steadycast.OrderDrain, "ams-3")
	are("after the copy", "ams-1", "ams-2")

	if err := c.fleet.Restore(copied); err != nil {
		t.Fatal(err)
	}
	if r := c.apply(Entry{Kind: KindEpoch, Epoch: 2, Actor: "ann", Reason: "burnt"}); r.Invalid != "" {
		t.Fatal(r.Invalid)
	}
	c.commit()
	c.run(20 * time.Second)
	are("recovered", "ams-1", "ams-2")
	unit := steadycast.Unit{Site: "ams", Prefix: pipePrefix}
	hear := func(on ...string) {
		t.Helper()
		x := Truth{Unit: unit, Announcing: true, On: on}
		for _, n := range c.at[:c.nodes] {
			if !n.announces() {
				x.Idle = append(x.Idle, n.node)
			}
		}
		if r := c.apply(Entry{Kind: KindReconcile, Truth: []Truth{x}}); r.Invalid != "" {
			t.Fatal(r.Invalid)
		}
		c.commit()
		c.run(20 * time.Second)
	}
	hear("ams-1", "ams-2")
	are("heard", "ams-1", "ams-2")
	if o := c.fleet.View().NodeOrders; len(o) != 1 || !o[0].Recovered {
		t.Errorf("an order that is not carried out: %+v", o)
	}
	c.apply(Entry{Kind: KindThaw, Actor: "ann", Reason: "looked", Scope: &Scope{}})
	c.commit()
	c.run(20 * time.Second)
	are("thawed: the copy knows nothing of the drain", "ams-1", "ams-2", "ams-3")
	order(steadycast.OrderWithdraw, "ams-1")
	are("given anew", "ams-2", "ams-3")

	// And one that is carried out as it is.
	copied = c.fleet.Snapshot()
	if err := c.fleet.Restore(copied); err != nil {
		t.Fatal(err)
	}
	c.apply(Entry{Kind: KindEpoch, Epoch: 3, Actor: "ann", Reason: "burnt again"})
	c.commit()
	c.run(20 * time.Second)
	are("recovered again", "ams-2", "ams-3")
	if o := c.fleet.View().NodeOrders; len(o) != 1 || !o[0].Recovered {
		t.Errorf("before anybody was heard: %+v", o)
	}
	hear("ams-2", "ams-3")
	are("heard again", "ams-2", "ams-3")
	if o := c.fleet.View().NodeOrders; len(o) != 1 || o[0].Recovered {
		t.Errorf("an order that is carried out: %+v", o)
	}
	c.clearNode("ams-1")
	c.apply(Entry{Kind: KindThaw, Actor: "ann", Reason: "looked", Scope: &Scope{}})
	c.commit()
	c.run(20 * time.Second)
	are("ended", "ams-1", "ams-2", "ams-3")
}
