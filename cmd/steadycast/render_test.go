package main

import (
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fleet is the snapshot that the api package keeps as the record of its wire form.
func fleet(t testing.TB) *api.Snapshot {
	t.Helper()
	b, err := os.ReadFile("../../internal/api/testdata/snapshot.json")
	if err != nil {
		t.Fatal(err)
	}
	s := new(api.Snapshot)
	if err := json.Unmarshal(b, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// calm is the fleet with nothing wrong and nothing ordered.
func calm(t testing.TB) *api.Snapshot {
	s := fleet(t)
	s.View.Orders, s.View.Freezes, s.Alarms, s.Config.LastError = nil, nil, nil, ""
	well := s.Sites[0]
	for i := range s.Sites {
		name := s.Sites[i].Name
		s.Sites[i] = well
		s.Sites[i].Name = name
		s.Sites[i].Units = slices.Clone(well.Units)
		for j := range s.Sites[i].Units {
			s.Sites[i].Units[j].Unit.Site = name
		}
	}
	for i := range s.View.Units {
		s.View.Units[i] = decide.UnitView{Unit: s.View.Units[i].Unit, Phase: steadycast.In, Ever: true, BudgetLimit: 2}
	}
	s.View.Prefixes[0].FleetUsed, s.View.Prefixes[0].Troubled = 0, 0
	return s
}

// solo is a node on its own.
func solo(t testing.TB) *api.Snapshot {
	s := calm(t)
	s.Mode, s.Fleet, s.Node = "solo", "", "lon-1"
	s.Sites, s.View.Units = s.Sites[:1], s.View.Units[:2]
	for i := range s.View.Prefixes {
		s.View.Prefixes[i].Sites, s.View.Prefixes[i].Floor, s.View.Prefixes[i].HealthyFloor = 1, 0, 0
	}
	return s
}

// watching is a fleet whose site ams looks at two others.
func watching(t testing.TB) *api.Snapshot {
	s := fleet(t)
	for _, subject := range []string{"fra", "gru"} {
		c := s.Sites[0].Checks[0]
		c.Subject = subject
		s.Sites[0].Checks = append(s.Sites[0].Checks, c)
	}
	return s
}

// starting is a node that never announced, and whose newest reload was refused.
func starting(t testing.TB) *api.Snapshot {
	s := solo(t)
	s.Config.LastError = "node.yaml:15:3: bgp.bogus: unknown key"
	s.Alarms = []api.Alarm{{Since: s.At, Site: "ams", Text: "the newest reload was refused: " + s.Config.LastError}}
	for i := range s.View.Units {
		s.View.Units[i].Phase, s.View.Units[i].Ever = steadycast.Out, false
	}
	site := &s.Sites[0]
	site.Units, site.Services = slices.Clone(site.Units), slices.Clone(site.Services)
	for i := range site.Units {
		u := &site.Units[i]
		u.Wanted, u.Since = false, time.Time{}
	}
	for i := range site.Services {
		svc := &site.Services[i]
		svc.Verdict.State, svc.Verdict.Good, svc.Verdict.Reason = steadycast.Recovering, 8, "passed ×3"
		svc.Since = s.At.Add(-5 * time.Second)
		svc.Next = "healthy at 20 passing rounds (8 now) and 5m0s since the last bad one (7s now)"
	}
	return s
}

func TestPages(t *testing.T) {
	wide := style{unicode: true, width: 100, command: func(s string) string { return s }}
	ascii := wide
	ascii.unicode = false
	color := wide
	color.color = true
	narrow := wide
	narrow.width = 60
	other := wide
	other.command = (&cli{socket: "/tmp/demo.sock", named: true}).command
	f := fleet(t)
	events := func(s style) string {
		var b strings.Builder
		for _, e := range sampleEvents() {
			b.WriteString(renderEvent(s, &e))
		}
		return b.String()
	}
	why := func(s style, site string, prefix int) string {
		u := steadycast.Unit{Site: site, Prefix: f.View.Prefixes[prefix].Prefix}
		return renderWhy(s, f.Why(u, sampleEvents()))
	}
	pages := map[string]string{
		"status-fleet":    renderStatus(wide, f.Status(), false),
		"status-ascii":    renderStatus(ascii, f.Status(), false),
		"status-color":    renderStatus(color, f.Status(), false),
		"status-narrow":   renderStatus(narrow, f.Status(), false),
		"status-calm":     renderStatus(wide, calm(t).Status(), false),
		"status-solo":     renderStatus(wide, solo(t).Status(), false),
		"status-starting": renderStatus(wide, starting(t).Status(), false),
		"status-socket":   renderStatus(other, f.Status(), false),
		"status-empty":    renderStatus(wide, (&api.Snapshot{Node: "n", Mode: "solo"}).Status(), false),
		"status-many":     renderStatus(wide, many(t).Status(), false),
		"sites":           renderSites(wide, page(f, f.SiteRows())),
		"peers":           renderPeers(wide, page(f, f.Peers(""))),
		"cuts":            renderCuts(wide, cutsOf(f, "fra")),
		"routes":          renderRoutes(wide, page(f, f.Routes("", "", netip.Prefix{}, false))),
		"checks":          renderChecks(wide, page(f, f.CheckRows("", ""))),
		"checks-fleet":    renderChecks(wide, page(f, watching(t).CheckRows("ams", ""))),
		"checks-ascii":    renderChecks(ascii, page(f, f.CheckRows("", ""))),
		"events":          events(wide),
		"why-held":        why(wide, "fra", 0),
		"why-unproven":    why(wide, "fra", 1),
		"why-drained":     why(wide, "gru", 0),
		"why-unknown":     why(wide, "iad", 0),
		"why-well-ascii":  why(ascii, "ams", 0),
		"why-starting":    renderWhy(wide, starting(t).Why(f.View.Units[0].Unit, nil)),
		"why-held-narrow": why(narrow, "fra", 0),
	}
	for name, page := range pages {
		t.Run(name, func(t *testing.T) {
			golden(t, "testdata/golden/"+name+".txt", page)
			width := 100
			if strings.HasSuffix(name, "narrow") {
				width = 60
			}
			for _, l := range strings.Split(stripColor(page), "\n") {
				if n := utf8.RuneCountInString(l); n > width && !strings.HasPrefix(name, "events") {
					t.Errorf("a line of %d columns: %s", n, l)
				}
				if l != strings.TrimRight(l, " ") {
					t.Errorf("blanks at the end of %q", l)
				}
				if strings.HasSuffix(name, "ascii") && strings.ContainsFunc(l, func(r rune) bool { return r > unicode.MaxASCII }) {
					t.Errorf("not ASCII: %s", l)
				}
			}
		})
	}
}

func page[T any](s *api.Snapshot, items []T) *api.Page[T] {
	return &api.Page[T]{At: s.At, Items: items}
}

// many is a fleet with more units than fit on a page.
func many(t testing.TB) *api.Snapshot {
	s := calm(t)
	var units []decide.UnitView
	unit := s.Sites[0].Units[0]
	s.Sites = s.Sites[:1]
	s.Sites[0].Units = nil
	for i := range 60 {
		u := unit
		u.Unit.Prefix = prefixOf(i)
		if i == 17 {
			u.Wanted = false
		}
		s.Sites[0].Units = append(s.Sites[0].Units, u)
		phase := steadycast.In
		if i == 17 {
			phase = steadycast.Out
		}
		units = append(units, decide.UnitView{Unit: u.Unit, Phase: phase, Ever: true})
	}
	s.View.Units = units
	s.View.Prefixes = nil
	return s
}

var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

func stripColor(s string) string { return escape.ReplaceAllString(s, "") }

// Colour adds nothing: without it the page says the same.
func TestColorIsOnlyPaint(t *testing.T) {
	s := style{unicode: true, width: 100, command: func(s string) string { return s }}
	plain := renderStatus(s, fleet(t).Status(), false)
	s.color = true
	if painted := renderStatus(s, fleet(t).Status(), false); stripColor(painted) != plain || painted == plain {
		t.Error("the painted page is not the plain one with paint")
	}
}

func TestColored(t *testing.T) {
	for _, tt := range []struct {
		mode          string
		tty           bool
		noColor, term string
		want          bool
	}{
		{"auto", true, "", "xterm", true},
		{"auto", false, "", "xterm", false},
		{"auto", true, "1", "xterm", false},
		{"auto", true, "", "dumb", false},
		{"always", false, "1", "dumb", true},
		{"never", true, "", "xterm", false},
	} {
		got, err := colored(tt.mode, tt.tty, func(k string) string { return map[string]string{"NO_COLOR": tt.noColor, "TERM": tt.term}[k] })
		if err != nil || got != tt.want {
			t.Errorf("%+v: %v %v", tt, got, err)
		}
	}
	if _, err := colored("pink", true, os.Getenv); err == nil {
		t.Error("pink is a colour mode")
	}
}

// Every state has a sign and an ASCII sign of its own width.
func TestEveryStateHasItsSign(t *testing.T) {
	for _, st := range api.Showings {
		sym, ok := symbols[st]
		if !ok || utf8.RuneCountInString(sym.sign) != 1 || len(sym.ascii) != 1 {
			t.Errorf("%s: %+v", st, sym)
		}
	}
}

// Whatever a probe's answer, a peer's text or a person's reason holds, it does
// not reach the terminal as a command.
func TestNothingDrivesTheTerminal(t *testing.T) {
	evil := "a\x1b]0;owned\x07b\x1b[2Jc\u202ed\u009be\xff\r\n"
	f := fleet(t)
	for i := range f.Sites {
		s := &f.Sites[i]
		s.SpeakerLost = ""
		for j := range s.Services {
			s.Services[j].Verdict.Reason = evil
			s.Services[j].Verdict.State = steadycast.Unhealthy
			s.Services[j].Why = &steadycast.Tree{Text: evil, Reason: evil}
		}
		for j := range s.Checks {
			s.Checks[j].Name, s.Checks[j].Kind, s.Checks[j].Result.Reason, s.Checks[j].Result.Outcome = evil, evil, evil, steadycast.Down
		}
		for j := range s.Actual.Peers {
			s.Actual.Peers[j].Name, s.Actual.Peers[j].LastError, s.Actual.Peers[j].State = evil, evil, evil
		}
		for j := range s.Actual.Sent {
			s.Actual.Sent[j].Peer = evil
		}
		for j := range s.Units {
			s.Units[j].Unproven, s.Units[j].Why = evil, []string{evil}
			s.Units[j].Last = &decide.Ruling{Unit: s.Units[j].Unit, Guards: []steadycast.GuardAnswer{{Guard: evil, Text: evil, Override: evil}}}
		}
	}
	for i := range f.View.Orders {
		f.View.Orders[i].Order.Reason, f.View.Orders[i].Order.Actor = evil, evil
	}
	for i := range f.View.Freezes {
		f.View.Freezes[i].Reason, f.View.Freezes[i].Actor = evil, evil
	}
	f.Node, f.Fleet, f.LedgerLost, f.Config.LastError, f.Alarms[0].Text, f.Alarms[0].Next = evil, evil, evil, evil, evil, evil
	st := f.Status()
	st.Summary.Sentence, st.Summary.Next, st.Summary.Mark = evil, evil, evil
	events := []steadycast.Event{{Kind: steadycast.EventKind(evil), Site: evil, From: evil, To: evil, Guard: evil, Actor: evil, Reason: evil, Peer: evil, Service: evil}}
	for _, unicodeToo := range []bool{true, false} {
		s := style{unicode: unicodeToo, width: 100, command: func(s string) string { return s }}
		text := renderStatus(s, st, true) + renderSites(s, page(f, f.SiteRows())) + renderPeers(s, page(f, f.Peers(""))) + renderCuts(s, cutsOf(f, "fra")) +
			renderRoutes(s, page(f, f.Routes("", "", netip.Prefix{}, false))) + renderChecks(s, page(f, f.CheckRows("", ""))) + renderEvent(s, &events[0])
		for _, u := range f.View.Units {
			text += renderWhy(s, f.Why(u.Unit, events))
		}
		text += (&cli{}).complaint(&api.Error{Message: evil, Override: evil, Next: evil})
		for _, r := range text {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Fatalf("%U reaches the terminal", r)
			}
		}
		if strings.Contains(text, "\n\r") || !strings.Contains(text, "owned") {
			t.Error("the text itself is lost")
		}
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if that is meant, run the test with -update and read the difference. Got:\n%s", file, got)
	}
}

// A site that is gone says so in the table of sites, before what a person ordered there.
func TestSitesGone(t *testing.T) {
	text := renderSites(style{width: 200}, &api.Page[api.SiteRow]{Items: []api.SiteRow{
		{Site: "ams"}, {Site: "fra", Gone: []string{"dns", "web"}, Order: "drain"}, {Site: "iad", Gone: []string{"web"}},
	}})
	lines := strings.Split(text, "\n")
	for i, want := range []string{"", "gone (dns, web); drain", "gone (web)"} {
		if got := strings.TrimSpace(lines[i+1]); !strings.HasSuffix(got, want) || strings.Contains(got, "gone") != (want != "") {
			t.Errorf("%q, want %q at its end", got, want)
		}
	}
}

// TestBreakerAt: the breaker trips above its limit, or at fewer with one cause.
func TestBreakerAt(t *testing.T) {
	for want, p := range map[string]decide.PrefixView{
		"at 3":                         {BreakerLimit: 2},
		"at 3, or at 2 with one cause": {BreakerLimit: 2, BreakerShared: 2},
	} {
		if got := breakerAt(&p); got != want {
			t.Errorf("%+v: %s; want %s", p, got, want)
		}
	}
}
