package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// diverting plays what a script says of paths.
func (s *stage) diverting(word string, args []string, text string) []string {
	switch word {
	case "path": // SITE PATH STATE: a verdict of who tells of it
		e := s.entry(KindVerdict)
		for site := range strings.SplitSeq(args[0], "+") {
			sv, _ := s.f.s.Table.PathService(site, args[1])
			v := steadycast.Verdict{Site: site, Service: sv.Name, Reason: text, Held: len(args) > 3}
			if err := v.State.UnmarshalText([]byte(args[2])); err != nil {
				s.t.Fatal(err)
			}
			e.Verdicts = append(e.Verdicts, v)
		}
		return s.say(s.apply(e))
	case "levels":
		v := s.f.View()
		var out []string
		for _, l := range v.Levels() {
			out = append(out, fmt.Sprintf("%d %s %s: %s", l.Level, l.Do, l.Site, l.Why))
		}
		return out
	case "diverts":
		v := s.f.View()
		var out []string
		for _, p := range v.Table.Sites {
			line := fmt.Sprintf("%s announces by %s", p.Name, v.Path(v.Table, p.Name))
			if d, ok := v.DivertOf(p.Name); ok {
				line += fmt.Sprintf(", as %s wants: %s", d.Actor, d.Reason)
				if d.Until != 0 {
					line += fmt.Sprintf(", %s left", wait(Time(d.LeftMS)))
				}
			}
			if len(p.Paths) > 0 {
				out = append(out, line)
			}
			for _, w := range v.PathWishes {
				if w.Site != p.Name {
					continue
				}
				if g, no := w.Refusal(); no {
					out = append(out, fmt.Sprintf("    would go by %s: %s; %s (%s)", w.To, w.Why, g, g.Override))
				}
			}
		}
		return out
	}
	e := s.entry(KindDivert) // SITE [PATH] [for=SPAN]
	e.Actor, e.Reason, e.Divert = "ann", text, &DivertOrder{Site: args[0]}
	for _, w := range args[1:] {
		if span, ok := strings.CutPrefix(w, "for="); ok {
			e.Divert.For, _ = time.ParseDuration(span)
		} else {
			e.Divert.Path = w
		}
	}
	return s.say(s.apply(e))
}

// TestDiverts holds the machine against a plain account of who goes which way, while
// people divert, time passes, tables change and replicas begin from snapshots.
func TestDiverts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type want struct {
			path string
			ends Time
		}
		table := Table{Revision: 1, Services: []Service{{Name: "web", Prefixes: prefixes("192.0.2.0/24")}},
			Sites: []Place{{Name: "ams", Paths: []string{"direct", "scrubbed", "far"}}, {Name: "fra", Paths: []string{"direct", "scrubbed"}}, {Name: "lon"}}}
		f, now := NewFleet(), Time(0)
		account := map[string]want{}
		enter := func(e Entry) Reply {
			e.Schema, e.Rules, e.Epoch, e.LT = Schema, RulesLevel, 1, now
			twin := NewFleet()
			if err := twin.Restore(f.Snapshot()); err != nil {
				rt.Fatal(err)
			}
			r, err := f.Apply(e)
			if err != nil {
				rt.Fatal(err)
			}
			if e.Kind != KindGenesis {
				if _, err := twin.Apply(e); err != nil || twin.Hash() != f.Hash() {
					rt.Fatalf("a restored replica goes another way (%v)", err)
				}
			}
			return r
		}
		place := func(site string) Place {
			p, _ := table.Place(site)
			return p
		}
		enter(Entry{Kind: KindGenesis, Table: &table})
		rt.Repeat(map[string]func(*rapid.T){
			"divert": func(rt *rapid.T) {
				o := DivertOrder{
					Site: rapid.SampledFrom([]string{"ams", "fra", "lon", "par"}).Draw(rt, "site"),
					Path: rapid.SampledFrom([]string{"", "direct", "scrubbed", "far"}).Draw(rt, "path"),
					For:  rapid.SampledFrom([]time.Duration{0, 0, time.Second, time.Minute}).Draw(rt, "for"),
				}
				r := enter(Entry{Kind: KindDivert, Actor: "ann", Reason: "test", Divert: &o})
				paths := place(o.Site).Paths
				_, away := account[o.Site]
				home := len(paths) > 0 && (o.Path == "" || o.Path == paths[0])
				switch ok := len(paths) > 0 && (home && o.For == 0 && away || slices.Index(paths, o.Path) > 0); {
				case ok != (r.Refused == nil):
					rt.Fatalf("%+v: %+v", o, r.Refused)
				case ok && home:
					delete(account, o.Site)
				case ok:
					w := want{path: o.Path}
					if o.For > 0 {
						w.ends = now + lt(o.For)
					}
					account[o.Site] = w
				}
			},
			"time": func(rt *rapid.T) {
				now += Time(rapid.SampledFrom([]int{1, 999, 1000, 60_000}).Draw(rt, "ms"))
				enter(Entry{Kind: KindTick})
				for site, w := range account {
					if w.ends != 0 && w.ends <= now {
						delete(account, site)
					}
				}
			},
			"table": func(rt *rapid.T) {
				table.Revision++
				table.Sites = slices.Clone(table.Sites)
				i := rapid.IntRange(0, 1).Draw(rt, "site")
				table.Sites[i].Paths = rapid.SampledFrom([][]string{nil, {"direct"}, {"direct", "scrubbed"}, {"scrubbed", "direct"}}).Draw(rt, "paths")
				enter(Entry{Kind: KindTable, Actor: "ann", Reason: "test", Table: &table, Decide: &Decide{Seen: []Seen{{Prefix: prefixes("192.0.2.0/24")[0]}}}})
				if w, ok := account[table.Sites[i].Name]; ok && slices.Index(table.Sites[i].Paths, w.path) < 1 {
					delete(account, table.Sites[i].Name)
				}
			},
			"": func(rt *rapid.T) {
				v := f.View()
				ends := Time(0)
				for _, p := range table.Sites {
					w, away := account[p.Name]
					path := w.path
					if !away && len(p.Paths) > 0 {
						path = p.Paths[0]
					}
					if got := v.Path(v.Table, p.Name); got != path {
						rt.Fatalf("%s goes by %q; wanted %q", p.Name, got, path)
					}
					if w.ends != 0 && (ends == 0 || w.ends < ends) {
						ends = w.ends
					}
				}
				if at, ok := f.NextEnd(); ends != 0 && (!ok || at > ends) {
					rt.Fatalf("something ends at %d, and the next end is %d, %t", ends, at, ok)
				}
			},
		})
	})
}

// TestSitePath: the path of the ledger goes into the set, a change of it alone makes
// a new set, and it is proven when the speaker has arrived and the peers that are no
// more on it have let go; never before.
func TestSitePath(t *testing.T) {
	site, v, a := startedSite(1)
	v.Fence.Index++
	v.Table.Revision++
	v.Table.Sites = []Place{{Name: "fra", Paths: []string{"direct", "scrubbed"}}}
	sets := announced(site.Step(time.Second, Committed{View: v}))
	if len(sets) != 1 || sets[0].Path != "direct" {
		t.Fatalf("paths in the table gave %+v", sets)
	}
	v.Fence.Index++
	v.Diverts = []Divert{{Order: DivertOrder{Site: "fra", Path: "scrubbed"}}}
	sets = announced(site.Step(2*time.Second, Committed{View: v}))
	if len(sets) != 1 || sets[0].Path != "scrubbed" || len(sets[0].Routes) != 1 {
		t.Fatalf("a divert gave %+v", sets)
	}
	p := sets[0].Routes[0].Prefix
	at := time.Unix(2, 0)
	step := func(now Now, change func(*steadycast.Actual)) (unproven bool, proof bool) {
		change(&a)
		for _, e := range site.Step(now, Proved{Actual: a}) {
			n, ok := e.(Note)
			proof = proof || ok && n.Event.Kind == steadycast.EventProof
		}
		return len(site.Beat().Unproven) > 0, proof
	}
	moving := func() bool {
		return slices.ContainsFunc(site.Explain().Units, func(u UnitStatus) bool { return u.Moving })
	}
	alarmed := func() bool { _, ok := site.findAlarm(alarmKey{kind: "path"}); return ok }
	// The speaker has taken it, and the new router is not up.
	if open, proof := step(3*time.Second, func(a *steadycast.Actual) {
		a.Incarnation, a.Version = sets[0].Incarnation, sets[0].Version
		a.Path, a.Toward, a.PathWait = "direct", "scrubbed", "no session of path scrubbed is up"
		a.Peers = []steadycast.Peer{{Name: "p1", State: "established", Path: "direct"}, {Name: "p2", State: "connect", Path: "scrubbed"}}
		a.Sent = []steadycast.Sent{{Peer: "p1", Prefix: p, Announced: true, Acked: at}}
	}); !open || proof || alarmed() {
		t.Errorf("on its way: unproven %t, proof %t, alarm %t", open, proof, alarmed())
	}
	if !moving() {
		t.Error("announced by the old path alone, and not said to be on the way")
	}
	if site.Step(20*time.Second, Tick{}); !alarmed() {
		t.Error("no alarm while the new path does not come up")
	}
	// It is: both have the route, and the old one still has to let go.
	if open, proof := step(21*time.Second, func(a *steadycast.Actual) {
		a.Path, a.Toward, a.PathWait = "scrubbed", "scrubbed", ""
		a.Peers = []steadycast.Peer{{Name: "p1", State: "established", Path: "direct", OffPath: true}, {Name: "p2", State: "established", Path: "scrubbed"}}
		a.Sent = []steadycast.Sent{{Peer: "p1", Prefix: p, Announced: true, Acked: at}, {Peer: "p2", Prefix: p, Announced: true, Acked: at}}
	}); !open || proof {
		t.Errorf("before the withdrawal: unproven %t, proof %t", open, proof)
	}
	if open, proof := step(22*time.Second, func(a *steadycast.Actual) {
		a.Sent = []steadycast.Sent{{Peer: "p1", Prefix: p, Acked: at}, {Peer: "p2", Prefix: p, Announced: true, Acked: at}}
	}); open || !proof || alarmed() || moving() {
		t.Errorf("arrived: unproven %t, proof %t, alarm %t, moving %t", open, proof, alarmed(), moving())
	}
}
