package decide

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/steadycast/steadycast"
)

func (s *stage) say(r Reply) []string {
	var out []string
	if r.Invalid != "" {
		out = append(out, "invalid: "+r.Invalid)
	}
	if r.Refused != nil {
		out = append(out, "refused whole: "+r.Refused.String())
	}
	if r.Before != nil {
		out = append(out, "entered before, at "+r.Before.String())
	}
	if r.Revision != 0 {
		out = append(out, fmt.Sprintf("staged as revision %d", r.Revision))
	}
	if r.Answers != nil {
		s.last = r.Answers
	}
	for _, a := range r.Answers {
		if a.Stale {
			out = append(out, a.Site+": stale")
		}
		for _, u := range a.Rulings {
			out = append(out, ruling(u))
		}
	}
	for _, u := range r.Rulings {
		out = append(out, ruling(u))
	}
	for _, ev := range r.Events {
		switch ev.Kind {
		case steadycast.EventPermit, steadycast.EventRefused, steadycast.EventConfig, steadycast.EventProof:
			continue // the answer says it
		}
		out = append(out, fmt.Sprintf("%s: %s", ev.Kind, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s", ev.Site, prefixText(ev.Prefix), arrow(ev.From, ev.To), ev.Reason)), " ")))
	}
	return out
}

func ruling(r Ruling) string {
	head := r.Unit.Site + " " + prefixText(r.Unit.Prefix)
	g, refused := r.Refusal()
	switch {
	case r.Permit != nil && refused:
		head += ": " + r.Permit.Action.String() + ", because " + g.String()
	case r.Permit != nil:
		head += ": permit to " + r.Permit.Action.String()
	case refused:
		head += ": " + g.String()
	default:
		head += ": accepted"
	}
	if g.RetryAfter > 0 {
		head += fmt.Sprintf(" (again in %s)", g.RetryAfter)
	}
	return head
}

func arrow(from, to string) string {
	if from == "" && to == "" {
		return ""
	}
	return from + "→" + to
}

func prefixText(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}

func (s *stage) view() []string {
	var out []string
	v := s.f.View()
	for _, u := range v.Units {
		line := u.Unit.String() + " " + u.Phase.String()
		for _, flag := range []struct {
			on   bool
			text string
		}{
			{!u.Ever, "never announced"}, {u.Lost, "lost"}, {u.Unheard, "unheard"}, {u.Depreferred, "depreferred by " + u.Guard},
			{u.Locked, "locked"}, {u.OnHold, "on hold"}, {u.Recalled, "recalled"},
			{u.Order != steadycast.OrderNone, "order " + u.Order.String()},
			{u.Frozen != "", "frozen by " + u.Frozen}, {u.Breaker != "", "breaker: " + u.Breaker},
			{u.CooldownLeftMS > 0, fmt.Sprintf("cooldown %s", wait(Time(u.CooldownLeftMS)))},
			{u.BudgetUsed > 0, fmt.Sprintf("budget %d of %d", u.BudgetUsed, u.BudgetLimit)},
			{u.Cycles > 0, fmt.Sprintf("%d cycles", u.Cycles)},
		} {
			if flag.on {
				line += " · " + flag.text
			}
		}
		out = append(out, line)
	}
	for _, o := range v.Orders {
		what := "all"
		if len(o.Order.Prefixes) > 0 {
			what = list(o.Order.Prefixes)
		}
		line := fmt.Sprintf("order %s %s %s: %s", o.Order.Kind, o.Order.Site, what, o.Order.Reason)
		if o.Recovered {
			line += " (from before the recovery)"
		}
		if o.Until != 0 {
			line += fmt.Sprintf(" (%s left)", wait(Time(o.LeftMS)))
		}
		out = append(out, line)
	}
	for _, d := range v.Decisions {
		out = append(out, fmt.Sprintf("decision %d to %s %s, %s (%s left)", d.Number, d.Action, d.Unit, d.Answer, wait(Time(d.LeftMS))))
	}
	return out
}
