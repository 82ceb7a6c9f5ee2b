// Package rto is the account of a failover's time: from what is configured it says
// how long one takes and where that time goes, and what each setting would buy. It
// is arithmetic and nothing else: no clock, no I/O.
//
// Each stage has two figures. Typical is the mean over when a fault happens to
// strike; worst is the bound. What no setting decides (how fast routers and the
// Internet follow, when a client tries again) is a constant below, with where its
// number comes from.
package rto

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is a way in which a service or its site fails.
type Fault string

const (
	// Refused: the process is gone and its host refuses connections, which is certain.
	Refused Fault = "refused"
	// Wrong: it answers at once, and wrongly.
	Wrong Fault = "wrong"
	// Silent: it takes connections or packets and does not answer.
	Silent Fault = "silent"
	// Cut: the whole site loses power or its uplink. Nobody there can withdraw.
	Cut Fault = "cut"
)

// Faults are all of them, in order of how soon they can be known.
func Faults() []Fault { return []Fault{Refused, Wrong, Silent, Cut} }

// Says is what the fault means.
func (f Fault) Says() string {
	switch f {
	case Refused:
		return "the process is gone and its host refuses connections"
	case Wrong:
		return "the service answers at once, and wrongly"
	case Silent:
		return "the service takes questions and does not answer"
	default:
		return "the site loses its power or its uplink"
	}
}

// Path is how clients come to another site.
type Path string

const (
	// Route: the anycast route leaves, and the same address leads elsewhere.
	Route Path = "route"
	// Answer: a name is answered with another site's address.
	Answer Path = "answer"
)

// Facts are what the account rests on.
type Facts struct {
	Service string `json:"service"`

	// How this node's own service is looked at, and the others' look at it. Timeout
	// is that of the check that gives up last.
	Own    Look `json:"own"`
	Remote Look `json:"remote"`
	// Voices that judge, and how many must agree. One of one where a site judges alone.
	Voices int `json:"voices"`
	Quorum int `json:"quorum"`
	// Fall, FallCertain and DownFor as in the table.
	Fall        int           `json:"fall"`
	FallCertain int           `json:"fall_certain"`
	DownFor     time.Duration `json:"down_for_ns"`
	// Tripwire: an idle connection tells at once that the process is gone.
	Tripwire bool `json:"tripwire,omitempty"`

	// Mode is auto, approve or observe. Solo has no network between it and its ledger.
	Mode   string        `json:"mode"`
	Solo   bool          `json:"solo,omitempty"`
	MaxRTT time.Duration `json:"max_rtt_ns"`

	// HoldTime of the slowest session.
	HoldTime time.Duration `json:"hold_time_ns"`
	// Private: the prefix is announced inside one's own network only.
	Private bool `json:"private,omitempty"`

	// Name is the one whose answers are kept longest among those that lead to
	// single sites of the service; none if empty.
	Name string        `json:"name,omitempty"`
	TTL  time.Duration `json:"ttl_ns,omitempty"`
}

// Look is one way of looking: rounds every Interval, and every Fast once one failed.
type Look struct {
	Interval time.Duration `json:"interval_ns"`
	Fast     time.Duration `json:"fast_interval_ns"`
	Timeout  time.Duration `json:"timeout_ns"`
}

// Stage is one part of the time.
type Stage struct {
	Name    string        `json:"name"`
	Typical time.Duration `json:"typical_ns"`
	Worst   time.Duration `json:"worst_ns"`
	Why     string        `json:"why"`
}

// Account is the time of one fault by one path.
type Account struct {
	Fault   Fault         `json:"fault"`
	Path    Path          `json:"path"`
	Stages  []Stage       `json:"stages"`
	Typical time.Duration `json:"typical_ns"`
	Worst   time.Duration `json:"worst_ns"`
	// Never says why it does not come to that by itself; then there is no time.
	Never string `json:"never,omitempty"`
	Gains []Gain `json:"gains,omitempty"`
}

// Gain is what one other setting would save.
type Gain struct {
	Setting string        `json:"setting"`
	From    string        `json:"from"`
	To      string        `json:"to"`
	Typical time.Duration `json:"typical_ns"`
	Worst   time.Duration `json:"worst_ns"`
	// Cost is what it takes instead.
	Cost string `json:"cost"`
}

// What no setting decides.
const (
	// One fdatasync of the ledger: bench/README.md, 0.3 to 4 ms.
	diskTypical, diskWorst = 2 * time.Millisecond, 4 * time.Millisecond
	// From the permit to the UPDATE at the router: bench/README.md, Reaction.
	sendTypical, sendWorst = 3 * time.Millisecond, 25 * time.Millisecond
	// Inside one's own network: a router that batches (FRR: bgpd's queue holds 50 ms,
	// zebra's 10 ms) has its table changed 61 ms after the withdrawal and is on the
	// other path after 177 ms; one that does not (BIRD) after 1 and 7 ms.
	fabricTypical, fabricWorst = 61 * time.Millisecond, 177 * time.Millisecond
	// On the Internet: four fifths of it follow a change of an anycast route within
	// 10 s ("An Empirical Characterization of Anycast Convergence Time", ANRW 2024);
	// of a withdrawn beacon the last tenth was still seen after 2 minutes (RIPE Labs,
	// "The Shape of a BGP Update").
	internetTypical, internetWorst = 10 * time.Second, 2 * time.Minute
	// A voter that hears no leader waits ten round trips, at least this, and at most
	// twice as long, before it stands itself.
	leastElection = time.Second
	// The first retransmission of TCP and its longest pause (RFC 6298 §2.4, §2.5).
	firstRetry, longestRetry = time.Second, time.Minute
	// As many failing rounds of another site are looked at fast, before the pace is
	// the ordinary one again.
	eager = 10
	// The shortest hold time (RFC 4271 §4.2).
	leastHold = 3 * time.Second
)

// Accounts are those of every fault by every path that the facts have.
func (f Facts) Accounts() []Account {
	var out []Account
	for _, fault := range Faults() {
		out = append(out, f.Account(fault, Route))
		if f.Name != "" {
			out = append(out, f.Account(fault, Answer))
		}
	}
	return out
}

// Account adds up one fault by one path, and what each setting would buy there.
func (f Facts) Account(fault Fault, path Path) Account {
	a := f.add(fault, path)
	if a.Never != "" {
		return a
	}
	for _, c := range f.choices() {
		b := c.facts.add(fault, path)
		g := Gain{c.setting, c.from, c.to, a.Typical - b.Typical, a.Worst - b.Worst, c.cost}
		if g.Typical > 0 || g.Worst > 0 {
			a.Gains = append(a.Gains, g)
		}
	}
	slices.SortStableFunc(a.Gains, func(x, y Gain) int { return cmp.Compare(y.Typical+y.Worst, x.Typical+x.Worst) })
	return a
}

func (f Facts) add(fault Fault, path Path) Account {
	a := Account{Fault: fault, Path: path}
	switch {
	case fault == Cut && path == Answer:
		a.Never = "a site that is gone gives no verdict of its own: its address stays in the answers until a person takes it out"
		return a
	case path == Route && f.Mode == "observe" && fault != Cut:
		a.Never = "mode observe: no route leaves by itself"
		return a
	case path == Route && f.Mode == "approve" && fault != Cut:
		a.Never = "mode approve: no route leaves before a person says yes"
		return a
	case fault == Cut:
		a.Stages = append(a.Stages, f.dead())
	default:
		a.Stages = append(a.Stages, f.detection(fault), f.confirmation(fault), f.permit(path))
	}
	if path == Route {
		a.Stages = append(a.Stages, f.routing(fault))
	} else {
		a.Stages = append(a.Stages, f.cached())
	}
	for _, s := range a.Stages {
		a.Typical, a.Worst = a.Typical+s.Typical, a.Worst+s.Worst
	}
	c := client(a.Typical, a.Worst)
	a.Stages = append(a.Stages, c)
	a.Typical, a.Worst = a.Typical+c.Typical, a.Worst+c.Worst
	return a
}

// looks is the pace that counts: the site's own where it judges alone, else the
// slower of the two, since a quorum of them is waited for.
func (f Facts) looks() Look {
	if f.Voices <= 1 {
		return f.Own
	}
	return Look{max(f.Own.Interval, f.Remote.Interval), max(f.Own.Fast, f.Remote.Fast), max(f.Own.Timeout, f.Remote.Timeout)}
}

// detection is until the quorum's last voice has seen its first failure. Voices
// look at moments of their own; of n moments spread evenly over an interval the
// k-th comes after k/(n+1) of it, on average.
func (f Facts) detection(fault Fault) Stage {
	l := f.looks()
	s := Stage{Name: "detection", Worst: l.Interval, Why: "a round every " + short(l.Interval)}
	n, k := max(f.Voices, 1), max(f.Quorum, 1)
	s.Typical = l.Interval * time.Duration(k) / time.Duration(n+1)
	if n > 1 {
		s.Why += ", " + strconv.Itoa(k) + " of " + strconv.Itoa(n) + " voices"
	}
	if f.Tripwire && fault == Refused && n == 1 {
		s.Typical, s.Worst, s.Why = 0, 0, "the tripwire tells at once"
	}
	if fault == Silent {
		s.Typical, s.Worst = s.Typical+l.Timeout, s.Worst+l.Timeout
		s.Why += ", and it gives up after " + short(l.Timeout)
	}
	return s
}

// confirmation is from there until enough rounds have failed, for long enough.
func (f Facts) confirmation(fault Fault) Stage {
	l, fall, setting := f.looks(), f.Fall, "fall"
	if fault == Refused {
		fall, setting = f.FallCertain, "fall_certain"
	}
	step, slow := l.Fast, l.Interval
	if fault == Silent { // a round begins when the one before has given up
		step, slow = max(step, l.Timeout), max(slow, l.Timeout)
	}
	after := func(rounds int) time.Duration {
		if f.Voices <= 1 || rounds < eager {
			return step * time.Duration(rounds)
		}
		return step*(eager-1) + slow*time.Duration(rounds-eager+1)
	}
	rounds := max(fall, 1) - 1
	why := setting + " " + strconv.Itoa(fall) + ", a round every " + short(step)
	if after(rounds) < f.DownFor {
		for after(rounds) < f.DownFor && step > 0 {
			rounds++
		}
		why = "down_for " + short(f.DownFor) + ", a round every " + short(step)
	}
	return Stage{"confirmation", after(rounds), after(rounds), why}
}

// permit is the ledger's leave; for answers, the verdict's way through it to those
// who answer, which takes as long and asks no guard.
func (f Facts) permit(path Path) Stage {
	name, what := "permit", "the ledger's leave"
	if path == Answer {
		name, what = "verdict", "the verdict is recorded and told to those who answer"
	}
	if f.Solo {
		return Stage{name, diskTypical, diskWorst, what + ": one write to its disk"}
	}
	election := 2*max(leastElection, 10*f.MaxRTT) + f.MaxRTT
	return Stage{name, f.MaxRTT + diskTypical, 2*f.MaxRTT + diskWorst + election,
		what + ": two round trips, typically half of max_rtt " + short(f.MaxRTT) + "; worst with an election"}
}

// dead is how a router finds out that nobody is there: the hold time, which began
// with the last KEEPALIVE; these come a third of it apart (RFC 4271 §4.4).
func (f Facts) dead() Stage {
	return Stage{"detection", f.HoldTime - f.HoldTime/6, f.HoldTime, "the router's hold time " + short(f.HoldTime) + ", since the last KEEPALIVE"}
}

// routing is until packets go elsewhere.
func (f Facts) routing(fault Fault) Stage {
	s := Stage{"bgp", internetTypical, internetWorst, "four fifths of the Internet follow in 10s, nearly all in 2m"}
	if f.Private {
		s = Stage{"bgp", fabricTypical, fabricWorst, "routers of one's own network"}
	}
	if fault != Cut {
		s.Typical, s.Worst = s.Typical+sendTypical, s.Worst+sendWorst
	}
	return s
}

// cached is until resolvers ask again: at any moment of the TTL.
func (f Facts) cached() Stage {
	return Stage{"dns ttl", f.TTL / 2, f.TTL, f.Name + " is kept for " + short(f.TTL) + " (some resolvers keep it longer)"}
}

// client is until the client tries again. TCP doubles its pauses (RFC 6298 §5.5),
// so after an outage of t the next try comes within t, a minute at most.
func client(typical, worst time.Duration) Stage {
	after := func(t time.Duration) time.Duration { return min(max(t, firstRetry), longestRetry) }
	return Stage{"client", after(typical) / 2, after(worst), "TCP tries again within as long as the outage was, 1m at most"}
}

// choice is the facts with one setting changed.
type choice struct {
	setting, from, to, cost string
	facts                   Facts
}

// choices are the settings that may buy something: each one step tighter.
func (f Facts) choices() []choice {
	var out []choice
	durations := func(setting, cost string, from, to time.Duration, set func(*Facts, time.Duration)) {
		if to < from {
			g := f
			set(&g, to)
			out = append(out, choice{setting, short(from), short(to), cost, g})
		}
	}
	counts := func(setting, cost string, from int, set func(*Facts)) {
		if from > 1 {
			g := f
			set(&g)
			out = append(out, choice{setting, strconv.Itoa(from), strconv.Itoa(from - 1), cost, g})
		}
	}
	durations("interval", "twice the probes", f.looks().Interval, f.looks().Interval/2, func(g *Facts, d time.Duration) {
		g.Own.Interval, g.Remote.Interval = min(g.Own.Interval, d), min(g.Remote.Interval, d)
		g.Own.Fast, g.Remote.Fast = min(g.Own.Fast, d), min(g.Remote.Fast, d)
	})
	durations("fast_interval", "twice the probes while something fails", f.looks().Fast, f.looks().Fast/2, func(g *Facts, d time.Duration) {
		g.Own.Fast, g.Remote.Fast = min(g.Own.Fast, d), min(g.Remote.Fast, d)
	})
	durations("timeout", "what answers later is down", f.looks().Timeout, f.looks().Timeout/2, func(g *Facts, d time.Duration) {
		g.Own.Timeout, g.Remote.Timeout = min(g.Own.Timeout, d), min(g.Remote.Timeout, d)
	})
	counts("fall", "one failing round less is an outage", f.Fall, func(g *Facts) { g.Fall--; g.FallCertain = min(g.FallCertain, g.Fall) })
	counts("fall_certain", "one refused round less is an outage", f.FallCertain, func(g *Facts) { g.FallCertain-- })
	durations("down_for", "a quick restart of the service is an outage", f.DownFor, 0, func(g *Facts, d time.Duration) { g.DownFor = d })
	if !f.Tripwire && f.Voices <= 1 {
		g := f
		g.Tripwire = true
		out = append(out, choice{"tripwire", "false", "true", "one idle connection to the service", g})
	}
	if !f.Solo {
		durations("ledger.max_rtt", "voters must be nearer to each other", f.MaxRTT, f.MaxRTT/2, func(g *Facts, d time.Duration) { g.MaxRTT = d })
	}
	durations("hold_time", "a session that falls with a shorter pause", f.HoldTime, leastHold, func(g *Facts, d time.Duration) { g.HoldTime = d })
	if f.Name != "" {
		durations("ttl of "+f.Name, "twice the questions", f.TTL, f.TTL/2, func(g *Facts, d time.Duration) { g.TTL = d })
	}
	return out
}

// short writes a duration without zeros behind it: 1m and not 1m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
