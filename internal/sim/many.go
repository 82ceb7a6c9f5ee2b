package sim

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// Report is what came of many schedules.
type Report struct {
	Schedules    int               `json:"schedules"`
	Violations   int               `json:"violations"`
	Events       uint64            `json:"events"`
	VirtualHours float64           `json:"virtual_hours"`
	Sites        int               `json:"sites"`
	Mutation     string            `json:"mutation,omitempty"`
	Invariants   map[string]Tally  `json:"invariants"`
	Happened     map[string]uint64 `json:"happened"`
	// Violated is the violation of the lowest seed, with the faults that matter.
	Violated *Violation `json:"violated,omitempty"`
	// Seeds are all that violated, at most a hundred.
	Seeds []uint64 `json:"seeds,omitempty"`
	// Mutations are those that were run one after the other.
	Mutations []Caught `json:"mutations,omitempty"`
}

// Many says which schedules to run.
type Many struct {
	Options
	First uint64
	Seeds int
	// Stop ends at the first violation.
	Stop  bool
	whole bool // leave the faults of a violation as they are
	// Each is told every outcome, in order of seed; nil for nobody.
	Each func(Outcome)
}

// RunMany runs schedules, as many at a time as there are processors. What it
// reports does not depend on how many that are.
func RunMany(m Many) (Report, error) {
	o, err := m.Options.withDefaults()
	if err != nil {
		return Report{}, err
	}
	m.Options = o
	rep := Report{Sites: o.Sites, Mutation: o.Mutation, Invariants: map[string]Tally{}, Happened: map[string]uint64{}}
	for _, i := range invariants {
		rep.Invariants[i.name] = Tally{}
	}
	workers := runtime.GOMAXPROCS(0)
	if o.Trace != nil {
		workers = 1
	}
	for next := 0; next < m.Seeds; next += workers {
		batch := make([]Outcome, min(workers, m.Seeds-next))
		var wg sync.WaitGroup
		for i := range batch {
			seed := m.First + uint64(next+i)
			wg.Go(func() {
				w := newWorld(seed, o)
				w.run()
				batch[i] = w.outcome()
			})
		}
		wg.Wait()
		for _, out := range batch {
			rep.add(out, o)
			if m.Each != nil {
				m.Each(out)
			}
			if m.Stop && out.Violation != nil {
				break
			}
		}
		if m.Stop && rep.Violations > 0 {
			break
		}
	}
	if v := rep.Violated; v != nil && !m.whole {
		shrink(v, o)
	}
	return rep, nil
}

// Caught is what came of one mutation.
type Caught struct {
	Mutation string `json:"mutation"`
	Rule     string `json:"rule"`
	// Schedules that it took, and what the last of them broke; empty when none did.
	Schedules int    `json:"schedules"`
	Invariant string `json:"invariant,omitempty"`
	Text      string `json:"text,omitempty"`
}

// RunMutations runs with each rejected rule in turn until it breaks an invariant,
// through as many schedules as m says, and tells each one that is done. The report
// adds up all of them; its violations are the rules that were caught.
func RunMutations(m Many, each func(Caught)) (Report, error) {
	var sum Report
	m.Stop, m.whole = true, true
	for _, x := range mutations {
		m.Options.Mutation = x.name
		rep, err := RunMany(m)
		if err != nil {
			return sum, err
		}
		c := Caught{Mutation: x.name, Rule: x.rule, Schedules: rep.Schedules}
		if v := rep.Violated; v != nil {
			c.Invariant, c.Text = v.Invariant, v.Text
		}
		sum.merge(rep)
		sum.Mutations = append(sum.Mutations, c)
		if each != nil {
			each(c)
		}
	}
	return sum, nil
}

// merge adds up two reports.
func (r *Report) merge(x Report) {
	if r.Invariants == nil {
		r.Invariants, r.Happened, r.Sites = map[string]Tally{}, map[string]uint64{}, x.Sites
	}
	r.Schedules += x.Schedules
	r.Violations += x.Violations
	r.Events += x.Events
	r.VirtualHours += x.VirtualHours
	for k, t := range x.Invariants {
		sum := r.Invariants[k]
		sum.Checked += t.Checked
		sum.Violated += t.Violated
		r.Invariants[k] = sum
	}
	for k, n := range x.Happened {
		r.Happened[k] += n
	}
}

func (r *Report) add(out Outcome, o Options) {
	r.Schedules++
	r.Events += out.Events
	r.VirtualHours += out.Ended.Hours()
	for k, t := range out.Tallies {
		sum := r.Invariants[k]
		sum.Checked += t.Checked
		sum.Violated += t.Violated
		r.Invariants[k] = sum
	}
	for k, n := range out.Happened {
		r.Happened[k] += n
	}
	if out.Violation == nil {
		return
	}
	r.Violations++
	if len(r.Seeds) < 100 {
		r.Seeds = append(r.Seeds, out.Seed)
	}
	if r.Violated == nil {
		v := *out.Violation
		v.Policy = out.Policy
		r.Violated = &v
	}
}

// shrink leaves out faults, halves of them first and then one by one, as long as
// the same invariant still breaks, and says how to see it again.
func shrink(v *Violation, o Options) {
	o.Trace = nil
	plan := newWorld(v.Seed, o).plan
	var keep []int
	for _, f := range plan {
		if f.at < v.At && (o.Only == nil || contains(o.Only, f.n)) {
			keep = append(keep, f.n)
		}
	}
	still := func(only []int) bool {
		o.Only = only
		w := newWorld(v.Seed, o)
		w.run()
		if got := w.judge.violation; got != nil && got.Invariant == v.Invariant {
			v.At, v.Text = got.At, got.Text
			return true
		}
		return false
	}
	if still(keep) {
		for size := (len(keep) + 1) / 2; size > 0; size /= 2 {
			for i := 0; i < len(keep); {
				less := append(append([]int{}, keep[:i]...), keep[min(i+size, len(keep)):]...)
				if still(less) {
					keep = less
				} else {
					i += size
				}
			}
		}
	}
	v.Only = keep
	for _, n := range keep {
		v.Faults = append(v.Faults, plan[n].String())
	}
	v.Replay = replay(v, o)
}

func contains(list []int, n int) bool {
	for _, x := range list {
		if x == n {
			return true
		}
	}
	return false
}

// replay is the command that shows a violation with everything that led to it.
func replay(v *Violation, o Options) string {
	only := "none"
	if len(v.Only) > 0 {
		words := make([]string, len(v.Only))
		for i, n := range v.Only {
			words[i] = strconv.Itoa(n)
		}
		only = strings.Join(words, ",")
	}
	s := fmt.Sprintf("steadycast simulate --seed %d --sites %d --hours %g", v.Seed, o.Sites, o.Length.Hours())
	if len(o.Faults) < len(faultKinds) {
		s += " --faults " + strings.Join(o.Faults, ",")
	}
	if o.Policy != "" {
		s += " --policy " + o.Policy
	}
	if o.Mutation != "" {
		s += " --mutate " + o.Mutation
	}
	return s + " --only " + only + " --trace"
}

// Write says for people what came of it.
func (r Report) Write(w io.Writer) {
	fmt.Fprintf(w, "%d schedules of %d sites, %.1f virtual hours, %d events\n", r.Schedules, r.Sites, r.VirtualHours, r.Events)
	fmt.Fprintf(w, "%d withdrawn, %d returned, %d refused by a guard, %d depreferred instead, %d elections\n",
		r.Happened["withdrawn"], r.Happened["returned"], r.refused(), r.Happened["granted deprefer"], r.Happened["leader begins"])
	for _, i := range invariants {
		t := r.Invariants[i.name]
		state := "holds"
		if t.Violated > 0 {
			state = fmt.Sprintf("VIOLATED in %d", t.Violated)
		}
		fmt.Fprintf(w, "  %-9s %9d checks  %-12s %s\n", i.name, t.Checked, state, i.text)
	}
	v := r.Violated
	if v == nil {
		return
	}
	fmt.Fprintf(w, "\nseed %d breaks %s at %.3fs: %s\n", v.Seed, v.Invariant, v.At.Seconds(), v.Text)
	fmt.Fprintf(w, "the faults without which it does not happen:\n")
	for _, f := range v.Faults {
		fmt.Fprintf(w, "  %s\n", f)
	}
	fmt.Fprintf(w, "to see it again: %s\n", v.Replay)
}

func (r Report) refused() (n uint64) {
	for k, x := range r.Happened {
		if strings.HasPrefix(k, "refused by ") {
			n += x
		}
	}
	return n
}
