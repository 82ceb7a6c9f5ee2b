package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/answers"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/count"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/mesh"
	"github.com/steadycast/steadycast/internal/metrics"
	"github.com/steadycast/steadycast/internal/pki"
	"github.com/steadycast/steadycast/internal/role"
	"github.com/steadycast/steadycast/internal/speaker"
	"github.com/steadycast/steadycast/probe"
)

// maxJitter spreads a fleet that powers up at once (rule S2).
const maxJitter = 30 * time.Second

// readyWithin bounds how long READY waits for the first round of checks.
const readyWithin = 10 * time.Second

// DaemonOptions are what an agent's process is made of.
type DaemonOptions struct {
	Config *config.Config
	// Load reads the configuration again.
	Load    func() (*config.Config, config.Problems)
	Logger  *slog.Logger
	Version api.Version
	// Credentials are what the node proves itself with to others, and LedgerTLS what
	// they are to the ledger; for mode fleet.
	Credentials *pki.Credentials
	LedgerTLS   ledger.TLS
}

// Daemon runs one node's agent as a process: the ledger of a solo node or the way
// to the fleet's, the judge, the API's socket and the metrics' listener.
func Daemon(ctx context.Context, p *role.Process, o DaemonOptions) error {
	cfg, log, version := o.Config, o.Logger, o.Version
	unlock, err := role.Lock(cfg.Node.StateDir, "agent")
	if err != nil {
		return err
	}
	defer unlock()

	ring := api.NewRing(8192)
	opts := Options{
		Site: cfg.Node.Site, Node: cfg.Node.Node, Fleet: cfg.Node.Fleet, Mode: cfg.Node.Mode, Version: version.Version,
		StateDir: cfg.Node.StateDir, Isolated: cfg.Node.Isolated, LastResort: cfg.Node.LastResort,
		Names:    Names{answers.HealthFile(cfg.Node.RunDir), cfg.Node.DNS.Service},
		LoadFile: cfg.Node.LoadFile, Events: ring, Logger: log, Jitter: rand.N(maxJitter), Alive: p.Alive, AliveWithin: p.Beat(),
		Speak: func(o speaker.Options) (speaker.Interface, error) {
			return speaker.Dial(cfg.Node.SpeakerSocket, o), nil
		},
	}
	opts.LoadPackets, opts.LoadTarget, opts.LoadQuery = cfg.Node.LoadPackets, cfg.Node.Load.Prometheus, cfg.Node.Load.Query
	if len(cfg.Node.DNS.Listen) > 0 && cfg.Node.Mode == "fleet" {
		led, done := askLed(cfg.Node.DNSSocket)
		defer done()
		opts.Led = led
	}
	if cfg.Node.Count == "nftables" {
		c, err := count.Open("steadycast")
		if err != nil {
			return err
		}
		defer c.Close()
		opts.Counts = c.Read
	}
	join := joinFleet
	if cfg.Node.Mode == "solo" {
		join = decideAlone
	}
	leave, err := join(ctx, o, &opts)
	if err != nil {
		return err
	}
	defer leave()
	a, err := New(opts)
	if err != nil {
		return err
	}
	d := &daemon{agent: a, cfg: cfg, load: o.Load}
	backend := &Backend{Agents: []*Agent{a}, Ledger: opts.Ledger, Ring: ring, Reloads: d.reload}
	p.OnReload(func(ctx context.Context) error {
		r, err := d.reload(ctx, "SIGHUP", false)
		if err == nil && len(r.Problems) > 0 {
			err = errors.New(r.Problems[0])
		}
		return err
	})
	p.OnDump(func() { Dump(log, backend.Snapshot()) })

	door, err := role.Listen(cfg.Node.Socket, 0o660, cfg.Node.SocketGroup)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var helpers sync.WaitGroup
	helpers.Go(func() {
		if err := api.NewServer(backend, version, log).Serve(ctx, door, cfg.Node.Socket); err != nil {
			log.Error("the API has ended; routes are not touched", "err", err)
		}
	})
	if listen := cfg.Node.Metrics.Listen; listen != "off" {
		helpers.Go(func() { metrics.Serve(ctx, listen, backend.Snapshot, log) })
	}
	helpers.Go(func() {
		select {
		case <-p.Stopping(): // the speaker keeps its routes: only the judge goes
			cancel()
		case <-ctx.Done():
		}
	})
	helpers.Go(func() { d.announceReady(ctx, p, backend) })
	err = a.Run(ctx)
	cancel()
	helpers.Wait()
	return err
}

// decideAlone gives a node a ledger of its own, with the table of its file.
func decideAlone(ctx context.Context, o DaemonOptions, opts *Options) (leave func(), err error) {
	cfg := o.Config
	led, err := ledger.Open(filepath.Join(cfg.Node.StateDir, "ledger"), cfg.Table(),
		ledger.Options{Fleet: cfg.Node.Fleet, Node: cfg.Node.Node, Log: o.Logger})
	if err != nil {
		return nil, err
	}
	if err := commit(ctx, led, cfg.Table(), "config", "read at start from "+cfg.File); err != nil {
		led.Close()
		return nil, err
	}
	opts.Solo, opts.Plan, opts.Ledger = true, planOf(cfg), led
	return func() { led.Close() }, nil
}

// joinFleet connects a node with its fleet: the voters, whose table it follows,
// and the nodes that look at each other.
func joinFleet(_ context.Context, o DaemonOptions, opts *Options) (leave func(), err error) {
	n := o.Config.Node
	if o.Credentials == nil {
		return nil, fmt.Errorf("mode: fleet needs this node's certificate in %s; steadycast pki issue makes it", n.TLS.Dir)
	}
	ln, err := net.Listen("tcp", n.Mesh.Listen)
	if err != nil {
		return nil, fmt.Errorf("mesh.listen: %w", err)
	}
	c := ledger.ClientOptions{
		Fleet: n.Fleet, Site: n.Site, Node: n.Node, TLS: o.LedgerTLS, MaxRTT: n.Ledger.MaxRTT,
		Cache: filepath.Join(n.StateDir, "ledger-view.json"), Log: o.Logger,
	}
	for _, v := range n.Ledger.Peers {
		c.Voters = append(c.Voters, ledger.Peer{Node: v.Node, Address: v.Address, Domain: v.FailureDomain})
		if v.Mesh != "" { // judged before
			opts.Voters = append(opts.Voters, mesh.Peer{Name: v.Node + "/ledger", Node: v.Node, Addr: netip.MustParseAddrPort(v.Mesh)})
		}
	}
	led, err := ledger.OpenClient(c)
	if err != nil {
		ln.Close()
		return nil, err
	}
	opts.FallbackURL = n.FallbackURL
	opts.Ledger, opts.Derive, opts.Alarms = led, derive(o.Config), o.Credentials.Alarms
	opts.Mesh = MeshOver(mesh.Options{Credentials: o.Credentials, Log: o.Logger}, ln)
	if !slices.Contains(n.Roles, "speaker") {
		opts.Speak = nil
	}
	return func() { led.Close() }, nil
}

// derive makes plans of committed tables for the node of a configuration.
func derive(c *config.Config) func(decide.Table) (Plan, error) {
	return func(t decide.Table) (Plan, error) {
		next, problems, err := c.With(t)
		if err != nil {
			return Plan{}, err
		}
		p := planOf(next)
		for _, x := range problems {
			if x.Warning {
				p.Notes = append(p.Notes, x.String())
			} else {
				p.Alarms = append(p.Alarms, x.String())
			}
		}
		return p, nil
	}
}

// planOf is the part of a configuration that the agent carries out.
func planOf(c *config.Config) Plan {
	return Plan{
		Table: c.Table(), Probes: c.Looks(c.Node.Site), LooksBut: looksBut(c), VIPs: c.VIPs(), VIPsOf: vipsOf(c),
		Outside: c.Node.Outside, Elsewhere: c.Node.Elsewhere, WhoAnswers: c.Node.WhoAnswers, Placement: c.Fleet.Placement,
		Plans: c.Fleet.Plans, Programs: c.Node.Exec,
		Config: api.Config{Path: c.File, Hash: c.Hash(), LoadedAt: time.Now()},
	}
}

// looksBut is nil where no site has several nodes.
func looksBut(c *config.Config) func(func(site, node, service string) bool) []probe.Service {
	for _, s := range c.Table().Sites {
		if len(s.Nodes) > 1 {
			return func(out func(site, node, service string) bool) []probe.Service { return c.LooksBut(c.Node.Site, out) }
		}
	}
	return nil
}

// vipsOf are, by service, the addresses whose absence is a fault.
func vipsOf(c *config.Config) map[string][]netip.Prefix {
	if c.Node.VIP.Manage == "off" {
		return nil
	}
	out := map[string][]netip.Prefix{}
	for _, s := range c.Fleet.Services {
		out[s.Name] = s.Addresses()
	}
	return out
}

// announceReady says READY when the first round of every service is in, or when
// waiting longer would tell nothing. It never waits for routers: a router that
// is down must not make the service manager restart us.
func (d *daemon) announceReady(ctx context.Context, p *role.Process, b *Backend) {
	limit := time.NewTimer(readyWithin)
	defer limit.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return
		case <-limit.C:
			waiting = false
		case <-tick.C:
			waiting = !d.agent.looked()
		}
	}
	p.Ready(sentence(b))
	every := time.NewTicker(5 * time.Second)
	defer every.Stop()
	for last := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if s := sentence(b); s != last {
				p.Status("%s", s)
				last = s
			}
		}
	}
}

// sentence is the one-line truth.
func sentence(b *Backend) string {
	s := b.Snapshot().Status()
	return s.Summary.Sentence + " — " + s.Summary.Mark
}
