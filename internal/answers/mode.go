package answers

import (
	"cmp"
	"slices"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
)

// Mode is a rung of the ladder by which answers let go of automation, and then of
// everything but the addresses themselves. Each lets go of more than the one before.
type Mode uint8

// The rungs, in the order of the ledger's words for them.
const (
	Normal       Mode = iota // answers follow health, orders and the table
	Conservative             // health moves nothing any more; orders and the table do
	Frozen                   // orders neither; only another table, or another mode
	Minimal                  // the plain anycast addresses, for names that have some
)

var modes = [...]string{decide.NamesNormal, decide.NamesConservative, decide.NamesFrozen, decide.NamesMinimal}

func (m Mode) String() string { return modes[m] }

// Modes are the words for all of them, the first the highest.
func Modes() []string { return slices.Clone(modes[:]) }

// Committed is the mode that the whole fleet is in, by a person or by itself, and why.
func Committed(v *decide.View) (m Mode, why string) {
	word, why := v.Names.Rung()
	if i := slices.Index(modes[:], word); i > 0 {
		return Mode(i), why
	}
	return Normal, ""
}

// held is what answers see of the committed state in the mode that was committed:
// below normal, health as it was when it ceased to move them, and below
// conservative orders likewise.
func held(v *decide.View) *decide.View {
	mode, _ := Committed(v)
	h := v.Names.Held
	if mode != Conservative && mode != Frozen || h == nil {
		return v
	}
	is := *v
	is.Verdicts, is.Gone, is.Units = h.Verdicts, h.Gone, nil
	for _, u := range h.Units {
		is.Units = append(is.Units, decide.UnitView{Unit: u.Unit, Phase: u.Phase, Depreferred: u.Depreferred})
	}
	if mode == Frozen {
		is.Orders, is.Shares, is.Names.Members = h.Orders, h.Shares, h.Members
		return &is
	}
	is.Shares = heldShares(v.Shares, h.Shares)
	return &is
}

// heldShares are what people give sites of their clients now, and what returns
// had come to then: of a site that has both, the less.
func heldShares(now, then []decide.ShareView) []decide.ShareView {
	var out []decide.ShareView
	for _, x := range now {
		x.Permille = x.Given
		if x.Permille < decide.Whole {
			out = append(out, x)
		}
	}
	for _, x := range then {
		if x.Ramp.Of == 0 {
			continue
		}
		i := slices.IndexFunc(out, func(o decide.ShareView) bool { return o.Site == x.Site && o.Service == x.Service })
		if i >= 0 {
			out[i].Permille = min(out[i].Permille, x.Permille)
			continue
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b decide.ShareView) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Service, b.Service))
	})
	return out
}

// members are those that people switched by themselves.
func members(v *decide.View) map[string]dnsfallback.Forced {
	if len(v.Names.Members) == 0 {
		return nil
	}
	out := map[string]dnsfallback.Forced{}
	for _, m := range v.Names.Members {
		f := dnsfallback.Forced{To: dnsfallback.Down, Who: m.Actor, Why: m.Reason}
		if m.To == decide.MemberUp {
			f.To = dnsfallback.Up
		}
		out[m.Member] = f
	}
	return out
}
