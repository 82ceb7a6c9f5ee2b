package ledger

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// TestCutsAreWrittenOnce: what a cut came to is committed once, by the word of the
// site's own node and of nobody else's, and nonsense never.
func TestCutsAreWrittenOnce(t *testing.T) {
	b := newBench(t, "ams", "fra", "lon")
	b.up("ams", "fra", "lon")
	unit := steadycast.Unit{Site: "fra", Prefix: netip.MustParsePrefix("192.0.2.0/24")}
	say := func(from string, cuts ...decide.CutTold) (n int) {
		b.now += time.Second
		b.l.hear(b.now, decide.Beat{Site: from, Incarnation: 1, Announcing: []steadycast.Unit{{Site: from, Prefix: unit.Prefix}}, Cuts: cuts})
		for _, k := range b.duties() {
			if k == decide.KindCut {
				n++
			}
		}
		return n
	}
	cut := func(state decide.CutState) decide.CutTold {
		return decide.CutTold{Node: "fra-1", AgeMS: 1500, Cut: decide.Cut{Unit: unit, Fence: steadycast.Fence{Epoch: 1, Index: 9}, State: state, Reason: strings.Repeat("r", 5000)}}
	}
	bad := cut(decide.CutComplete)
	bad.Lost = -1
	alien := cut(decide.CutFailed)
	alien.Unheard = true
	for what, n := range map[string]int{
		"in progress":      say("fra", cut(decide.CutInProgress)),
		"by another":       say("ams", cut(decide.CutComplete)),
		"nonsense":         say("fra", bad),
		"that it is alone": say("fra", alien),
	} {
		if n != 0 || len(b.l.view.Cuts) != 0 {
			t.Errorf("%s: %d entries, %+v", what, n, b.l.view.Cuts)
		}
	}
	if n := say("fra", bad, cut(decide.CutFailed)); n != 1 || len(b.l.view.Cuts) != 1 || b.l.view.Cuts[0].State != decide.CutFailed {
		t.Errorf("beside nonsense: %d entries, %+v", n, b.l.view.Cuts)
	}
	if n := say("fra", cut(decide.CutFailed)); n != 0 {
		t.Errorf("%d entries the second time", n)
	}
	if n := say("fra", cut(decide.CutComplete)); n != 1 || len(b.l.view.Cuts) != 1 || b.l.view.Cuts[0].State != decide.CutComplete {
		t.Errorf("complete after all: %d entries, %+v", n, b.l.view.Cuts)
	}
	// Of beats that are late the ages grow by how late they are.
	if k := b.l.view.Cuts[0]; k.Since != b.l.view.LT-1500 || len(k.Reason) > 300 || k.Node != "fra-1" {
		t.Errorf("began at %d of %d, of %d bytes", k.Since, b.l.view.LT, len(k.Reason))
	}
}

// TestUnheardDrainFails: a site that is ordered out while nothing is heard of it has
// a cut that failed, after a minute and once; it says what is known and what is not.
// When the site is heard again its own word stands instead. A site that is heard, or
// that went before it fell silent, has none.
func TestUnheardDrainFails(t *testing.T) {
	names := []string{"ams", "fra", "lon", "nyc", "par"}
	without := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "fra" })
	b := newBench(t, names...)
	b.up(names...)
	for range 10 {
		b.second(without...)
	}
	for _, site := range []string{"fra", "lon"} {
		e := b.l.entry(b.now, decide.KindOrder)
		e.Actor, e.Reason = "ana", "rack swap"
		e.Order = &steadycast.Order{Kind: steadycast.OrderDrain, Site: site, Actor: "ana", Reason: "rack swap", Force: true}
		b.l.look(b.now, &e)
		if r := b.apply(e); r.Refused != nil {
			t.Fatalf("%+v", r.Refused)
		}
	}
	at := b.unit("fra").Permit.Fence
	for b.l.quiet(b.now, "fra") < decide.Unheard-time.Second {
		if k := b.second(without...); slices.Contains(k, decide.KindCut) {
			t.Fatalf("after %s of silence", b.l.quiet(b.now, "fra"))
		}
	}
	if k := b.second(without...); !slices.Contains(k, decide.KindCut) {
		t.Fatalf("after %s of silence: %v", b.l.quiet(b.now, "fra"), k)
	}
	kept := b.l.view.Cuts
	if len(kept) != 1 || kept[0].Unit.Site != "fra" || kept[0].State != decide.CutFailed || !kept[0].Unheard || kept[0].Fence != at ||
		!strings.HasPrefix(kept[0].Why[0], "unheard: nothing was heard of fra for 1m0s, so nobody can say what its routers hold") {
		t.Fatalf("%+v", kept)
	}
	for range 5 {
		b.second(without...)
	}
	if n := len(b.l.unheard); n > 0 {
		t.Errorf("the leader still keeps %d, which the ledger remembers by now", n)
	}
	b.l = newLeader(b.l.fleet, "n2", b.now) // another leads and knows it
	for range 100 {
		if k := b.second(without...); slices.Contains(k, decide.KindCut) {
			t.Fatal("it is written again")
		}
	}
	told := decide.CutTold{Node: "fra-1", Cut: decide.Cut{Unit: kept[0].Unit, Fence: at, State: decide.CutComplete}}
	b.l.hear(b.now, decide.Beat{Site: "fra", Incarnation: 2, Cuts: []decide.CutTold{told}})
	b.second(without...)
	if got := b.l.view.Cuts; len(got) != 1 || got[0].Unheard || got[0].State != decide.CutComplete || got[0].Node != "fra-1" {
		t.Errorf("fra is heard again: %+v", got)
	}
}
