package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/metrics"
	"github.com/steadycast/steadycast/internal/role"
	"github.com/steadycast/steadycast/internal/speaker"
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
}

// Daemon runs one node's agent as a process: the ledger of a solo node, the
// judge, the API's socket and the metrics' listener.
func Daemon(ctx context.Context, p *role.Process, o DaemonOptions) error {
	cfg, log, version := o.Config, o.Logger, o.Version
	if cfg.Node.Mode != "solo" {
		return fmt.Errorf("mode: %s in %s: an agent decides for one site in this version, with mode: solo", cfg.Node.Mode, cfg.File)
	}
	unlock, err := role.Lock(cfg.Node.StateDir, "agent")
	if err != nil {
		return err
	}
	defer unlock()

	led, err := ledger.Open(filepath.Join(cfg.Node.StateDir, "ledger"), cfg.Table(),
		ledger.Options{Fleet: cfg.Node.Fleet, Node: cfg.Node.Node, Log: log})
	if err != nil {
		return err
	}
	defer led.Close()

	if err := commit(ctx, led, cfg.Table(), "config", "read at start from "+cfg.File); err != nil {
		return err
	}

	ring := api.NewRing(8192)
	a, err := New(Options{
		Site: cfg.Node.Site, Node: cfg.Node.Node, Fleet: cfg.Node.Fleet, Mode: cfg.Node.Mode, Version: version.Version,
		Plan: planOf(cfg), StateDir: cfg.Node.StateDir, Isolated: cfg.Node.Isolated, Solo: cfg.Node.Mode == "solo",
		Ledger: led, Events: ring, Logger: log, Jitter: rand.N(maxJitter), Alive: p.Alive, AliveWithin: p.Beat(),
		Speak: func(o speaker.Options) (speaker.Interface, error) {
			return speaker.Dial(cfg.Node.SpeakerSocket, o), nil
		},
	})
	if err != nil {
		return err
	}
	d := &daemon{agent: a, cfg: cfg, load: o.Load}
	backend := &Backend{Agents: []*Agent{a}, Ledger: led, Ring: ring, Reloads: d.reload}
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

// planOf is the part of a configuration that the agent carries out.
func planOf(c *config.Config) Plan {
	return Plan{
		Table: c.Table(), Probes: c.Probes(c.Node.Site, c.Node.Site), VIPs: c.VIPs(), VIPsOf: vipsOf(c),
		Outside: c.Node.Outside,
		Config:  api.Config{Path: c.File, Hash: c.Hash(), LoadedAt: time.Now()},
	}
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
