package ledger

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// TestDeltaFollows: whatever entries come, each report that a watcher is sent
// leads from the view before to the one after, over the wire and back.
func TestDeltaFollows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sites := []string{"ams", "fra", "lon"}
		f := decide.NewFleet()
		var fed feed
		have := f.View()
		fed.add(have, nil)
		full := 0
		apply := func(k decide.Kind, change func(*decide.Entry)) {
			e := decide.Entry{Kind: k, Schema: decide.Schema, Rules: decide.RulesLevel, Epoch: max(f.Fence().Epoch, 1), LT: f.LT() + 1000, Actor: "ann", Reason: "r"}
			change(&e)
			r, err := f.Apply(e)
			if err != nil {
				rt.Fatal(err)
			}
			want := f.View()
			fed.add(want, r.Events)
			lines, newest := fed.since(have.Fence)
			if newest != want.Fence || len(lines) != 1 {
				rt.Fatalf("%d lines to %s", len(lines), newest)
			}
			var rep report
			if err := json.Unmarshal(lines[0], &rep); err != nil {
				rt.Fatal(err)
			}
			switch {
			case rep.Full != nil:
				full++
				have = *rep.Full
			case rep.From != have.Fence:
				rt.Fatalf("from %s at %s", rep.From, have.Fence)
			default:
				if bytes.Contains(lines[0], []byte("the-text")) {
					rt.Fatalf("the table's text goes along with a delta: %s", lines[0])
				}
				before, _ := json.Marshal(have)
				next, err := rep.Delta.follow(&have)
				if err != nil {
					rt.Fatal(err)
				}
				if after, _ := json.Marshal(have); string(after) != string(before) {
					rt.Fatal("the view that readers have was written to")
				}
				have = next
			}
			if !same(have, want) {
				a, _ := json.Marshal(have)
				b, _ := json.Marshal(want)
				rt.Fatalf("after %s:\n%s\n%s", k, a, b)
			}
		}
		table := policy(sites...)
		table.Revision, table.Source = 1, "the-text: of the table\n"
		table.Plans = []decide.Plan{{Name: "move", Steps: []decide.Step{{Do: decide.DoGuard}, {Do: decide.DoDrain, Site: sites[0]}, {Do: decide.DoWait}}}}
		for i := range table.Sites {
			table.Sites[i].Paths = []string{"direct", "scrubbed", "spare"}
		}
		apply(decide.KindGenesis, func(e *decide.Entry) { e.Table, e.Charter = &table, &decide.Charter{Fleet: "test"} })
		for range rapid.IntRange(1, 40).Draw(rt, "entries") {
			site := rapid.SampledFrom(sites).Draw(rt, "site")
			switch k := rapid.SampledFrom([]decide.Kind{decide.KindTick, decide.KindVerdict, decide.KindVerdict, decide.KindDecide, decide.KindIn, decide.KindOrder, decide.KindOrderClear, decide.KindFreeze, decide.KindThaw, decide.KindTable, decide.KindStage, decide.KindAck, decide.KindAck, decide.KindActivate, decide.KindActivate, decide.KindConfirm, decide.KindRevert, decide.KindOperator, decide.KindShare, decide.KindDivert, decide.KindNames, decide.KindNames, decide.KindPlan, decide.KindStep, decide.KindStep, decide.KindEpoch}).Draw(rt, "kind"); k {
			case decide.KindVerdict:
				apply(k, func(e *decide.Entry) {
					e.Verdicts = []steadycast.Verdict{{Site: site, Service: "web", State: rapid.SampledFrom([]steadycast.State{steadycast.Healthy, steadycast.Unhealthy}).Draw(rt, "state"), Reason: "r"}}
				})
			case decide.KindDecide:
				apply(k, func(e *decide.Entry) {
					e.Decide = &decide.Decide{Requests: []steadycast.Request{{
						ID: steadycast.RequestID{Incarnation: 1, Seq: f.Fence().Index}, Site: site, Prefixes: []netip.Prefix{unitOf(site).Prefix},
						Action: rapid.SampledFrom([]steadycast.Action{steadycast.Withdraw, steadycast.Return}).Draw(rt, "action"), Class: steadycast.Hard,
					}}}
				})
			case decide.KindIn:
				apply(k, func(e *decide.Entry) {
					for _, u := range f.View().Units {
						if u.Unit.Site == site {
							e.Return = &decide.ReturnProof{Unit: u.Unit, ID: u.Return}
						}
					}
				})
			case decide.KindOrder:
				apply(k, func(e *decide.Entry) {
					e.Order = &steadycast.Order{Kind: steadycast.OrderWithdraw, Site: site, Actor: "ann", Reason: "r", Force: true, For: 5000000000}
				})
			case decide.KindOrderClear, decide.KindFreeze, decide.KindThaw:
				apply(k, func(e *decide.Entry) { e.Scope = &decide.Scope{Site: site} })
			case decide.KindTable:
				apply(k, func(e *decide.Entry) {
					next := policy(append(sites, "par", "rom")[:rapid.IntRange(2, 5).Draw(rt, "sites")]...)
					next.Revision = f.View().Table.Revision + 1
					e.Table = &next
				})
			case decide.KindStage:
				apply(k, func(e *decide.Entry) {
					next := policy(sites...)
					e.Table = &next
				})
			case decide.KindAck:
				apply(k, func(e *decide.Entry) {
					e.Acks = []decide.Ack{{Site: site, Node: site + "-1", Refusal: rapid.SampledFrom([]string{"", "no"}).Draw(rt, "refusal")}}
					if s := f.View().Staged; s != nil {
						e.Acks[0].Revision = s.Table.Revision
					}
				})
			case decide.KindActivate:
				apply(k, func(e *decide.Entry) {
					e.Reason, e.Revision, e.Waive, e.ConfirmWithin = "r", 1, sites, 2*time.Second
					if s := f.View().Staged; s != nil {
						e.Revision = s.Table.Revision
					}
				})
			case decide.KindConfirm, decide.KindRevert:
				apply(k, func(e *decide.Entry) { e.Revision = f.View().Table.Revision })
			case decide.KindOperator:
				apply(k, func(e *decide.Entry) {
					o := operator(site, steadycast.Admin)
					e.Operator = &o
				})
			case decide.KindPlan:
				apply(k, func(e *decide.Entry) {
					e.Plan = &decide.PlanWish{Do: rapid.SampledFrom(decide.PlanVerbs).Draw(rt, "wish"), Plan: "move"}
				})
			case decide.KindStep:
				w := decide.StepWord{Run: 1, Site: site, Node: site + "-1", Say: decide.SayTake, Try: 1}
				for _, r := range f.View().Plans {
					if step, ok := r.Open(); ok {
						s := r.Steps[step]
						if w.Run, w.Step, w.Try = r.Number, step, s.Try+1; s.Held() {
							w.Site, w.Node, w.Say, w.Try = s.Site, s.Node, decide.SayDone, s.Try
						}
					}
				}
				apply(k, func(e *decide.Entry) { e.Step = &w })
			case decide.KindShare:
				apply(k, func(e *decide.Entry) {
					e.Share = &decide.ShareOrder{Site: site, Permille: rapid.SampledFrom([]int{0, 50, decide.Whole}).Draw(rt, "permille")}
				})
			case decide.KindDivert:
				apply(k, func(e *decide.Entry) {
					e.Divert = &decide.DivertOrder{Site: site, Path: rapid.SampledFrom([]string{"", "scrubbed", "spare"}).Draw(rt, "path")}
				})
			case decide.KindNames:
				apply(k, func(e *decide.Entry) {
					e.Names = rapid.SampledFrom([]*decide.NamesOrder{{Mode: "normal"}, {Mode: "conservative"}, {Mode: "frozen"}, {Mode: "minimal"}, {Member: "www/fra", To: "down"}, {Member: "www/fra", To: "automatic"}}).Draw(rt, "names")
				})
			case decide.KindEpoch:
				apply(k, func(e *decide.Entry) { e.Epoch++ })
			default:
				apply(k, func(*decide.Entry) {})
			}
		}
		if full > 0 && len(fed.ring) > feedKeeps {
			rt.Fatal("the ring grows")
		}
	})
}

// TestDeltaKnowsEveryField: whichever field of a view changes, and whether something
// comes or goes there, whoever watches hears of it. Only what moves with nothing but a
// new table need not be said, since that is sent whole.
func TestDeltaKnowsEveryField(t *testing.T) {
	none := decide.View{}
	kind := reflect.TypeFor[decide.View]()
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		if name == "Table" || name == "Revisions" || name == "Fleet" {
			continue
		}
		some := decide.View{}
		switch name { // what has to be somebody's, or of something
		case "Staged":
			some.Staged = &decide.Staged{Fence: steadycast.Fence{Epoch: 1}}
		case "Acks":
			some.Staged, some.Acks = &decide.Staged{Fence: steadycast.Fence{Epoch: 1}}, []decide.Ack{{Site: "ams"}}
		case "Operators":
			some.Operators = []decide.OperatorView{{Operator: operator("ann", steadycast.Admin)}}
		}
		if reflect.ValueOf(some).Field(i).IsZero() && !fill(reflect.ValueOf(&some).Elem().Field(i)) {
			t.Fatalf("%s: this test does not know how to change it", name)
		}
		for _, step := range []struct{ was, is decide.View }{{none, some}, {some, none}} {
			d, ok := difference(&step.was, &step.is)
			if !ok {
				continue // sent whole
			}
			line, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			var heard viewDelta
			if err := json.Unmarshal(line, &heard); err != nil {
				t.Fatal(err)
			}
			next, err := heard.follow(&step.was)
			if err != nil || !same(next, step.is) {
				a, _ := json.Marshal(next)
				b, _ := json.Marshal(step.is)
				t.Errorf("%s: %v\nheard %s\nwant  %s", name, err, a, b)
			}
		}
	}
}

// fill puts something where nothing was.
func fill(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.String:
		v.SetString("some")
	case reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Struct:
		return fill(v.Field(v.NumField() - 1))
	default:
		return false
	}
	return true
}
