package demo

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
)

// The client's pace: one request each clientEvery, of clientFlows flows in turn.
const (
	clientEvery   = 10 * time.Millisecond
	clientFlows   = 16
	clientTimeout = 300 * time.Millisecond
	clientPatient = time.Minute // of a patient one
	clientBound   = 128         // requests under way at once; more are not begun and not counted
)

// Preferred picks from the announcements of one prefix those that a router
// would use, all equally good: without GRACEFUL_SHUTDOWN before with it (RFC
// 8326), then the shortest AS path, then the lowest MED (RFC 4271 §9.1.2.2, with
// MED compared between neighbours). The order is that of the addresses.
func Preferred(routes map[netip.Addr]steadycast.Attributes) []netip.Addr {
	type rank struct {
		graceful, path int
		med            uint32
	}
	of := func(a steadycast.Attributes) rank {
		r := rank{path: len(a.ASPath)}
		if slices.Contains(a.Communities, steadycast.GracefulShutdown) {
			r.graceful = 1
		}
		if a.MED != nil {
			r.med = *a.MED
		}
		return r
	}
	order := func(a, b rank) int {
		return cmp.Or(cmp.Compare(a.graceful, b.graceful), cmp.Compare(a.path, b.path), cmp.Compare(a.med, b.med))
	}
	var best []netip.Addr
	var top rank
	for addr, attrs := range routes {
		r := of(attrs)
		switch c := order(r, top); {
		case len(best) == 0 || c < 0:
			best, top = append(best[:0], addr), r
		case c == 0:
			best = append(best, addr)
		}
	}
	slices.SortFunc(best, netip.Addr.Compare)
	return best
}

// client sends requests to the sites that the router prefers.
type client struct {
	routes func() []netip.Addr                       // the preferred speakers now
	target func(netip.Addr) (string, netip.AddrPort) // a speaker's site and its service
	lost   func(site string, flow int, why string)
	// patient: it waits so long for an answer that only what nobody will answer is lost.
	patient bool
	flying  sync.Map // site → *atomic.Int64, requests under way
	sent    atomic.Uint64
	failed  atomic.Uint64
}

// run sends until ctx ends, and returns when no request is under way.
func (c *client) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, clientBound)
	tick := time.NewTicker(clientEvery)
	defer tick.Stop()
	for flow := 0; ; flow = (flow + 1) % clientFlows {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		best := c.routes()
		if len(best) == 0 {
			c.sent.Add(1)
			c.failed.Add(1)
			c.lost("", flow, "no route")
			continue
		}
		site, addr := c.target(best[flow%len(best)])
		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		flying := c.at(site)
		flying.Add(1)
		wg.Go(func() {
			defer func() { flying.Add(-1); <-slots }()
			wait := clientTimeout
			if c.patient {
				wait = clientPatient
			}
			call, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			c.sent.Add(1)
			if err := ask(call, addr); err != nil && ctx.Err() == nil {
				c.failed.Add(1)
				c.lost(site, flow, err.Error())
			}
		})
	}
}

func (c *client) at(site string) *atomic.Int64 {
	n, _ := c.flying.LoadOrStore(site, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// open is how many requests are under way to a site.
func (c *client) open(site string) int64 { return c.at(site).Load() }
