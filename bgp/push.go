package bgp

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/steadycast/steadycast"
)

// pusher keeps the table of one neighbour's GoBGP at what is wanted. Wishes
// replace each other; only the newest is carried out, and a newer one takes
// effect between two prefixes, so a withdrawal never waits for the rest of ten
// thousand announcements.
//
// The goroutine run owns engine calls about routes and everything below
// "owned by run". mu guards the wishes.
type pusher struct {
	n    *neighbor
	kick chan struct{} // capacity 1
	gen  atomic.Uint64 // counts wishes

	mu       sync.Mutex
	routes   []steadycast.Route
	settings Settings
	cfg      Neighbor
	local    netip.Addr
	waiters  []chan struct{} // closed when everything wished for before is done
	problem  string          // newest error of GoBGP's, empty after a push without one

	// owned by run
	resolver *resolver
	encoded  map[*pathAttributes][]*anypb.Any
	have     map[netip.Prefix]*pathAttributes
	base     []steadycast.Route // what have was completed for; nil if it was not
}

func (p *pusher) init(n *neighbor, s Settings, cfg Neighbor) {
	p.n, p.settings, p.cfg = n, s, cfg
	p.kick = make(chan struct{}, 1)
	p.have = map[netip.Prefix]*pathAttributes{}
}

// wish changes what is wanted and returns a channel that closes when it is done.
func (p *pusher) wish(change func()) <-chan struct{} {
	done := make(chan struct{})
	p.mu.Lock()
	change()
	p.waiters = append(p.waiters, done)
	p.gen.Add(1)
	p.mu.Unlock()
	select {
	case p.kick <- struct{}{}:
	default:
	}
	return done
}

// set wishes for routes, which must not be changed afterwards.
func (p *pusher) set(routes []steadycast.Route) <-chan struct{} {
	return p.wish(func() { p.routes = routes })
}

// setLocal wishes for next hops that fit a session whose own address is local.
func (p *pusher) setLocal(local netip.Addr) <-chan struct{} {
	return p.wish(func() { p.local = local })
}

func (p *pusher) run(ctx context.Context) {
	for {
		select {
		case <-p.kick:
			p.push()
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, w := range p.waiters {
				close(w)
			}
			p.waiters = nil
			return
		}
	}
}

// push carries out the newest wish, and again if there is a newer one by then.
func (p *pusher) push() {
	for {
		p.mu.Lock()
		gen := p.gen.Load()
		routes, s, cfg, local := p.routes, p.settings, p.cfg, p.local
		p.mu.Unlock()
		next := newResolver(s, cfg, local)
		if p.resolver == nil || !p.resolver.same(next) {
			p.resolver, p.encoded, p.base = next, map[*pathAttributes][]*anypb.Any{}, nil
		}
		done, err := p.apply(routes, gen)
		if !done {
			continue
		}
		p.mu.Lock()
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		news := problem != p.problem
		p.problem = problem
		if p.gen.Load() == gen {
			for _, w := range p.waiters {
				close(w)
			}
			p.waiters = nil
			p.mu.Unlock()
			if news {
				p.n.changed()
			}
			return
		}
		p.mu.Unlock()
	}
}

// apply makes the table what routes say: withdrawals first, then the rest. It
// stops when there is a newer wish than gen.
func (p *pusher) apply(routes []steadycast.Route, gen uint64) (done bool, err error) {
	gone, come := p.difference(routes)
	ahead := p.n.withdrawAhead(gone)
	p.base = nil
	for _, q := range gone {
		// What went ahead must be followed, whatever is wanted by now: else
		// GoBGP would think that the router still has it.
		if _, follow := slices.BinarySearchFunc(ahead, q, comparePrefix); !follow && p.gen.Load() != gen {
			return false, nil
		}
		if e := p.n.engine.withdraw(q); e != nil {
			err = e
			continue
		}
		delete(p.have, q)
	}
	for _, r := range come {
		a := p.resolver.resolve(r)
		if a == nil || a.equal(p.have[r.Prefix]) {
			continue
		}
		if p.gen.Load() != gen {
			return false, nil
		}
		if e := p.n.engine.announce(r.Prefix, p.encode(a)); e != nil {
			err = e
			continue
		}
		p.have[r.Prefix] = a
	}
	if err == nil {
		p.base = routes
	}
	return true, err
}

// difference returns what must go and what may have to be said. After a push
// that was completed it compares with what that one was about, which in a large
// table is a hundred times less work than asking about every prefix.
func (p *pusher) difference(routes []steadycast.Route) (gone []netip.Prefix, come []steadycast.Route) {
	if p.base != nil {
		return between(p.base, routes)
	}
	for q := range p.have {
		_, found := slices.BinarySearchFunc(routes, q, func(r steadycast.Route, q netip.Prefix) int { return comparePrefix(r.Prefix, q) })
		if _, ok := p.resolver.hop(q); !found || !ok {
			gone = append(gone, q)
		}
	}
	slices.SortFunc(gone, comparePrefix)
	return gone, routes
}

// between compares two sets in order of prefix.
func between(old, new []steadycast.Route) (gone []netip.Prefix, come []steadycast.Route) {
	for len(old) > 0 || len(new) > 0 {
		c := -1
		switch {
		case len(old) == 0:
			c = 1
		case len(new) > 0:
			c = comparePrefix(old[0].Prefix, new[0].Prefix)
		}
		switch {
		case c < 0:
			gone, old = append(gone, old[0].Prefix), old[1:]
		case c > 0:
			come, new = append(come, new[0]), new[1:]
		default:
			if !sameAttributes(old[0], new[0]) {
				come = append(come, new[0])
			}
			old, new = old[1:], new[1:]
		}
	}
	return gone, come
}

func sameAttributes(a, b steadycast.Route) bool {
	return a.Stance == b.Stance && same(a.MED, b.MED) &&
		slices.Equal(a.Communities, b.Communities) && slices.Equal(a.LargeCommunities, b.LargeCommunities)
}

// encode writes attributes for GoBGP, once for all prefixes that share them.
func (p *pusher) encode(a *pathAttributes) []*anypb.Any {
	if b, ok := p.encoded[a]; ok {
		return b
	}
	if len(p.encoded) >= memoLimit {
		clear(p.encoded)
	}
	b := apiAttributes(a, p.resolver.asn)
	p.encoded[a] = b
	return b
}

// wanted returns what routes are resolved with by now; for comparing, not for
// the pusher's own memory.
func (p *pusher) wanted() *resolver {
	p.mu.Lock()
	defer p.mu.Unlock()
	return newResolver(p.settings, p.cfg, p.local)
}

// trouble is the newest error of GoBGP's, empty after a push without one.
func (p *pusher) trouble() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problem
}
