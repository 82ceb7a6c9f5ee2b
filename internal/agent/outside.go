package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/probe"
)

// Outside views: who else can say whether a route is there. Each is a check
// whose up means "our route is there"; {prefix} and {address} in it stand for the
// prefix looked at. They are asked after each change until they agree, and
// seldom after that.
const (
	lookAgain  = time.Second      // while a view does not agree
	lookSeldom = 15 * time.Second // once it does
	lookBound  = 4                // looks under way at once
)

// outside asks the views. run is its goroutine; mu guards what it is told.
type outside struct {
	env  probe.Env
	tell func(name string, p netip.Prefix, r steadycast.Result, from time.Duration)
	now  func() time.Duration
	// calm: it is asked seldom, whether or not it agrees.
	calm bool

	mu     sync.Mutex
	checks []probe.Check
	wanted map[netip.Prefix]bool
	kick   chan struct{}
}

func newOutside(checks []probe.Check, env probe.Env, now func() time.Duration,
	tell func(string, netip.Prefix, steadycast.Result, time.Duration)) *outside {
	return &outside{checks: checks, env: env, tell: tell, now: now, wanted: map[netip.Prefix]bool{}, kick: make(chan struct{}, 1)}
}

// want says what should be seen of a prefix from now on.
func (o *outside) want(set steadycast.RouteSet, all []netip.Prefix) {
	o.mu.Lock()
	clear(o.wanted)
	for _, p := range all {
		_, o.wanted[p] = set.Find(p)
	}
	o.mu.Unlock()
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// use replaces the views.
func (o *outside) use(checks []probe.Check) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.checks = checks
}

func viewNames(checks []probe.Check) []string {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = c.Name
	}
	return names
}

// run looks until ctx ends.
func (o *outside) run(ctx context.Context) {
	due := time.NewTimer(lookAgain)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.kick:
		case <-due.C:
		}
		if o.look(ctx) || o.calm {
			due.Reset(lookSeldom)
		} else {
			due.Reset(lookAgain)
		}
	}
}

// look asks every view about every prefix once, and reports whether all that
// know agree with what is wanted.
func (o *outside) look(ctx context.Context) bool {
	o.mu.Lock()
	checks := o.checks
	prefixes := make([]netip.Prefix, 0, len(o.wanted))
	wanted := make(map[netip.Prefix]bool, len(o.wanted))
	for p, w := range o.wanted {
		prefixes = append(prefixes, p)
		wanted[p] = w
	}
	o.mu.Unlock()
	slices.SortFunc(prefixes, func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })

	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		agree = true
		slots = make(chan struct{}, lookBound)
	)
	for _, c := range checks {
		for _, p := range prefixes {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				wg.Wait()
				return false
			}
			wg.Go(func() {
				defer func() { <-slots }()
				from := o.now()
				r := o.ask(ctx, c, p)
				if ctx.Err() != nil {
					return
				}
				o.tell(c.Name, p, r, from)
				mu.Lock()
				defer mu.Unlock()
				agree = agree && (r.Outcome == steadycast.Unknown || (r.Outcome == steadycast.Up) == wanted[p])
			})
		}
	}
	wg.Wait()
	return agree
}

func (o *outside) ask(ctx context.Context, c probe.Check, p netip.Prefix) steadycast.Result {
	v, err := probe.CompileView(about(c, p), o.env)
	if err != nil {
		return steadycast.Result{Reason: fmt.Sprintf("%s: %v", c.Name, err)}
	}
	return v.Ask(ctx)
}

// about puts a prefix into a view's words.
func about(c probe.Check, p netip.Prefix) probe.Check {
	return filled(c, []string{"{prefix}", p.String(), "{address}", p.Addr().String()})
}

// filled fills pairs of placeholder and value into a check.
func filled(c probe.Check, words []string) probe.Check {
	r, re := strings.NewReplacer(words...), quoted(words)
	c.Target = r.Replace(c.Target)
	if c.Exec != nil {
		e := *c.Exec
		e.Argv = slices.Clone(e.Argv)
		for i := range e.Argv {
			e.Argv[i] = r.Replace(e.Argv[i])
		}
		c.Exec = &e
	}
	if c.HTTP != nil {
		h := *c.HTTP
		h.Body, h.Match, h.NotMatch = r.Replace(h.Body), re.Replace(h.Match), re.Replace(h.NotMatch)
		c.HTTP = &h
	}
	if c.Prometheus != nil {
		q := *c.Prometheus
		q.Query = r.Replace(q.Query)
		c.Prometheus = &q
	}
	return c
}

// elsewhere takes what was found of others to the machine.
func (a *Agent) elsewhere(name string, p netip.Prefix, r steadycast.Result, from time.Duration) {
	a.post(func() {
		a.step(decide.Elsewhere{Name: name, Prefix: p, Outcome: r.Outcome, From: from})
	})
}

// viewed takes what a view saw to the machine.
func (a *Agent) viewed(name string, p netip.Prefix, r steadycast.Result, from time.Duration) {
	a.post(func() {
		a.step(decide.Viewed{Name: name, Prefix: p, Outcome: r.Outcome, Reason: r.Reason, From: from})
	})
}
