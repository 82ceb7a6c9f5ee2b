package decide

import (
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
)

// The rungs of the ladder that the fleet takes by itself, beside what a person ordered:
// the lower of the two counts. It goes down at once, since what it does is to let go,
// and up again when the cause is over:
//
//	conservative  automation is frozen everywhere, by a person or since a recovery: until
//	              that ends
//	minimal       nothing that names lead to is well anywhere, so health can move no
//	              answers any more: until something has been for breaker_clear; only
//	              where levels: has do: minimal
//
// The breaker is no cause: it keeps routes, since without them nothing is reached, while
// names have an order of last resorts of their own, made for when many sites fail at once.
//
// dns mode normal is a person's word against the cause of the moment; the next one counts
// again. Frozen is only ordered: no fault of the fleet makes orders untrue. A server that
// hears no ledger goes down by itself, too (internal/answers).

// NamesAuto is the rung that the fleet took by itself.
type NamesAuto struct {
	// Mode is conservative or minimal; empty for none.
	Mode   string `json:"mode,omitempty"`
	Reason string `json:"reason,omitempty"`
	Since  Time   `json:"since,omitempty"`
	// Calm is since when minimal has no cause any more; 0 while it has.
	Calm Time `json:"calm,omitempty"`
	// Waived is the rung that a person said normal on: its cause counts again once it is
	// over, and one for a lower rung at once.
	Waived string `json:"waived,omitempty"`
}

// Rung is the mode that the answers are in, of the one that was ordered and the one that
// the fleet took by itself, and why.
func (n *NamesView) Rung() (mode, why string) {
	if slices.Index(namesModes, n.Auto.Mode) > max(slices.Index(namesModes, n.Mode), 0) {
		return n.Auto.Mode, "by itself: " + n.Auto.Reason
	}
	if n.Mode == "" {
		return NamesNormal, ""
	}
	return n.Mode, n.Actor + ": " + n.Reason
}

// takeRung goes down for a cause, or up when there is none any more.
func (a *applying) takeRung() {
	mode, why := a.rungCause()
	n := &a.Names
	switch {
	case n.Auto.Waived != "" && mode != "" && slices.Index(namesModes, mode) <= slices.Index(namesModes, n.Auto.Waived):
		return
	case mode == n.Auto.Mode && n.Auto.Waived == "":
		n.Auto.Calm = 0
		return
	case n.Auto.Mode == NamesMinimal && n.Auto.Calm == 0:
		n.Auto.Calm = max(a.LT, 1)
		return
	case n.Auto.Mode == NamesMinimal && a.within(n.Auto.Calm, a.Table.Guards.BreakerClear):
		return
	}
	was, _ := n.Rung()
	n.Auto = NamesAuto{}
	if mode != "" {
		n.Auto = NamesAuto{Mode: mode, Reason: why, Since: a.LT}
	}
	now, reason := n.Rung()
	a.hold(was, now)
	if was == now {
		return
	}
	n.Since = a.LT
	if reason == "" {
		reason = "the cause is over"
	}
	a.event(steadycast.Event{Kind: steadycast.EventNames, From: was, To: now, Actor: "auto", Reason: reason})
	if slices.Index(namesModes, now) > slices.Index(namesModes, was) {
		a.event(steadycast.Event{Kind: steadycast.EventAlarm, From: was, To: now, Reason: "answers are " + now + " " + reason})
	}
}

// rungCause is the lowest rung that there is a cause for, and the cause; "" for none.
func (a *applying) rungCause() (mode, why string) {
	if _, used := a.Table.level(LevelMinimal); used {
		if why := a.nothingWell(); why != "" {
			return NamesMinimal, why
		}
	}
	if !slices.ContainsFunc(a.Table.Services, func(s Service) bool { return s.TTL > 0 }) {
		return "", "" // no name leads anywhere
	}
	for _, f := range a.Freezes {
		if f.Scope == (Scope{}) {
			return NamesConservative, "automation is frozen: " + f.Actor + ": " + f.Reason
		}
	}
	return "", ""
}

// nothingWell: of all that names lead to, at all sites, everything is down or gone.
func (a *applying) nothingWell() string {
	bad := 0
	for i := range a.Table.Services {
		s := &a.Table.Services[i]
		if s.TTL == 0 || len(s.Prefixes) == 0 {
			continue
		}
		for _, site := range s.Sites {
			_, gone := goneAt(a.Gone, site, s.Name)
			k, known := a.verdict(site, s.Name)
			if !gone && (!known || a.Verdicts[k].Verdict.State != steadycast.Unhealthy) {
				return "" // what is not known is not down
			}
			bad++
		}
	}
	if bad == 0 {
		return ""
	}
	return fmt.Sprintf("all %d that names lead to are down or gone", bad)
}

// waive is a person's word, normal, against the cause of the moment.
func (n *NamesView) waive() {
	if n.Auto.Mode != "" {
		n.Auto = NamesAuto{Waived: n.Auto.Mode}
	}
}

// soundRung checks of a snapshot what this code relies on.
func (n *NamesView) soundRung(now Time) error {
	x := n.Auto
	switch {
	case !slices.Contains([]string{"", NamesConservative, NamesMinimal}, x.Mode), !slices.Contains([]string{"", NamesConservative, NamesMinimal}, x.Waived),
		x.Mode == "" && x != (NamesAuto{Waived: x.Waived}),
		x.Mode != "" && (x.Waived != "" || x.Reason == ""),
		x.Since < 0 || x.Since > now || x.Calm < 0 || x.Calm > max(now, 1) || x.Calm != 0 && x.Mode != NamesMinimal:
		return fmt.Errorf("answers by themselves in mode %q, which cannot be", cut(x.Mode, 40))
	}
	return nil
}
