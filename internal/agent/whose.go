package agent

import (
	"context"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/probe"
)

// Who answers at a shared address while a site is out: see decide.MetTold. Only a
// node that does not have the address itself can ask. Paths are chosen for each
// connection, so each round asks several times, and one answer counts for a while.

const (
	whoseEvery = time.Second
	whoseTimes = 3               // asks of each unit in a round
	whoseBound = 8               // asks under way at once
	whoseLasts = 5 * time.Second // how long an answer counts
)

// whose asks. run is its goroutine; mu guards what it has found.
type whose struct {
	env    probe.Env
	site   string
	view   func() decide.View
	checks func() []probe.Check

	mu    sync.Mutex
	asked map[steadycast.Unit]time.Time // last, whoever answered
	met   map[steadycast.Unit]time.Time // last with one of its own site
}

func newWhose(site string, view func() decide.View, checks func() []probe.Check, env probe.Env) *whose {
	return &whose{env: env, site: site, view: view, checks: checks,
		asked: map[steadycast.Unit]time.Time{}, met: map[steadycast.Unit]time.Time{}}
}

// run asks until ctx ends.
func (w *whose) run(ctx context.Context) {
	tick := time.NewTicker(whoseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.round(ctx)
		}
	}
}

// out are the units to ask for: those of other sites that are out and whose prefix
// this site does not serve.
func (w *whose) out(v *decide.View) []steadycast.Unit {
	var us []steadycast.Unit
	for _, u := range v.Units {
		if u.Phase == steadycast.Out && u.Ever && u.Unit.Site != w.site && len(v.Table.ServicesAt(w.site, u.Unit.Prefix)) == 0 && len(us) < decide.MetMost {
			us = append(us, u.Unit)
		}
	}
	return us
}

// round asks for each unit by each check.
func (w *whose) round(ctx context.Context) {
	checks := w.checks()
	if len(checks) == 0 {
		return
	}
	view := w.view()
	units := w.out(&view)
	w.forget(units)
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, whoseBound)
	for _, u := range units {
		place, _ := view.Table.Place(u.Site)
		nodes := []string{u.Site}
		if len(place.Nodes) > 0 {
			nodes = nodes[:0]
			for _, n := range place.Nodes {
				nodes = append(nodes, n.Name)
			}
		}
		for _, c := range checks {
			seen := []probe.Check(nil)
			for _, node := range nodes {
				asks := asking(c, u, node)
				if slices.ContainsFunc(seen, func(s probe.Check) bool { return sameWords(s, asks) }) || !within(asks, u.Prefix) {
					continue // it does not tell the nodes of a site apart, or is about another prefix
				}
				seen = append(seen, asks)
				for range whoseTimes {
					select {
					case slots <- struct{}{}:
					case <-ctx.Done():
						return
					}
					wg.Go(func() {
						defer func() { <-slots }()
						w.ask(ctx, asks, u)
					})
				}
			}
		}
	}
}

// ask asks once. A check that passes was answered by the site it was written for;
// one that fails in any way was not, or nobody can say.
func (w *whose) ask(ctx context.Context, c probe.Check, u steadycast.Unit) {
	compiled, err := probe.Compile(c, w.env)
	if err != nil {
		return // it was judged when it was read; what is missing on this host says nothing
	}
	r := compiled.Run(ctx)
	if ctx.Err() != nil || r.Outcome == steadycast.Unknown {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[u] = now
	if r.Outcome == steadycast.Up {
		w.met[u] = now
	}
}

// forget drops what is not asked for any more.
func (w *whose) forget(units []steadycast.Unit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range []map[steadycast.Unit]time.Time{w.asked, w.met} {
		for u := range m {
			if !slices.Contains(units, u) {
				delete(m, u)
			}
		}
	}
}

// told is what a beat says of it; nil where this node does not ask.
func (w *whose) told() *decide.MetTold {
	if len(w.checks()) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	late := func(m map[steadycast.Unit]time.Time) (us []steadycast.Unit) {
		for u, at := range m {
			if time.Since(at) <= whoseLasts {
				us = append(us, u)
			}
		}
		slices.SortFunc(us, steadycast.Unit.Compare)
		return us
	}
	return &decide.MetTold{Asked: late(w.asked), Met: late(w.met)}
}

// asking puts what is asked for into a check.
func asking(c probe.Check, u steadycast.Unit, node string) probe.Check {
	words := []string{"{prefix}", u.Prefix.String(), "{address}", u.Prefix.Addr().String(), "{site}", u.Site, "{node}", node}
	if a := u.Prefix.Addr(); a.Is6() && !strings.Contains(c.Target, "[{address}]") {
		c.Target = strings.ReplaceAll(c.Target, "{address}", "["+a.String()+"]") // RFC 3986 §3.2.2
	}
	c = filled(c, words)
	r := strings.NewReplacer(words...)
	if c.HTTP != nil {
		h := *c.HTTP
		h.Host, h.Identity, h.JSONValue, h.HeaderMatch = r.Replace(h.Host), r.Replace(h.Identity), r.Replace(h.JSONValue), quoted(words).Replace(h.HeaderMatch)
		c.HTTP = &h
	}
	if c.DNS != nil {
		d := *c.DNS
		d.Identity = r.Replace(d.Identity)
		c.DNS = &d
	}
	if c.TLS != nil {
		t := *c.TLS
		t.ServerName = r.Replace(t.ServerName)
		c.TLS = &t
	}
	if c.TCP != nil {
		t := *c.TCP
		t.Expect = quoted(words).Replace(t.Expect)
		c.TCP = &t
	}
	return c
}

// quoted fills words into a regular expression.
func quoted(words []string) *strings.Replacer {
	out := slices.Clone(words)
	for i := 1; i < len(out); i += 2 {
		out[i] = regexp.QuoteMeta(out[i])
	}
	return strings.NewReplacer(out...)
}

// sameWords: two fillings of one check ask for the same.
func sameWords(a, b probe.Check) bool {
	return a.Target == b.Target && same(a.HTTP, b.HTTP, func(x, y probe.HTTP) bool {
		return x.Identity == y.Identity && x.Match == y.Match && x.NotMatch == y.NotMatch && x.HeaderMatch == y.HeaderMatch && x.JSONValue == y.JSONValue && x.Host == y.Host && x.Body == y.Body
	}) && same(a.DNS, b.DNS, func(x, y probe.DNS) bool { return x.Identity == y.Identity }) &&
		same(a.TLS, b.TLS, func(x, y probe.TLS) bool { return x.ServerName == y.ServerName }) &&
		same(a.TCP, b.TCP, func(x, y probe.TCP) bool { return x.Expect == y.Expect }) &&
		same(a.Exec, b.Exec, func(x, y probe.Exec) bool { return slices.Equal(x.Argv, y.Argv) })
}

func same[T any](a, b *T, equal func(T, T) bool) bool {
	return a == nil && b == nil || a != nil && b != nil && equal(*a, *b)
}

// within: the address that a check asks is one of the prefix. A check that names
// none, as a program of its own, is asked for every prefix.
func within(c probe.Check, p netip.Prefix) bool {
	host := c.Target
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		host = u.Host
	}
	if at, err := netip.ParseAddrPort(host); err == nil {
		return p.Contains(at.Addr().Unmap())
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err != nil || p.Contains(a.Unmap())
}
