package dnsfallback

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// conditioned has a name whose members take part by conditions.
func conditioned(t testing.TB, set ...Condition) *Policy {
	t.Helper()
	c := Choice{Service: "web", Methods: []string{"all"}, Members: []Member{{Name: "always", Addresses: at(9)}}}
	for i, x := range set {
		c.Members = append(c.Members, Member{Name: x.Name, Addresses: at(i + 1), When: x.Name})
	}
	p, ps := NewPolicy(1, Placement{
		Conditions: set, SiteHealth: SiteHealth{WAN: "uplink", LAN: "fabric", Access: "web", Internet: "world"},
		Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Names: []Steered{{Name: "www", Choice: c}}}},
	}, Known{Sites: []string{"ist", "ank"}, Services: []string{"web", "uplink", "fabric", "world"}})
	for _, q := range ps {
		t.Error(q)
	}
	if p == nil {
		t.FailNow()
	}
	return p
}

// siteState is what words say: "uplink@ist down, world@ank suspect, ist out, condition/x down".
func siteState(words string) FleetState {
	s := FleetState{Sites: map[string]SiteState{}, Members: map[string]Forced{}}
	for _, site := range []string{"ist", "ank"} {
		s.Sites[site] = SiteState{Services: map[string]ServiceState{}}
	}
	for w := range strings.SplitSeq(words, ",") {
		f := strings.Fields(w)
		if len(f) == 0 {
			continue
		}
		to := map[string]Health{"up": Up, "suspect": Suspect, "down": Down, "out": Down}[f[len(f)-1]]
		service, site, ok := strings.Cut(f[0], "@")
		switch {
		case strings.Contains(f[0], "/"):
			s.Members[f[0]] = Forced{To: to, Who: "ann", Why: "sure"}
		case !ok:
			x := s.Sites[f[0]]
			x.Forced = Forced{To: to, Who: "ann", Why: "works"}
			s.Sites[f[0]] = x
		case f[1] == "judged":
			s.Sites[site].Services[service] = ServiceState{V4: to, V6: to, Why: f[2], Judged: true}
		case f[1] == "out":
			s.Sites[site].Services[service] = ServiceState{V4: Up, V6: Up, Forced: Forced{To: Down, Who: "ann", Why: "works"}}
		default:
			s.Sites[site].Services[service] = ServiceState{V4: to, V6: to, Why: f[1]}
		}
	}
	return s
}

// TestScenarios: in which state a condition holds.
func TestScenarios(t *testing.T) {
	for _, c := range []struct {
		when, state string
		want        bool
	}{
		{"web@ist", "", true}, // what is not known is not down
		{"web@ist", "web@ist up", true},
		{"web@ist", "web@ist suspect", true}, // it keeps until a verdict is reached
		{"web@ist", "web@ist down", false},
		{"web@ist", "web@ank down", true},
		{"not web@ist", "", false},
		{"not web@ist", "web@ist suspect", false},
		{"not web@ist", "web@ist down", true},
		{"wan@ist", "uplink@ist down", false},
		{"access@ist", "web@ist down", false},
		{"internet@ist and lan@ist", "world@ist down", false},
		{"internet@ist or lan@ist", "world@ist down", true},
		{"internet@ist or lan@ist", "world@ist down, fabric@ist down", false},
		// and binds closer than or, not closer than both.
		{"not wan@ist and lan@ist or maintenance@ank", "uplink@ist down", true},
		{"not wan@ist and lan@ist or maintenance@ank", "uplink@ist down, fabric@ist down", false},
		{"not wan@ist and lan@ist or maintenance@ank", "ank out", true},
		{"not (wan@ist and lan@ist)", "fabric@ist down", true},
		{"NOT (wan@ist AND (lan@ist OR lan@ank))", "fabric@ist down", false},
		{"not not web@ist", "", true},
		{"maintenance@ist", "", false},
		{"maintenance@ist", "ist out", true},
		{"maintenance@ist", "web@ist out, uplink@ist out", true},
		{"maintenance@ist", "web@ist out, uplink@ist up", false},
		{"maintenance@ist", "web@ist out, uplink@ist judged up", true}, // all that it announces
		{"maintenance@ist", "uplink@ist judged up", false},
		{"wan@ist", "ist out, uplink@ist judged up", true}, // a person's word is not about the uplink
		{"wan@ist", "ist up, uplink@ist judged down", false},
		{"web@ist", "ist out", false},
		{"web@ist", "ist up, web@ist down", true}, // a person has said so
		{"", "", false},
		{"", "condition/this up", true},
		{"web@ist", "condition/this down", false},
		{"web@ist", "web@ist down, condition/this up", true},
	} {
		p := conditioned(t, Condition{"this", c.when})
		table := p.Table(1, nil, siteState(c.state))
		got, _, _ := newAsker(t, table).once("www.example.com", "A", "")
		if in := strings.Contains(got, "192.0.2.1"); in != c.want {
			t.Errorf("%q in %q: holds %t; want %t", c.when, c.state, in, c.want)
		}
	}
}

// TestConditionOfConditions: one may rest on others, which a person may switch.
func TestConditionOfConditions(t *testing.T) {
	p := conditioned(t, Condition{"both", "east and not drill"}, Condition{"east", "wan@ank"}, Condition{"drill", ""})
	for state, want := range map[string]string{
		"":                                       "192.0.2.1 192.0.2.2 192.0.2.9",
		"uplink@ank down":                        "192.0.2.9",
		"condition/drill up":                     "192.0.2.2 192.0.2.3 192.0.2.9",
		"uplink@ank down, condition/east up":     "192.0.2.1 192.0.2.2 192.0.2.9",
		"condition/east down, condition/both up": "192.0.2.1 192.0.2.9",
	} {
		if got, _, _ := newAsker(t, p.Table(1, nil, siteState(state))).once("www.example.com", "A", ""); got != want {
			t.Errorf("%q: got %s; want %s", state, got, want)
		}
	}
	e, err := p.Table(1, nil, siteState("condition/east down")).Explain("www.example.com", "A", netip.MustParsePrefix("10.0.0.1/32"))
	all := strings.Join(e.Branch, "\n")
	for _, want := range []string{
		"both takes part only while both holds: east and not drill",
		"east takes part only while east holds: switched down by ann: sure",
		"drill takes part only while drill holds: nobody has switched it",
	} {
		if err != nil || !strings.Contains(all, want) {
			t.Errorf("%v, no %q in\n%s", err, want, all)
		}
	}
}

// TestScenarioLowersTTL: what rests on a service that is suspect may change soon.
func TestScenarioLowersTTL(t *testing.T) {
	p := conditioned(t, Condition{"this", "not other"}, Condition{"other", "wan@ist"})
	for state, want := range map[string]uint32{"": 300, "uplink@ist suspect": 30, "uplink@ist down": 300} {
		_, _, m := newAsker(t, p.Table(1, nil, siteState(state))).once("www.example.com", "A", "")
		if got := m.Answer[0].Header().Ttl; got != want {
			t.Errorf("%q: TTL %d; want %d", state, got, want)
		}
	}
}

// TestSiteWords: a site's health is the first dimension that it lacks.
func TestSiteWords(t *testing.T) {
	p := conditioned(t)
	for state, want := range map[string]string{
		"":                                "ok ",
		"uplink@ist suspect":              "ok ",
		"uplink@ist down":                 "no_wan uplink: down",
		"uplink@ist down, world@ist down": "no_wan uplink: down",
		"fabric@ist down, web@ist down":   "no_lan fabric: down",
		"web@ist down, world@ist down":    "no_access web: down",
		"world@ist down":                  "no_internet world: down",
		"ist out, uplink@ist down":        "maintenance ann: works",
		"web@ist out, uplink@ist out":     "maintenance ann: works",
		"ist up, uplink@ist down":         "ok ",
		"uplink@ank down":                 "ok ",
		"web@ist out":                     "maintenance ann: works",
		"web@ist out, uplink@ist up":      "no_access web is down",

		"web@ist out, uplink@ist judged down": "maintenance ann: works",
		"ist up, uplink@ist judged down":      "no_wan uplink: down",
	} {
		words := p.Table(1, nil, siteState(state)).SiteWords()
		if len(words) != 2 || words[1].Site != "ist" || words[1].Word+" "+words[1].Why != want {
			t.Errorf("%q: %+v; want %s", state, words, want)
		}
	}
	bare, _ := NewPolicy(1, Placement{Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}}}}, Known{})
	for state, want := range map[string]string{"web@ist down": "no_access", "web@ist down, uplink@ist up": "ok", "web@ist down, uplink@ist judged up": "no_access", "uplink@ist judged down": "ok", "": "ok"} {
		if got := bare.Table(1, nil, siteState(state)).SiteWords()[1].Word; got != want {
			t.Errorf("without dimensions, %q: %s; want %s", state, got, want)
		}
	}
}

// TestConditionProblems gives each mistake its sentence.
func TestConditionProblems(t *testing.T) {
	known := Known{Sites: []string{"ist", "ank"}, Services: []string{"web"}}
	for _, c := range []struct {
		name string
		set  []Condition
		want string
	}{
		{"nothing before @", []Condition{{"a", "@ist"}}, `conditions[0].when: "@ist": "" is not a service of this table, nor a dimension that site_health: tells of; known: web, maintenance`},
		{"no service", []Condition{{"a", "wan@ist"}}, `conditions[0].when: "wan@ist": "wan" is not a service of this table, nor a dimension that site_health: tells of; known: web, maintenance`},
		{"no site", []Condition{{"a", "web@fra"}}, `conditions[0].when: "web@fra": "fra" is not a site of this table; known: ist, ank`},
		{"no condition", []Condition{{"a", "web"}}, `conditions[0].when: "web" is no condition; write SERVICE@SITE for the health of a service`},
		{"the end", []Condition{{"a", "web@ist and"}}, `conditions[0].when: ends where SERVICE@SITE, or a condition, must be`},
		{"two in a row", []Condition{{"a", "web@ist web@ank"}}, `conditions[0].when: "web@ank" is where and, or, or the end must be`},
		{"two words", []Condition{{"a", "web@ist and or web@ank"}}, `conditions[0].when: "or" is where SERVICE@SITE, or a condition, must be`},
		{"open", []Condition{{"a", "(web@ist"}}, `conditions[0].when: a parenthesis is not closed`},
		{"closed", []Condition{{"a", "web@ist)"}}, `conditions[0].when: ")" is where and, or, or the end must be`},
		{"long", []Condition{{"a", strings.Repeat("not ", 200) + "web@ist"}}, `conditions[0].when: has 201 words; at most 200`},
		{"itself", []Condition{{"a", "a"}}, `conditions[0].when: leads back to itself: a → a`},
		{"a ring", []Condition{{"a", "web@ist or b"}, {"b", "not a"}}, "conditions[0].when: leads back to itself: a → b → a\nconditions[1].when: leads back to itself: b → a → b"},
		{"twice", []Condition{{"a", ""}, {"a", ""}}, `conditions[1].name: "a" is conditions[0] already`},
		{"a word", []Condition{{"or", ""}}, `conditions[0].name: "or" is not a name; allowed: a lower-case letter, then up to 62 of a-z 0-9 _ -, but no and, or, not`},
	} {
		_, ps := NewPolicy(1, Placement{Conditions: c.set, Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}}}}, known)
		if got := strings.Join(texts(ps), "\n"); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	_, ps := NewPolicy(1, Placement{SiteHealth: SiteHealth{WAN: "uplink"}, Pools: []Pool{{Name: "condition", Choice: Choice{Members: []Member{{Name: "x", Addresses: at(1), When: "drill"}}}}},
		Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}}}}, known)
	want := "pools[0].name: \"condition\" is what people switch conditions by; choose another name\nsite_health.wan: \"uplink\" is not a service of this table; known: web"
	if got := strings.Join(texts(ps), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestConditionsByTruthTable holds what is read to a second evaluator that takes the
// text apart from its end, over all states of four services.
func TestConditionsByTruthTable(t *testing.T) {
	atoms := []string{"web@ist", "uplink@ist", "fabric@ist", "world@ist"}
	rapid.Check(t, func(t *rapid.T) {
		text := drawTerm(t, atoms, 4)
		p, ps := NewPolicy(1, Placement{Conditions: []Condition{{"this", text}}, Zones: []Zone{{Name: "example.com", NS: []string{"ns.example.net."}}}}, Known{})
		if len(ps) > 0 {
			t.Fatal(text, ps)
		}
		for bits := range 1 << len(atoms) {
			var words []string
			truth := map[string]bool{}
			for i, a := range atoms {
				truth[a] = bits>>i&1 == 1
				words = append(words, a+" "+map[bool]string{true: "up", false: "down"}[truth[a]])
			}
			s := siteState(strings.Join(words, ", "))
			if got, want := p.hold(&s)[0].holds, naive(text, truth); got != want {
				t.Fatalf("%s with %v: %t; want %t", text, truth, got, want)
			}
		}
	})
}

func drawTerm(t *rapid.T, atoms []string, depth int) string {
	if depth == 0 {
		return rapid.SampledFrom(atoms).Draw(t, "atom")
	}
	a := drawTerm(t, atoms, depth-1)
	switch rapid.SampledFrom([]string{"", "not", "and", "or", "()"}).Draw(t, "op") {
	case "not":
		return "not (" + a + ")"
	case "and":
		return a + " and " + drawTerm(t, atoms, depth-1)
	case "or":
		return a + " or " + drawTerm(t, atoms, depth-1)
	case "()":
		return "(" + a + ")"
	}
	return a
}

// naive cuts at the loosest word outside of parentheses.
func naive(s string, truth map[string]bool) bool {
	s = strings.TrimSpace(s)
	for _, word := range []string{" or ", " and "} {
		depth := 0
		for i := range len(s) {
			switch {
			case s[i] == '(':
				depth++
			case s[i] == ')':
				depth--
			case depth == 0 && strings.HasPrefix(s[i:], word):
				a, b := naive(s[:i], truth), naive(s[i+len(word):], truth)
				return word == " or " && (a || b) || a && b
			}
		}
	}
	if rest, ok := strings.CutPrefix(s, "not "); ok {
		return !naive(rest, truth)
	}
	if strings.HasPrefix(s, "(") {
		return naive(s[1:len(s)-1], truth)
	}
	is, ok := truth[s]
	if !ok {
		panic(fmt.Sprintf("%q", s))
	}
	return is
}
