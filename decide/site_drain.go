package decide

import (
	"fmt"
	"time"
)

// The times of a drain that are not policy.
const (
	loadFresh = 10 * time.Second // an older load says nothing of who still comes
	lookAgain = time.Second      // while clients still come
)

// names takes from a view until when caches may lead clients to a draining unit. It
// is counted from when the view was seen, so it is never too short.
func (s *Site) names(now Now, u *unit) {
	if left := wait(Time(u.view.NamesLeftMS)); left > 0 && (!u.emptying || now+left < u.namesUntil) {
		u.namesUntil = now + left
	}
}

// drain takes a unit out in the steps of drain.go. What is not announced stays out,
// and what fails in the middle goes at once. An order that ends in the middle
// changes nothing: the ledger counts the unit out, and it asks to return once it is.
func (s *Site) drain(now Now, u *unit) {
	switch {
	case !u.announced:
		s.takeOut(u, s.drainText(u, "drained"))
		return
	case s.wantOut(u):
		s.takeOut(u, s.drainText(u, "withdrawn at once while it drained ("+s.cause(u)+")"))
		return
	case !u.emptying:
		u.emptying = true
		if now < u.namesUntil {
			u.reason = s.drainText(u, "draining: no name leads here, and caches keep their answers for "+seconds(u.namesUntil-now))
			s.route(u, "announced", "draining")
		}
	}
	if !u.draining {
		if now < u.namesUntil {
			return
		}
		still := s.residual(now)
		if still != "" && now < u.namesUntil+s.table.Drain.Patience {
			u.reason = s.drainText(u, "draining: no cache leads here any more, and "+still)
			return
		}
		if still != "" {
			still = ", although " + still
		}
		u.draining, u.leaveAt = true, now+s.table.DrainWait
		u.reason = s.drainText(u, "draining"+still)
		s.route(u, "announced", "draining")
	}
	if now >= u.leaveAt {
		s.takeOut(u, s.drainText(u, "drained"))
	}
}

// residual says that clients still come to a site of which every unit leaves, "" if
// none do or nobody measures it.
func (s *Site) residual(now Now) string {
	d := s.table.Drain
	if d == nil || s.load == nil || now-s.load.From > loadFresh || s.load.Load <= d.Residual {
		return ""
	}
	for i := range s.units {
		if u := &s.units[i]; u.announced && !u.emptying {
			return "" // the load may be that of another
		}
	}
	return fmt.Sprintf("a load of more than %d still comes", d.Residual)
}

// drainText says whose order it is, or was.
func (s *Site) drainText(u *unit, done string) string {
	if u.view.Order == 0 && u.mine.Kind == 0 {
		return done + "; the order has ended, and it returns when this is done"
	}
	return s.orderText(u, done)
}
