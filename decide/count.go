package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// How evidence is counted.
//
// Each vantage keeps its run: how many of its newest observations failed, or
// passed, one after the other. An unknown result ends a run without beginning
// one. Vantages of one independence group are one voice: its run is the
// shortest among its members that know something, so a group that disagrees
// with itself says nothing.
//
// Of n fresh voices, k = ⌊n/2⌋+1 are a quorum. Then
//
//	bad  = the k-th longest failing run: a quorum has failed that often in a row
//	good = the k-th longest passing run: a quorum has passed that often in a row
//
// At most one of them is above zero, and when neither is, nothing moves. Both
// depend only on the runs, so it does not matter in which order voices speak.
//
// A vantage that says it is ineligible, because its controls failed, is absent:
// no voice, and no part of n. So is one whose newest observation is too old.
//
// Too few fresh voices is Held: every run starts again from zero when there are
// enough, and nothing else changes. Absence is never failure.

// run counts a vantage's newest equal results.
type run struct {
	bad, good int
	hard      int // newest certain failures in a row
	badAt     Now // when the first failing one was heard
}

func (r *run) step(now Now, res steadycast.Result) {
	switch res.Outcome {
	case steadycast.Down:
		if r.bad == 0 {
			r.badAt = now
		}
		r.bad, r.good = r.bad+1, 0
		if res.Class == steadycast.Hard {
			r.hard++
		} else {
			r.hard = 0
		}
	case steadycast.Up:
		*r = run{good: r.good + 1}
	default:
		*r = run{}
	}
}

// vantage is one observer of one service.
type vantage struct {
	name, group string
	heard       bool // ever
	fresh       bool // its newest observation is young enough
	from        Now  // from which the newest one's age counts
	last        steadycast.Observation
	raw         run // since it was last silent, or ineligible
	vote        run // the same, begun again after Held
}

// speaks: what it said last is young enough, and its controls came out right.
func (v *vantage) speaks() bool { return v.fresh && v.last.Ineligible == "" }

// jury is all vantages of one service of this site.
type jury struct {
	solo   bool
	window Now       // greatest age of a fresh observation
	all    []vantage // by group, then name; the site's own among them
	own    int       // index of the site's own
	// ownVotes: the site's own check is a voice, because it has too few others.
	ownVotes bool
	// assigned is the number of voices there would be if all were fresh.
	assigned int
	home     home
}

// FreshFor is the greatest age of an observation that counts, where a round of
// probes begins every interval. It does not shrink with intervals under a second:
// what a remote vantage echoes is renewed once a second only, and a service that
// hangs is seen no sooner than its check gives up, which is a second by default.
func FreshFor(interval Now) Now { return 3*max(interval, time.Second) + time.Second }

// newJury assembles the vantages of one service at site, keeping what was
// already heard from those in old.
func newJury(t Table, site string, solo bool, interval Now, old jury) jury {
	j := jury{solo: solo, window: FreshFor(interval)}
	names := []string{site}
	if !solo {
		names = append(names, t.Vantages(site)...)
	}
	for _, name := range names {
		v := vantage{name: name, group: name}
		if p, ok := t.Place(name); ok && p.Group != "" {
			v.group = p.Group
		}
		if i := old.find(name); i >= 0 {
			group := v.group
			v = old.all[i]
			v.group = group
		}
		j.all = append(j.all, v)
	}
	slices.SortFunc(j.all, func(a, b vantage) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name))
	})
	j.own = j.find(site)
	// Its own group's other members do not make it a well-watched site.
	others := j.groups(func(i int) bool { return j.all[i].group != j.self().group })
	j.ownVotes = solo || others < 4
	j.assigned = j.groups(func(i int) bool { return i != j.own || j.ownVotes })
	return j
}

// groups counts the independence groups among the vantages that count.
func (j *jury) groups(counts func(i int) bool) int {
	var seen []string
	for i, v := range j.all {
		if counts(i) && !slices.Contains(seen, v.group) {
			seen = append(seen, v.group)
		}
	}
	return len(seen)
}

func (j *jury) find(name string) int {
	return slices.IndexFunc(j.all, func(v vantage) bool { return v.name == name })
}

func (j *jury) self() *vantage { return &j.all[j.own] }

// hear takes one observation and reports whether it counted. A repeat, an older
// one, one that is stale already and one from a stranger do not. A vantage that
// was silent for a whole window may begin its sequence again, because a
// restarted one does; what it says must still be newer than what it said.
func (j *jury) hear(now Now, o steadycast.Observation, from Now) bool {
	i := j.find(o.Vantage)
	if i < 0 {
		return false
	}
	if i == j.own && len(j.home.nodes) > 0 {
		return j.hearNode(now, o, from)
	}
	return j.all[i].hear(now, j.window, o, from)
}

func (v *vantage) hear(now, window Now, o steadycast.Observation, from Now) bool {
	from = min(from, now)
	switch {
	case now-from > window,
		v.heard && from < v.from:
		return false
	case !v.fresh:
	case o.Node == v.last.Node:
		if o.Seq <= v.last.Seq {
			return false
		}
	case !before(o, v.last):
		return false
	default: // another node speaks for the vantage from now on
		v.raw, v.vote = run{}, run{}
	}
	o.Result = sane(o.Result)
	v.heard, v.fresh, v.from, v.last = true, true, from, o
	if o.Ineligible != "" {
		v.raw, v.vote = run{}, run{}
		return true
	}
	v.raw.step(now, o.Result)
	v.vote.step(now, o.Result)
	return true
}

// before: of two nodes of one vantage the one that said o speaks for it. One whose
// controls came out right comes before one of which that is not so, else the first
// by name does.
func before(o, other steadycast.Observation) bool {
	if a, b := o.Ineligible == "", other.Ineligible == ""; a != b {
		return a
	}
	return o.Node < other.Node
}

// sane closes the two enums: what is not known is Unknown, and a failure
// without a class is a soft one.
func sane(r steadycast.Result) steadycast.Result {
	switch {
	case r.Outcome == steadycast.Up:
		r.Class = steadycast.NoFailure
	case r.Outcome != steadycast.Down:
		r.Outcome, r.Class = steadycast.Unknown, steadycast.NoFailure
	case r.Class != steadycast.Hard:
		r.Class = steadycast.Soft
	}
	return r
}

// expire forgets the runs of vantages whose newest observation is too old.
func (j *jury) expire(now Now) (changed bool) {
	for i := range j.all {
		v := &j.all[i]
		if v.fresh && now-v.from > j.window {
			v.fresh, v.raw, v.vote, changed = false, run{}, run{}, true
		}
	}
	for i := range j.home.nodes {
		v := &j.home.nodes[i]
		if v.fresh && now-v.from > j.window {
			v.fresh, v.raw, changed = false, run{}, true
		}
	}
	return changed
}

// expires is the next instant at which expire would find something.
func (j *jury) expires() (at Now, ok bool) {
	for _, vs := range [][]vantage{j.all, j.home.nodes} {
		for _, v := range vs {
			if v.fresh && (!ok || v.from+j.window+1 < at) {
				at, ok = v.from+j.window+1, true
			}
		}
	}
	return at, ok
}

// adjourn starts every vote again.
func (j *jury) adjourn() {
	for i := range j.all {
		j.all[i].vote = run{}
	}
}

// tally is one count of the voices.
type tally struct {
	voices, least, quorum int // n, the fewest that can judge, and k
	enough                bool
	failing, passing      int // voices by their newest result
	bad, good             int
	since                 Now // when a quorum had begun to fail; valid while bad > 0
}

// voice is one independence group's newest word.
type voice struct {
	run
	outcome steadycast.Outcome
}

// count counts the voices.
func (j *jury) count() tally {
	var t tally
	voices := make([]voice, 0, 16)
	for i := 0; i < len(j.all); {
		end := i + 1
		for end < len(j.all) && j.all[end].group == j.all[i].group {
			end++
		}
		if v, fresh := j.speak(i, end); fresh {
			voices = append(voices, v)
		}
		i = end
	}
	t.voices = len(voices)
	t.quorum = t.voices/2 + 1
	bad, good := make([]int, 0, 16), make([]int, 0, 16)
	since := make([]Now, 0, 16)
	for _, v := range voices {
		switch v.outcome {
		case steadycast.Down:
			t.failing++
		case steadycast.Up:
			t.passing++
		}
		bad, good = append(bad, v.bad), append(good, v.good)
		if v.bad > 0 {
			since = append(since, v.badAt)
		}
	}
	t.least = 1
	own := j.self()
	if j.solo {
		t.enough = own.speaks() && own.last.Result.Outcome != steadycast.Unknown
	} else {
		t.least = max(3, (6*j.assigned+9)/10)
		t.enough = t.voices >= t.least || j.pair(t)
	}
	if !t.enough {
		return t
	}
	t.bad, t.good = kth(bad, t.quorum), kth(good, t.quorum)
	if t.bad > 0 {
		slices.Sort(since)
		t.since = since[t.quorum-1]
	}
	return t
}

// pair is the exception for a site with fewer than four others: two voices
// suffice when they agree and one is the site's own, certain of its failure or
// passing. So two of three can act while the third is away, and still no
// other site can cause a withdrawal alone.
func (j *jury) pair(t tally) bool {
	own := j.self()
	if !j.ownVotes || t.voices != 2 || !own.speaks() {
		return false
	}
	return t.failing == 2 && own.last.Result.Class == steadycast.Hard || t.passing == 2
}

// speak joins the fresh vantages of one group, all[i:end], to one voice.
func (j *jury) speak(i, end int) (v voice, fresh bool) {
	known := false
	for ; i < end; i++ {
		m := &j.all[i]
		if !m.speaks() || i == j.own && !j.ownVotes {
			continue
		}
		fresh = true
		switch o := m.last.Result.Outcome; {
		case o == steadycast.Unknown:
		case !known:
			known, v = true, voice{m.vote, o}
		default:
			if v.outcome != o {
				v.outcome = steadycast.Unknown
			}
			v.bad, v.good = min(v.bad, m.vote.bad), min(v.good, m.vote.good)
			v.badAt = max(v.badAt, m.vote.badAt)
		}
	}
	return v, fresh
}

// kth returns the k-th largest, 0 when there are fewer.
func kth(xs []int, k int) int {
	if k > len(xs) {
		return 0
	}
	slices.Sort(xs)
	return xs[len(xs)-k]
}

// evidence returns the observations that make the present count, in order of
// vantage: exactly the voices that were counted, so that whoever counts again
// comes to the same.
func (j *jury) evidence() []steadycast.Observation {
	var os []steadycast.Observation
	for i, v := range j.all {
		counted := v.speaks() && (i != j.own || j.ownVotes)
		if !counted || v.last.Result.Outcome == steadycast.Unknown && j.knows(v.group) {
			continue
		}
		o := v.last
		o.Group = v.group
		os = append(os, o)
	}
	slices.SortFunc(os, func(a, b steadycast.Observation) int { return cmp.Compare(a.Vantage, b.Vantage) })
	return os
}

// knows reports whether a counted member of the group says up or down.
func (j *jury) knows(group string) bool {
	for i, v := range j.all {
		if v.group == group && v.speaks() && (i != j.own || j.ownVotes) && v.last.Result.Outcome != steadycast.Unknown {
			return true
		}
	}
	return false
}
