package decide

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// TestNames: whatever people order of the answers while health and orders change,
// what is held is what was so when it ceased to move, and a replica that was
// restored says the same.
func TestNames(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table := Table{Revision: 1, Services: []Service{{Name: "web", Prefixes: prefixes("192.0.2.0/24")}}, Sites: []Place{{Name: "fra"}, {Name: "ams"}}}
		f := NewFleet()
		n := 0
		enter := func(e Entry) Reply {
			e.Schema, e.Rules, e.Epoch, e.LT = Schema, RulesLevel, 1, f.LT()+1
			twin := NewFleet()
			if n++; n > 1 {
				if err := twin.Restore(f.Snapshot()); err != nil {
					rt.Fatal(err)
				}
			}
			r, err := f.Apply(e)
			if err != nil || r.Invalid != "" {
				rt.Fatalf("%v: %s", err, r.Invalid)
			}
			if _, err := twin.Apply(e); err != nil || n > 1 && twin.Hash() != f.Hash() {
				rt.Fatalf("a restored replica goes another way (%v)", err)
			}
			return r
		}
		enter(Entry{Kind: KindGenesis, Table: &table})
		mode, members := NamesNormal, map[string]string{}
		var verdicts []steadycast.Verdict // when they ceased to move answers
		var orders []StandingOrder
		holding := false
		rt.Repeat(map[string]func(*rapid.T){
			"mode": func(rt *rapid.T) {
				to := rapid.SampledFrom(namesModes).Draw(rt, "mode")
				v := f.View()
				enter(Entry{Kind: KindNames, Actor: "ann", Reason: "test", Names: &NamesOrder{Mode: to}})
				switch to {
				case NamesNormal:
					holding = false
				case NamesConservative, NamesFrozen:
					if !holding {
						holding, verdicts = true, nil
						for _, x := range v.Verdicts {
							if x.State != steadycast.Healthy {
								verdicts = append(verdicts, x)
							}
						}
					}
				}
				if to == NamesConservative {
					orders = nil
				} else if to == NamesFrozen && mode != NamesFrozen {
					orders = v.Orders
				}
				mode = to
			},
			"member": func(rt *rapid.T) {
				m := rapid.SampledFrom([]string{"www.example.com/fra", "www.example.com/ams", "pool/fra"}).Draw(rt, "member")
				to := rapid.SampledFrom([]string{MemberDown, MemberUp, MemberAutomatic}).Draw(rt, "to")
				_, had := members[m]
				r := enter(Entry{Kind: KindNames, Actor: "ann", Reason: "test", Names: &NamesOrder{Member: m, To: to}})
				if (r.Refused != nil) != (to == MemberAutomatic && !had) {
					rt.Fatalf("%s to %s: %+v", m, to, r.Refused)
				}
				if members[m] = to; to == MemberAutomatic {
					delete(members, m)
				}
			},
			"verdict": func(rt *rapid.T) {
				site := rapid.SampledFrom([]string{"fra", "ams"}).Draw(rt, "site")
				state := rapid.SampledFrom([]steadycast.State{steadycast.Healthy, steadycast.Suspect, steadycast.Unhealthy}).Draw(rt, "state")
				enter(Entry{Kind: KindVerdict, Verdicts: []steadycast.Verdict{{Site: site, Service: "web", State: state, Since: time.Duration(n)}}})
			},
			"order": func(rt *rapid.T) {
				site := rapid.SampledFrom([]string{"fra", "ams"}).Draw(rt, "site")
				kind := rapid.SampledFrom([]steadycast.OrderKind{steadycast.OrderWithdraw, steadycast.OrderDrain}).Draw(rt, "kind")
				enter(Entry{Kind: KindOrder, Actor: "ann", Reason: "test", Order: &steadycast.Order{Kind: kind, Site: site, Actor: "ann", Reason: "test", Force: true}, Decide: &Decide{}})
			},
			"": func(rt *rapid.T) {
				v := f.View().Names
				if (v.Mode == "") != (mode == NamesNormal) || v.Mode != "" && v.Mode != mode || len(v.Members) != len(members) {
					rt.Fatalf("%+v; want %s, %v", v, mode, members)
				}
				for _, m := range v.Members {
					if members[m.Member] != m.To {
						rt.Fatalf("%s is %s", m.Member, m.To)
					}
				}
				if (v.Held != nil) != holding {
					rt.Fatalf("held %v in %s; want %v", v.Held != nil, mode, holding)
				}
				if holding && (!reflect.DeepEqual(v.Held.Verdicts, verdicts) || mode == NamesFrozen && fmt.Sprint(ids(v.Held.Orders)) != fmt.Sprint(ids(orders))) {
					rt.Fatalf("held %+v; want %+v and orders %v", v.Held, verdicts, ids(orders))
				}
			},
		})
	})
}

// ids are the positions of orders.
func ids(list []StandingOrder) (out []string) {
	for _, o := range list {
		out = append(out, o.Fence.String())
	}
	return out
}

// TestNamesOutOfBounds: an order without a meaning changes nothing and says why, and
// one that has a meaning is signed like any order.
func TestNamesOutOfBounds(t *testing.T) {
	s := newStage(t)
	s.play("table sites=fra,ams prefixes=192.0.2.0/24")
	for _, c := range []struct {
		o    NamesOrder
		want string
	}{
		{NamesOrder{}, "it names a mode, or a member, and not both"},
		{NamesOrder{Mode: "minimal", Member: "a/b", To: "down"}, "it names a mode, or a member, and not both"},
		{NamesOrder{Mode: "minimal", To: "down"}, "a mode is not switched to anything"},
		{NamesOrder{Mode: "hot"}, `mode "hot"; allowed: normal, conservative, frozen, minimal`},
		{NamesOrder{Member: "a/b"}, `to ""; allowed: down, up, automatic`},
		{NamesOrder{Member: "a/b", To: "out"}, `to "out"; allowed: down, up, automatic`},
		{NamesOrder{Member: "ab", To: "down"}, `member "ab"; write CHOICE/MEMBER, as www.example.com/fra`},
		{NamesOrder{Member: "/b", To: "down"}, `member "/b"; write CHOICE/MEMBER, as www.example.com/fra`},
		{NamesOrder{Member: "a/", To: "down"}, `member "a/"; write CHOICE/MEMBER, as www.example.com/fra`},
		{NamesOrder{Member: "a /b", To: "down"}, `member "a /b"; write CHOICE/MEMBER, as www.example.com/fra`},
		{NamesOrder{Member: "a/" + strings.Repeat("b", maxMember), To: "down"}, "the name of the member has 402 bytes; at most 400"},
	} {
		e := s.entry(KindNames)
		e.Actor, e.Reason, e.Names = "ann", "test", &c.o
		if r := s.apply(e); r.Invalid != c.want || s.f.View().Names.Mode != "" || len(s.f.View().Names.Members) > 0 {
			t.Errorf("%+v: %q; want %q", c.o, r.Invalid, c.want)
		}
	}
	e := s.entry(KindNames)
	e.Actor, e.Names = "ann", &NamesOrder{Mode: NamesMinimal}
	if r := s.apply(e); r.Refused == nil {
		t.Error("no reason is needed")
	}
	if k := KindNames; k.Role() != steadycast.Mover || k.Context() != steadycast.ContextOrder {
		t.Error("it is not signed like an order")
	}
	for i := range maxMembers + 1 {
		e := s.entry(KindNames)
		e.Actor, e.Reason, e.Names = "ann", "test", &NamesOrder{Member: fmt.Sprintf("www/%d", i), To: MemberDown}
		if r := s.apply(e); (r.Refused != nil) != (i == maxMembers) {
			t.Fatalf("member %d: %v", i, r.Refused)
		}
	}
}
