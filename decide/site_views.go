package decide

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/steadycast/steadycast"
)

// Outside views: a router's own table, a looking glass, a collector. They can
// only take proof away. One that contradicts what is wanted keeps the change
// unproven, although every byte was acknowledged; one that does not know says
// nothing, because missing data is never failure; but it is waited for until it
// has looked.

// view is the newest word of one outside view on one prefix.
type view struct {
	name    string
	prefix  netip.Prefix
	outcome steadycast.Outcome // Up: the route is there
	reason  string
	from    Now // when it began to look
	since   Now // when it began to contradict; forever while it does not
}

// looked takes one look from outside. One that began before the newest change
// says nothing about it.
func (s *Site) looked(now Now, in Viewed) bool {
	if _, ok := findUnit(s.units, in.Prefix); !ok {
		return false
	}
	i, found := slices.BinarySearchFunc(s.views, in, func(v view, in Viewed) int {
		return cmp.Or(cmp.Compare(v.name, in.Name), comparePrefix(v.prefix, in.Prefix))
	})
	if !found {
		s.views = slices.Insert(s.views, i, view{name: in.Name, prefix: in.Prefix, since: forever})
	}
	v := &s.views[i]
	if found && in.From < v.from {
		return false
	}
	v.outcome, v.reason, v.from = in.Outcome, in.Reason, in.From
	s.compared = false
	return true
}

// forget drops the views that are no longer asked.
func (s *Site) forget(keep []string) {
	s.compared = false
	s.views = slices.DeleteFunc(s.views, func(v view) bool {
		gone := !slices.Contains(keep, v.name)
		if gone {
			s.recover(alarmKey{kind: "outside", name: v.name + " " + v.prefix.String()},
				steadycast.Event{Prefix: v.prefix, Reason: v.name + " is no longer asked"})
		}
		return gone
	})
}

// late: the view has not looked since the set last changed.
func (s *Site) late(v *view) bool { return s.given && v.from < s.setAt }

// contradicts says how a view differs from what is wanted of a unit; empty if
// it does not, or does not know.
func (s *Site) contradicts(v *view, u *unit) string {
	switch {
	case s.late(v):
		return ""
	case v.outcome == steadycast.Up && !u.announced:
		return v.name + " still shows the route"
	case v.outcome == steadycast.Down && u.announced:
		return v.name + " does not show the route"
	default:
		return ""
	}
}

// compareViews lets the outside views of one unit take its proof away.
func (s *Site) compareViews(u *unit) {
	for i := range s.views {
		v := &s.views[i]
		if v.prefix != u.id.Prefix || !u.proven {
			continue
		}
		if text := s.contradicts(v, u); text != "" {
			u.proven, u.unproven, u.contradicted = false, text, true
		} else if s.late(v) {
			u.proven, u.unproven = false, v.name+" has not looked since the newest change"
		}
	}
}

// watchViews raises and ends the alarms of views that contradict, and reports
// whether any does, or has still to look.
func (s *Site) watchViews(now Now, wake *deadline) (open bool) {
	for i := range s.views {
		v := &s.views[i]
		key := alarmKey{kind: "outside", name: v.name + " " + v.prefix.String()}
		text := ""
		if j, ok := findUnit(s.units, v.prefix); ok {
			text = s.contradicts(v, &s.units[j])
		}
		open = open || text != "" || s.late(v)
		if text == "" {
			v.since = forever
			s.recover(key, steadycast.Event{Prefix: v.prefix, Reason: v.name + " agrees with what was sent"})
			continue
		}
		v.since = min(v.since, now)
		if at := v.since + proveWithin; now < at {
			wake.by(at)
			continue
		}
		reason := fmt.Sprintf("unproven for %s: %s, although every peer that is up acknowledged the change", seconds(proveWithin), text)
		if v.reason != "" {
			reason += " (" + v.reason + ")"
		}
		s.alarm(key, steadycast.Event{Prefix: v.prefix, Reason: reason})
	}
	return open
}
