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
	"github.com/steadycast/steadycast/internal/ledger"
)

// demoZone is the zone that the demo answers for, and demoName the name in it
// whose addresses are those of the sites that serve.
const (
	demoZone = "demo.test"
	demoName = "www"
)

// zone answers for the demo's zone from the ledger's state. Its goroutine alone
// counts the tables.
type zone struct {
	server  *dnsfallback.Server
	policy  *dnsfallback.Policy
	ledger  ledger.Ledger
	version uint64
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
		if f.o.DNSIfFree && errors.Is(err, syscall.EADDRINUSE) {
			return nil
		}
		return err
	}
	n := &zone{server: server, policy: policy, ledger: f.ledger()}
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
	v := n.ledger.View()
	n.version++
	return n.server.Set(n.policy.Table(n.version, nil, answers.State(&v, time.Now())))
}
