package demo

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/steadycast/steadycast/bgp"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/agent"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/mesh"
	"github.com/steadycast/steadycast/internal/pki"
	"github.com/steadycast/steadycast/internal/speaker"
	"github.com/steadycast/steadycast/internal/voter"
	"github.com/steadycast/steadycast/probe"
)

// site is one of the fleet: a service, a node with its certificate, and an
// agent. A witness has no service and announces nothing.
type site struct {
	name    string
	number  int
	witness bool
	creds   *pki.Credentials // nil in a fleet of one, as what follows but for the service
	mesh    *port
	tap     tap
	service *service
	ledger  ledger.Ledger
	agent   *agent.Agent
}

// node is the name of the site's one node.
func (s *site) node() string { return s.name + "-1" }

// hostAddress is where the service, its probes and the BGP sessions are in the
// network, linkAddress the links to other nodes, and seatAddress the voter, so
// that each can be cut off by itself.
func (s *site) hostAddress() netip.Addr { return s.address(11) }
func (s *site) linkAddress() netip.Addr { return s.address(61) }
func (s *site) seatAddress() netip.Addr { return s.address(111) }

func (s *site) address(first int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 0, 0, byte(first + s.number)})
}

// addresses are all that the site has.
func (s *site) addresses() []netip.Addr {
	return []netip.Addr{s.hostAddress(), s.linkAddress(), s.seatAddress()}
}

// life of the demo's certificates.
const life = 30 * 24 * time.Hour

// enrol gives the site's node a certificate.
func (s *site) enrol(ca *pki.Authority, dir string) error {
	id := pki.Identity{Fleet: ca.Fleet, Site: s.name, Node: s.node()}
	at := filepath.Join(dir, s.node(), "pki")
	if _, err := ca.Issue(id, at, life, time.Now()); err != nil {
		return err
	}
	var err error
	s.creds, err = pki.Open(pki.Settings{Dir: at, Fleet: id.Fleet, Site: id.Site, Node: id.Node})
	return err
}

// join makes the site's node a client of the voters.
func (s *site) join(f *fleet) (*ledger.Client, error) {
	c, err := ledger.OpenClient(ledger.ClientOptions{
		Fleet: fleetName, Site: s.name, Node: s.node(), Voters: f.voters.peers, TLS: voter.TLS(s.creds),
		Log: f.o.Log.With("site", s.name), Dial: f.net.dial(s.linkAddress()),
	})
	if err == nil {
		s.ledger = c
	}
	return c, err
}

// employ makes the site's agent, which starts with its Run.
func (s *site) employ(f *fleet) (err error) {
	o := agent.Options{
		Site: s.name, Node: s.node(), Fleet: fleetName, Mode: "demo", Version: f.o.Version.Version,
		Ledger: s.ledger, Events: f.ring, Quiet: true, Logger: f.o.Log.With("site", s.name),
	}
	if !s.witness {
		o.Speak = s.speak(f)
	}
	if s.creds == nil {
		o.Solo = true
		o.Plan, err = s.plan(f, f.table())
	} else {
		o.Derive = func(t decide.Table) (agent.Plan, error) { return s.plan(f, t) }
		o.Voters = f.voters.readers()
		o.Mesh, err = s.links(f)
	}
	if err != nil {
		return err
	}
	s.agent, err = agent.New(o)
	return err
}

// plan is what the site looks at by a table: its own service, those of the sites
// that it watches, and what says whether it can be believed.
func (s *site) plan(f *fleet, t decide.Table) (agent.Plan, error) {
	p := agent.Plan{Table: t, Plans: f.plans(), Config: api.Config{LoadedAt: time.Now(), Revision: t.Revision}}
	health := t.Services[0].Health
	for _, x := range f.announcers() {
		if !slices.Contains(t.SitesOf(anycast), x.name) {
			continue
		}
		if x == s || slices.Contains(t.Vantages(x.name), s.name) {
			p.Probes = append(p.Probes, probe.Service{
				Name: serviceName, Subject: x.name, Vantage: s.name, Interval: health.Interval, FastInterval: health.FastInterval,
				Checks: checks(x.name, x.service.addr, s.hostAddress(), x == s),
			})
		}
	}
	if len(f.sites) > 1 {
		p.Probes = append(p.Probes, f.world.controls(s.hostAddress()).Service(s.name))
	}
	return p, nil
}

// links opens the site's end of the mesh.
func (s *site) links(f *fleet) (agent.MeshMaker, error) {
	l, err := s.mesh.listen()
	if err != nil {
		return nil, err
	}
	d := f.net.dialer(s.linkAddress())
	make := agent.MeshOver(mesh.Options{Credentials: s.creds, Dial: d.DialContext, Log: f.o.Log.With("site", s.name)}, f.net.behind(l))
	return s.tap.over(make), nil
}

// run is the agent until ctx ends.
func (s *site) run(ctx context.Context) error {
	if err := s.agent.Run(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// speak makes the site's speaker, in this process.
func (s *site) speak(f *fleet) func(speaker.Options) (speaker.Interface, error) {
	return func(o speaker.Options) (speaker.Interface, error) {
		settings := bgp.Settings{
			ASN: siteASN + uint32(s.number), RouterID: s.hostAddress(), Allow: []netip.Prefix{anycast},
			Neighbors: []bgp.Neighbor{{
				Name: "router", Address: netip.MustParseAddr("127.0.0.1"), Port: f.router.Addr().Port(), ASN: routerASN,
				LocalAddress: s.hostAddress(), NextHop4: s.hostAddress(),
			}},
		}
		return speaker.Local(speaker.Config{
			Node: s.node(), Logger: f.o.Log.With("site", s.name),
			Load: func() (bgp.Settings, bgp.VIPSettings, error) { return settings, bgp.VIPSettings{Manage: "off"}, nil },
		}, o)
	}
}
