package decide

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// trialModel is what a person expects of trials: a table in force, the newest one
// that nobody can lose any more, and when the one in force ends.
type trialModel struct {
	inForce, good content
	trial         bool
	until         Time
	staged        *content
}

// content tells one table from another, whatever revision it has: how long a drain
// waits, and whether it has the second prefix.
type content struct {
	drain time.Duration
	both  bool
}

func contentOf(t Table) content { return content{t.DrainWait, len(t.AllPrefixes()) == 2} }

// TestTrials walks random rows of tables through stage, trial, confirmation, time and
// revert, restored from its snapshot after each step, beside the model.
func TestTrials(t *testing.T) {
	prefixes := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")}
	rapid.Check(t, func(rt *rapid.T) {
		table := func(c content) Table {
			n := 1
			if c.both {
				n = 2
			}
			return Table{
				Sites: []Place{{Name: "ams"}, {Name: "fra"}, {Name: "lon"}}, DrainWait: c.drain,
				Services: []Service{{Name: "web", Prefixes: prefixes[:n]}},
			}
		}
		f, now := NewFleet(), Time(0)
		apply := func(k Kind, change func(*Entry)) Reply {
			e := Entry{Kind: k, Schema: Schema, Rules: RulesLevel, Epoch: 1, LT: now, Proposer: "p", Actor: "ann", Reason: "r"}
			change(&e)
			twin := NewFleet()
			if err := twin.Restore(f.Snapshot()); err != nil {
				rt.Fatal(err)
			}
			want, err := twin.Apply(e)
			if err != nil {
				rt.Fatal(err)
			}
			r, err := f.Apply(e)
			if err != nil {
				rt.Fatal(err)
			}
			if text(r) != text(want) || !bytes.Equal(f.Snapshot(), twin.Snapshot()) {
				rt.Fatalf("restored it says\n%s\nnot\n%s", text(want), text(r))
			}
			return r
		}
		m := trialModel{inForce: content{time.Second, true}, good: content{time.Second, true}}
		apply(KindGenesis, func(e *Entry) {
			x := table(m.inForce)
			x.Revision = 1
			e.Table, e.Charter = &x, &Charter{Fleet: "test"}
		})
		announce := func(site string, p netip.Prefix) {
			u := f.s.unit(site, p)
			u.Phase, u.Ever = steadycast.In, true
		}
		for _, p := range prefixes {
			announce("ams", p)
		}
		for n := range rapid.IntRange(1, 30).Draw(rt, "steps") {
			held, force := f.s.Trial != nil && f.s.Trial.Held != nil, rapid.Bool().Draw(rt, "force")
			switch k := rapid.SampledFrom([]Kind{KindStage, KindStage, KindActivate, KindActivate, KindConfirm, KindTick, KindRevert, KindRevert, KindOrder}).Draw(rt, "kind"); k {
			case KindStage:
				c := content{time.Duration(n+2) * time.Second, rapid.Bool().Draw(rt, "both")}
				apply(k, func(e *Entry) {
					x := table(c)
					e.Table, e.Force = &x, true
				})
				m.staged = &c
			case KindActivate:
				within := rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(rt, "within")
				r := apply(k, func(e *Entry) {
					e.ConfirmWithin, e.Force, e.Waive = within, true, []string{"ams", "fra", "lon"}
					e.Revision = 1
					if s := f.s.Staged; s != nil {
						e.Revision = s.Table.Revision
					}
				})
				if (r.Refused == nil) != (m.staged != nil) {
					rt.Fatalf("staged %v: %s", m.staged, text(r))
				}
				if m.staged == nil {
					break
				}
				m.inForce, m.staged = *m.staged, nil
				m.trial, m.until = within > 0, now+lt(within)
				if !m.trial {
					m.good = m.inForce
				}
			case KindConfirm:
				r := apply(k, func(e *Entry) { e.Revision = f.s.Table.Revision })
				if (r.Refused == nil) != m.trial {
					rt.Fatalf("on trial %t: %s", m.trial, text(r))
				}
				m.trial = false
				if r.Refused == nil {
					m.good = m.inForce
				}
			case KindTick:
				now += lt(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Hour}).Draw(rt, "passes"))
				apply(k, func(*Entry) {})
			case KindOrder:
				apply(k, func(e *Entry) {
					p := rapid.SampledFrom(f.s.Table.AllPrefixes()).Draw(rt, "prefix")
					e.Order = &steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "fra", Prefixes: []netip.Prefix{p}, Actor: "ann", Reason: fmt.Sprint("order ", n), Force: force}
				})
			case KindRevert:
				// With nobody seen to announce, no floor can be broken.
				was := f.s.Table.Revision
				r := apply(k, func(e *Entry) { e.Revision, e.Actor = was, "auto" })
				if due := m.trial && now >= m.until; (r.Invalid == "") != due {
					rt.Fatalf("on trial %t until %d at %d: %s", m.trial, m.until, now, text(r))
				} else if due {
					if dropped := m.staged != nil; dropped != slices.ContainsFunc(r.Events, func(e steadycast.Event) bool { return e.To == "dropped" }) {
						rt.Fatalf("dropped %t: %s", dropped, text(r))
					}
					m = trialModel{inForce: m.good, good: m.good}
					if f.s.Table.Revision <= was {
						rt.Fatalf("revision %d after %d", f.s.Table.Revision, was)
					}
				}
			}
			v := f.View()
			switch {
			case contentOf(v.Table) != m.inForce:
				rt.Fatalf("%v is in force, not %v", contentOf(v.Table), m.inForce)
			case (v.Trial != nil) != m.trial:
				rt.Fatalf("on trial %v, not %t", v.Trial, m.trial)
			case v.Trial != nil && v.Trial.Back != nil:
				rt.Fatal("a view carries the table before")
			case v.Trial != nil && contentOf(f.s.Trial.Back.Table) != m.good:
				rt.Fatalf("%v would come back, not %v", contentOf(f.s.Trial.Back.Table), m.good)
			case held && f.s.Trial == nil && m.trial:
				rt.Fatal("a held trial ended by itself")
			}
			for _, o := range v.Orders { // none stands over nothing, and at most one over each unit
				for _, p := range o.Order.Prefixes {
					if u := f.s.unit(o.Order.Site, p); u == nil || f.s.orderOver(u.Unit).Fence != o.Fence {
						rt.Fatalf("%v stands over %v", o, u)
					}
				}
			}
		}
	})
}

// TestTrialGivesBack: a unit that the table on trial dropped comes back as what it
// was, but for what must be seen or asked for again.
func TestTrialGivesBack(t *testing.T) {
	for _, phase := range []steadycast.Phase{steadycast.Out, steadycast.Returning, steadycast.In} {
		t.Run(phase.String(), func(t *testing.T) {
			s := newStage(t)
			s.play("charter edge maria=admin")
			s.play("table sites=ams,fra,lon prefixes=192.0.2.0/24,198.51.100.0/24")
			s.play("boot")
			u := s.f.s.unit("fra", netip.MustParsePrefix("198.51.100.0/24"))
			u.Phase, u.Locked, u.Auto, u.Cycles = phase, true, true, []Time{s.lt}
			was := *u
			s.play("as maria stage prefixes=192.0.2.0/24 force")
			s.play("ack ams fra lon")
			s.play("as maria activate 2 within=1m force: a bad one")
			if s.f.s.unit("fra", was.Unit.Prefix) != nil {
				t.Fatal("it was not dropped")
			}
			s.play("1m")
			s.play("revert 2")
			now := s.f.s.unit("fra", was.Unit.Prefix)
			switch {
			case now == nil:
				t.Fatal("it did not come back")
			case phase == steadycast.Returning && now.Phase != steadycast.Out:
				t.Errorf("a return goes on that nobody asked for: %v", now)
			case phase != steadycast.Returning && now.Phase != phase:
				t.Errorf("%s became %s", phase, now.Phase)
			case now.Lost != (phase == steadycast.In):
				t.Errorf("lost %t", now.Lost)
			case !now.Locked || !now.Auto || len(now.Cycles) != 1 || now.Permit != was.Permit:
				t.Errorf("%+v became %+v", was, *now)
			}
		})
	}
}
