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
			p.resolver, p.encoded = next, map[*pathAttributes][]*anypb.Any{}
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
	keep := func(q netip.Prefix) bool {
		i, ok := slices.BinarySearchFunc(routes, q, func(r steadycast.Route, q netip.Prefix) int { return comparePrefix(r.Prefix, q) })
		return ok && p.resolver.resolve(routes[i]) != nil
	}
	var gone []netip.Prefix
	for q := range p.have {
		if !keep(q) {
			gone = append(gone, q)
		}
	}
	slices.SortFunc(gone, comparePrefix)
	for _, q := range gone {
		if p.gen.Load() != gen {
			return false, nil
		}
		if e := p.n.engine.withdraw(q); e != nil {
			err = e
			continue
		}
		delete(p.have, q)
	}
	for _, r := range routes {
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
	return true, err
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

// localAddr is the session's own address as last told.
func (p *pusher) localAddr() netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.local
}

func (p *pusher) trouble() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problem
}
