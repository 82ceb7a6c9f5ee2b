package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/sink"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/agent"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/dns"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/pki"
	"github.com/steadycast/steadycast/internal/role"
)

// The demo's numbering: the router on 127.0.0.1, site i on 127.0.0.(11+i) with its
// links on 127.0.0.(61+i) and its voter on 127.0.0.(111+i), its second node on
// 127.0.1.(11+i) and so on; each site its own AS (RFC 6996).
const (
	fleetName = "demo"
	// operatorName is who signs the orders.
	operatorName = "demo"
	routerASN    = 64512
	siteASN      = 64601
	maxSites     = len(names)
	maxNodes     = 4
	votersOf     = 3 // sites have a voter, where there is more than one
)

var names = [...]string{"fra", "ams", "lhr", "iad", "sjc", "gru", "jnb", "sin", "nrt", "syd"}

// witnessName is that of the third vantage and voter in a fleet of two sites.
const witnessName = "wit"

// Options of a demo.
type Options struct {
	// Sites is how many, 1…10; the first are called fra, ams, lhr.
	Sites int
	// Nodes is how many each site has, 1…4; 0 is 1, or what the scenario needs.
	Nodes int
	// Socket of the API.
	Socket string
	// Key is where the operator's key of the demo is kept while it runs, for those
	// who give orders over the socket; empty keeps it to itself.
	Key string
	// DNS is where the demo answers for its zone; invalid is nowhere. DNSIfFree
	// does without when the address is taken.
	DNS       netip.AddrPort
	DNSIfFree bool
	// Scenario to run; nil stays up until ctx ends.
	Scenario *Scenario
	// Adjust changes the demo's policy before it begins, for measurements; may be nil.
	Adjust func(*decide.Table)
	// JSON writes one object per event, instead of a timeline to read.
	JSON bool
	Out  io.Writer
	// Log hears what the parts say of themselves.
	Log     *slog.Logger
	Version api.Version
	// Prefix before commands that are shown: how this program was started.
	Command string
}

// ErrFailed: the scenario did not go as it should; the report says why.
var ErrFailed = errors.New("the scenario failed")

// fleet is the running demo.
type fleet struct {
	o        Options
	sites    []*site              // the witness last
	speakers map[netip.Addr]*node // by source address
	net      *network
	world    *world
	router   *sink.Router
	watch    *watch
	owns     []*watch // of the sites' own addresses
	report   *report
	ring     *api.Ring
	record   *record
	voters   *voters  // nil in a fleet of one, as pen is
	pen      *pki.Pen // whose orders the ledger takes
	backend  *agent.Backend
	client   *client
	dns      *zone  // nil when it answers nowhere
	nameless string // why it does not, although it would
	writer   *writer
}

// completeWithin bounds the start.
const completeWithin = 2 * time.Minute

// Run starts the fleet, tells its story, and ends it.
func Run(ctx context.Context, o Options) error {
	return with(ctx, o, func(ctx context.Context, f *fleet) error {
		if o.Scenario != nil {
			return f.play(ctx)
		}
		return f.live(ctx)
	})
}

// Check says what of the options no fleet can be made of, in the words of the
// command line; nil if nothing.
func (o *Options) Check() error {
	if o.Sites < 1 || o.Sites > maxSites {
		return fmt.Errorf("--sites %d: allowed are 1…%d", o.Sites, maxSites)
	}
	if o.Scenario != nil && o.Sites < 3 {
		return fmt.Errorf("--sites %d: a scenario needs 3 or more, so that guards have something to guard", o.Sites)
	}
	if o.Scenario != nil && o.Sites < o.Scenario.Sites {
		return fmt.Errorf("--sites %d: the scenario %s needs %d or more, so that enough others look on", o.Sites, o.Scenario.Name, o.Scenario.Sites)
	}
	switch least := o.leastNodes(); {
	case o.Nodes == 0:
	case o.Nodes < 1 || o.Nodes > maxNodes:
		return fmt.Errorf("--nodes %d: allowed are 1…%d", o.Nodes, maxNodes)
	case o.Nodes < least:
		return fmt.Errorf("--nodes %d: the scenario %s needs %d or more at each site", o.Nodes, o.Scenario.Name, least)
	case o.Nodes > 1 && o.Sites == 1:
		return fmt.Errorf("--nodes %d: a site alone has one node, since its nodes share a place in a ledger; use --sites 2 or more", o.Nodes)
	}
	return nil
}

// leastNodes is how many nodes each site needs, and has unless told otherwise.
func (o *Options) leastNodes() int {
	if o.Scenario == nil {
		return 1
	}
	return max(o.Scenario.nodes, 1)
}

// with starts the fleet, does something with it once it is complete, and ends it.
func with(ctx context.Context, o Options, then func(context.Context, *fleet) error) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	o.Nodes = cmp.Or(o.Nodes, o.leastNodes())
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &fleet{
		o: o, speakers: map[netip.Addr]*node{}, net: newNetwork(),
		report: &report{w: o.Out, json: o.JSON, start: time.Now()}, ring: api.NewRing(1 << 14),
	}
	f.record = &record{add: f.passOn}
	for i, name := range names[:o.Sites] {
		s := newSite(name, i, o.Nodes)
		if o.Nodes > 1 || o.Scenario != nil && o.Scenario.owns {
			s.own = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(11 + i)}), 32)
		}
		f.sites = append(f.sites, s)
	}
	if o.Sites == 2 {
		s := newSite(witnessName, 2, 1)
		s.witness = true
		f.sites = append(f.sites, s)
	}
	// Agents and helpers end first, then what they talk to.
	var ends []func()
	defer func() {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i]()
		}
	}()
	if err := f.surround(&ends); err != nil {
		return err
	}
	if err := f.decide(ctx, &ends); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	ends = append(ends, running.Wait, func() { cancel(nil) })
	if err := f.start(ctx, &running, cancel); err != nil {
		return err
	}
	if err := f.complete(ctx); err != nil {
		return err
	}
	f.report.begin(time.Now())
	f.watch.count()
	return then(ctx, f)
}

// live tells what to type, and waits until the demo is to end.
func (f *fleet) live(ctx context.Context) error {
	f.welcome()
	<-ctx.Done()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// surround makes what is around the fleet: the router, the services, the world.
func (f *fleet) surround(ends *[]func()) (err error) {
	f.router, err = sink.Listen(sink.Options{
		Address: routerAddress.String() + ":0", ASN: routerASN, RouterID: routerAddress, Behind: f.net.behind,
	})
	if err != nil {
		return fmt.Errorf("router: %w", err)
	}
	*ends = append(*ends, func() { f.router.Close() })
	if f.world, err = openWorld(f.net); err != nil {
		return fmt.Errorf("anchors: %w", err)
	}
	*ends = append(*ends, f.world.close)
	f.watch = newWatch(anycast, f.speakers)
	for _, s := range f.announcers() {
		if s.own.IsValid() {
			f.owns = append(f.owns, newWatch(s.own, f.speakers))
		}
		for _, n := range s.nodes {
			f.speakers[n.hostAddress()] = n
			if n.service, err = newService(n.name, n.hostAddress(), f.net); err != nil {
				return err
			}
			*ends = append(*ends, n.service.close)
		}
	}
	if f.writer, err = openWriter(); err != nil {
		return fmt.Errorf("writer: %w", err)
	}
	*ends = append(*ends, f.writer.close)
	return nil
}

// decide makes the ledger, and the sites its clients: one of its own for a site
// alone, else three voters with certificates of the demo's own authority.
func (f *fleet) decide(ctx context.Context, ends *[]func()) error {
	if len(f.sites) == 1 {
		own, err := ledger.Open("", f.table(), ledger.Options{Fleet: fleetName, Node: f.sites[0].host().id, Log: f.o.Log})
		if err != nil {
			return err
		}
		f.sites[0].host().ledger = own
		own.OnEvents(f.record.teller())
		*ends = append(*ends, func() { own.Close() })
		return nil
	}
	dir, err := os.MkdirTemp("", "steadycast-demo-")
	if err != nil {
		return err
	}
	*ends = append(*ends, func() { os.RemoveAll(dir) })
	ca, err := pki.Init(filepath.Join(dir, "ca"), fleetName, time.Now())
	if err != nil {
		return err
	}
	for _, n := range f.nodes() {
		if err := n.enrol(ca, dir); err != nil {
			return err
		}
		if n.mesh, err = takePort(n.linkAddress()); err != nil {
			return err
		}
		*ends = append(*ends, n.mesh.close)
	}
	if err := f.appoint(dir, ends); err != nil {
		return fmt.Errorf("operator: %w", err)
	}
	f.voters = &voters{fleet: fleetName, dir: dir, net: f.net, log: f.o.Log, record: f.record, said: f.voterSaid}
	for _, s := range f.sites[:votersOf] {
		n := s.host()
		p, err := takePort(n.seatAddress())
		if err != nil {
			return err
		}
		ear, err := takePort(n.seatAddress())
		if err != nil {
			return err
		}
		f.voters.seats = append(f.voters.seats, seat{site: s.name, node: n.id, port: p, ear: ear, creds: n.creds})
	}
	if err := openVoters(f.voters); err != nil {
		return err
	}
	*ends = append(*ends, f.voters.close)
	if err := f.voters.init(ctx, f.table(), f.pen.Operator); err != nil {
		return fmt.Errorf("the ledger did not begin: %w", err)
	}
	for _, n := range f.nodes() {
		c, err := n.join(f)
		if err != nil {
			return err
		}
		*ends = append(*ends, func() { c.Close() })
	}
	return nil
}

// appoint makes the operator whose orders the ledger takes. A key that an earlier
// demo left behind is taken up.
func (f *fleet) appoint(dir string, ends *[]func()) (err error) {
	path := f.o.Key
	if path == "" {
		path = filepath.Join(dir, "operator.key")
	}
	f.pen, err = pki.OpenPen(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.pen, err = pki.NewPen(path, operatorName, steadycast.Admin)
	case err == nil && f.pen.Name != operatorName:
		err = fmt.Errorf("%s is the key of %s, and stays as it is; choose another socket", path, f.pen.Name)
	}
	if err == nil {
		*ends = append(*ends, func() { os.Remove(path) })
	}
	return err
}

// announcers are the sites that are no witnesses.
func (f *fleet) announcers() (out []*site) {
	for _, s := range f.sites {
		if !s.witness {
			out = append(out, s)
		}
	}
	return out
}

// nodes of all sites.
func (f *fleet) nodes() (out []*node) {
	for _, s := range f.sites {
		out = append(out, s.nodes...)
	}
	return out
}

// ledger is that of the first node, which is as good as any.
func (f *fleet) ledger() ledger.Ledger { return f.sites[0].host().ledger }

// prefixes are all that any node may announce.
func (f *fleet) prefixes() []netip.Prefix {
	out := []netip.Prefix{anycast}
	for _, s := range f.sites {
		if s.own.IsValid() {
			out = append(out, s.own)
		}
	}
	return out
}

// names of the announcing sites.
func (f *fleet) names() (out []string) {
	for _, s := range f.announcers() {
		out = append(out, s.name)
	}
	return out
}

// table is the fleet's policy as it begins.
func (f *fleet) table() decide.Table {
	t := table(f.places())
	if f.o.Scenario != nil && f.o.Scenario.adjust != nil {
		f.o.Scenario.adjust(&t)
	}
	t.Plans = f.planned()
	if f.o.Adjust != nil {
		f.o.Adjust(&t)
	}
	return t
}

// places are the sites as the table has them.
func (f *fleet) places() (out []decide.Place) {
	for _, s := range f.sites {
		p := decide.Place{Name: s.name, Witness: s.witness}
		if s.own.IsValid() {
			p.Own = []netip.Prefix{s.own}
		}
		for _, n := range s.nodes {
			if n.mesh != nil {
				p.Nodes = append(p.Nodes, decide.Node{Name: n.id, Mesh: n.mesh.addr})
			}
		}
		out = append(out, p)
	}
	return out
}

func (f *fleet) site(name string) *site {
	i := slices.IndexFunc(f.sites, func(s *site) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return f.sites[i]
}

// voterSaid takes news of the ledger to the report.
func (f *fleet) voterSaid(node, what string) {
	f.report.line(time.Now(), Line{Kind: "voter", Site: strings.TrimSuffix(node, "-1"), Reason: what})
}

// passOn takes what the ledger records to the ring; what is the agents' own to
// tell they tell, in the order in which it happens there.
func (f *fleet) passOn(e steadycast.Event) {
	switch e.Kind {
	case steadycast.EventVerdict, steadycast.EventRequest, steadycast.EventPermit, steadycast.EventRefused, steadycast.EventRoute, steadycast.EventProof:
	default:
		f.ring.Add(e)
	}
}

// start runs every site, the client and the API.
func (f *fleet) start(ctx context.Context, running *sync.WaitGroup, fail context.CancelCauseFunc) error {
	f.backend = &agent.Backend{Ledger: f.ledger(), Ring: f.ring, Breaks: f.breaks}
	running.Go(func() { f.listen(ctx) })
	running.Go(func() { f.follow(ctx) })
	if f.voters != nil {
		running.Go(func() { f.voters.follow(ctx) })
	}
	for _, n := range f.nodes() {
		if err := n.employ(f); err != nil {
			return err
		}
		f.backend.Agents = append(f.backend.Agents, n.agent)
		running.Go(func() {
			if err := n.run(ctx); err != nil {
				fail(err)
			}
		})
	}
	f.client = f.newClient(f.watch)
	if err := f.name(ctx, running); err != nil {
		return err
	}
	return f.serve(ctx, running)
}

// newClient is one that goes where the router's table sends it.
func (f *fleet) newClient(w *watch) *client {
	about := ""
	if w != f.watch {
		about = w.prefix.String()
	}
	return &client{
		patient: f.o.Scenario != nil && f.o.Scenario.patient,
		routes:  w.preferred,
		target: func(a netip.Addr) (string, netip.AddrPort) {
			n := f.speakers[a]
			return n.name, n.service.addr
		},
		lost: func(site string, flow int, why string) {
			f.report.line(time.Now(), Line{Kind: "loss", Site: site, Prefix: about, Flow: &flow, Reason: why})
		},
	}
}

// serve opens the API's socket.
func (f *fleet) serve(ctx context.Context, running *sync.WaitGroup) error {
	door, err := role.Listen(f.o.Socket, 0o600, "")
	if err != nil {
		return err
	}
	server := api.NewServer(f.backend, f.o.Version, f.o.Log)
	if f.dns != nil {
		server.Beside("/v1/dns/", dns.Handler(f.dns))
	}
	running.Go(func() {
		if err := server.Serve(ctx, door, f.o.Socket); err != nil {
			f.o.Log.Error("the API has ended", "err", err)
		}
		_ = os.Remove(f.o.Socket)
	})
	return nil
}

// breaks makes a fault at a site, or at one node: SITE/NODE.
func (f *fleet) breaks(at, what string) error {
	name, id, one := strings.Cut(at, "/")
	s := f.site(name)
	if s == nil || s.witness {
		return fmt.Errorf("no site %q; there are %v", name, f.names())
	}
	hit := s.nodes
	if one {
		if hit = slices.DeleteFunc(slices.Clone(hit), func(n *node) bool { return n.id != id }); len(hit) == 0 {
			return fmt.Errorf("no node %q at %s; its nodes are %s-1…%d", id, name, name, len(s.nodes))
		}
	}
	f.report.line(time.Now(), Line{Kind: "fault", Site: name, Node: id, Reason: what})
	for _, n := range hit {
		if err := n.service.fault(what); err != nil {
			return err
		}
	}
	return nil
}

// stopVoter halts one: its process stands still and answers nobody, until every
// way is open again.
func (f *fleet) stopVoter(s seat) {
	own := []netip.Addr{s.port.addr.Addr()}
	f.cut(own, but(f.parts(), own...), "its voter stands still", s.site)
}

// listen takes what the router hears to the table and the report.
func (f *fleet) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-f.router.Events():
			if !ok {
				return
			}
			for _, w := range slices.Concat(f.owns, []*watch{f.watch}) {
				u, about := w.heard(e)
				if !about {
					continue
				}
				l := Line{Kind: "update", Site: u.Site, Prefix: e.Prefix.String(), Announce: &u.Announce, Lost: u.Lost}
				if f.o.Nodes > 1 {
					l.Node = u.Node
				}
				if u.Announce {
					l.Attributes = &u.Attributes
				}
				f.report.line(e.At, l)
			}
		}
	}
}

// follow takes the agents' events to the report.
func (f *fleet) follow(ctx context.Context) {
	for after := uint64(0); ; {
		events, more := f.ring.Since(after)
		for _, e := range events {
			after = e.ID
			f.report.line(e.At, Line{Kind: string(e.Kind), Site: e.Site, Node: e.Node, From: e.From, To: e.To, Guard: e.Guard, Reason: e.Reason})
		}
		select {
		case <-ctx.Done():
			return
		case <-more:
		}
	}
}

// complete waits until every site is announced and preferred, and counted so. Where
// a site has several nodes each is announced; those that come after the first are
// less attractive for their first minute.
func (f *fleet) complete(ctx context.Context) error {
	s := f.stage(ctx)
	all := func() bool {
		return len(f.watch.nodes()) == len(f.speakers) && len(f.watch.wellSites()) == len(s.sites) && routerAgrees(s) == nil
	}
	if err := s.until(completeWithin, fmt.Sprintf("all %d sites announce %v, and the ledger counts them in", f.o.Sites, anycast), all); err != nil {
		return fmt.Errorf("the fleet did not start: %w", err)
	}
	return nil
}

// play runs the scenario with the client beside it, and sums up.
func (f *fleet) play(ctx context.Context) error {
	client, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { f.client.run(client); close(done) }()

	s := f.stage(ctx)
	began := time.Now()
	err := f.o.Scenario.run(s)
	var held []string
	if err == nil {
		held, err = s.check()
	}
	stop()
	<-done

	diff, derr := differences(f.table())
	if derr != nil {
		return derr
	}
	sum := Summary{
		Scenario: f.o.Scenario.Name, OK: err == nil, AnnouncingMin: f.watch.fewest(),
		RouteChanges: len(f.watch.since(began)), Requests: f.client.sent.Load(), Lost: f.client.failed.Load(), Settings: diff,
		DetectMS: milliseconds(s.detect), PermitMS: milliseconds(s.permit), WithdrawMS: milliseconds(s.withdraw), NamesMS: milliseconds(s.names), Held: held,
	}
	if err != nil {
		sum.Error = err.Error()
	}
	f.report.end(sum)
	if err != nil {
		return ErrFailed
	}
	return nil
}

// milliseconds of what was measured; nil where nothing was.
func milliseconds(d time.Duration) *int64 {
	if d <= 0 {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

// welcome says what to type in another terminal.
func (f *fleet) welcome() {
	if f.o.JSON {
		return
	}
	f.report.mu.Lock()
	defer f.report.mu.Unlock()
	at := f.o.Command + " --socket " + f.o.Socket
	about := fmt.Sprintf("%d sites announce %v to one router; %d voters hold their ledger together", f.o.Sites, anycast, votersOf)
	switch f.o.Sites {
	case 1:
		about = fmt.Sprintf("One site announces %v to a router; alone, it decides by its own checks and a ledger of its own", anycast)
	case 2:
		about = fmt.Sprintf("2 sites announce %v to one router; a witness, %s, is their third vantage and voter", anycast, witnessName)
	}
	asking := ""
	if f.o.Nodes > 1 {
		asking = fmt.Sprintf("  %s kill %s/%s          one node of several leaves alone\n", at, names[0], f.site(names[0]).nodes[0].id)
	}
	if f.dns != nil {
		asking += fmt.Sprintf("\n  dig @%v -p %d %s.%s +short          which sites clients are sent to\n  %s dns resolve %s.%s          and why\n", f.o.DNS.Addr(), f.o.DNS.Port(), demoName, demoZone, at, demoName, demoZone)
	}
	if f.nameless != "" {
		asking += "\n  " + f.nameless + "\n"
	}
	fmt.Fprintf(f.o.Out, `
%s. In another terminal:

  %[2]s status
  %[2]s kill %[3]s          its route leaves the router
  %[2]s why %[3]s %[5]v
  %[2]s heal %[3]s          and comes back
  %[2]s withdraw %[4]s --reason "try it" --yes
  %[2]s events -f
%[6]s
Ctrl-C ends it. What happens is told below.

`, about, at, names[0], names[f.o.Sites-1], anycast, asking)
}
