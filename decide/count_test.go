package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"pgregory.net/rapid"
)

// heard is one observation as it reached the site.
type heard struct {
	at, from Now
	o        steadycast.Observation
}

// naive counts from the full history, each time from the beginning, by the
// words of the protocol and with nothing remembered between.
type naive struct {
	table   Table
	site    string
	solo    bool
	window  Now
	history []heard
}

type naiveCount struct {
	voices, bad, good int
	since             Now // when a quorum had begun to fail
	enough            bool
}

func (n *naive) at(now Now) naiveCount {
	cut := 0 // observations before it no longer count in a run
	well, deaf, until := false, false, Now(0)
	for i := range n.history {
		at := n.history[i].at
		deaf = deaf || well && !n.hears(i, at)
		if deaf || at < until || !n.count(i, at, cut).enough { // before it is heard
			cut = i
		}
		if n.hears(i+1, at) {
			if deaf {
				deaf, until = false, at+time.Minute
			}
			well = true
		}
		if deaf || at < until || !n.count(i+1, at, cut).enough {
			cut = i + 1
		}
	}
	return n.count(len(n.history), now, cut)
}

// hears: at least half of the others that ever spoke were heard lately; nobody
// did if there are none.
func (n *naive) hears(k int, now Now) bool {
	ever, lately := 0, 0
	if !n.solo {
		for _, v := range n.table.Vantages(n.site) {
			if is := n.accepted(v, k); len(is) > 0 {
				ever++
				if now-n.history[is[len(is)-1]].from <= n.window {
					lately++
				}
			}
		}
	}
	return ever > 0 && 2*lately >= ever
}

// accepted are the indexes of v's observations among the first k that count.
func (n *naive) accepted(v string, k int) []int {
	var is []int
	for i, h := range n.history[:k] {
		if h.o.Vantage != v || h.at-h.from > n.window {
			continue
		}
		if len(is) > 0 {
			last := n.history[is[len(is)-1]]
			stale := h.at-last.from > n.window
			if h.from < last.from || !stale && h.o.Seq <= last.o.Seq {
				continue
			}
		}
		is = append(is, i)
	}
	return is
}

// run is how many of v's newest accepted observations since cut have the outcome
// of the newest, each heard while the one before was fresh.
func (n *naive) run(v string, k, cut int) (length int, began Now, newest steadycast.Result, from Now, any bool) {
	is := n.accepted(v, k)
	if len(is) == 0 {
		return 0, 0, newest, 0, false
	}
	last := n.history[is[len(is)-1]]
	if last.o.Ineligible != "" {
		return 0, 0, newest, 0, false
	}
	for j := len(is) - 1; j >= 0 && is[j] >= cut; j-- {
		h := n.history[is[j]]
		if h.o.Ineligible != "" || h.o.Result.Outcome != last.o.Result.Outcome || j < len(is)-1 && n.history[is[j+1]].at-h.from > n.window {
			break
		}
		length, began = length+1, h.at
	}
	return length, began, last.o.Result, last.from, true
}

func (n *naive) count(k int, now Now, cut int) naiveCount {
	groupOf := func(v string) string {
		if p, ok := n.table.Place(v); ok && p.Group != "" {
			return p.Group
		}
		return v
	}
	names := []string{n.site}
	others := map[string]bool{}
	if !n.solo {
		for _, v := range n.table.Vantages(n.site) {
			names = append(names, v)
			if groupOf(v) != groupOf(n.site) {
				others[groupOf(v)] = true
			}
		}
	}
	ownVotes := n.solo || len(others) < 4
	type say struct {
		outcome   steadycast.Outcome
		hard      bool
		bad, good int
		began     Now
	}
	assigned := map[string]bool{}
	fresh := map[string][]say{}
	var own *say
	for _, v := range names {
		if v == n.site && !ownVotes {
			continue
		}
		assigned[groupOf(v)] = true
		length, began, res, from, any := n.run(v, k, cut)
		if !any || now-from > n.window {
			continue
		}
		s := say{outcome: res.Outcome, hard: res.Class == steadycast.Hard, began: began}
		switch res.Outcome {
		case steadycast.Down:
			s.bad = length
		case steadycast.Up:
			s.good = length
		}
		fresh[groupOf(v)] = append(fresh[groupOf(v)], s)
		if v == n.site {
			own = &s
		}
	}
	c := naiveCount{voices: len(fresh)}
	var bad, good []int
	var begins []Now
	down, up := 0, 0
	for _, members := range fresh {
		known := slices.DeleteFunc(slices.Clone(members), func(s say) bool { return s.outcome == steadycast.Unknown })
		b, g := 0, 0
		if len(known) > 0 {
			b = slices.MinFunc(known, func(x, y say) int { return x.bad - y.bad }).bad
			g = slices.MinFunc(known, func(x, y say) int { return x.good - y.good }).good
			allDown := !slices.ContainsFunc(known, func(s say) bool { return s.outcome != steadycast.Down })
			allUp := !slices.ContainsFunc(known, func(s say) bool { return s.outcome != steadycast.Up })
			if allDown {
				down++
			}
			if allUp {
				up++
			}
		}
		bad, good = append(bad, b), append(good, g)
		if b > 0 { // the group has failed since the last of its members began to
			begins = append(begins, slices.MaxFunc(known, func(x, y say) int { return int(x.began - y.began) }).began)
		}
	}
	switch {
	case n.solo:
		c.enough = own != nil && own.outcome != steadycast.Unknown
	case 10*c.voices >= 6*len(assigned) && c.voices >= 3:
		c.enough = true
	case c.voices == 2 && ownVotes && own != nil:
		c.enough = down == 2 && own.hard || up == 2
	}
	if !c.enough {
		return c
	}
	// A quorum has failed g times in a row: the greatest g for which more than
	// half of the voices have.
	greatest := func(runs []int) int {
		for g := slices.Max(runs); g > 0; g-- {
			have := 0
			for _, r := range runs {
				if r >= g {
					have++
				}
			}
			if 2*have > len(runs) {
				return g
			}
		}
		return 0
	}
	c.bad, c.good = greatest(bad), greatest(good)
	if c.bad > 0 {
		slices.Sort(begins)
		c.since = begins[c.voices/2]
	}
	return c
}

// countingSite is a random site with its table.
func countingSite(t *rapid.T) (*Site, *naive) {
	solo := rapid.Bool().Draw(t, "solo")
	table := Table{
		Sites:    []Place{{Name: "own"}},
		Services: []Service{{Name: "web", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}},
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "others") {
		p := Place{Name: fmt.Sprintf("v%d", i)}
		if rapid.IntRange(0, 3).Draw(t, "grouped") == 0 {
			p.Group = rapid.SampledFrom([]string{"g1", "g2", "own"}).Draw(t, "group")
		}
		table.Sites = append(table.Sites, p)
	}
	s := NewSite(SiteOptions{Name: "own", Solo: solo, Table: table, Off: -1})
	return s, &naive{table: table.WithDefaults(), site: "own", solo: solo, window: 4 * time.Second}
}

func randomResult(t *rapid.T) steadycast.Result {
	r := steadycast.Result{Outcome: steadycast.Outcome(rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 1}).Draw(t, "outcome"))}
	if r.Outcome == steadycast.Down {
		r.Class, r.Reason = steadycast.Soft, "timeout"
		if rapid.Bool().Draw(t, "hard") {
			r.Class, r.Reason = steadycast.Hard, "connection refused"
		}
	}
	return r
}

func TestCountLikeNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := countingSite(t)
		var now Now
		seq := uint64(10)
		for range rapid.IntRange(5, 40).Draw(t, "events") {
			now += Now(rapid.SampledFrom([]int{0, 0, 0, 200, 500, 900, 1600, 4100, 59_000}).Draw(t, "wait")) * time.Millisecond
			seq += rapid.SampledFrom([]uint64{0, 1, 1, 1}).Draw(t, "seq")
			h := heard{at: now, from: now - Now(rapid.SampledFrom([]int{0, 0, 0, 800, 3900, 4001}).Draw(t, "age"))*time.Millisecond}
			h.o = steadycast.Observation{
				Subject: "own", Service: "web", Seq: seq, Result: randomResult(t),
				Vantage: rapid.SampledFrom(n.table.Sites).Draw(t, "vantage").Name,
			}
			if rapid.IntRange(0, 9).Draw(t, "late") == 0 {
				h.o.Seq -= 5
			}
			if rapid.IntRange(0, 9).Draw(t, "controls") == 0 {
				h.o.Ineligible = "its negative control passes"
			}
			n.history = append(n.history, h)
			s.Step(now, Observed{Observation: h.o, From: h.from})
			if rapid.IntRange(0, 3).Draw(t, "chorus") == 0 { // everybody but one
				for _, p := range n.table.Sites {
					if p.Name != h.o.Vantage {
						seq++
						c := heard{at: now, from: now, o: h.o}
						c.o.Ineligible = ""
						c.o.Vantage, c.o.Seq = p.Name, seq
						n.history = append(n.history, c)
						s.Step(now, Observed{Observation: c.o, From: c.from})
					}
				}
			}
			got, want := s.services[0].tally, n.at(now)
			if got.bad != want.bad || got.good != want.good || got.enough != want.enough || got.enough && got.voices != want.voices || got.bad > 0 && got.since != want.since {
				t.Fatalf("after %d at %v: counted %+v, want %+v", len(n.history), now, got, want)
			}
		}
	})
}

// TestCountIgnoresOrder: what each voice says in its own order makes the same
// count in whatever order the voices speak.
func TestCountIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, n := countingSite(t)
		b := NewSite(a.o)
		var said [][]steadycast.Observation
		for _, p := range n.table.Sites {
			os := []steadycast.Observation{{Result: steadycast.Result{Outcome: steadycast.Up}}}
			for range rapid.IntRange(0, 5).Draw(t, "rounds") {
				os = append(os, steadycast.Observation{Result: randomResult(t)})
			}
			for i := range os {
				os[i].Subject, os[i].Service, os[i].Vantage, os[i].Seq = "own", "web", p.Name, uint64(i)+1
			}
			said = append(said, os)
		}
		enough := true
		speak := func(s *Site, label string) {
			for _, os := range said { // first everybody is heard once
				s.Step(0, Observed{Observation: os[0]})
			}
			next := make([]int, len(said))
			left := 0
			for i := range said {
				next[i] = 1
				left += len(said[i]) - 1
			}
			for ; left > 0; left-- {
				var who []int
				for i := range said {
					if next[i] < len(said[i]) {
						who = append(who, i)
					}
				}
				i := rapid.SampledFrom(who).Draw(t, label)
				s.Step(0, Observed{Observation: said[i][next[i]]})
				enough = enough && s.services[0].tally.enough
				next[i]++
			}
		}
		speak(a, "a")
		speak(b, "b")
		if enough && fmt.Sprint(a.services[0].tally) != fmt.Sprint(b.services[0].tally) {
			t.Fatalf("%+v and %+v", a.services[0].tally, b.services[0].tally)
		}
	})
}

// TestVerdictIgnoresOrder: from a healthy start, voices that keep to their
// opinion lead to the same verdict in whatever order they speak.
func TestVerdictIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, n := countingSite(t)
		b := NewSite(a.o)
		v := View{Units: []UnitView{{Unit: steadycast.Unit{Site: "own", Prefix: netip.MustParsePrefix("192.0.2.0/24")}, Phase: steadycast.In}}}
		opinion := map[string]steadycast.Result{}
		rounds := rapid.IntRange(1, 8).Draw(t, "rounds")
		for _, p := range n.table.Sites {
			if opinion[p.Name] = randomResult(t); opinion[p.Name].Outcome == steadycast.Unknown {
				opinion[p.Name] = steadycast.Result{Outcome: steadycast.Up}
			}
		}
		for _, s := range []*Site{a, b} {
			s.Step(0, Committed{View: v})
			seq := uint64(0)
			one := func(now Now, name string, r steadycast.Result) {
				seq++
				s.Step(now, Observed{From: now, Observation: steadycast.Observation{Subject: "own", Service: "web", Vantage: name, Seq: seq, Result: r}})
			}
			for range 4 {
				for _, p := range n.table.Sites {
					one(0, p.Name, steadycast.Result{Outcome: steadycast.Up})
				}
			}
			for r := range rounds {
				for _, p := range rapid.Permutation(n.table.Sites).Draw(t, "order") {
					one(Now(r)*500*time.Millisecond, p.Name, opinion[p.Name])
				}
			}
		}
		x, y := a.Verdicts()[0], b.Verdicts()[0]
		if x.State != y.State || x.Bad != y.Bad || x.Good != y.Good {
			t.Fatalf("%+v and %+v", x, y)
		}
	})
}

// TestSilenceEndsRun: what a voice said before it fell silent is not the
// beginning of what it says after, although the others kept the quorum going.
func TestSilenceEndsRun(t *testing.T) {
	table := goodTable()
	table.Sites = append(table.Sites, Place{Name: "lon"})
	s := NewSite(SiteOptions{Name: "fra", Table: table})
	seq := uint64(0)
	say := func(now Now, o steadycast.Outcome, names ...string) {
		for _, v := range names {
			seq++
			s.Step(now, Observed{From: now, Observation: steadycast.Observation{
				Vantage: v, Subject: "fra", Service: "web", Seq: seq, Result: steadycast.Result{Outcome: o},
			}})
		}
	}
	for i := range 10 {
		now := Now(i) * time.Second
		say(now, steadycast.Up, "fra", "ams", "nyc", "w")
		if i < 2 || i > 7 {
			say(now, steadycast.Down, "lon")
		}
	}
	web := s.services[0].jury
	if v := web.all[web.find("lon")]; v.vote.bad != 2 || v.raw.bad != 2 || v.vote.badAt != 8*time.Second {
		t.Errorf("a voice that was silent for six seconds counts %+v", v.vote)
	}
	if s.services[0].tally.good != 9 { // the first round only made the quorum
		t.Errorf("the others were disturbed: %+v", s.services[0].tally)
	}
}

func TestVantages(t *testing.T) {
	var table Table
	for i := range 60 {
		table.Sites = append(table.Sites, Place{
			Name: fmt.Sprintf("s%02d", i), Region: fmt.Sprintf("r%d", i%7), Upstreams: []string{fmt.Sprintf("u%d", i%5)},
			Group: fmt.Sprintf("g%d", i%20),
		})
	}
	watched := map[string]int{}
	for _, p := range table.Sites {
		vs := table.Vantages(p.Name)
		regions, upstreams, groups := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, name := range vs {
			q, _ := table.Place(name)
			regions[q.Region], upstreams[q.Upstreams[0]], groups[q.Group] = true, true, true
			watched[name]++
		}
		if len(vs) != 9 || slices.Contains(vs, p.Name) || len(regions) < 3 || len(upstreams) < 3 || len(groups) != 9 {
			t.Errorf("%s is watched by %v: %d regions, %d upstreams, %d groups", p.Name, vs, len(regions), len(upstreams), len(groups))
		}
	}
	for name, n := range watched {
		if n > 30 {
			t.Errorf("%s watches %d of 60 sites", name, n)
		}
	}
	// Taking one site away moves only those that it watched.
	without := table
	without.Sites = slices.Delete(slices.Clone(table.Sites), 30, 31)
	moved := 0
	for _, p := range without.Sites {
		if !slices.Equal(table.Vantages(p.Name), without.Vantages(p.Name)) {
			moved++
		}
	}
	if moved > watched["s30"]+12 {
		t.Errorf("removing a site that watches %d moved %d", watched["s30"], moved)
	}
	if vs := (Table{Sites: table.Sites[:9]}).Vantages("s03"); len(vs) != 8 {
		t.Errorf("in a fleet of nine all others watch, not %v", vs)
	}
}
