package lab

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// A line that could be misread is a mistake, with its line and what would be right.
func TestScenarioMistakes(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"tor has", "write a prefix"},
		{"tor has 192.0.2.53", "x.txt:3: netip.ParsePrefix"},
		{"tor has session tor", "unable to parse IP"},
		{"tor lacks 192.0.2.53/32 with colour red", `"with colour red": write with or without, one of community`},
		{"tor has 192.0.2.53/32 with med", "write with or without"},
		{"tor heard updates", "write how many"},
		{"tor heard many updates", `"many" is not a count`},
		{"tor heard -1 updates", `"-1" is not a count`},
		{"tor heard 1 noise", `"noise" cannot be heard`},
		{"tor sees 192.0.2.53/32", "neither a step nor a fact"},
		{"within 5 tor has 192.0.2.53/32", "within 5: not a time"},
		{"for -5s tor has 192.0.2.53/32", "for -5s: not a time"},
		{"within 5s", "write a duration and a fact"},
		{"within 5s kill tor", "neither a step nor a fact"},
		{"edge prints established: peers", "write NODE prints /REGEXP/"},
		{"edge prints /(/: peers", "missing closing )"},
		{"edge prints /x/:", "no command"},
		{"kill", "write a node"},
		{"signal NOPE tor", "signal NOPE: unknown"},
		{"start tor edge", "write one node"},
		{"do steadycast status", "write do NODE: COMMAND"},
		{"do edge:", "write do NODE: COMMAND"},
		{"exit six edge: false", "not an exit code"},
		{"do edge: echo 'x", "a quote is open"},
		{"mark here", "mark stands alone"},
		{"limit", "one duration"},
		{"2 of tor has 192.0.2.53/32", "write at least two nodes"},
		{"2 of tor edge 192.0.2.53/32", "write at least two nodes, then one of has, lacks"},
		{"2 of tor edge has 192.0.2.53", "netip.ParsePrefix"},
		{"two of tor edge has 192.0.2.53/32", "neither a step nor a fact"},
		{"at least tor has 192.0.2.53/32", "write at least N of"},
		{"at most 2 of tor edge has 192.0.2.53/32", "neither a step nor a fact"},
		{"always 1 of keep 192.0.2.53/32", "write always N of"},
		{"always 2 of tor edge has 192.0.2.53/32", "write always N of"},
		{"always 0 of tor edge keep 192.0.2.53/32", "write always N of"},
		{"always 1 of tor edge keep tor", "netip.ParsePrefix"},
		{"leader is the one of tor edge prints /x/: true", "write at least two nodes, then that"},
		{"leader is the one of tor that prints /x/: true", "write at least two nodes"},
		{"leader is the one of tor edge that is", "neither a step nor a fact"},
	} {
		_, err := parseScenario("x.txt", "# Title.\non single-frr\n"+c.line+"\nmark\n")
		if err == nil || !strings.HasPrefix(err.Error(), "x.txt:3: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want line 3 and %s", c.line, err, c.want)
		}
	}
	for _, text := range []string{"", "# Title.\non single-frr\n", "# Title.\nmark\n", "on single-frr\nmark\n"} {
		if _, err := parseScenario("x.txt", text); err == nil {
			t.Errorf("%q passed", text)
		}
	}
}

// A player that is content with everything would prove nothing: each kind of
// line fails where it should, and says what was seen instead.
func TestPlayFails(t *testing.T) {
	topo, err := Load("containerlab/single-bird.clab.yml")
	if err != nil {
		t.Fatal(err)
	}
	need(t, topo)
	topo.node("edge").Cmd, topo.node("service").Cmd = "sleep infinity", "sleep infinity"
	l, err := Up(t.Context(), topo, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Down()
	for _, c := range []struct{ line, want string }{
		{"within 200ms tor has 192.0.2.53/32", "actual: no path"},
		{"for 200ms tor has 192.0.2.53/32", "actual: no path"},
		{"within 2s tor has session 10.1.0.2", "actual: not established"},
		{"within 2s tor has session 10.9.9.9", "actual: no such neighbour"},
		{"within 200ms edge has 192.0.2.53/32", "is no router"},
		{"tor heard 1 updates", "actual: 0"},
		{"tor heard some opens", "actual: 0"},
		{"tor heard only guarded segments", "0 segments"},
		{"edge heard 0 updates", "nothing is captured there"},
		{"do edge: false", "actual: exit 1"},
		{"exit 1 edge: true", "actual: exit 0"},
		{"do edge: no-such-program", "executable file not found"},
		{"do nobody: true", `no node "nobody"`},
		{"edge prints /^b$/: echo abc", "actual: exit 0: abc"},
		{"kill edge speaker", `no process that plays "speaker"`},
		{"start edge", "already running"},
		{"always 1 of tor tor keep 192.0.2.53/32", "actual: at the fewest 0 (at the mark)"},
		{"always 1 of tor edge keep 192.0.2.53/32", "nothing is captured there"},
		{"1 of tor edge prints /x/: echo x", "actual: 2 (tor edge): tor: exit 0: x · edge: exit 0: x"},
		{"2 of tor edge prints /^tor/: hostname", "actual: 1 (tor)"},
		{"at least 2 of tor edge prints /^tor/: hostname", "actual: 1 (tor)"},
		{"it is the one of tor edge that prints /./: hostname", "actual: 2 (tor edge)"},
		{"it is the one of tor edge that prints /^edge/: hostname\nit prints /^tor/: hostname", "actual: exit 0: edge"},
		{"it is the one of tor edge that prints /^edge/: hostname\nexit 1 it: true", "actual: exit 0"},
		{"limit 300ms\nfor 5s tor lacks 192.0.2.53/32", "the scenario's time is over"},
		{"limit 300ms\ndo edge: sleep 60", "deadline exceeded"},
	} {
		s, err := parseScenario("x.txt", "# Title.\non single-bird\nwithin 5s tor lacks 192.0.2.53/32\n"+c.line+"\n")
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := Play(t.Context(), l, s, &out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.line, err, c.want)
		} else if !strings.Contains(out.String(), "FAIL") || !strings.Contains(out.String(), "last words of tor") {
			t.Errorf("%s: the report does not explain itself:\n%s", c.line, &out)
		}
	}
}

// However short the moment at which too few have a prefix, it is found.
func TestFewest(t *testing.T) {
	prefix, other := netip.MustParsePrefix("192.0.2.53/32"), netip.MustParsePrefix("192.0.2.54/32")
	marked := time.Now()
	at := func(ms int, node string, h Heard) told {
		h.At = marked.Add(time.Duration(ms) * time.Millisecond)
		return told{node, h}
	}
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	gets, loses := Heard{From: one, Announced: []netip.Prefix{prefix}}, Heard{From: one, Withdrawn: []netip.Prefix{prefix}}
	too, noMore := Heard{From: two, Announced: []netip.Prefix{prefix}}, Heard{From: two, Withdrawn: []netip.Prefix{prefix}}
	begun := []told{at(-300, "a", gets), at(-200, "b", gets), at(-100, "c", gets)}
	for _, c := range []struct {
		name string
		then []told
		want int
		when string
	}{
		{"nothing", nil, 3, "at the mark"},
		{"before the mark", []told{at(-50, "a", loses)}, 2, "at the mark"},
		{"a change of attributes", []told{at(5, "a", gets)}, 3, "at the mark"},
		{"another prefix", []told{at(5, "a", Heard{Withdrawn: []netip.Prefix{other}})}, 3, "at the mark"},
		{"one leaves", []told{at(5, "a", loses)}, 2, "+5ms a"},
		{"twice the same", []told{at(5, "a", loses), at(6, "a", loses)}, 2, "+5ms a"},
		{"for a moment", []told{at(7, "b", gets), at(5, "a", loses), at(8, "a", gets), at(6, "b", loses)}, 1, "+6ms b"},
		{"one after the other", []told{at(5, "a", loses), at(6, "a", gets), at(7, "b", loses), at(8, "b", gets)}, 2, "+5ms a"},
		{"a new session", []told{at(5, "a", Heard{From: one, Kind: bgpOpen}), at(6, "a", gets)}, 2, "+5ms a"},
		{"from another neighbour first", []told{at(5, "a", too), at(6, "a", loses)}, 3, "at the mark"},
		{"from another neighbour too late", []told{at(5, "a", loses), at(6, "a", too)}, 2, "+5ms a"},
		{"from both and from neither", []told{at(5, "a", too), at(6, "a", noMore), at(7, "a", loses)}, 2, "+7ms a"},
		{"another neighbour's new session", []told{at(5, "a", Heard{From: two, Kind: bgpOpen})}, 3, "at the mark"},
	} {
		if n, when := fewest(append(slices.Clone(begun), c.then...), prefix, marked); n != c.want || when != c.when {
			t.Errorf("%s: at the fewest %d (%s), want %d (%s)", c.name, n, when, c.want, c.when)
		}
	}
}
