package demo

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
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

// site is one of the fleet: its nodes. A witness has no service and announces
// nothing.
type site struct {
	name    string
	number  int
	witness bool
	own     netip.Prefix // leads to this site alone; invalid in a fleet that has none
	nodes   []*node
}

// node is one of a site's: a service, a certificate, and an agent.
type node struct {
	*site
	id      string
	number  int
	creds   *pki.Credentials // nil in a fleet of one, as what follows but for the service
	mesh    *port
	tap     tap
	service *service
	ledger  ledger.Ledger
	agent   *agent.Agent
}

// newSite makes a site of so many nodes: fra-1, fra-2, ….
func newSite(name string, number, nodes int) *site {
	s := &site{name: name, number: number}
	for i := range nodes {
		s.nodes = append(s.nodes, &node{site: s, id: fmt.Sprintf("%s-%d", name, i+1), number: i})
	}
	return s
}

// hostAddress is where the service, its probes and the BGP sessions are in the
// network, linkAddress the links to other nodes, and seatAddress the voter, so
// that each can be cut off by itself.
func (n *node) hostAddress() netip.Addr { return n.address(11) }
func (n *node) linkAddress() netip.Addr { return n.address(61) }
func (n *node) seatAddress() netip.Addr { return n.address(111) }

func (n *node) address(first int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 0, byte(n.number), byte(first + n.site.number)})
}

// addresses are all that the site has.
func (s *site) addresses() (out []netip.Addr) {
	for _, n := range s.nodes {
		out = append(out, n.hostAddress(), n.linkAddress(), n.seatAddress())
	}
	return out
}

// hosts are where its services, probes and BGP sessions are.
func (s *site) hosts() (out []netip.Addr) {
	for _, n := range s.nodes {
		out = append(out, n.hostAddress())
	}
	return out
}

// host is the site's first node, on which its voter sits, if it has one.
func (s *site) host() *node { return s.nodes[0] }

// several reports whether the site has more than one node.
func (s *site) several() bool { return len(s.nodes) > 1 }

// named is the address by which names lead to the site.
func (s *site) named() netip.Addr {
	if s.own.IsValid() {
		return s.own.Addr()
	}
	return s.host().hostAddress()
}

// life of the demo's certificates.
const life = 30 * 24 * time.Hour

// enrol gives the node a certificate.
func (n *node) enrol(ca *pki.Authority, dir string) error {
	id := pki.Identity{Fleet: ca.Fleet, Site: n.name, Node: n.id}
	at := filepath.Join(dir, n.id, "pki")
	if _, err := ca.Issue(id, at, life, time.Now()); err != nil {
		return err
	}
	var err error
	n.creds, err = pki.Open(pki.Settings{Dir: at, Fleet: id.Fleet, Site: id.Site, Node: id.Node})
	return err
}

// join makes the node a client of the voters.
func (n *node) join(f *fleet) (*ledger.Client, error) {
	c, err := ledger.OpenClient(ledger.ClientOptions{
		Fleet: fleetName, Site: n.name, Node: n.id, Voters: f.voters.peers, TLS: voter.TLS(n.creds),
		Log: f.o.Log.With("node", n.id), Dial: f.net.dial(n.linkAddress()),
	})
	if err == nil {
		n.ledger = c
	}
	return c, err
}

// employ makes the node's agent, which starts with its Run.
func (n *node) employ(f *fleet) (err error) {
	o := agent.Options{
		Site: n.name, Node: n.id, Fleet: fleetName, Mode: "demo", Version: f.o.Version.Version,
		Ledger: n.ledger, Events: f.ring, Quiet: true, Logger: f.o.Log.With("node", n.id),
	}
	if !n.witness {
		o.Speak = n.speak(f)
	}
	if n.creds == nil {
		o.Solo = true
		o.Plan, err = n.plan(f, f.table())
	} else {
		o.Derive = func(t decide.Table) (agent.Plan, error) { return n.plan(f, t) }
		o.Voters = f.voters.readers()
		o.Mesh, err = n.links(f)
	}
	if err != nil {
		return err
	}
	n.agent, err = agent.New(o)
	return err
}

// plan is what the node looks at by a table: its own service and those of its
// siblings, those of the sites that its site watches, and what says whether it can
// be believed.
func (n *node) plan(f *fleet, t decide.Table) (agent.Plan, error) {
	p := agent.Plan{Table: t, Plans: f.plans(), Config: api.Config{LoadedAt: time.Now(), Revision: t.Revision}}
	health := t.Services[0].Health
	look := func(subject, vantage string, up string, checks ...probe.Check) {
		p.Probes = append(p.Probes, probe.Service{
			Name: serviceName, Subject: subject, Vantage: vantage, Interval: health.Interval, FastInterval: health.FastInterval,
			Checks: checks, Up: up,
		})
	}
	for _, x := range f.announcers() {
		switch {
		case !slices.Contains(t.SitesOf(anycast), x.name):
		case x == n.site:
			look(x.name, n.name, "", n.check(n))
			for _, sibling := range x.nodes {
				if of := x.name + "/" + sibling.id; sibling != n {
					look(of, of, "", n.check(sibling))
				}
			}
		case slices.Contains(t.Vantages(x.name), n.name):
			checks, up := n.checks(x)
			look(x.name, n.name, up, checks...)
		}
	}
	if len(f.sites) > 1 {
		p.Probes = append(p.Probes, f.world.controls(n.hostAddress()).Service(n.name))
	}
	return p, nil
}

// checks are how the node looks at another site, which is well while one of its
// nodes is.
func (n *node) checks(x *site) (checks []probe.Check, up string) {
	var names []string
	for i, of := range x.nodes {
		c := n.check(of)
		if x.several() {
			c.Name = fmt.Sprintf("http_%d", i+1)
			names = append(names, c.Name)
		}
		checks = append(checks, c)
	}
	if x.several() {
		up = "at_least(1, " + strings.Join(names, ", ") + ")"
	}
	return checks, up
}

// check is how the node looks at the service of one: its own with a tripwire besides.
func (n *node) check(of *node) probe.Check {
	return probe.Check{
		Name: "http", Kind: "http", Target: "http://" + of.service.addr.String() + "/",
		Source: n.hostAddress(), Tripwire: n == of,
		HTTP: &probe.HTTP{Identity: "X-Site: " + of.name},
	}
}

// links opens the node's end of the mesh.
func (n *node) links(f *fleet) (agent.MeshMaker, error) {
	l, err := n.mesh.listen()
	if err != nil {
		return nil, err
	}
	d := f.net.dialer(n.linkAddress())
	make := agent.MeshOver(mesh.Options{Credentials: n.creds, Dial: d.DialContext, Log: f.o.Log.With("node", n.id)}, f.net.behind(l))
	return n.tap.over(make), nil
}

// run is the agent until ctx ends.
func (n *node) run(ctx context.Context) error {
	if err := n.agent.Run(ctx); err != nil {
		return fmt.Errorf("%s: %w", n.id, err)
	}
	return nil
}

// speak makes the node's speaker, in this process.
func (n *node) speak(f *fleet) func(speaker.Options) (speaker.Interface, error) {
	return func(o speaker.Options) (speaker.Interface, error) {
		settings := bgp.Settings{
			ASN: siteASN + uint32(n.site.number), RouterID: n.hostAddress(), Allow: f.prefixes(),
			Neighbors: []bgp.Neighbor{{
				Name: "router", Address: routerAddress, Port: f.router.Addr().Port(), ASN: routerASN,
				LocalAddress: n.hostAddress(), NextHop4: n.hostAddress(),
			}},
		}
		return speaker.Local(speaker.Config{
			Node: n.id, Logger: f.o.Log.With("node", n.id),
			Load: func() (bgp.Settings, bgp.VIPSettings, error) { return settings, bgp.VIPSettings{Manage: "off"}, nil },
		}, o)
	}
}
