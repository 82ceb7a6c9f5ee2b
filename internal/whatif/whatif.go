// Package whatif says what would happen if sites failed: it puts a fleet's present
// state into a ledger of its own, has one site after the other fail, and asks the
// same guards that would be asked. It is pure: no clock, no I/O; it changes nothing.
//
// It knows what the ledger would answer. What it does not know is whether others
// see the failure (it assumes that all do), and where clients go of whom the
// table's spill rows say nothing (it shows the worst for each site).
package whatif

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Question is what is asked.
type Question struct {
	Table decide.Table
	// Fail are the sites that fail, in this order, Apart from each other.
	Fail  []string
	Apart time.Duration
	// Class of the failures: Hard where the host itself refuses, which is certain.
	Class steadycast.Class
	// Loads are what sites carry; of one that is not here the table's figure counts.
	Loads []decide.Load
	// Out are units that do not announce now, and Frozen says that automation is stopped.
	Out    []steadycast.Unit
	Frozen bool
}

// Answer is what would happen, step by step, and what it comes to.
type Answer struct {
	Steps    []Step          `json:"steps"`
	Sites    []decide.Burden `json:"sites"`
	Prefixes []Left          `json:"prefixes"`
	// Red is the red line in percent; a certain failure is refused above 100 only.
	Red int `json:"red_percent"`
}

// Step is one site's failure, and what the ledger would answer.
type Step struct {
	After time.Duration `json:"after_ns"`
	Site  string        `json:"site"`
	Units []Outcome     `json:"units"`
	// Sites are what each would carry then.
	Sites []decide.Burden `json:"sites"`
}

// What becomes of a unit.
const (
	Withdrawn   = "withdrawn"
	Depreferred = "depreferred" // it stays, less attractive
	Stays       = "stays"
	WasOut      = "was out"
	Waits       = "waits" // for a person's yes
)

// Outcome is what becomes of one unit.
type Outcome struct {
	Unit    steadycast.Unit `json:"unit"`
	Outcome string          `json:"outcome"`
	// Guard that refused first, and Why with its numbers and those of the others.
	Guard string `json:"guard,omitempty"`
	Why   string `json:"why,omitempty"`
	// Movable is how many percent of the site's clients DNS could send elsewhere with
	// every site under the red line, where the route stays.
	Movable int `json:"movable_percent,omitempty"`
	// Guards are all answers in order.
	Guards []steadycast.GuardAnswer `json:"guards,omitempty"`
}

// Left is who still announces a prefix at the end.
type Left struct {
	Prefix     netip.Prefix `json:"prefix"`
	Floor      int          `json:"floor"`
	Announcing []string     `json:"announcing"`
	// Healthy are those of them that did not fail.
	Healthy []string `json:"healthy"`
}

// world is the ledger that is asked, and what its proposer would see.
type world struct {
	q      Question
	table  decide.Table
	ledger *decide.Fleet
	lt     decide.Time
	seq    uint64
	in     map[steadycast.Unit]bool
	failed []string
}

// Ask answers the question. The error says which part of it makes no sense.
func Ask(q Question) (*Answer, error) {
	w := &world{q: q, table: q.Table.WithDefaults(), ledger: decide.NewFleet(), in: map[steadycast.Unit]bool{}}
	for i, site := range q.Fail {
		switch p, ok := w.table.Place(site); {
		case !ok || p.Witness:
			return nil, fmt.Errorf("%q is not a site that announces; known: %s", site, strings.Join(w.table.Announcers(), ", "))
		case slices.Contains(q.Fail[:i], site):
			return nil, fmt.Errorf("%s is named twice", site)
		}
	}
	if err := w.begin(); err != nil {
		return nil, err
	}
	a := &Answer{Red: w.table.Guards.CapacityRed, Steps: []Step{}}
	for i, site := range q.Fail {
		w.lt += decide.Time(q.Apart.Milliseconds()) // the first comes as late after the beginning
		step, err := w.fail(site)
		if err != nil {
			return nil, err
		}
		step.After = q.Apart * time.Duration(i)
		a.Steps = append(a.Steps, step)
	}
	a.Sites = w.burdens()
	for _, p := range w.table.AllPrefixes() {
		l := Left{Prefix: p, Floor: w.table.Floor(p), Announcing: w.announcing(p), Healthy: []string{}}
		for _, site := range l.Announcing {
			if !slices.Contains(w.failed, site) {
				l.Healthy = append(l.Healthy, site)
			}
		}
		a.Prefixes = append(a.Prefixes, l)
	}
	return a, nil
}

// calm is how long all was well before: longer than any window of the guards.
const calm = decide.Time(7 * 24 * 3600 * 1000)

// begin brings every unit in that is in now, and lets time pass until no guard
// remembers how it came there.
func (w *world) begin() error {
	open := w.table // in which nobody has to say yes to a return
	open.Revision, open.Services = 1, slices.Clone(w.table.Services)
	for i := range open.Services {
		s := &open.Services[i]
		s.Mode, s.Return, s.Require = decide.ModeAuto, decide.ReturnAuto, decide.Require{}
	}
	if _, err := w.apply(decide.Entry{Kind: decide.KindGenesis, Table: &open}); err != nil {
		return err
	}
	for _, site := range w.table.Announcers() {
		if err := w.judge(site, steadycast.Healthy, steadycast.NoFailure); err != nil {
			return err
		}
		for _, p := range w.table.PrefixesAt(site) {
			u := steadycast.Unit{Site: site, Prefix: p}
			if slices.Contains(w.q.Out, u) {
				continue
			}
			w.seq++
			r := steadycast.Request{ID: steadycast.RequestID{Incarnation: 1, Seq: w.seq}, Site: site, Prefixes: []netip.Prefix{p}, Action: steadycast.Return}
			if _, err := w.apply(decide.Entry{Kind: decide.KindDecide, Decide: &decide.Decide{Requests: []steadycast.Request{r}}}); err != nil {
				return err
			}
			if _, err := w.apply(decide.Entry{Kind: decide.KindIn, Return: &decide.ReturnProof{Unit: u, ID: r.ID}}); err != nil {
				return err
			}
			w.in[u] = true
		}
	}
	w.lt += calm
	w.table.Revision = 2
	if _, err := w.apply(decide.Entry{Kind: decide.KindTable, Table: &w.table}); err != nil {
		return err
	}
	if w.q.Frozen {
		_, err := w.apply(decide.Entry{Kind: decide.KindFreeze, Scope: &decide.Scope{}, Reason: "frozen now"})
		return err
	}
	return nil
}

// fail has everything at a site fail, and ask to leave.
func (w *world) fail(site string) (Step, error) {
	w.failed = append(w.failed, site)
	if err := w.judge(site, steadycast.Unhealthy, w.q.Class); err != nil {
		return Step{}, err
	}
	step := Step{Site: site, Units: []Outcome{}}
	for _, prefixes := range w.together(site) {
		var ask []netip.Prefix
		for _, p := range prefixes {
			u := steadycast.Unit{Site: site, Prefix: p}
			switch {
			case !w.in[u]:
				step.Units = append(step.Units, Outcome{Unit: u, Outcome: WasOut})
			case w.observed(u):
				step.Units = append(step.Units, Outcome{Unit: u, Outcome: Stays, Why: "mode observe: it only says what it would do"})
			default:
				ask = append(ask, p)
			}
		}
		if len(ask) == 0 {
			continue
		}
		d := w.sight()
		d.Requests = []steadycast.Request{w.withdrawal(site, ask)}
		reply, err := w.apply(decide.Entry{Kind: decide.KindDecide, Decide: d})
		if err != nil {
			return step, err
		}
		for _, a := range reply.Answers {
			for _, ruling := range a.Rulings {
				step.Units = append(step.Units, w.outcome(ruling))
			}
		}
	}
	slices.SortStableFunc(step.Units, func(a, b Outcome) int { return a.Unit.Compare(b.Unit) })
	step.Sites = w.burdens()
	return step, nil
}

// together are the prefixes of a site as it asks about them: those that leave for
// the same services in one request, the first of the table first.
func (w *world) together(site string) [][]netip.Prefix {
	var out [][]netip.Prefix
	var keys []string
	for _, p := range w.table.PrefixesAt(site) {
		key := w.table.PrefixPolicy(p).Needs
		for _, s := range w.table.ServicesAt(site, p) {
			key += " " + s.Name
		}
		i := slices.Index(keys, key)
		if i < 0 {
			i, keys, out = len(keys), append(keys, key), append(out, nil)
		}
		out[i] = append(out[i], p)
	}
	return out
}

// observed: a service of the unit only says what it would do.
func (w *world) observed(u steadycast.Unit) bool {
	return slices.ContainsFunc(w.table.ServicesAt(u.Site, u.Prefix), func(s decide.Service) bool { return s.Mode == decide.ModeObserve })
}

// withdrawal is what the site would ask, with the word of everybody who looks at it.
func (w *world) withdrawal(site string, prefixes []netip.Prefix) steadycast.Request {
	w.seq++
	r := steadycast.Request{ID: steadycast.RequestID{Incarnation: 1, Seq: w.seq}, Site: site, Prefixes: prefixes,
		Action: steadycast.Withdraw, Class: w.q.Class, Reason: "supposed"}
	down := steadycast.Result{Outcome: steadycast.Down, Class: w.q.Class, Reason: "supposed"}
	for _, s := range w.table.ServicesAt(site, prefixes[0]) {
		if r.Service == "" {
			r.Service = s.Name
		}
		if s.Require.Withdraw != "" {
			r.Conditions = append(r.Conditions, steadycast.Condition{Service: s.Name, Outcome: steadycast.Up, Text: "supposed"})
		}
		for _, v := range append([]string{site}, w.table.Vantages(site)...) {
			r.Evidence = append(r.Evidence, steadycast.Observation{Vantage: v, Subject: site, Service: s.Name, Seq: w.seq, Result: down})
		}
	}
	return r
}

// outcome reads a ruling.
func (w *world) outcome(r decide.Ruling) Outcome {
	o := Outcome{Unit: r.Unit, Guards: r.Guards}
	for _, g := range r.Guards {
		switch {
		case g.Pass:
		case o.Guard == "":
			o.Guard, o.Why = g.Guard, g.Text
		default:
			o.Why += "; " + g.Guard + ": " + g.Text
		}
	}
	switch {
	case r.Permit != nil && r.Permit.Action == steadycast.Withdraw:
		o.Outcome = Withdrawn
		w.in[r.Unit] = false
	case r.Permit != nil:
		o.Outcome = Depreferred
	case slices.ContainsFunc(w.ledger.View().Decisions, func(d decide.Decision) bool { return d.Unit == r.Unit }):
		o.Outcome = Waits
	default:
		o.Outcome = Stays
	}
	if o.Outcome != Withdrawn {
		rest := keep(w.announcing(r.Unit.Prefix), func(site string) bool { return !slices.Contains(w.failed, site) })
		o.Movable = w.table.Movable(w.burdened(r.Unit.Site), r.Unit.Site, rest, w.table.Guards.CapacityRed)
	}
	return o
}

// sight is what an honest proposer would see.
func (w *world) sight() *decide.Decide {
	d := &decide.Decide{Loads: slices.Clone(w.q.Loads)}
	for _, p := range w.table.AllPrefixes() {
		s := decide.Seen{Prefix: p, Announcing: w.announcing(p)}
		s.Healthy = keep(s.Announcing, func(site string) bool { return !slices.Contains(w.failed, site) })
		d.Seen = append(d.Seen, s)
	}
	return d
}

func (w *world) announcing(p netip.Prefix) []string {
	return keep(w.table.SitesOf(p), func(site string) bool { return w.in[steadycast.Unit{Site: site, Prefix: p}] })
}

// burdens are what each site carries now that some have gone. A site has gone when
// none of its routes is left.
func (w *world) burdens() []decide.Burden {
	var before, gone []string
	for _, site := range w.table.Announcers() {
		had, has := false, false
		for _, p := range w.table.PrefixesAt(site) {
			u := steadycast.Unit{Site: site, Prefix: p}
			had, has = had || !slices.Contains(w.q.Out, u), has || w.in[u]
		}
		if had {
			before = append(before, site)
			if !has {
				gone = append(gone, site)
			}
		}
	}
	return w.table.Burdens(w.q.Loads, before, gone)
}

// burdened are the loads with the worst of what those that have gone left behind;
// that of the site itself as it is.
func (w *world) burdened(site string) []decide.Load {
	var out []decide.Load
	for _, b := range w.burdens() {
		switch {
		case !b.Known:
		case b.Gone || b.Site == site:
			out = append(out, decide.Load{Site: b.Site, Load: b.Load})
		default:
			out = append(out, decide.Load{Site: b.Site, Load: b.Most})
		}
	}
	return out
}

func (w *world) judge(site string, to steadycast.State, class steadycast.Class) error {
	e := decide.Entry{Kind: decide.KindVerdict}
	for _, s := range w.table.Services {
		if slices.Contains(s.Sites, site) {
			e.Verdicts = append(e.Verdicts, steadycast.Verdict{Site: site, Service: s.Name, State: to, Class: class, Reason: "supposed of " + site})
		}
	}
	if len(e.Verdicts) == 0 {
		return nil
	}
	_, err := w.apply(e)
	return err
}

func (w *world) apply(e decide.Entry) (decide.Reply, error) {
	e.Schema, e.Rules, e.Epoch, e.LT, e.Actor = decide.Schema, decide.RulesLevel, 1, w.lt, "whatif"
	r, err := w.ledger.Apply(e)
	switch {
	case err != nil:
		return r, err
	case r.Invalid != "":
		return r, fmt.Errorf("%s: %s", e.Kind, r.Invalid)
	}
	return r, nil
}

func keep(list []string, ok func(string) bool) []string {
	out := []string{}
	for _, x := range list {
		if ok(x) {
			out = append(out, x)
		}
	}
	return out
}
