package decide

import (
	"time"

	"github.com/steadycast/steadycast"
)

// A site that suddenly hears less than half of those who spoke of it before, of all
// its services together, does not know what it hears: the fault is in its way of
// hearing, and the few words that still come are no fair sample. Everything is
// held, and for DeafFor after most of it is heard again, for then old words and
// new ones come mixed. It counts only once most was heard: a start is no loss.

// defaultDeaf is how long everything is held after the others are heard again.
const defaultDeaf = time.Minute

// hearing is what the site makes of how much it hears.
type hearing struct {
	well  bool // most was heard once
	deaf  bool
	until Now // everything is held until then
}

// listen counts who is heard, and reports whether the site fell deaf or hears
// again. Ineligible ones are heard; who never spoke is not missed.
func (s *Site) listen(now Now) (changed bool) {
	heard, all := 0, 0
	for i := range s.services {
		j := &s.services[i].jury
		for k := range j.all {
			if k != j.own && j.all[k].heard {
				all++
				if j.all[k].fresh {
					heard++
				}
			}
		}
	}
	h := &s.hearing
	switch {
	case all == 0, s.o.DeafFor < 0: // a site alone hears nobody, ever
	case 2*heard >= all:
		if h.deaf {
			h.deaf, h.until, changed = false, now+s.o.DeafFor, true
			s.note(steadycast.Event{Kind: steadycast.EventRecovery, Reason: "most of what others say is heard again; what it means counts after " + seconds(s.o.DeafFor)})
		}
		h.well = true
	case h.well && !h.deaf:
		h.deaf, changed = true, true
		s.note(steadycast.Event{Kind: steadycast.EventAlarm, Reason: "less than half of what others say of this site is heard: everything is held, and nothing changes"})
	}
	return changed
}

// doubts says why nothing that is heard is judged now; empty when it is.
func (s *Site) doubts(now Now) string {
	switch h := &s.hearing; {
	case h.deaf:
		return "less than half of what others say is heard"
	case now < h.until:
		return "most of what others say was not heard until a moment ago; it counts in " + seconds(h.until-now)
	default:
		return ""
	}
}

// relisten holds everything when the site falls deaf, and judges everything anew
// when what it hears counts again.
func (s *Site) relisten(now Now) (changed bool) {
	again := s.hearing.until != 0 && now >= s.hearing.until && !s.hearing.deaf
	if again {
		s.hearing.until = 0
	}
	if s.listen(now) && s.hearing.deaf {
		for i := range s.services {
			s.hold(now, &s.services[i], true)
		}
		return true
	}
	if again {
		for i := range s.services {
			s.judge(now, &s.services[i])
		}
	}
	return again
}
