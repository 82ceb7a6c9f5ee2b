package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// nodeOrder enters a person's order over one node of ams.
func (f *together) nodeOrder(kind steadycast.OrderKind, node string, force bool) decide.Reply {
	f.Helper()
	r, err := f.led.Order(f.Context(), steadycast.Order{Kind: kind, Site: "ams", Node: node, Actor: "ann", Reason: "a line card", Force: force})
	if err != nil {
		f.Fatal(err)
	}
	return r
}

// A person takes one node out: its route goes, the site stays in; the other is then
// the last, and a matter of the site. It holds over a restart, and ends when it is
// cleared.
func TestNodeByOrder(t *testing.T) {
	inFleet(t, func(f *together) {
		f.pair()
		r := f.nodeOrder(steadycast.OrderWithdraw, "ams-2", false)
		if r.Refused != nil {
			t.Fatalf("refused: %v", r.Refused)
		}
		f.wires(5*time.Second, "ams=normal", "ams-2=gone", "fra=normal", "lon=normal")
		if u := f.led.View().Units[0]; u.Phase != steadycast.In || u.Lost {
			t.Errorf("the site left: %+v", u)
		}
		r = f.nodeOrder(steadycast.OrderDrain, "ams-1", false)
		if r.Refused != nil || len(r.Rulings) != 1 || len(r.Rulings[0].Guards) < 5 {
			t.Fatalf("the last node: %+v", r)
		}
		f.wires(20*time.Second, "ams=gone", "ams-2=gone", "fra=normal", "lon=normal")
		if u := f.led.View().Units[0]; u.Phase != steadycast.Out {
			t.Errorf("the site stays: %+v", u)
		}
		for _, node := range []string{"ams-1", "ams-2"} {
			if _, err := f.led.Do(f.Context(), decide.KindOrderClear, decide.Scope{Site: "ams", Node: node}, "ann", "done"); err != nil {
				t.Fatal(err)
			}
		}
		f.wires(2*time.Minute, "ams=normal", "ams-2=normal")
	})
}

// A drain marks the route before it takes it away.
func TestNodeDrain(t *testing.T) {
	inFleet(t, func(f *together) {
		f.pair()
		f.nodeOrder(steadycast.OrderDrain, "ams-2", false)
		f.wires(2*time.Second, "ams=normal", "ams-2=draining", "fra=normal", "lon=normal")
		f.wires(20*time.Second, "ams=normal", "ams-2=gone", "fra=normal", "lon=normal")
	})
}

// Its only sibling is dead and has left alone, so it is the last: the site leaves.
func TestLastNodeByOrder(t *testing.T) {
	inFleet(t, func(f *together) {
		f.pair()
		f.serve("ams", "down")
		f.wires(5*time.Second, "ams=gone", "ams-2=normal", "fra=normal", "lon=normal")
		r := f.nodeOrder(steadycast.OrderWithdraw, "ams-2", false)
		if r.Refused != nil {
			t.Fatalf("the guards of the site refuse: %v", r.Refused)
		}
		f.wires(5*time.Second, "ams=gone", "ams-2=gone")
		if u := f.led.View().Units[0]; u.Phase != steadycast.Out {
			t.Errorf("the last node left, and the site stays: %+v", u)
		}
	})
}

// After one node was taken out the other dies: the first is well, and serves nobody, so
// the site leaves. Whoever looks at it must leave that one out.
func TestLastServingNodeDies(t *testing.T) {
	inFleet(t, func(f *together) {
		f.pair()
		f.nodeOrder(steadycast.OrderWithdraw, "ams-1", false)
		f.wires(5*time.Second, "ams=gone", "ams-2=normal")
		f.serve("ams-2", "down")
		f.wires(10*time.Second, "ams=gone", "ams-2=gone", "fra=normal", "lon=normal")
		if u := f.led.View().Units[0]; u.Phase != steadycast.Out || u.BudgetUsed != 1 {
			t.Errorf("the site did not leave by a permit: %+v", u)
		}
		f.serve("ams-2", "up")
		f.wires(2*time.Minute, "ams=gone", "ams-2=normal")
		if _, err := f.led.Do(f.Context(), decide.KindOrderClear, decide.Scope{Site: "ams", Node: "ams-1"}, "ann", "done"); err != nil {
			t.Fatal(err)
		}
		f.wires(time.Minute, "ams=normal", "ams-2=normal")
	})
}

// Where one process holds several nodes of a site, breaking the glass for the site is
// for each of them, and for one of them it is for that one, whichever comes first.
func TestGlassOfNodesInOneProcess(t *testing.T) {
	inFleet(t, func(f *together) {
		pair := f.pair()
		b := &Backend{Agents: []*Agent{pair["ams"], pair["ams-2"]}}
		f.led.gone.Store(true)
		f.wires(20*time.Second, "ams=normal", "ams-2=normal")
		breaks := func(kind steadycast.OrderKind, node string) error {
			return b.BreakGlass(f.Context(), api.Caller{}, steadycast.Order{Kind: kind, Site: "ams", Node: node, Reason: "smoke in the rack", Force: true})
		}
		for _, x := range []struct {
			kind  steadycast.OrderKind
			node  string
			wires []string
		}{
			{steadycast.OrderWithdraw, "ams-2", []string{"ams=normal", "ams-2=gone"}},
			{steadycast.OrderNone, "", []string{"ams=normal", "ams-2=normal"}}, // it stood at one of them
			{steadycast.OrderWithdraw, "", []string{"ams=gone", "ams-2=gone"}},
			{steadycast.OrderNone, "ams-1", []string{"ams=normal", "ams-2=gone"}},
		} {
			if err := breaks(x.kind, x.node); err != nil {
				t.Fatalf("%s %q: %v", x.kind, x.node, err)
			}
			f.wires(time.Minute, x.wires...)
		}
		var e *api.Error
		if err := breaks(steadycast.OrderWithdraw, "ams-9"); !errors.As(err, &e) || e.Code != api.CodeNotFound {
			t.Errorf("%v", err)
		}
	})
}

// Breaking the glass at a site of several nodes is about the node whose socket it is.
// The ledger learns of that node alone, and no route of its sibling moves.
func TestGlassOfOneNode(t *testing.T) {
	inFleet(t, func(f *together) {
		a := f.pair()["ams-2"]
		f.led.gone.Store(true)
		f.wires(20*time.Second, "ams=normal", "ams-2=normal")
		breaks := func(kind steadycast.OrderKind, node string) error {
			return a.BreakGlass(f.Context(), steadycast.Order{Kind: kind, Site: "ams", Node: node, Actor: "maria", Reason: "smoke in the rack", Force: true})
		}
		for _, node := range []string{"", "ams-1"} {
			var e *api.Error
			if err := breaks(steadycast.OrderWithdraw, node); !errors.As(err, &e) || e.Code != api.CodeUsage || !strings.Contains(e.Next, "ams/ams-2") {
				t.Fatalf("%q: %v", node, err)
			}
		}
		if err := breaks(steadycast.OrderWithdraw, "ams-2"); err != nil {
			t.Fatal(err)
		}
		f.wires(3*time.Second, "ams=normal", "ams-2=gone")
		f.led.gone.Store(false)
		f.wires(30*time.Second, "ams=normal", "ams-2=gone", "fra=normal", "lon=normal")
		v := f.led.View()
		if len(v.Orders) != 0 || len(v.NodeOrders) != 1 || v.NodeOrders[0].Order.Node != "ams-2" || v.Units[0].Phase != steadycast.In {
			t.Fatalf("the ledger has %+v and %+v, %s", v.Orders, v.NodeOrders, v.Units[0].Phase)
		}
		if n := f.log.count("at=ams", "withdrawn→announced"); n > 2 {
			t.Errorf("a route came back in between:\n%s", f.log)
		}
		if _, err := f.led.Do(f.Context(), decide.KindOrderClear, decide.Scope{Site: "ams", Node: "ams-2"}, "ann", "no smoke"); err != nil {
			t.Fatal(err)
		}
		f.wires(time.Minute, "ams=normal", "ams-2=normal")
	})
}
