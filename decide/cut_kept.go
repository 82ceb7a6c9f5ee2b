package decide

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// What became of routes that left is known at the site that they left, and a site
// may die of what it left for. So a node tells of its cuts with its beats, every
// other one can ask for that, and what a cut came to is committed: the newest of
// the fleet, to be shown anywhere, and compared with the next.
//
// It is remembered and nothing more: no guard, no floor and no answer looks at it.

const (
	// CutsTold bounds the cuts in one beat, and in one entry.
	CutsTold = 16
	// cutsRemembered are the newest of the fleet.
	cutsRemembered = 64
	// cutText bounds one reason in bytes, cutReasons how many there are.
	cutText, cutReasons = 300, 8
)

// Unheard is how long a site that was ordered out may be silent before its cut has
// failed: nobody else can say what its routers hold.
const Unheard = time.Minute

// CutTold is what a node says of a cut of its site.
type CutTold struct {
	Cut
	// Node that says so; empty where the leader says that nothing is heard of the site.
	Node string `json:"node,omitempty"`
	// AgeMS is how long ago it began, in milliseconds.
	AgeMS int64 `json:"age_ms"`
}

// CutKept is what the ledger remembers of a cut.
type CutKept struct {
	Cut
	Node string `json:"node,omitempty"`
	// Since is when it began.
	Since Time `json:"since"`
}

// Same reports whether both are about one cut at one node.
func (c CutTold) Same(k CutKept) bool {
	return c.Unit == k.Unit && c.Fence == k.Fence && c.Node == k.Node
}

// Ended reports whether the cut came to something that is worth keeping. A cut that
// has failed may still become complete, and is then kept anew.
func (c *Cut) Ended() bool { return c.State != CutInProgress || c.Over }

// KnownIn reports whether what it came to is among those that are remembered.
func (c CutTold) KnownIn(kept []CutKept) bool {
	return slices.ContainsFunc(kept, func(k CutKept) bool { return c.Same(k) && k.State == c.State && k.Over == c.Over })
}

// Settled reports whether telling the ledger changes nothing: what the cut came to is
// remembered, or it is older than all that are, of which there are as many as can be.
// So cuts that never end, however many, are not written down in turn.
func (c CutTold) Settled(kept []CutKept) bool {
	return c.KnownIn(kept) || len(kept) >= cutsRemembered && !slices.ContainsFunc(kept, func(k CutKept) bool {
		return c.Same(k) || CutKept{Cut: c.Cut, Node: c.Node}.compare(k) > 0
	})
}

// compare orders cuts by the position of what they carry out.
func (k CutKept) compare(o CutKept) int {
	return cmp.Or(k.Fence.Compare(o.Fence), k.Unit.Compare(o.Unit), cmp.Compare(k.Node, o.Node))
}

// oldest is which of them is forgotten first.
func oldest(list []CutKept) int {
	at := 0
	for i := range list {
		if list[i].compare(list[at]) < 0 {
			at = i
		}
	}
	return at
}

// Sound cuts what a node says to its bounds.
func (c CutTold) Sound() CutTold {
	c.Reason = cut(c.Reason, cutText-len("…"))
	c.Why = slices.Clone(c.Why[:min(len(c.Why), cutReasons)])
	for i := range c.Why {
		c.Why[i] = cut(c.Why[i], cutText-len("…"))
	}
	return c
}

// Fault says why the ledger would not remember it, "" if it does.
func (c *CutTold) Fault() string {
	if c.AgeMS < 0 || c.AgeMS > int64(maxTime) {
		return fmt.Sprintf("the cut of %s began %d ms ago, which cannot be", c.Unit, c.AgeMS)
	}
	return c.fault()
}

// fault says what cannot be of a cut that came to something, "" if nothing.
func (c *Cut) fault() string {
	switch c.State {
	case CutInProgress, CutComplete, CutFailed, CutUnmeasured:
	default:
		return fmt.Sprintf("a cut is not %q", c.State)
	}
	switch {
	case c.Unit.Site == "" || !c.Unit.Prefix.IsValid():
		return "a cut of nothing"
	case !c.Ended():
		return fmt.Sprintf("the cut of %s is still in progress", c.Unit)
	case min(c.Decided, c.Effect, c.Migrated, c.Lost) < 0 || min(c.Before, c.Rest) < 0:
		return fmt.Sprintf("a figure of the cut of %s is negative", c.Unit)
	case len(c.Why) > cutReasons || slices.ContainsFunc(append(slices.Clone(c.Why), c.Reason), func(s string) bool { return len(s) > cutText }):
		return fmt.Sprintf("the cut of %s says too much", c.Unit)
	}
	return ""
}

// cuts remembers what cuts came to. What a node says takes the place of what it said
// before of the same cut, and of that nothing was heard of it.
func (a *applying) cuts(told []CutTold) string {
	if len(told) > CutsTold {
		return fmt.Sprintf("%d cuts in one entry; at most %d", len(told), CutsTold)
	}
	for i := range told {
		c := &told[i]
		if no := c.Fault(); no != "" {
			return no
		}
	}
	for _, c := range told {
		if c.Settled(a.Cuts) {
			continue
		}
		list := keep(a.Cuts, func(k CutKept) bool {
			return !c.Same(k) && (!k.Unheard || k.Unit != c.Unit || k.Fence.Compare(c.Fence) > 0)
		})
		k := CutKept{Cut: c.Cut, Node: c.Node, Since: max(0, a.LT-Time(c.AgeMS))}
		k.Why = slices.Clone(c.Why)
		k.Kept = true
		if list = append(list, k); len(list) > cutsRemembered {
			i := oldest(list)
			list = slices.Delete(list, i, i+1)
		}
		a.Cuts = list
		if c.Unheard && len(c.Why) > 0 {
			a.event(steadycast.Event{Kind: steadycast.EventAlarm, Site: c.Unit.Site, Prefix: c.Unit.Prefix, To: "cut failed", Reason: c.Why[0]})
		}
	}
	return ""
}

// soundCuts checks of a snapshot what this code relies on.
func (s *state) soundCuts() error {
	if len(s.Cuts) > cutsRemembered {
		return fmt.Errorf("%d cuts are remembered; at most %d", len(s.Cuts), cutsRemembered)
	}
	for i := range s.Cuts {
		if no := s.Cuts[i].fault(); no != "" {
			return errors.New(no)
		}
		if s.Cuts[i].Since < 0 || s.Cuts[i].Since > s.LT {
			return fmt.Errorf("the cut of %s began at %d, which cannot be", s.Cuts[i].Unit, s.Cuts[i].Since)
		}
	}
	return nil
}

// UnheardOf are the units that were ordered out of a site of which nothing is heard
// for a while, and are not known to be out: their cuts have failed. kept is what is
// remembered, so that each is said once.
func (v *View) UnheardOf(site string, quiet time.Duration) []CutTold {
	if quiet < Unheard {
		return nil
	}
	var out []CutTold
	for _, u := range v.Units {
		o := u.Order
		if u.Unit.Site != site || o != steadycast.OrderDrain && o != steadycast.OrderWithdraw || u.Phase != steadycast.Out {
			continue
		}
		if slices.ContainsFunc(v.Cuts, func(k CutKept) bool {
			return k.Unit == u.Unit && k.Fence.Compare(u.Permit.Fence) >= 0
		}) {
			continue
		}
		out = append(out, CutTold{
			AgeMS: quiet.Milliseconds(),
			Cut: Cut{
				Unit: u.Unit, Fence: u.Permit.Fence, Reason: o.String() + " by order", State: CutFailed, Unheard: true,
				Why: []string{cut(v.unheard(u.Unit, quiet), cutText-len("…"))},
			},
		})
	}
	return out
}

// unheard says what is known of a unit whose site is silent, and what is not.
func (v *View) unheard(u steadycast.Unit, quiet time.Duration) string {
	text := fmt.Sprintf("unheard: nothing was heard of %s for %s, so nobody can say what its routers hold", u.Site, quiet.Round(time.Second))
	for _, s := range v.Table.ServicesAt(u.Site, u.Prefix) {
		if g := v.GoneOf(u.Site, s.Name); g != nil {
			return text + "; " + g.String() + ", and names lead elsewhere"
		}
	}
	return text + "; names lead elsewhere"
}
