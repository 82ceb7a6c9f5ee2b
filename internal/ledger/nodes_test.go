package ledger

import (
	"net/netip"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// TestNodesOfOneSite: a site announces while one of its nodes does, carries what they
// carry together, and a permit is given back by the node that asked for it alone.
func TestNodesOfOneSite(t *testing.T) {
	b := newBench(t, "ams", "fra", "lon")
	table := b.l.view.Table
	table.Sites[0].Nodes = []decide.Node{
		{Name: "ams-1", Mesh: netip.MustParseAddrPort("10.0.0.1:7482")}, {Name: "ams-2", Mesh: netip.MustParseAddrPort("10.0.0.2:7482")},
	}
	e := b.l.entry(0, decide.KindTable)
	table.Revision = 2
	e.Table, e.Actor, e.Reason = &table, "ann", "two nodes"
	b.apply(e)
	u := steadycast.Unit{Site: "ams", Prefix: netip.MustParsePrefix("192.0.2.0/24")}
	seq := uint64(0)
	say := func(node string, announces bool, dead uint64, load int64) {
		seq++
		beat := decide.Beat{Site: "ams", Node: node, Incarnation: 1, Seq: seq, Load: &decide.Load{Load: load},
			DeadThrough: steadycast.RequestID{Node: node, Incarnation: 1, Seq: dead}}
		if announces {
			beat.Announcing = []steadycast.Unit{u}
			beat.Returned = []decide.ReturnProof{{Unit: u, ID: b.unit("ams").Return}}
		}
		b.l.hear(b.now, beat)
	}
	ask := func(node string, seq uint64, a steadycast.Action) decide.Answer {
		s := site{t: t, name: "ams", seq: seq - 1}
		r := s.request(a)
		r.ID.Node = node
		e, write, answers, err := b.l.propose(b.now, []steadycast.Request{r})
		if err != nil {
			t.Fatal(err)
		}
		if write {
			answers = append(answers, b.apply(e).Answers...)
		}
		return answers[0]
	}
	var all []steadycast.Verdict
	for _, name := range []string{"ams", "fra", "lon"} {
		all = append(all, steadycast.Verdict{Site: name, Service: "web", State: steadycast.Healthy})
	}
	v := b.l.entry(0, decide.KindVerdict)
	v.Verdicts = all
	b.apply(v)
	for _, name := range []string{"fra", "lon"} {
		b.ask(name, 1, steadycast.Return)
		b.beat(name, 1, steadycast.RequestID{}, true)
		b.duties()
	}
	if a := ask("ams-1", 1, steadycast.Return); a.Rulings[0].Permit == nil {
		t.Fatalf("no return: %+v", a)
	}
	say("ams-2", true, 0, 30) // another than the one that asked may prove it
	b.duties()
	if got := b.unit("ams"); got.Phase != steadycast.In {
		t.Fatalf("the return is not proven: %+v", got)
	}
	say("ams-1", true, 0, 12)
	if ls := b.l.loads(b.now); len(ls) != 1 || ls[0].Load != 42 {
		t.Errorf("together they carry %+v, want 42", ls)
	}
	b.now += lostAfter + time.Second
	say("ams-1", true, 0, 12) // ams-2 is silent
	b.duties()
	b.now += lostAfter + time.Second
	say("ams-1", true, 0, 12)
	b.duties()
	if got := b.unit("ams"); got.Lost {
		t.Error("one node fell silent, and the site counts as lost")
	}
	if ls := b.l.loads(b.now); ls[0].Load != 12 {
		t.Errorf("the one that is heard carries %+v, want 12", ls)
	}

	b.now += time.Hour
	for _, name := range []string{"fra", "lon"} {
		b.beat(name, 1, steadycast.RequestID{}, true)
	}
	say("ams-1", true, 0, 12)
	say("ams-2", true, 0, 12)
	b.duties()
	v = b.l.entry(b.now, decide.KindVerdict)
	v.Verdicts = []steadycast.Verdict{{Site: "ams", Service: "web", State: steadycast.Unhealthy, Class: steadycast.Hard}}
	b.apply(v)
	if a := ask("ams-2", 7, steadycast.Withdraw); a.Rulings[0].Permit == nil {
		t.Fatalf("no permit: %+v", a)
	}
	if a := ask("ams-1", 2, steadycast.Withdraw); a.Stale || a.Rulings[0].Permit != nil {
		t.Errorf("the site's second request: %+v", a)
	}
	say("ams-2", false, 7, 0) // carried out, and done with
	b.duties()
	if got := b.unit("ams"); got.Phase != steadycast.Out {
		t.Errorf("a permit that was carried out is void, because a sibling has not followed yet: %+v", got)
	}
	say("ams-1", true, 9, 0)
	b.duties()
	if got := b.unit("ams"); got.Phase != steadycast.Out {
		t.Errorf("a node gave back what another had asked for: %+v", got)
	}
	say("ams-2", true, 7, 0)
	b.duties()
	if got := b.unit("ams"); got.Phase != steadycast.In {
		t.Errorf("who asked says that the permit is dead and that it announces: %+v", got)
	}
}
