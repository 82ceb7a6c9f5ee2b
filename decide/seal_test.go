package decide

import (
	"crypto/ed25519"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// pen signs wishes of one person for a machine.
type pen struct {
	t  *testing.T
	f  *Fleet
	by string
}

func (p pen) sign(kind Kind, body func(*Wish)) Signed {
	p.t.Helper()
	v := p.f.View()
	w, ok := v.Authority().Wish(p.by, kind, "r")
	if !ok {
		w = Wish{Fleet: v.Fleet, Epoch: v.Fence.Epoch, By: p.by, Serial: 1, Kind: kind, Reason: "r"}
	}
	body(&w)
	s, err := w.Sign(func(context string, text []byte) []byte {
		sig, err := keyOf(p.by).Sign(nil, text, &ed25519.Options{Context: context})
		if err != nil {
			p.t.Fatal(err)
		}
		return sig
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p pen) enter(kind Kind, s Signed) Reply {
	p.t.Helper()
	r, err := p.f.Apply(Entry{Kind: kind, Schema: Schema, Rules: RulesLevel, Epoch: 1, LT: p.f.LT(), Signed: &s})
	if err != nil || r.Invalid != "" {
		p.t.Fatal(err, r.Invalid)
	}
	return r
}

// TestSeal: what an admin staged and activated, knowing what, can be opened by whoever
// knows the operators; anything else cannot, each with its reason.
func TestSeal(t *testing.T) {
	f := NewFleet()
	table := Table{Revision: 1, Sites: []Place{{Name: "ams"}, {Name: "fra"}, {Name: "lon"}},
		Services: []Service{{Name: "web", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}}
	if _, err := f.Apply(Entry{Kind: KindGenesis, Schema: Schema, Rules: RulesLevel, Epoch: 1, Table: &table, Charter: charter([]string{"edge", "maria=admin", "joe=operator"})}); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Seal(); ok {
		t.Error("the first table has a seal, and nobody signed it")
	}
	maria, joe := pen{t, f, "maria"}, pen{t, f, "joe"}
	next := table
	next.Revision, next.DrainWait = 0, 7*time.Second
	stage := maria.sign(KindStage, func(w *Wish) { w.Table = &next })
	maria.enter(KindStage, stage)
	if v := f.View(); v.Staged.Signed != nil {
		t.Error("a view carries the staged table twice")
	}
	if r := maria.enter(KindActivate, maria.sign(KindActivate, func(w *Wish) { w.Revision, w.Of = 2, strings.Repeat("0", 64) })); r.Refused == nil || !strings.Contains(r.Refused.Text, "other words") {
		t.Errorf("what was not read was activated: %+v", r)
	}
	activate := maria.sign(KindActivate, func(w *Wish) { w.Revision, w.Of, w.ConfirmWithin = 2, stage.Digest(), time.Minute })
	maria.enter(KindActivate, activate)
	trial, ok := f.Seal()
	if !ok {
		t.Fatal("no seal")
	}
	operators := f.View().Operators
	if _, err := trial.Open("edge", operators); err == nil || !strings.Contains(err.Error(), "revision 2 is on trial") {
		t.Errorf("a table on trial: %v", err)
	}
	confirm := maria.sign(KindConfirm, func(w *Wish) { w.Revision = 2 })
	maria.enter(KindConfirm, confirm)
	seal, _ := f.Seal()
	b, err := json.Marshal(seal)
	if err != nil {
		t.Fatal(err)
	}
	var kept Seal
	if err := json.Unmarshal(b, &kept); err != nil {
		t.Fatal(err)
	}
	got, err := kept.Open("edge", operators)
	if err != nil || text(got.Table) != text(f.View().Table) || got.Epoch != 1 || strings.Join(got.By, " ") != "maria maria maria" {
		t.Fatalf("%v %+v", err, got)
	}
	for _, x := range []struct {
		epoch, revision uint64
		newer           bool
	}{{1, 1, true}, {1, 2, false}, {1, 3, false}, {0, 9, true}, {2, 1, false}} {
		if got.Newer(x.epoch, x.revision) != x.newer {
			t.Errorf("newer than %d.%d: %t", x.epoch, x.revision, !x.newer)
		}
	}

	alter := func(change func(*Seal)) Seal {
		s := seal
		c := *seal.Confirm
		s.Confirm = &c
		change(&s)
		return s
	}
	other := table
	other.DrainWait = 9 * time.Second
	without := []OperatorView{{Operator: operatorOf("joe=operator")}}
	for _, x := range []struct {
		name      string
		s         Seal
		fleet     string
		operators []OperatorView
		want      string
	}{
		{"of another fleet", seal, "core", operators, `signed for fleet "edge"; this is "core"`},
		{"of nobody known", seal, "edge", without, `no operator is named "maria"`},
		{"an altered table", alter(func(s *Seal) { s.Stage.Text = strings.Replace(s.Stage.Text, "7000000000", "8000000000", 1) }), "edge", operators, "stage: the signature is not that of maria's key"},
		{"another table, well signed", alter(func(s *Seal) { s.Stage = maria.sign(KindStage, func(w *Wish) { w.Table = &other }) }), "edge", operators, "is for another table"},
		{"another revision", alter(func(s *Seal) { s.Activate.Text = strings.Replace(s.Activate.Text, `"revision":2`, `"revision":9`, 1) }), "edge", operators, "activation: the signature"},
		{"activated by who may not", alter(func(s *Seal) {
			s.Activate = joe.sign(KindActivate, func(w *Wish) { w.Revision, w.Of = 9, seal.Stage.Digest() })
		}), "edge", operators, "joe is operator; this takes admin"},
		{"activated without saying what", alter(func(s *Seal) { s.Activate = maria.sign(KindActivate, func(w *Wish) { w.Revision = 9 }) }), "edge", operators, "is for another table"},
		{"no revision", alter(func(s *Seal) { s.Activate = maria.sign(KindActivate, func(w *Wish) { w.Of = seal.Stage.Digest() }) }), "edge", operators, "names no revision"},
		{"a confirmation of another", alter(func(s *Seal) { c := maria.sign(KindConfirm, func(w *Wish) { w.Revision = 1 }); s.Confirm = &c }), "edge", operators, "the confirmation is of revision 1"},
		{"a stage in place of an activation", alter(func(s *Seal) { s.Activate = s.Stage }), "edge", operators, "a wish of kind table_stage"},
		{"of another epoch", alter(func(s *Seal) {
			s.Activate = maria.sign(KindActivate, func(w *Wish) { w.Revision, w.Epoch, w.Of = 9, 2, seal.Stage.Digest() })
		}), "edge", operators, "staged in epoch 1 and activated in 2"},
		{"nothing", Seal{}, "edge", operators, "not understood"},
	} {
		if _, err := x.s.Open(x.fleet, x.operators); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v; want %q", x.name, err, x.want)
		}
	}

	// What comes back by itself nobody signed.
	again := maria.sign(KindStage, func(w *Wish) { w.Table = &other; w.Table.Revision = 0 })
	maria.enter(KindStage, again)
	maria.enter(KindActivate, maria.sign(KindActivate, func(w *Wish) { w.Revision, w.Of, w.ConfirmWithin = 3, again.Digest(), time.Second }))
	if _, err := f.Apply(Entry{Kind: KindRevert, Schema: Schema, Rules: RulesLevel, Epoch: 1, LT: f.LT() + 1000, Actor: "auto", Revision: 3}); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Seal(); ok || f.View().Table.Revision != 4 {
		t.Errorf("revision %d has a seal: %t", f.View().Table.Revision, ok)
	}
}
