package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

func (b *bench) carry(name string, load int64, age int64) {
	b.l.hear(b.now, decide.Beat{Site: name, Incarnation: 1, Announcing: []steadycast.Unit{{Site: name, Prefix: prefix}},
		Load: &decide.Load{Site: "whoever it says", Load: load, AgeSeconds: age}})
}

// TestLoadsAreOfBeforeTheTrouble: what beats report goes into the entries, with
// its age, and for a site in trouble it is what the site carried before.
func TestLoadsAreOfBeforeTheTrouble(t *testing.T) {
	b := newBench(t, "ams", "fra", "lon")
	b.up("ams", "fra", "lon")
	b.carry("ams", 30, 0)
	b.carry("fra", 50, 2)
	if got := fmt.Sprint(b.l.loads(b.now + 3*time.Second)); got != "[{ams 30 3} {fra 50 5}]" {
		t.Error(got)
	}
	e := b.l.entry(b.now, decide.KindVerdict)
	e.Verdicts = []steadycast.Verdict{{Site: "fra", Service: "web", State: steadycast.Suspect}}
	b.apply(e)
	b.now += time.Minute
	b.carry("fra", 7, 0)
	b.carry("ams", 31, 0)
	if got := fmt.Sprint(b.l.loads(b.now)); got != "[{ams 31 0} {fra 50 0}]" {
		t.Error(got)
	}
	e = b.l.entry(b.now, decide.KindVerdict)
	e.Verdicts = []steadycast.Verdict{{Site: "fra", Service: "web", State: steadycast.Healthy}}
	b.apply(e)
	b.carry("fra", 8, 0)
	b.carry("lon", -1, 0)
	b.beat("ams", 1, steadycast.RequestID{}, true) // says nothing of its load: the old figure ages
	b.now += time.Minute + time.Second
	if got := fmt.Sprint(b.l.loads(b.now)); got != "[{ams 31 61} {fra 8 61}]" {
		t.Error(got)
	}
	if l := loadOf(b.l.loads(b.now), "fra"); l == nil || l.Load != 8 || loadOf(b.l.loads(b.now), "lon") != nil {
		t.Errorf("of fra %v", l)
	}
}

// TestCapacityOfAFleet: the guard works on what beats report, in requests and in
// a person's orders.
func TestCapacityOfAFleet(t *testing.T) {
	f := decide.NewFleet()
	b := &bench{t: t, l: newLeader(f, "n1", 0)}
	e := b.l.entry(0, decide.KindGenesis)
	table := policy("ams", "fra", "lon")
	table.Revision = 1
	for i := range table.Sites {
		table.Sites[i].Capacity = 100
	}
	e.Table = &table
	b.apply(e)
	b.up("ams", "fra", "lon")
	for _, s := range []string{"ams", "fra", "lon"} {
		b.carry(s, 60, 0)
	}
	if g, _ := b.ask("fra", 2, steadycast.Withdraw).Rulings[0].Refusal(); g.Guard != "capacity" || !strings.Contains(g.Text, "would carry 120% of its capacity; limit 100%") {
		t.Error(g)
	}
	e = orderEntry(steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "fra", Actor: "ann", Reason: "test"})(b.l, b.now)
	r, err := b.l.fleet.Try(e)
	if err != nil || r.Refused == nil || r.Refused.Guard != "capacity" {
		t.Errorf("%v %v", r.Refused, err)
	}
	for _, s := range []string{"ams", "fra", "lon"} {
		b.carry(s, 40, 0)
	}
	if a := b.ask("fra", 3, steadycast.Withdraw); permitted(a) != steadycast.Withdraw {
		t.Errorf("%+v", a)
	}
}
