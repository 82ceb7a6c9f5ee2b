package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/answers"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/dns"
	"github.com/steadycast/steadycast/internal/ledger"
)

// demoZone is the zone that the demo answers for, and demoName the name in it
// whose addresses are those of the sites that serve.
const (
	demoZone = "demo.test"
	demoName = "www"
)

// zone answers for the demo's zone from the ledger's state, and tells of itself
// what the server's process tells. Its goroutine alone renews.
type zone struct {
	server  *dnsfallback.Server
	policy  *dnsfallback.Policy
	ledger  ledger.Ledger
	program string
	began   time.Time

	mu  sync.Mutex
	now inForce
}

// inForce is the table in use and what it is of.
type inForce struct {
	table    *dnsfallback.Table
	since    time.Time
	revision uint64
	position string
	mode     answers.Mode
	why      string
}

// placement steers one name over the sites: every address that serves now, so
// that a single question shows all of them.
func (f *fleet) placement(at netip.AddrPort) dnsfallback.Placement {
	www := dnsfallback.Steered{Name: demoName, TTL: dnsfallback.TTL(5 * time.Second), SensitiveTTL: time.Second}
	www.Service, www.Methods = serviceName, []string{"all"}
	for _, s := range f.announcers() {
		www.Members = append(www.Members, dnsfallback.Member{Site: s.name, Addresses: []netip.Addr{s.named()}})
	}
	record := "A"
	if at.Addr().Is6() {
		record = "AAAA"
	}
	return dnsfallback.Placement{Zones: []dnsfallback.Zone{{
		Name: demoZone, NS: []string{"ns"}, Records: []string{fmt.Sprintf("ns %s %v", record, at.Addr())}, Names: []dnsfallback.Steered{www},
	}}}
}

// name begins to answer at o.DNS until ctx ends. An address that another program
// has is no reason to end when nobody asked for that one.
func (f *fleet) name(ctx context.Context, running *sync.WaitGroup) error {
	if !f.o.DNS.IsValid() {
		return nil
	}
	policy, problems := dnsfallback.NewPolicy(1, f.placement(f.o.DNS), dnsfallback.Known{Sites: f.names(), Services: []string{serviceName}})
	if len(problems) > 0 {
		return fmt.Errorf("%v", problems[0])
	}
	server, err := dnsfallback.Listen(dnsfallback.Settings{Listen: []netip.AddrPort{f.o.DNS}, Workers: 1, Identity: "demo"}, nil)
	if err != nil {
		if !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		f.nameless = fmt.Sprintf("no names are answered: another program has %v; choose an address with --dns, as --dns %v", f.o.DNS, netip.AddrPortFrom(f.o.DNS.Addr(), f.o.DNS.Port()^1))
		if f.o.DNSIfFree {
			return nil
		}
		return errors.New(f.nameless)
	}
	n := &zone{server: server, policy: policy, ledger: f.ledger(), program: f.o.Version.Version, began: time.Now()}
	changed, cancel := n.ledger.Watch()
	if err := n.renew(); err != nil {
		cancel()
		return err
	}
	f.dns = n
	running.Go(func() {
		defer cancel()
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				if err := n.renew(); err != nil {
					f.o.Log.Error("the table of names is refused; the old one serves", "err", err)
				}
			}
		}
	})
	running.Go(func() {
		if err := server.Serve(ctx); err != nil {
			f.o.Log.Error("nobody answers for the demo's zone", "err", err)
		}
	})
	return nil
}

// led reports whether names lead clients to a site: asked over UDP where the demo
// answers, else by the committed state.
func (s *stage) led(site string) (bool, error) {
	if s.f.dns == nil {
		return s.answered(site)
	}
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", s.f.o.DNS.String())
	}}
	all, err := r.LookupNetIP(s.ctx, "ip4", demoName+"."+demoZone+".")
	return slices.Contains(all, s.f.site(site).named()), err
}

// renew puts the ledger's newest state into force.
func (n *zone) renew() error {
	v, next := n.ledger.View(), inForce{since: time.Now()}
	version := uint64(1)
	if t := n.inForce().table; t != nil {
		version = t.Version() + 1
	}
	next.table = n.policy.Table(version, nil, answers.State(&v, next.since))
	if err := n.server.Set(next.table); err != nil {
		return err
	}
	next.revision, next.position = v.Table.Revision, v.Fence.String()
	next.mode, next.why = answers.Committed(&v)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now = next
	return nil
}

func (n *zone) inForce() inForce {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// stale says why the state is; empty while it is not.
func (n *zone) stale() string {
	if l, ok := n.ledger.(interface{ Lost() error }); ok { // a ledger of one's own cannot be lost
		if err := l.Lost(); err != nil {
			return err.Error()
		}
	}
	return ""
}

// Status for `steadycast dns status`.
func (n *zone) Status() dns.Status {
	now := n.inForce()
	s := dns.Status{
		Node: "demo", Program: n.program, Started: n.began, Answering: true, Addresses: n.server.Addresses(),
		Version: now.table.Version(), Revision: now.revision, Position: now.position, Since: now.since, Heard: now.since,
		Mode: now.mode.String(), Why: now.why, Stale: n.stale(), Zones: now.table.Zones(), Sites: now.table.SiteWords(), Maps: []dns.Map{},
	}
	if s.Stale == "" {
		s.Heard = time.Now()
	}
	c := n.server.Counters()
	for _, a := range c.Answers {
		s.Answers += a.Count
	}
	s.Dropped, s.Limited = c.Dropped, c.Limited
	return s
}

// Led is whom the demo's names led where.
func (n *zone) Led() api.Led {
	n.mu.Lock()
	defer n.mu.Unlock()
	return dns.LedBy(n.now.table, n.began)
}

// Resolve for `steadycast dns resolve`. The demo's names are not in its ledger's
// table, so no other revision has any.
func (n *zone) Resolve(_ context.Context, name, typ string, client netip.Prefix, revision uint64) (dns.Resolved, error) {
	now := n.inForce()
	if revision != 0 && revision != now.revision {
		return dns.Resolved{}, &api.Error{Code: api.CodeNotFound, Message: "the demo's names are the same by every revision; ask without one"}
	}
	e, err := now.table.Explain(name, typ, client)
	if err != nil {
		return dns.Resolved{}, &api.Error{Code: api.CodeUsage, Message: err.Error()}
	}
	return dns.Resolved{Explanation: e, Node: "demo", Revision: now.revision, Position: now.position, Mode: now.mode.String(), Stale: n.stale()}, nil
}
