package api

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

func TestRowsOfTheFleet(t *testing.T) {
	want := map[string]struct {
		state Showing
		why   string
	}{
		"ams 192.0.2.0/24":     {Announced, ""},
		"ams 2001:db8:53::/48": {Announced, ""},
		"fra 192.0.2.0/24":     {Held, "web unhealthy: connection refused by 192.0.2.1:443; floor refuses: 1 of 4 would announce; floor 2"},
		"fra 2001:db8:53::/48": {Announcing, "tor1 has not acknowledged the route"},
		"gru 192.0.2.0/24":     {Drained, `drain by maria (uid 1003): "rack swap, CHG-4411", 29m left`},
		"gru 2001:db8:53::/48": {Drained, "maria"},
		"iad 192.0.2.0/24":     {NotHeard, "last heard 43s ago"},
		"iad 2001:db8:53::/48": {NotHeard, "last heard 43s ago"},
	}
	rows := fleet().Rows()
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for _, r := range rows {
		w := want[r.Unit.String()]
		if r.State != w.state || !strings.Contains(r.Why, w.why) || w.why == "" && r.Why != "" {
			t.Errorf("%s shows %q because %q; want %q because %q", r.Unit, r.State, r.Why, w.state, w.why)
		}
	}
}

// What a site sees of others says nothing of itself.
func TestChecksOfOthersAreNotItsOwn(t *testing.T) {
	before := fleet()
	after := fleet()
	for i := range after.Sites {
		for _, c := range slices.Clone(after.Sites[i].Checks) {
			c.Subject, c.Result.Outcome = "elsewhere", steadycast.Down
			after.Sites[i].Checks = append(after.Sites[i].Checks, c)
		}
	}
	for i, r := range before.Rows() {
		if got := after.Rows()[i]; got.Checks != r.Checks || got.ChecksUp != r.ChecksUp {
			t.Errorf("%v: %d of %d checks are up, and %d of %d with those of others", r.Unit, r.ChecksUp, r.Checks, got.ChecksUp, got.Checks)
		}
		if a, b := before.Why(r.Unit, nil), after.Why(r.Unit, nil); len(a.Checks) != len(b.Checks) {
			t.Errorf("why %v: %d checks, and %d with those of others", r.Unit, len(a.Checks), len(b.Checks))
		}
	}
	if n, m := len(before.CheckRows("", "")), len(after.CheckRows("", "")); m != 2*n {
		t.Errorf("%d checks are shown, and %d with those of others", n, m)
	}
}

// Every combination of what the ledger and the site can hold gives one word,
// and the word never claims more than is proven.
func TestShowingNeverClaimsMore(t *testing.T) {
	states := []steadycast.State{steadycast.StateUnknown, steadycast.Healthy, steadycast.Suspect, steadycast.Unhealthy, steadycast.Recovering}
	orders := []steadycast.OrderKind{steadycast.OrderNone, steadycast.OrderWithdraw, steadycast.OrderDrain, steadycast.OrderAnnounce}
	n := 0
	for bits := range 1 << 9 {
		bit := func(i int) bool { return bits>>i&1 == 1 }
		for _, phase := range []steadycast.Phase{steadycast.Out, steadycast.Returning, steadycast.In} {
			for _, st := range states {
				for _, o := range orders {
					for _, stance := range []steadycast.Stance{steadycast.Normal, steadycast.Depreferred, steadycast.Draining} {
						v := &decide.UnitView{Phase: phase, Ever: bit(0), Lost: bit(1), Depreferred: bit(2), Locked: bit(3), OnHold: bit(4), Order: o}
						if bit(5) {
							v.Guard = "floor"
						}
						u := &Unit{Wanted: bit(6), Proven: bit(7), Moving: bit(8), Stance: stance}
						got := showing(v, u, &Service{Verdict: steadycast.Verdict{State: st}})
						n++
						if got.Announces() && !(u.Wanted && (u.Proven || u.Moving)) {
							t.Fatalf("%+v %+v %v shows %s", v, u, st, got)
						}
						if !u.Proven && !(u.Wanted && u.Moving) && got != Announcing && got != Withdrawing && got != Lost {
							t.Fatalf("unproven %+v %+v %v shows %s", v, u, st, got)
						}
						if got == Announced && st == steadycast.Unhealthy && o != steadycast.OrderAnnounce {
							t.Fatalf("an unhealthy site shows announced: %+v %+v", v, u)
						}
						if !slices.Contains(Showings, got) {
							t.Fatalf("%q is not among the showings", got)
						}
					}
				}
			}
		}
	}
	if n != 512*3*5*4*3 {
		t.Errorf("tried %d combinations", n)
	}
}

// A node that cannot hear its speaker claims neither that routes are there nor
// that they are gone.
func TestOneNodesSentence(t *testing.T) {
	u := steadycast.Unit{Site: "fra", Prefix: p4}
	for want, rows := range map[string][]Row{
		"fra announces 192.0.2.0/24":         {{Unit: u, State: Announced}},
		"fra does not announce 192.0.2.0/24": {{Unit: u, State: Withdrawn}},
		"it is not known what fra announces": {{Unit: u, State: NotHeard}},
		"fra announces 1 of 2 prefixes":      {{Unit: u, State: Announced}, {Unit: steadycast.Unit{Site: "fra", Prefix: p6}, State: Lost}},
		"no prefix is to be announced":       nil,
	} {
		if got := sentence(rows, nil); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A site that is well again and still out says what it waits for, never what
// was wrong once.
func TestWhatAReturnWaitsFor(t *testing.T) {
	u := steadycast.Unit{Site: "ams", Prefix: p4}
	for _, tt := range []struct {
		name  string
		alter func(*decide.UnitView, *Unit, *Service)
		why   string
		next  string
	}{
		{"rounds", func(_ *decide.UnitView, _ *Unit, svc *Service) {
			svc.Verdict.State, svc.Next = steadycast.Recovering, "healthy at 20 passing rounds (8 now)"
		}, "web recovering: healthy at 20 passing rounds (8 now)", "steadycast checks --site ams"},
		{"cooldown", func(v *decide.UnitView, _ *Unit, _ *Service) { v.CooldownLeftMS = 269_000 },
			"well again; cooldown, 4m29s left", "steadycast announce ams --reason TEXT"},
		{"a guard", func(_ *decide.UnitView, real *Unit, _ *Service) {
			real.Last = &decide.Ruling{Unit: u, Guards: []steadycast.GuardAnswer{{Guard: "site budget", Text: "2 of 2 withdrawals in 1h"}}}
		}, "well again; site budget refuses: 2 of 2 withdrawals in 1h", "steadycast checks --site ams"},
		{"the answer", func(*decide.UnitView, *Unit, *Service) {}, "well again; asks for its return", "steadycast checks --site ams"},
	} {
		s := fleet()
		v, real := view(s, u), unit(s, u)
		v.Phase, real.Wanted, real.Why = steadycast.Out, false, []string{"withdrawn: connection refused"}
		of, _ := s.Site("ams")
		tt.alter(v, real, &of.Services[0])
		if w := s.Why(u, nil); w.Row.State != Returning || w.Row.Why != tt.why || w.Next != tt.next {
			t.Errorf("%s: shows %s because %q, next %q; want %q, next %q", tt.name, w.Row.State, w.Row.Why, w.Next, tt.why, tt.next)
		}
	}
}

func TestSummary(t *testing.T) {
	u4 := func(s string) steadycast.Unit { return steadycast.Unit{Site: s, Prefix: p4} }
	calm := func() *Snapshot { // every site well, nothing ordered
		s := fleet()
		s.View.Orders, s.View.Freezes, s.Alarms, s.Config.LastError = nil, nil, nil, ""
		for i := range s.Sites {
			s.Sites[i] = site(s.Sites[i].Name)
		}
		for i := range s.View.Units {
			u := s.View.Units[i].Unit
			s.View.Units[i] = decide.UnitView{Unit: u, Phase: steadycast.In, Ever: true}
		}
		return s
	}
	back := func(s *Snapshot, site string) { // out, though well again
		unit(s, u4(site)).Wanted = false
		view(s, u4(site)).Phase = steadycast.Out
	}
	gone := func(s *Snapshot, name string) {
		back(s, name)
		of, _ := s.Site(name)
		of.Services[0].Verdict.State = steadycast.Unhealthy
	}
	tests := []struct {
		name  string
		alter func(*Snapshot)
		level Level
		mark  string
		next  string
	}{
		{"calm", func(*Snapshot) {}, LevelOK, "all well", "steadycast events -f"},
		{"a site out by itself", func(s *Snapshot) { gone(s, "fra") }, LevelDegraded, "degraded", "steadycast why fra 192.0.2.0/24"},
		{"a site that is well and may not return yet", func(s *Snapshot) {
			back(s, "fra")
			view(s, u4("fra")).CooldownLeftMS = 269_000
		}, LevelDegraded, "returning", "steadycast why fra 192.0.2.0/24"},
		{"a site drained by a person is as ordered", func(s *Snapshot) {
			gone(s, "gru")
			view(s, u4("gru")).Order = steadycast.OrderDrain
			s.View.Orders = []decide.StandingOrder{{Order: steadycast.Order{Kind: steadycast.OrderDrain, Site: "gru", Actor: "maria", Reason: "x"}}}
		}, LevelOK, "as ordered", "steadycast undrain gru --reason TEXT"},
		{"a drain under way is as ordered", func(s *Snapshot) {
			unit(s, u4("gru")).Stance = steadycast.Draining
			s.View.Orders = []decide.StandingOrder{{Order: steadycast.Order{Kind: steadycast.OrderDrain, Site: "gru", Actor: "maria", Reason: "x"}}}
		}, LevelOK, "changing", "steadycast why gru 192.0.2.0/24"},
		{"an ordered withdrawal that is not proven is not as ordered", func(s *Snapshot) {
			gone(s, "gru")
			unit(s, u4("gru")).Proven = false
			s.View.Orders = []decide.StandingOrder{{Order: steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "gru", Actor: "maria", Reason: "x"}}}
		}, LevelDegraded, "changing", "steadycast why gru 192.0.2.0/24"},
		{"under the floor", func(s *Snapshot) { gone(s, "ams"); gone(s, "fra"); gone(s, "gru") }, LevelCritical, "under the floor", "steadycast why ams 192.0.2.0/24"},
		{"forced under the floor by a person", func(s *Snapshot) {
			for _, n := range []string{"ams", "fra", "gru"} {
				gone(s, n)
				view(s, u4(n)).Order = steadycast.OrderWithdraw
				s.View.Orders = append(s.View.Orders, decide.StandingOrder{Order: steadycast.Order{Kind: steadycast.OrderWithdraw, Site: n, Actor: "maria", Reason: "x", Force: true}})
			}
		}, LevelCritical, "under the floor", "steadycast undrain ams --reason TEXT"},
		{"nobody", func(s *Snapshot) { gone(s, "ams"); gone(s, "fra"); gone(s, "gru"); gone(s, "iad") }, LevelCritical, "nobody announces", "steadycast why ams 192.0.2.0/24"},
		{"sites not heard are not called gone", func(s *Snapshot) {
			for i := range s.Sites {
				s.Sites[i].Heard = ago(time.Minute)
			}
		}, LevelDegraded, "degraded", "steadycast why ams 192.0.2.0/24"},
		{"held", func(s *Snapshot) { v := view(s, u4("fra")); v.Depreferred, v.Guard = true, "floor" }, LevelDegraded, "held by a guard", "steadycast why fra 192.0.2.0/24"},
		{"held because there is no ledger", func(s *Snapshot) {
			of, _ := s.Site("fra")
			of.Services[0].Verdict.State, s.LedgerLost = steadycast.Unhealthy, "no space left on device"
		}, LevelDegraded, "held: no ledger to ask", "steadycast why fra 192.0.2.0/24"},
		{"frozen", func(s *Snapshot) {
			s.View.Freezes = []decide.StandingFreeze{{Scope: decide.Scope{Site: "fra", Prefix: p4}, Actor: "x", Reason: "y"}}
		}, LevelDegraded, "frozen", "steadycast thaw fra --prefix 192.0.2.0/24 --reason TEXT"},
		{"locked", func(s *Snapshot) { gone(s, "iad"); view(s, u4("iad")).Locked = true }, LevelDegraded, "locked", "steadycast unlock iad --reason TEXT"},
		{"on hold", func(s *Snapshot) { gone(s, "iad"); view(s, u4("iad")).OnHold = true }, LevelDegraded, "on hold", "steadycast resume iad --reason TEXT"},
		{"a session down", func(s *Snapshot) { s.Sites[1].Actual.Peers[0].State = "connect" }, LevelDegraded, "BGP session down", "steadycast peers"},
		{"no ledger", func(s *Snapshot) { s.LedgerLost = "disk full" }, LevelDegraded, "no ledger: nothing changes", "steadycast events"},
		{"a refused reload", func(s *Snapshot) { s.Config.LastError = "x" }, LevelDegraded, "configuration refused", "steadycast reload --dry-run"},
		{"an alarm", func(s *Snapshot) { s.Alarms = []Alarm{{Text: "x", Next: "steadycast routes"}} }, LevelDegraded, "alarm", "steadycast routes"},
		{"a speaker lost", func(s *Snapshot) { s.Sites[0].SpeakerLost = "x" }, LevelDegraded, "degraded", "steadycast why ams 192.0.2.0/24"},
		{"one site alone, one of two prefixes out", func(s *Snapshot) {
			s.Sites, s.View.Units = s.Sites[:1], s.View.Units[:2]
			gone(s, "ams")
		}, LevelCritical, "partly out", "steadycast why ams 192.0.2.0/24"},
		{"nothing configured", func(s *Snapshot) { *s = Snapshot{} }, LevelDegraded, "nothing to announce", "steadycast events"},
		{"a fleet not begun", func(s *Snapshot) { *s = Snapshot{Mode: "fleet"} }, LevelDegraded, "no table yet", "steadycast ledger members"},
		{"one peer slow to acknowledge everywhere", func(s *Snapshot) {
			for i := range s.Sites {
				s.Sites[i].Units[0].Proven = false
			}
		}, LevelDegraded, "changing", "steadycast why ams 192.0.2.0/24"},
		{"just started", func(s *Snapshot) {
			for _, n := range []string{"ams", "fra", "gru", "iad"} {
				back(s, n)
				view(s, u4(n)).Ever = false
			}
		}, LevelDegraded, "starting", "steadycast why ams 192.0.2.0/24"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := calm()
			tt.alter(s)
			got := s.Status().Summary
			if got.Level != tt.level || got.Mark != tt.mark || got.Next != tt.next {
				t.Errorf("got %s, %q, next %q; want %s, %q, next %q", got.Level, got.Mark, got.Next, tt.level, tt.mark, tt.next)
			}
		})
	}
}

// A program that walks the lists of an answer meets an empty one, never null.
func TestNoListIsNull(t *testing.T) {
	empty, full := new(Snapshot), fleet()
	for name, v := range map[string]any{
		"status": empty.Status(), "sites": empty.SiteRows(), "peers": empty.Peers(""), "checks": empty.CheckRows("", ""),
		"routes": empty.Routes("", "", netip.Prefix{}, false), "why": full.Why(steadycast.Unit{Site: "ams", Prefix: p4}, nil),
	} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "null") {
			t.Errorf("%s: %s", name, b)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 40 * time.Millisecond: "40ms", 43 * time.Second: "43s", time.Minute: "1m",
		6*time.Minute + 12*time.Second: "6m12s", 3*time.Hour + 4*time.Minute: "3h4m", 24 * time.Hour: "1d", 150 * time.Hour: "6d6h",
	} {
		if got := Span(d); got != want {
			t.Errorf("Span(%d) = %s, want %s", d, got, want)
		}
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for _, d := range append([]time.Duration{-time.Second, 0, time.Hour}, Bounds[:]...) {
		h.Observe(d)
	}
	if h.Count() != uint64(len(Bounds))+3 || h.Counts[0] != 3 || h.Counts[len(Bounds)] != 1 {
		t.Errorf("%+v", h)
	}
	// A bound belongs to its own bucket (le), as Prometheus counts.
	for i := 1; i < len(Bounds); i++ {
		if h.Counts[i] != 1 {
			t.Errorf("bucket %d has %d", i, h.Counts[i])
		}
	}
}
