package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// moves plays what a script says of moving clients.
func (s *stage) moves(word string, args []string, text string) []string {
	switch word {
	case "share": // SITE PERMILLE [SERVICE] [force]
		e := s.entry(KindShare)
		e.Actor, e.Reason, e.Share = "ann", text, &ShareOrder{Site: args[0]}
		e.Share.Permille, _ = strconv.Atoi(args[1])
		for _, w := range args[2:] {
			if w == "force" {
				e.Force = true
			} else {
				e.Share.Service = w
			}
		}
		return s.say(s.apply(e))
	case "ramp": // SITE=PASSED,FAILED,SLOW…: what sites saw in their steps; perhaps old=SITE, of a step before
		e := s.entry(KindRamp)
		e.Decide = &Decide{Seen: s.seen(), Loads: s.loads}
		for _, w := range args {
			site, figures, _ := strings.Cut(w, "=")
			r := RampedAt{Site: site, Ramped: Ramped{Service: "web"}}
			fmt.Sscanf(figures, "%d,%d,%d", &r.Passed, &r.Failed, &r.Slow)
			v := s.f.View()
			x, _ := v.ShareOf(site, "web")
			if r.Step = x.Ramp.Fence; text == "old" {
				r.Step.Index--
			}
			e.Decide.Ramped = append(e.Decide.Ramped, r)
		}
		return s.say(s.apply(e))
	case "shed":
		e := s.entry(KindShed)
		e.Decide = &Decide{Loads: s.loads}
		return s.say(s.apply(e))
	case "drains":
		out := []string{}
		for _, u := range s.f.View().Units {
			if u.NamesLeftMS > 0 {
				out = append(out, fmt.Sprintf("%s: caches lead there for %s more", u.Unit, wait(Time(u.NamesLeftMS))))
			}
		}
		if len(out) == 0 {
			out = append(out, "no cache leads where a drain is")
		}
		return out
	case "shares":
		v := s.f.View()
		var out []string
		for _, x := range v.Shares {
			text := fmt.Sprintf("%s takes %s of %s", x.Site, Percent(x.Permille), x.Service)
			if x.Given < Whole {
				text += fmt.Sprintf(", given %s by %s: %s", Percent(x.Given), x.Actor, x.Reason)
			}
			if x.Shed < Whole || x.Kept {
				text += fmt.Sprintf(", shed to %s, kept %t", Percent(x.Shed), x.Kept)
			}
			if r := x.Ramp; r.Of > 0 {
				text += fmt.Sprintf(", step %d of %d, %s left, back %d times: %s", r.Step, r.Of, wait(Time(r.LeftMS)), r.Backs, r.Why)
			}
			out = append(out, text)
		}
		if out == nil {
			out = []string{"every site takes all"}
		}
		return out
	}
	return nil
}

// TestShares: whatever people give, the view says it, a replica that was restored
// says the same, and no service is left to nobody without force.
func TestShares(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table := Table{Revision: 1, Services: []Service{{Name: "web", Prefixes: prefixes("192.0.2.0/24")}, {Name: "mail", Prefixes: prefixes("198.51.100.0/24"), Sites: []string{"ams", "fra"}}},
			Sites: []Place{{Name: "fra"}, {Name: "ams"}, {Name: "lon"}}}
		f := NewFleet()
		n := uint64(0)
		enter := func(e Entry) Reply {
			e.Schema, e.Rules, e.Epoch, e.LT = Schema, RulesLevel, 1, f.LT()+1
			twin := NewFleet()
			if n++; n > 1 {
				if err := twin.Restore(f.Snapshot()); err != nil {
					rt.Fatal(err)
				}
			}
			r, err := f.Apply(e)
			if err != nil {
				rt.Fatal(err)
			}
			if _, err := twin.Apply(e); err != nil || n > 1 && twin.Hash() != f.Hash() {
				rt.Fatalf("a restored replica goes another way (%v)", err)
			}
			return r
		}
		enter(Entry{Kind: KindGenesis, Table: &table})
		want := map[[2]string]int{}
		share := func(site, service string) int {
			if x, ok := want[[2]string{site, service}]; ok {
				return x
			}
			return Whole
		}
		rt.Repeat(map[string]func(*rapid.T){
			"share": func(rt *rapid.T) {
				o := ShareOrder{
					Site:     rapid.SampledFrom([]string{"ams", "fra", "lon"}).Draw(rt, "site"),
					Service:  rapid.SampledFrom([]string{"", "web", "mail"}).Draw(rt, "service"),
					Permille: rapid.SampledFrom([]int{0, 0, 50, 200, Whole}).Draw(rt, "permille"),
				}
				force := rapid.IntRange(0, 4).Draw(rt, "force") == 0
				r := enter(Entry{Kind: KindShare, Actor: "ann", Reason: "test", Force: force, Share: &o})
				services := []string{o.Service}
				if o.Service == "" {
					services = f.s.servicesAt(o.Site)
				}
				refused := false
				for _, sv := range services {
					conf, _ := f.s.Table.Service(sv)
					others := slices.ContainsFunc(conf.Sites, func(x string) bool { return x != o.Site && share(x, sv) > 0 })
					refused = refused || !slices.Contains(conf.Sites, o.Site) || o.Permille == 0 && !others && !force
				}
				if refused != (r.Refused != nil) {
					rt.Fatalf("%+v: %+v", o, r)
				}
				if !refused {
					for _, sv := range services {
						want[[2]string{o.Site, sv}] = o.Permille
					}
				}
			},
			"table": func(rt *rapid.T) {
				table.Revision++
				table.Services = slices.Clone(table.Services)
				table.Services[1].Sites = rapid.SampledFrom([][]string{{"ams", "fra"}, {"ams", "lon"}}).Draw(rt, "sites")
				if r := enter(Entry{Kind: KindTable, Table: &table, Actor: "ann", Reason: "test"}); r.Refused != nil || r.Invalid != "" {
					rt.Fatal(r)
				}
				for k := range want {
					if !f.s.serves(k[0], k[1]) {
						delete(want, k)
					}
				}
			},
			"": func(rt *rapid.T) {
				v := f.View()
				for _, sv := range v.Table.Services {
					for _, site := range sv.Sites {
						if got := v.Share(site, sv.Name); got != share(site, sv.Name) {
							rt.Fatalf("%s takes %d of %s; want %d", site, got, sv.Name, share(site, sv.Name))
						}
					}
				}
			},
		})
	})
}

// TestShareOutOfBounds: what cannot be changes nothing, and says so.
func TestShareOutOfBounds(t *testing.T) {
	s := newStage(t)
	s.play("table sites=fra,ams prefixes=192.0.2.0/24")
	for _, permille := range []int{-1, Whole + 1} {
		e := s.entry(KindShare)
		e.Actor, e.Reason, e.Share = "ann", "test", &ShareOrder{Site: "fra", Permille: permille}
		before := s.f.View()
		if r := s.apply(e); r.Invalid == "" || len(s.f.View().Shares) != len(before.Shares) {
			t.Errorf("%d permille: %+v", permille, r)
		}
	}
	if k := KindShare; k.Role() != steadycast.Mover || k.Context() != steadycast.ContextOrder {
		t.Error("a share is not signed like an order")
	}
}

func prefixes(texts ...string) (ps []netip.Prefix) {
	for _, t := range texts {
		ps = append(ps, netip.MustParsePrefix(t))
	}
	return ps
}
