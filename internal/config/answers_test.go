package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadycast/steadycast/dnsfallback"
)

// TestExamplesAnswer asks the DNS examples what testdata/answers says: by which
// state, who asks, and everything that one client is given in many askings.
// With -update it writes what is given.
func TestExamplesAnswer(t *testing.T) {
	files, err := filepath.Glob("testdata/answers/*.txt")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			fleet, ps := LoadTable(filepath.Join(configs, "examples", name+".yaml"))
			if err := ps.Err(); err != nil {
				t.Fatal(err)
			}
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, fleet, string(src))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(src) {
				t.Errorf("got:\n%s\nwant:\n%s", got, src)
			}
		})
	}
}

// play runs the words of one file and writes them again with the answers.
func play(t *testing.T, fleet Fleet, src string) string {
	t.Helper()
	policy, problems := dnsfallback.NewPolicy(1, fleet.Placement, dnsfallback.Known{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var maps *dnsfallback.Maps
	state := dnsfallback.FleetState{}
	lines := strings.Split(strings.TrimSuffix(src, "\n"), "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		l := lines[i]
		out = append(out, l)
		w := strings.Fields(l)
		switch {
		case len(w) == 0 || w[0] == "#":
		case w[0] == "map":
			var rows []string
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  ") {
				i++
				out = append(out, lines[i])
				rows = append(rows, lines[i])
			}
			at := filepath.Join(t.TempDir(), "map")
			if err := os.WriteFile(at, []byte(strings.Join(rows, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			var ps []dnsfallback.Problem
			if maps, ps = dnsfallback.LoadMaps(maps, []dnsfallback.MapFile{{Name: w[1], File: at}}); len(ps) > 0 {
				t.Fatal(ps)
			}
		case w[0] == "state":
			state = stateOf(t, strings.TrimPrefix(l, "state"))
		case w[0] == "sites": // how each is, in one word
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  ") {
				i++
			}
			for _, x := range policy.Table(1, maps, state).SiteWords() {
				out = append(out, "  "+x.Site+" "+x.Word)
			}
		case w[0] == "?":
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  ") {
				i++
			}
			table := policy.Table(1, maps, state)
			client := netip.MustParseAddr(w[3])
			var all []string
			for range 4000 { // of shares that are drawn, the least here is seen but once in half a billion runs
				e, err := table.Explain(w[1], w[2], netip.PrefixFrom(client, client.BitLen()))
				if err != nil {
					t.Fatal(err)
				}
				if given := "  " + strings.Join(e.Records, "; "); !slices.Contains(all, given) {
					all = append(all, given)
				}
			}
			slices.Sort(all)
			out = append(out, all...)
		default:
			t.Fatalf("%q is not understood", l)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// stateOf reads `web at lvs down; lvs forced down; NAME/MEMBER forced up; drill holds`.
func stateOf(t *testing.T, words string) dnsfallback.FleetState {
	t.Helper()
	s := dnsfallback.FleetState{Sites: map[string]dnsfallback.SiteState{}, Members: map[string]dnsfallback.Forced{}}
	health := map[string]dnsfallback.Health{"up": dnsfallback.Up, "suspect": dnsfallback.Suspect, "down": dnsfallback.Down}
	for _, part := range strings.Split(words, ";") {
		w := strings.Fields(part)
		switch {
		case len(w) == 0:
		case len(w) == 4 && w[1] == "at":
			x := s.Sites[w[2]]
			if x.Services == nil {
				x.Services = map[string]dnsfallback.ServiceState{}
			}
			x.Services[w[0]] = dnsfallback.ServiceState{V4: health[w[3]], V6: health[w[3]]}
			s.Sites[w[2]] = x
		case len(w) == 3 && w[1] == "forced" && strings.Contains(w[0], "/"):
			s.Members[w[0]] = dnsfallback.Forced{To: health[w[2]]}
		case len(w) == 3 && w[1] == "forced":
			x := s.Sites[w[0]]
			x.Forced.To = health[w[2]]
			s.Sites[w[0]] = x
		case len(w) == 2 && w[1] == "holds":
			s.Members["condition/"+w[0]] = dnsfallback.Forced{To: dnsfallback.Up}
		default:
			t.Fatalf("%q is not understood", part)
		}
	}
	return s
}
