package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
)

// skewAfter is how long a node may act on another table than the fleet has in
// force, before it is an alarm and depreferences what it announces.
const skewAfter = 30 * time.Second

// skewedElsewhere are the other nodes that the voters hear act on another table:
// each of them says so itself if it can.
func (a *Agent) skewedElsewhere() []ledger.Skewed {
	l, ok := a.o.Ledger.(interface{ Skewed() []ledger.Skewed })
	if !ok {
		return nil // the site's own ledger has one node
	}
	return slices.DeleteFunc(slices.Clone(l.Skewed()), func(x ledger.Skewed) bool {
		return x.Site == a.o.Site && (x.Node == "" || x.Node == a.o.Node)
	})
}

// tryAgain answers for the staged table once more, if what was said did not
// arrive; it is called once a second.
func (a *Agent) tryAgain() {
	if a.o.Derive != nil {
		a.try(a.o.Ledger.View())
	}
}

// skewed notes that this node acts on another table than the one in force, and
// since when; it is called once a second.
func (a *Agent) skewed() {
	switch {
	case a.unfit == "":
		a.unfitAt = 0
	case a.unfitAt == 0:
		a.unfitAt = max(a.now(), 1)
	}
	text := ""
	if a.unfitAt != 0 && a.now()-a.unfitAt >= skewAfter {
		text = fmt.Sprintf("table_skew: this node acts on revision %d of the table and the fleet on %d", a.acting, a.edition.revision)
	}
	if (text == "") != (a.skew == "") {
		a.step(decide.Outdated{Reason: text})
		if text != "" {
			a.say(steadycast.Event{Kind: steadycast.EventAlarm, Reason: text + "; what it announces is depreferred"})
		} else {
			a.say(steadycast.Event{Kind: steadycast.EventRecovery, Reason: "table_skew has ended: this node acts on the table of the fleet"})
		}
	}
	a.skew = text
}
