package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// The last resort (rule S4): everything is out, and there is nobody to ask. A site
// whose ledger was out of reach for long, that is well, that no person ordered out
// or froze, and from which nobody is found who serves the prefix, announces it and
// says so. Somebody must have looked and found nobody: where nothing looks, there
// is no last resort, for missing data is no absence.
//
// What it began it does not simply end when the ledger is back: it asks for its
// return like anyone, and stays until the answer, unless it fails meanwhile.

// defaultResort is how long the ledger must be out of reach.
const defaultResort = 15 * time.Minute

// elsewhereFor is how old a look may be that found nobody.
const elsewhereFor = time.Minute

// elsewhere takes one look for the prefix at other places.
func (s *Site) lookedElsewhere(in Elsewhere) bool {
	if _, ok := findUnit(s.units, in.Prefix); !ok {
		return false
	}
	i := slices.IndexFunc(s.others, func(o Elsewhere) bool { return o.Name == in.Name && o.Prefix == in.Prefix })
	switch {
	case i < 0:
		s.others = append(s.others, in)
	case in.From < s.others[i].From:
		return false
	default:
		s.others[i] = in
	}
	return true
}

// nobody says who looked and found nobody that serves the unit's prefix; empty
// when somebody does, or nobody looked lately.
func (s *Site) nobody(now Now, u *unit) string {
	text := ""
	for _, o := range s.others {
		if o.Prefix != u.id.Prefix || now-o.From > elsewhereFor {
			continue
		}
		switch o.Outcome {
		case steadycast.Up:
			return ""
		case steadycast.Down:
			text = o.Name + " finds nobody who serves it"
		}
	}
	for i := range s.views {
		if v := &s.views[i]; v.prefix == u.id.Prefix && v.outcome == steadycast.Up {
			return ""
		}
	}
	return text
}

// resortAt is when the last resort may begin; forever while the ledger can be reached.
func (s *Site) resortAt() Now {
	if s.ledgerGone == "" || s.o.LastResort < 0 {
		return forever
	}
	return s.ledgerSince + s.o.LastResort + s.o.Jitter
}

// resort announces a unit as a last resort, or ends that where it fails.
func (s *Site) resort(now Now, u *unit) {
	v := &u.view
	switch {
	case u.resort && (v.Phase != steadycast.Out || !u.announced):
		u.resort = false
	case u.resort && v.Order == steadycast.OrderAnnounce:
		// a person has it announced meanwhile, whatever its health
	case u.resort && !s.well(u, func(sv *service) bool { return !sv.failed() && !sv.certain() }):
		u.resort = false
		s.takeOut(u, "announced as a last resort, and it fails")
	case u.announced || v.Phase == steadycast.In && !u.left || v.Order != steadycast.OrderNone || u.sentOut() || v.Frozen != "" || now < s.resortAt():
	case !s.well(u, func(sv *service) bool { return sv.steady() && !sv.state.Troubled() && sv.tally.bad == 0 }):
	default:
		if why := s.nobody(now, u); why != "" {
			u.resort = true
			s.putIn(u, fmt.Sprintf("announced as a last resort: no ledger for %s, its own rounds pass, and %s", seconds(now-s.ledgerSince), why))
			s.note(steadycast.Event{Kind: steadycast.EventAlarm, Prefix: u.id.Prefix, Reason: u.reason})
		}
	}
}
