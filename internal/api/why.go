package api

import (
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Why answers GET /v1/why: everything that led to the state of one unit.
type Why struct {
	At  time.Time `json:"at"`
	Row Row       `json:"row"`
	// Committed is what the ledger holds; Real is what the site does, nil if
	// nothing was heard from it.
	Committed decide.UnitView `json:"committed"`
	Real      *Unit           `json:"real,omitempty"`
	// Services behind the prefix, with the newest round explained, and their checks.
	// Of another node's site only the verdicts that it told the ledger.
	Services []Service `json:"services"`
	Checks   []Check   `json:"checks"`
	// Sent is what left on the wire about the prefix.
	Sent   []steadycast.Sent       `json:"sent"`
	Prefix decide.PrefixView       `json:"prefix"`
	Freeze []decide.StandingFreeze `json:"freeze,omitempty"`
	// Paths of the site, the preferred first; Diverted is the order by which it goes
	// another, and PathWish the change that automation calls for and may not make.
	Paths    []decide.PathView `json:"paths,omitempty"`
	Diverted *decide.Divert    `json:"diverted,omitempty"`
	PathWish *decide.PathWish  `json:"path_wish,omitempty"`
	// Events are the newest about the unit, oldest first, at most ten.
	Events []steadycast.Event `json:"events"`
	// Next is one command or act that would change the state; empty if nothing needs to.
	Next string `json:"next,omitempty"`
}

// Why explains one unit, given the recent events; nil if there is no such unit.
func (s *Snapshot) Why(u steadycast.Unit, recent []steadycast.Event) *Why {
	x := newIndex(s)
	for i := range s.View.Units {
		v := &s.View.Units[i]
		if v.Unit != u {
			continue
		}
		w := &Why{At: s.At, Row: x.row(v), Committed: *v, Real: x.units[u], Services: []Service{}, Checks: []Check{}, Sent: []steadycast.Sent{}}
		for _, p := range s.View.Prefixes {
			if p.Prefix == u.Prefix {
				w.Prefix = p
			}
		}
		for _, f := range s.View.Freezes {
			if f.Scope.Covers(u) {
				w.Freeze = append(w.Freeze, f)
			}
		}
		if site := x.sites[u.Site]; site != nil {
			of := x.services[u.Prefix]
			for _, svc := range site.Services {
				if slices.Contains(of, svc.Verdict.Service) {
					w.Services = append(w.Services, svc)
				}
			}
			for _, c := range site.Checks {
				if c.Subject == "" && slices.Contains(of, c.Service) {
					w.Checks = append(w.Checks, c)
				}
			}
			for _, sent := range site.Actual.Sent {
				if sent.Prefix == u.Prefix {
					w.Sent = append(w.Sent, sent)
				}
			}
		}
		if w.Row.Far {
			w.Services = x.farServices(u)
		}
		w.Paths, w.Diverted, w.PathWish = s.Paths(u.Site), x.divert(u.Site), s.wish(u.Site)
		of := slices.Clone(x.services[u.Prefix])
		for _, p := range w.Paths {
			if p.Service != "" {
				of = append(of, p.Service)
			}
		}
		w.Events = about(u, of, recent)
		w.Next = w.next()
		return w
	}
	return nil
}

// about picks the newest ten events of the unit and of its services.
func about(u steadycast.Unit, services []string, recent []steadycast.Event) []steadycast.Event {
	out := []steadycast.Event{}
	for i := len(recent) - 1; i >= 0 && len(out) < 10; i-- {
		e := recent[i]
		if e.Site != u.Site {
			continue
		}
		if e.Prefix == u.Prefix || !e.Prefix.IsValid() && (slices.Contains(services, e.Service) || e.Kind == steadycast.EventPath) {
			out = append(out, e)
		}
	}
	slices.Reverse(out)
	return out
}

func (w *Why) next() string {
	site := w.Row.Unit.Site
	switch w.Row.State {
	case Announced:
		return ""
	case Locked:
		return "steadycast unlock " + site + " --reason TEXT"
	case OnHold:
		return "steadycast resume " + site + " --reason TEXT"
	case Announcing, Withdrawing:
		return "steadycast peers --site " + site
	case NotHeard:
		return "steadycast sites"
	}
	if d := w.Committed.Decision; d != 0 && !w.Committed.Approved {
		return fmt.Sprintf("steadycast approve %d --reason TEXT", d)
	}
	if len(w.Freeze) > 0 {
		return "steadycast thaw" + scopeArgs(w.Freeze[0].Scope) + " --reason TEXT"
	}
	if w.Row.Order != nil {
		return "steadycast undrain " + site + " --reason TEXT"
	}
	if len(w.Row.NodeOrders) > 0 && w.Row.State != Announced {
		return "steadycast undrain " + w.Row.NodeOrders[0].Order.Target() + " --reason TEXT"
	}
	if w.Row.State == Returning && w.Committed.CooldownLeftMS > 0 {
		return "steadycast announce " + site + " --reason TEXT" // which forgives it
	}
	return "steadycast checks --site " + site
}
