package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp"
	"github.com/steadycast/steadycast/bgp/sink"
	"github.com/steadycast/steadycast/internal/agent"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/role"
	"github.com/steadycast/steadycast/internal/speaker"
	"github.com/steadycast/steadycast/probe"
)

// The demo's numbering: the router on 127.0.0.1, site i on 127.0.0.(11+i), each
// its own AS (RFC 6996).
const (
	routerASN = 64512
	siteASN   = 64601
	maxSites  = len(names)
)

var names = [...]string{"fra", "ams", "lhr", "iad", "sjc", "gru", "jnb", "sin", "nrt", "syd"}

// Options of a demo.
type Options struct {
	// Sites is how many, 1…10; the first are called fra, ams, lhr.
	Sites int
	// Socket of the API.
	Socket string
	// Scenario to run; nil stays up until ctx ends.
	Scenario *Scenario
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
	sites    []string
	speakers map[netip.Addr]string // by source address
	services map[string]*service
	router   *sink.Router
	watch    *watch
	report   *report
	ring     *api.Ring
	ledger   *ledger.Local
	backend  *agent.Backend
	client   *client
}

// completeWithin bounds the start.
const completeWithin = 30 * time.Second

// Run starts the fleet, tells its story, and ends it.
func Run(ctx context.Context, o Options) (err error) {
	if o.Sites < 1 || o.Sites > maxSites {
		return fmt.Errorf("--sites %d: allowed are 1…%d", o.Sites, maxSites)
	}
	if o.Scenario != nil && o.Sites < 3 {
		return fmt.Errorf("--sites %d: a scenario needs 3 or more, so that guards have something to guard", o.Sites)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &fleet{
		o: o, sites: names[:o.Sites], speakers: map[netip.Addr]string{}, services: map[string]*service{},
		report: &report{w: o.Out, json: o.JSON, start: time.Now()}, ring: api.NewRing(1 << 14),
	}
	// Agents and helpers end first, then what they talk to.
	var ends []func()
	defer func() {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i]()
		}
	}()
	if err := f.world(&ends); err != nil {
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
	if o.Scenario != nil {
		return f.play(ctx)
	}
	f.welcome()
	<-ctx.Done()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// world makes what is around the fleet: router, services, ledger.
func (f *fleet) world(ends *[]func()) (err error) {
	f.router, err = sink.Listen(sink.Options{Address: "127.0.0.1:0", ASN: routerASN, RouterID: netip.MustParseAddr("127.0.0.1")})
	if err != nil {
		return fmt.Errorf("router: %w", err)
	}
	*ends = append(*ends, func() { f.router.Close() })
	for i, site := range f.sites {
		addr := address(i)
		f.speakers[addr] = site
		svc, err := newService(site, addr)
		if err != nil {
			return err
		}
		f.services[site] = svc
		*ends = append(*ends, svc.close)
	}
	f.watch = newWatch(anycast, f.speakers)
	f.ledger, err = ledger.Open("", table(f.sites), ledger.Options{Fleet: "demo", Node: "demo", Log: f.o.Log})
	if err != nil {
		return err
	}
	*ends = append(*ends, func() { f.ledger.Close() })
	return nil
}

// address of the i-th site.
func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, byte(11 + i)}) }

// start runs every site, the client and the API.
func (f *fleet) start(ctx context.Context, running *sync.WaitGroup, fail context.CancelCauseFunc) error {
	f.backend = &agent.Backend{Ledger: f.ledger, Ring: f.ring, Breaks: f.breaks}
	running.Go(func() { f.listen(ctx) })
	running.Go(func() { f.follow(ctx) })
	f.ledger.OnEvents(func(events []steadycast.Event) {
		for _, e := range events {
			switch e.Kind {
			case steadycast.EventOrder, steadycast.EventFreeze, steadycast.EventAlarm, steadycast.EventRecovery:
				e.At = time.Now()
				f.ring.Add(e)
			}
		}
	})
	for i, site := range f.sites {
		a, err := agent.New(agent.Options{
			Site: site, Node: site + "-1", Fleet: "demo", Mode: "demo", Version: f.o.Version.Version, Solo: true,
			Plan: agent.Plan{
				Table: table(f.sites),
				Probes: []probe.Service{{
					Name: serviceName, Subject: site, Vantage: site, Checks: checks(site, f.services[site].addr),
					Interval:     table(f.sites).Services[0].Health.Interval,
					FastInterval: table(f.sites).Services[0].Health.FastInterval,
				}},
				Config: api.Config{LoadedAt: time.Now(), Revision: 1},
			},
			Ledger: f.ledger, Events: f.ring, Quiet: true, Logger: f.o.Log,
			Speak: f.speak(i),
		})
		if err != nil {
			return err
		}
		f.backend.Agents = append(f.backend.Agents, a)
		running.Go(func() {
			if err := a.Run(ctx); err != nil {
				fail(fmt.Errorf("%s: %w", site, err))
			}
		})
	}
	f.client = &client{
		routes: f.watch.preferred,
		target: func(a netip.Addr) (string, netip.AddrPort) {
			site := f.speakers[a]
			return site, f.services[site].addr
		},
		lost: func(site string, flow int, why string) {
			f.report.line(time.Now(), Line{Kind: "loss", Site: site, Flow: &flow, Reason: why})
		},
	}
	return f.serve(ctx, running)
}

// speak makes the i-th site's speaker, in this process.
func (f *fleet) speak(i int) func(speaker.Options) (speaker.Interface, error) {
	return func(o speaker.Options) (speaker.Interface, error) {
		settings := bgp.Settings{
			ASN: siteASN + uint32(i), RouterID: address(i), Allow: []netip.Prefix{anycast},
			Neighbors: []bgp.Neighbor{{
				Name: "router", Address: netip.MustParseAddr("127.0.0.1"), Port: f.router.Addr().Port(), ASN: routerASN,
				LocalAddress: address(i), NextHop4: address(i),
			}},
		}
		return speaker.Local(speaker.Config{
			Node: f.sites[i] + "-1", Logger: f.o.Log.With("site", f.sites[i]),
			Load: func() (bgp.Settings, bgp.VIPSettings, error) { return settings, bgp.VIPSettings{Manage: "off"}, nil },
		}, o)
	}
}

// serve opens the API's socket.
func (f *fleet) serve(ctx context.Context, running *sync.WaitGroup) error {
	door, err := role.Listen(f.o.Socket, 0o600, "")
	if err != nil {
		return err
	}
	server := api.NewServer(f.backend, f.o.Version, f.o.Log)
	running.Go(func() {
		if err := server.Serve(ctx, door, f.o.Socket); err != nil {
			f.o.Log.Error("the API has ended", "err", err)
		}
		_ = os.Remove(f.o.Socket)
	})
	return nil
}

// breaks makes a fault at a site.
func (f *fleet) breaks(site, what string) error {
	s, ok := f.services[site]
	if !ok {
		return fmt.Errorf("no site %q; there are %v", site, f.sites)
	}
	f.report.line(time.Now(), Line{Kind: "fault", Site: site, Reason: what})
	return s.fault(what)
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
			u, about := f.watch.heard(e)
			if !about {
				continue
			}
			l := Line{Kind: "update", Site: u.Site, Prefix: e.Prefix.String(), Announce: &u.Announce}
			if u.Announce {
				l.Attributes = &u.Attributes
			}
			f.report.line(e.At, l)
		}
	}
}

// follow takes the agents' events to the report.
func (f *fleet) follow(ctx context.Context) {
	for after := uint64(0); ; {
		events, more := f.ring.Since(after)
		for _, e := range events {
			after = e.ID
			f.report.line(e.At, Line{Kind: string(e.Kind), Site: e.Site, From: e.From, To: e.To, Guard: e.Guard, Reason: e.Reason})
		}
		select {
		case <-ctx.Done():
			return
		case <-more:
		}
	}
}

// complete waits until every site is announced and preferred.
func (f *fleet) complete(ctx context.Context) error {
	s := f.stage(ctx)
	if err := s.until(completeWithin, fmt.Sprintf("all %d sites announce %v", len(f.sites), anycast), s.allWell); err != nil {
		return fmt.Errorf("the fleet did not start: %w", err)
	}
	return nil
}

// stage is what a scenario acts on.
func (f *fleet) stage(ctx context.Context) *stage {
	return &stage{
		ctx: ctx, sites: f.sites, router: f.watch, fault: f.breaks,
		tell: func(format string, args ...any) {
			f.report.line(time.Now(), Line{Kind: "story", Reason: fmt.Sprintf(format, args...)})
		},
		judged: func(site, state string, after time.Time) (time.Time, bool) {
			events, _ := f.ring.Since(0)
			for _, e := range events {
				if e.Kind == steadycast.EventVerdict && e.Site == site && e.To == state && e.At.After(after) {
					return e.At, true
				}
			}
			return time.Time{}, false
		},
	}
}

// play runs the scenario with the client beside it, and sums up.
func (f *fleet) play(ctx context.Context) error {
	client, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { f.client.run(client); close(done) }()

	s := f.stage(ctx)
	began := time.Now()
	err := f.o.Scenario.run(s)
	stop()
	<-done

	diff, derr := differences(f.sites)
	if derr != nil {
		return derr
	}
	sum := Summary{
		Scenario: f.o.Scenario.Name, OK: err == nil, AnnouncingMin: f.watch.fewest(),
		RouteChanges: len(f.watch.since(began)), Requests: f.client.sent.Load(), Lost: f.client.failed.Load(), Settings: diff,
	}
	if s.detect > 0 {
		ms := s.detect.Milliseconds()
		sum.DetectMS = &ms
	}
	if s.withdraw > 0 {
		ms := s.withdraw.Milliseconds()
		sum.WithdrawMS = &ms
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

// welcome says what to type in another terminal.
func (f *fleet) welcome() {
	if f.o.JSON {
		return
	}
	f.report.mu.Lock()
	defer f.report.mu.Unlock()
	at := f.o.Command + " --socket " + f.o.Socket
	fmt.Fprintf(f.o.Out, `
%d sites announce %v to one router. In another terminal:

  %[3]s status
  %[3]s kill %[4]s          its route leaves the router
  %[3]s why %[4]s %[2]v
  %[3]s heal %[4]s          and comes back
  %[3]s withdraw %[5]s --reason "try it" --yes
  %[3]s events -f

Ctrl-C ends it. What happens is told below.

`, len(f.sites), anycast, at, f.sites[0], f.sites[len(f.sites)-1])
}
