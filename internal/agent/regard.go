package agent

import (
	"fmt"
	"strings"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// A node that a person took out of a site of several serves nobody, however well it
// is. So whoever looks at that site leaves it out: else the site would be well by a
// node that takes no packets, while the last one that does is dead.

// derive makes the plan of a table, with the looks at other sites as orders over
// their nodes stand now.
func (a *Agent) derive(t decide.Table) (Plan, error) {
	p, err := a.o.Derive(t)
	if err == nil && p.LooksBut != nil {
		v := a.o.Ledger.View()
		if len(v.NodeOrders) > 0 {
			v.Table = t
			p.Probes = p.LooksBut(v.TakenOut)
		}
	}
	return p, err
}

// regard looks otherwise at other sites once orders over their nodes changed.
func (a *Agent) regard(v *decide.View) {
	key := outOf(v)
	if key == a.regarded {
		return
	}
	p := *a.plan.Load()
	if p.LooksBut == nil {
		a.regarded = key
		return
	}
	p.Probes = p.LooksBut(v.TakenOut)
	p, _ = a.fits(p)                 // what is left out was said when the table came
	if err := a.use(p); err != nil { // tried again when the view changes, and said once
		if text := fmt.Sprintf("nodes that are taken out by order are looked at as before: %v", err); text != a.unregarded {
			a.unregarded = text
			a.say(steadycast.Event{Kind: steadycast.EventAlarm, Reason: text})
		}
		return
	}
	a.regarded, a.unregarded = key, ""
}

// outOf are the nodes and prefixes that orders take out, as one text to compare.
func outOf(v *decide.View) string {
	var b strings.Builder
	for _, o := range v.NodeOrders {
		if o.Order.Kind != steadycast.OrderAnnounce && !o.Recovered {
			fmt.Fprintln(&b, o.Order.Target(), o.Order.Prefixes)
		}
	}
	return b.String()
}
