package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// Cutter follows the cuts of one site: from the first sign of trouble, or an
// order, until what went elsewhere has been seen to be elsewhere. It is volatile
// and pure, like [Site]; the shell tells it what is measured.
//
// That a route was withdrawn is the beginning of a cut and not its end. A cut is
//
//   - in progress while something that can be measured says otherwise: a router
//     or a view from outside still has the route, a node has not heard of it,
//     packets still come, a server of names still leads clients here, the site
//     still answers to who asks at the shared address, a site that took over is not known to be well yet;
//   - failed while a site that took over is unwell: then a person should think of
//     going back;
//   - complete once all of it was so for [CutWindow], with the packets counted;
//   - unmeasured where all else is so and nobody counts packets here. It is never
//     taken for complete.
//
// A unit that is announced again ends its cut, which keeps the state it had.
type Cutter struct {
	cuts  []Cut     // oldest first
	units []cutting // in order of Unit.Compare
}

// CutWindow is how long everything must be as it should before a cut is complete.
const CutWindow = 10 * time.Second

const (
	// cutsKept are the newest, so that one can be compared with the one before.
	cutsKept = 64
	// residualPercent of what came before may still come: scanners, and hosts that
	// ask an address whatever the routes say.
	residualPercent = 1
	// longestStep bounds what is booked as lost between two looks: a shell that was
	// suspended has not looked at all.
	longestStep = 5 * time.Second
)

// CutState is how far a cut is.
type CutState string

// The states of a cut.
const (
	CutInProgress CutState = "in progress"
	CutComplete   CutState = "complete"
	CutFailed     CutState = "failed"
	CutUnmeasured CutState = "unmeasured"
)

// Cut is one leaving of one unit. All its times count from Began.
type Cut struct {
	Unit steadycast.Unit `json:"unit"`
	// Fence is the newest position of the ledger that the site acted on.
	Fence  steadycast.Fence `json:"fence"`
	Reason string           `json:"reason"`
	// Began is when a service of it was first in trouble; for an order, when the site
	// carried it out. Of node time.
	Began Now      `json:"-"`
	State CutState `json:"state"`
	// Why says what is missing, or what has failed.
	Why []string `json:"why,omitempty"`
	// Over: the unit is announced again.
	Over bool `json:"over,omitempty"`
	// Unheard: it has failed because nothing is heard of the site; see [Unheard].
	Unheard bool `json:"unheard,omitempty"`
	// Kept: the ledger remembers what it came to.
	Kept bool `json:"kept,omitempty"`

	// Decided is until the site had leave and acted. Effect is until every router had
	// acknowledged it and every node had heard of it, Migrated until what still came
	// was under the threshold; 0 is not yet.
	Decided  time.Duration `json:"decided_ns"`
	Effect   time.Duration `json:"effect_ns,omitempty"`
	Migrated time.Duration `json:"migrated_ns,omitempty"`
	// Lost is the loss integral until Effect: the share of voices that saw the service
	// fail, times how long. One second of a total failure is one second.
	Lost time.Duration `json:"lost_ns"`
	// Before is what came in a second before, and Rest what comes now; both in what
	// the site counts, and 0 where it does not.
	Before int64 `json:"before"`
	Rest   int64 `json:"rest"`
	// Counted: the site counts what comes.
	Counted bool `json:"counted,omitempty"`
	// Measured: something tells where clients go, packets or servers of names, or it is
	// not known yet whether anything does; so it is worth waiting for.
	Measured bool `json:"measured,omitempty"`

	quiet, stable Now // since when; 0 is not
}

// cutting is what is known of a unit between its cuts.
type cutting struct {
	unit    steadycast.Unit
	at      Now // of the newest look
	in      bool
	onset   Now
	trouble bool
	lost    time.Duration
	calm    int64 // rate while all was well
}

// CutFacts are what is known of one unit at one look.
type CutFacts struct {
	Unit      steadycast.Unit
	Announced bool
	Fence     steadycast.Fence
	Reason    string
	// Proven: every router has acknowledged what is wanted and no view contradicts;
	// Unproven says who has not.
	Proven   bool
	Unproven string
	// Behind are nodes that have not heard of Fence yet.
	Behind []string
	// Failing of Voices see a service of it fail.
	Failing, Voices int
	// Counted: Rate is what comes for it in a second.
	Counted bool
	Rate    int64
	// Led is how many answers of late still led clients to a service of it here, and
	// LedBy the nodes that gave them; Named servers of names count theirs.
	Led   int64
	LedBy []string
	Named int
	// Met are nodes that ask the shared address and are answered by this very site, of
	// Asked that have asked of late and Askers that would.
	Met           []string
	Asked, Askers int
	// Unasked: it is not known yet what servers of names count, and who meets whom.
	Unasked bool
	// Targets are the other sites that announce it now. Alone: the fleet has no other.
	Targets []CutTarget
	Alone   bool
}

// CutTarget is a site that takes over.
type CutTarget struct {
	Site string
	// Bad says why it is unwell, or what it carries too much; empty if neither.
	Bad string
}

// NewCutter goes on from what was kept.
func NewCutter(kept []Cut) *Cutter {
	return &Cutter{cuts: slices.Clone(kept[max(0, len(kept)-cutsKept):])}
}

// Cuts are those that are kept, oldest first. It is a copy.
func (c *Cutter) Cuts() []Cut {
	out := slices.Clone(c.cuts)
	for i := range out {
		out[i].Why = slices.Clone(out[i].Why)
	}
	return out
}

// Tell are the cuts that others should know of: those that are not done, and those
// of which the ledger does not remember yet what they came to. node is who tells.
// The newest come first, [CutsTold] at most.
func (c *Cutter) Tell(now Now, node string) []CutTold {
	var out []CutTold
	for i := len(c.cuts) - 1; i >= 0 && len(out) < CutsTold; i-- {
		if x := c.cuts[i]; !x.Ended() || !x.Kept || x.State == CutFailed && !x.Over {
			out = append(out, CutTold{Cut: x, Node: node, AgeMS: max(0, now-x.Began).Milliseconds()}.Sound())
		}
	}
	return out
}

// Remembered notes what the ledger remembers by now. It reports whether that is new.
func (c *Cutter) Remembered(node string, kept []CutKept) (changed bool) {
	for i := range c.cuts {
		x := &c.cuts[i]
		if x.Kept || !x.Ended() || !(CutTold{Cut: *x, Node: node}).KnownIn(kept) {
			continue
		}
		x.Kept, changed = true, true
	}
	return changed
}

// Look takes the newest facts of every unit. It reports whether a state changed,
// which is worth keeping.
func (c *Cutter) Look(now Now, facts []CutFacts) (changed bool) {
	for _, f := range facts {
		u := c.of(f.Unit)
		step := min(max(now-u.at, 0), longestStep)
		if u.at == 0 {
			step = 0
		}
		u.at = now
		lost := time.Duration(0)
		if f.Voices > 0 {
			lost = step * time.Duration(f.Failing) / time.Duration(f.Voices)
		}
		open := c.open(f.Unit)
		switch {
		case f.Announced:
			if open != nil {
				open.Over, open.Kept, changed = true, false, true
			}
			u.well(now, f, lost)
		case u.in:
			c.begin(now, u, f)
			open, changed = c.open(f.Unit), true
			open.advance(now, f, lost)
		case open != nil:
			changed = open.advance(now, f, lost) || changed
		}
		u.in = f.Announced
	}
	for i := range c.cuts { // one of a unit that the table has no more is over
		if x := &c.cuts[i]; !x.Over && len(facts) > 0 && !slices.ContainsFunc(facts, func(f CutFacts) bool { return f.Unit == x.Unit }) {
			x.Over, x.Kept, changed = true, false, true
		}
	}
	return changed
}

// well keeps what a cut that may come will count from.
func (u *cutting) well(now Now, f CutFacts, lost time.Duration) {
	switch {
	case f.Failing == 0:
		u.trouble, u.lost = false, 0
		if f.Counted {
			u.calm = f.Rate
		}
	case !u.trouble:
		u.trouble, u.onset, u.lost = true, now, 0
	default:
		u.lost += lost
	}
}

func (c *Cutter) begin(now Now, u *cutting, f CutFacts) {
	cut := Cut{Unit: f.Unit, Fence: f.Fence, Reason: f.Reason, Began: now, State: CutInProgress, Before: u.calm}
	if u.trouble {
		cut.Began, cut.Decided, cut.Lost = u.onset, now-u.onset, u.lost
	}
	c.cuts = append(c.cuts, cut)
	c.cuts = c.cuts[max(0, len(c.cuts)-cutsKept):]
}

// advance looks at what is missing. What is complete stays so.
func (c *Cut) advance(now Now, f CutFacts, lost time.Duration) (changed bool) {
	if c.State == CutComplete || c.State == CutUnmeasured {
		return false
	}
	was, before := c.State, len(c.Why)
	c.Counted, c.Measured = f.Counted, f.Counted || f.Named > 0 || f.Askers > 0 || f.Unasked
	c.Why = nil
	if c.Effect == 0 {
		c.Lost += lost
	}
	effect := f.Proven && len(f.Behind) == 0
	switch {
	case !f.Proven:
		c.Why = append(c.Why, "route: "+f.Unproven)
	case len(f.Behind) > 0:
		c.Why = append(c.Why, "not heard of yet by "+strings.Join(f.Behind, ", "))
	case c.Effect == 0:
		c.Effect = max(1, now-c.Began)
	}
	quiet := c.residual(now, f)
	c.State = CutInProgress
	stable := c.targets(now, f)
	if effect && stable && quiet && c.State == CutInProgress {
		c.State = CutComplete
		if !f.Counted {
			c.State = CutUnmeasured
			c.Why = []string{f.unmeasured()}
		}
	}
	if c.State != was {
		c.Kept = false
	}
	return c.State != was || len(c.Why) != before
}

// residual reports whether what still comes was little enough for long enough.
// Where nothing is counted it does not stand in the way.
func (c *Cut) residual(now Now, f CutFacts) bool {
	lingers := false
	for _, why := range []string{f.led(), f.met()} {
		if why != "" {
			lingers, c.quiet, c.Migrated = true, 0, 0
			c.Why = append(c.Why, why)
		}
	}
	if !f.Counted {
		return !lingers
	}
	c.Rest = f.Rate
	most := c.Before * residualPercent / 100
	if f.Rate > most {
		c.quiet, c.Migrated = 0, 0
		c.Why = append(c.Why, fmt.Sprintf("residual: %d a second still come here, of %d before; at most %d", f.Rate, c.Before, most))
		return false
	}
	if lingers {
		return false
	}
	if c.quiet == 0 {
		c.quiet, c.Migrated = now, max(1, now-c.Began)
	}
	return c.lasting(now, c.quiet, "quiet")
}

// targets reports whether every site that takes over was well for long enough.
func (c *Cut) targets(now Now, f CutFacts) bool {
	bad := []string{}
	for _, t := range f.Targets {
		if t.Bad != "" {
			bad = append(bad, t.Site+": "+t.Bad)
		}
	}
	if len(f.Targets) == 0 && !f.Alone {
		bad = append(bad, "no other site announces it")
	}
	if len(bad) > 0 {
		c.State, c.stable = CutFailed, 0
		c.Why = append(c.Why, "target: "+strings.Join(bad, "; ")+". Roll back?")
		return false
	}
	if c.stable == 0 {
		c.stable = now
	}
	return c.lasting(now, c.stable, "target well")
}

// lasting: it is so since a while, which is long enough.
func (c *Cut) lasting(now, since Now, what string) bool {
	if now-since >= CutWindow {
		return true
	}
	c.Why = append(c.Why, fmt.Sprintf("%s for %s of %s", what, seconds(now-since), seconds(CutWindow)))
	return false
}

func (c *Cutter) of(u steadycast.Unit) *cutting {
	i, ok := slices.BinarySearchFunc(c.units, u, func(x cutting, u steadycast.Unit) int { return x.unit.Compare(u) })
	if !ok {
		c.units = slices.Insert(c.units, i, cutting{unit: u})
	}
	return &c.units[i]
}

// open is the newest cut of a unit, if it is not over.
func (c *Cutter) open(u steadycast.Unit) *Cut {
	for i := len(c.cuts) - 1; i >= 0; i-- {
		if c.cuts[i].Unit == u {
			if c.cuts[i].Over {
				return nil
			}
			return &c.cuts[i]
		}
	}
	return nil
}
