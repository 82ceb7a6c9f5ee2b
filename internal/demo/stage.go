package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// stage is what a scenario may do and see. What it sees is the router's table,
// and beside it what the parts say of themselves.
type stage struct {
	ctx    context.Context
	f      *fleet
	sites  []string // that announce
	router *watch

	// What the summary says; zero until measured.
	detect, permit, withdraw, names time.Duration

	// forgets is the site that a table leaves out, once it is in force.
	forgets string
}

func (f *fleet) stage(ctx context.Context) *stage {
	return &stage{ctx: ctx, f: f, sites: f.names(), router: f.watch}
}

// tell is one line of the story.
func (s *stage) tell(format string, args ...any) {
	s.f.report.line(time.Now(), Line{Kind: "story", Reason: fmt.Sprintf(format, args...)})
}

// fault breaks or mends a service.
func (s *stage) fault(site, what string) error { return s.f.breaks(site, what) }

// judged is when a site reached a verdict, by its own words.
func (s *stage) judged(site, state string, after time.Time) (time.Time, bool) {
	events, _ := s.f.ring.Since(0)
	return firstOf(events, steadycast.EventVerdict, site, state, after)
}

// permitted is when the ledger last gave a site leave to withdraw, between two
// moments. One that came too late was given up, and asked for again.
func (s *stage) permitted(site string, after, before time.Time) (at time.Time, ok bool) {
	for _, e := range s.f.record.all() {
		if e.Kind == steadycast.EventPermit && e.Site == site && e.To == steadycast.Withdraw.String() && e.At.After(after) && e.At.Before(before) {
			at, ok = e.At, true
		}
	}
	return at, ok
}

// cut separates sites, with their voters, from all others.
func (s *stage) cut(sites ...string) {
	var these []netip.Addr
	for _, x := range s.f.sites {
		if slices.Contains(sites, x.name) {
			these = append(these, x.addresses()...)
		}
	}
	s.f.cut(these, but(s.f.parts(), these...), "cut off from the others", sites...)
}

// mend opens every way again.
func (s *stage) mend() {
	s.f.report.line(time.Now(), Line{Kind: "network", Reason: "every way is open again"})
	s.f.net.heal()
}

// lie makes a site tell the opposite of what it sees of others, or stop it.
func (s *stage) lie(site string, yes bool) {
	what := "tells the opposite of what it sees of others"
	if !yes {
		what = "tells what it sees"
	}
	s.f.report.line(time.Now(), Line{Kind: "fault", Site: site, Reason: what})
	for _, n := range s.f.site(site).nodes {
		n.tap.lie(yes)
	}
}

// held reports whether a site has too little evidence to judge its service.
func (s *stage) held(site string) bool {
	for _, x := range s.f.backend.Snapshot().Sites {
		if x.Name == site && len(x.Services) > 0 {
			return x.Services[0].Verdict.Held
		}
	}
	return true
}

// hosts are the sites' addresses, but for one's own.
func (f *fleet) hosts(but *site) (out []netip.Addr) {
	for _, s := range f.sites {
		if s != but {
			out = append(out, s.hosts()...)
		}
	}
	return out
}

// parts are all addresses of the fleet.
func (f *fleet) parts() (out []netip.Addr) {
	for _, s := range f.sites {
		out = append(out, s.addresses()...)
	}
	return out
}

// cut separates two groups of parts, and says so.
func (f *fleet) cut(as, bs []netip.Addr, what string, sites ...string) {
	f.report.line(time.Now(), Line{Kind: "network", Site: strings.Join(sites, ", "), Reason: what})
	f.net.cut(as, bs)
}

// order gives a person's order over the API, signed, as the command line does.
func (s *stage) order(kind steadycast.OrderKind, site, reason string, force bool) error {
	_, err := s.wish(decide.KindOrder, reason, func(w *decide.Wish) {
		w.Order = &steadycast.Order{Kind: kind, Site: site, Force: force}
	})
	return err
}

// refusal is the guard's answer in an error of the API.
func refusal(err error) (guard, override string) {
	if no, ok := errors.AsType[*api.Error](err); ok {
		return no.Guard, no.Override
	}
	return "", ""
}

// Bounds of what is waited for. They are long: they only end a run that has failed.
const (
	leaveWithin  = time.Minute
	returnWithin = 2 * time.Minute
)

// looks is how often what no update announces is looked at.
const looks = 20 * time.Millisecond

// until waits for a condition.
func (s *stage) until(within time.Duration, what string, cond func() bool) error {
	end, look := time.NewTimer(within), time.NewTicker(looks)
	defer end.Stop()
	defer look.Stop()
	for {
		next := s.router.next()
		if cond() {
			return nil
		}
		select {
		case <-next:
		case <-look.C:
		case <-end.C:
			return fmt.Errorf("expected within %v: %s; the router has %v", within, what, s.router.announcing())
		case <-s.ctx.Done():
			return fmt.Errorf("ended before: %s", what)
		}
	}
}

// hold lets time pass while a condition must stay true.
func (s *stage) hold(d time.Duration, what string, cond func() bool) error {
	end, look := time.NewTimer(d), time.NewTicker(looks)
	defer end.Stop()
	defer look.Stop()
	for {
		next := s.router.next()
		if !cond() {
			return fmt.Errorf("expected for %v: %s; the router has %v", d, what, s.router.announcing())
		}
		select {
		case <-next:
		case <-look.C:
		case <-end.C:
			return nil
		case <-s.ctx.Done():
			return fmt.Errorf("ended while: %s", what)
		}
	}
}

// floor is how many sites automation leaves announcing.
func (s *stage) floor() int { return s.f.table().Floor(anycast) }

func (s *stage) has(site string) bool { return slices.Contains(s.router.announcing(), site) }

func (s *stage) all() bool { return len(s.router.announcing()) == len(s.sites) }

// allWell: every node of every site is announced, and none less attractively.
func (s *stage) allWell() bool { return s.router.well() == len(s.f.speakers) }

// withdrawals of a whole site that the router heard since t; all sites if it is empty.
func (s *stage) withdrawals(site string, t time.Time) (n int) {
	for _, u := range s.router.since(t) {
		if u.Last && !u.Lost && (site == "" || u.Site == site) {
			n++
		}
	}
	return n
}

// depreferred: the router heard of a site, since t, that it is less attractive.
func (s *stage) depreferred(site string, t time.Time) bool {
	return slices.ContainsFunc(s.router.since(t), func(u Update) bool { return u.Site == site && u.Depreferred() })
}

// measure takes down how a withdrawal came about.
func (s *stage) measure(site string, began time.Time) {
	if at, ok := s.judged(site, "unhealthy", began); ok {
		s.detect = at.Sub(began)
	}
	for _, u := range s.router.since(began) {
		if u.Site == site && u.Last {
			s.withdraw = u.At.Sub(began)
			if at, ok := s.permitted(site, began, u.At); ok {
				s.permit = at.Sub(began)
			}
		}
	}
}

// leaves breaks a site's service and waits until the router has lost its route.
func (s *stage) leaves(site, how string) error {
	s.tell("%s %s's service", how, site)
	began := time.Now()
	if err := s.fault(site, how); err != nil {
		return err
	}
	return s.goes(site, began)
}

// goes waits until the router has lost the route of a site that was broken.
func (s *stage) goes(site string, began time.Time) error {
	if err := s.until(leaveWithin, site+" leaves", func() bool { return !s.has(site) }); err != nil {
		return err
	}
	s.measure(site, began)
	s.tell("%s is gone at the router after %d ms; %s serve", site, s.withdraw.Milliseconds(), strings.Join(s.router.announcing(), ", "))
	return nil
}

// returns mends a site's service and waits until the router prefers it again.
func (s *stage) returns(sites ...string) error {
	s.tell("heal %s", strings.Join(sites, ", "))
	for _, site := range sites {
		if err := s.fault(site, "heal"); err != nil {
			return err
		}
	}
	if err := s.until(returnWithin, "every site is announced, none depreferred", s.allWell); err != nil {
		return err
	}
	s.tell("all %d sites serve again", len(s.sites))
	return nil
}
