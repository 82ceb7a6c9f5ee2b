package decide

import "github.com/steadycast/steadycast"

// path is the one that the site is to announce by. Before the first view it is what
// the speaker is at: a person who breaks the glass moves no path by that.
func (s *Site) path() string {
	switch {
	case s.committed:
		return s.view.Path(s.table, s.name)
	case s.actual.Toward != "":
		return s.actual.Toward
	default:
		return s.actual.Path
	}
}

// watchPath raises an alarm while the routes do not get where they are to go.
func (s *Site) watchPath(now Now, wake *deadline) {
	key := alarmKey{kind: "path"}
	switch why := s.pathOpen(); {
	case why == "":
		s.recover(key, steadycast.Event{Reason: "the routes go the path that is wanted"})
	case now < s.setAt+s.set.Overlap+proveWithin:
		wake.by(s.setAt + s.set.Overlap + proveWithin)
	default:
		s.relay(key, steadycast.Event{Reason: why})
	}
}

// pathOpen says why the routes are still on their way from one path to another, ""
// when they are not.
func (s *Site) pathOpen() string {
	if a := &s.actual; a.Toward != a.Path {
		return "not by " + a.Toward + " alone yet, and kept where they were: " + a.PathWait
	}
	return ""
}
