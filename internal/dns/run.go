package dns

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/answers"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/metrics"
	"github.com/steadycast/steadycast/internal/role"
)

// Options are what a server's process is made of.
type Options struct {
	Config *config.Config
	// Load reads the configuration again.
	Load    func() (*config.Config, config.Problems)
	Logger  *slog.Logger
	Version string
	// LedgerTLS is what the node is to the ledger; for mode fleet.
	LedgerTLS ledger.TLS
}

// Run answers for the zones of the fleet's table, as a process.
func Run(ctx context.Context, p *role.Process, o Options) error {
	n := o.Config.Node
	unlock, err := role.Lock(n.StateDir, "dns")
	if err != nil {
		return err
	}
	defer unlock()
	secrets, err := secretsOf(n)
	if err != nil {
		return err
	}
	log, err := openQueryLog(n.DNS.QueryLog, o.Logger)
	if err != nil {
		return err
	}
	defer log.close()
	source, placed, err := sourceOf(o)
	if err != nil {
		return err
	}
	defer source.Close()
	socket, err := role.Listen(n.DNSSocket, 0o660, n.SocketGroup)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &daemon{o: o, p: p, log: log, secrets: secrets, reloads: make(chan func()), began: time.Now(), served: make(chan *dnsfallback.Server, 1)}
	d.keeper = &keeper{
		node: n, source: source, placed: placed, log: o.Logger, beat: beat, freshFor: freshFor, serve: d.listen,
		memory: &memory{path: filepath.Join(n.StateDir, "dns-view.json"), fleet: n.Fleet, log: o.Logger},
	}
	p.OnReload(d.reload)
	p.OnDump(d.dump)
	var helpers sync.WaitGroup
	helpers.Go(func() { d.serveSocket(ctx, socket) })
	if n.DNS.Metrics != "off" {
		helpers.Go(func() { metrics.ServeDNS(ctx, n.DNS.Metrics, d.figures, o.Logger) })
	}
	helpers.Go(func() {
		select {
		case <-p.Stopping():
			cancel()
		case <-ctx.Done():
		}
	})
	helpers.Go(func() { d.watchHealth(ctx) })
	helpers.Go(func() { d.keeper.run(ctx, p.Alive, d.reloads) })
	p.Ready("waiting for the fleet's table and state")
	err = d.answer(ctx)
	cancel()
	helpers.Wait()
	return err
}

// daemon is the process around a keeper.
type daemon struct {
	o       Options
	p       *role.Process
	keeper  *keeper
	log     *queryLog
	secrets dnsfallback.Secrets
	reloads chan func()
	began   time.Time
	served  chan *dnsfallback.Server
	failed  string // why the sockets cannot be opened; the keeper's goroutine alone uses it
}

// sourceOf is where the state comes from: the fleet's voters; or the agent, with the
// zones of the file that node.yaml names.
func sourceOf(o Options) (Source, *config.Fleet, error) {
	n := o.Config.Node
	if n.Mode == "solo" {
		return FollowAgent(n.Socket), &o.Config.Fleet, nil
	}
	c := ledger.ClientOptions{Fleet: n.Fleet, Site: n.Site, Node: n.Node, TLS: o.LedgerTLS, MaxRTT: n.Ledger.MaxRTT, Log: o.Logger}
	for _, v := range n.Ledger.Peers {
		c.Voters = append(c.Voters, ledger.Peer{Node: v.Node, Address: v.Address, Domain: v.FailureDomain})
	}
	led, err := ledger.OpenClient(c)
	if err != nil {
		return nil, nil, err
	}
	return led, nil, nil
}

func secretsOf(n config.Node) (dnsfallback.Secrets, error) {
	if n.DNS.CookieSecrets == "" {
		return nil, nil
	}
	return dnsfallback.LoadSecrets(n.DNS.CookieSecrets)
}

// listen opens the sockets for the first table, or takes those that the service
// manager kept from the process before. The keeper tries again when it fails.
func (d *daemon) listen(t *dnsfallback.Table) (*dnsfallback.Server, error) {
	s, err := d.sockets()
	if err != nil {
		if text := err.Error(); text != d.failed {
			d.failed = text
			d.o.Logger.Error("nobody answers yet: the sockets cannot be opened; tried again every second", "err", err)
		}
		return nil, err
	}
	if d.log != nil {
		if err := s.Sample(d.o.Config.Node.DNS.QueryLog.Sample, d.log.take); err != nil {
			return nil, err
		}
	}
	if err := s.Set(t); err != nil {
		return nil, err
	}
	d.served <- s
	return s, nil
}

// storeName is what the sockets are called at the service manager.
const storeName = "dns"

func (d *daemon) sockets() (*dnsfallback.Server, error) {
	settings := d.o.Config.Node.DNS.Settings
	kept := role.Kept(storeName)
	defer func() {
		for _, f := range kept {
			f.Close()
		}
	}()
	if len(kept) > 0 {
		s, err := dnsfallback.TakeOver(settings, d.secrets, kept)
		if err == nil {
			d.o.Logger.Info("the sockets of the process before are taken over", "sockets", len(kept))
			return s, nil
		}
		d.o.Logger.Warn("the sockets of the process before do not fit the settings; opening others", "err", err)
		d.p.Forget(storeName)
	}
	s, err := dnsfallback.Listen(settings, d.secrets)
	if err != nil {
		return nil, err
	}
	files, err := s.Files()
	if err != nil {
		d.o.Logger.Warn("the sockets cannot be handed over; a restart may lose questions", "err", err)
		return s, nil
	}
	d.p.Keep(storeName, files)
	for _, f := range files {
		f.Close()
	}
	return s, nil
}

// answer serves from the first table on, until ctx ends.
func (d *daemon) answer(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case s := <-d.served:
		var at []string
		for _, a := range s.Addresses() {
			at = append(at, a.String())
		}
		d.o.Logger.Info("answering", "at", strings.Join(at, " "))
		d.p.Ready("answering at " + strings.Join(at, " "))
		return s.Serve(ctx)
	}
}

// watchHealth tests the server's answers and says what came of it, once a second.
// A health that was not said for some seconds is unknown to whoever reads it.
func (d *daemon) watchHealth(ctx context.Context) {
	path := answers.HealthFile(d.o.Config.Node.RunDir)
	defer os.Remove(path)
	tick := time.NewTicker(testEvery)
	defer tick.Stop()
	said, failing := health{}, ""
	for {
		sheet, server, _ := d.keeper.show()
		h := health{stale: sheet.Stale}
		if server == nil {
			h.wrong = "it does not answer yet: the fleet's table and state are not known"
		} else {
			h.wrong = test(ctx, server)
		}
		if ctx.Err() != nil {
			return
		}
		d.keeper.tested(h.wrong)
		if h.wrong != said.wrong && server != nil {
			if h.wrong != "" {
				d.o.Logger.Error("the answers of this server are not right", "why", h.wrong)
			} else {
				d.o.Logger.Info("the answers of this server are right")
			}
		}
		said = h
		if err := tell(path, h); err != nil && err.Error() != failing {
			failing = err.Error()
			d.o.Logger.Error("the server's health cannot be told", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reload reads node.yaml, cookie secrets, maps and, for a node of its own, the
// zones again. What needs other sockets holds after a restart.
func (d *daemon) reload(ctx context.Context) error {
	cfg, problems := d.o.Load()
	if err := problems.Err(); err != nil {
		return err
	}
	secrets, err := secretsOf(cfg.Node)
	if err != nil {
		return err
	}
	if cfg.Node.Mode == "solo" {
		if _, err := policyOf(0, cfg.Fleet); err != nil {
			return fmt.Errorf("%s: %w", cfg.TableFile, err)
		}
	}
	if err := d.log.reopen(); err != nil {
		return err
	}
	done := make(chan struct{})
	apply := func() {
		defer close(done)
		if d.keeper.server != nil && len(secrets) > 0 {
			_ = d.keeper.server.SetSecrets(secrets) // not empty
		}
		d.secrets = secrets
		if cfg.Node.Mode == "solo" {
			d.keeper.replace(&cfg.Fleet)
		}
	}
	select {
	case d.reloads <- apply:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-done
	if !reflect.DeepEqual(cfg.Node.DNS, d.o.Config.Node.DNS) {
		d.o.Logger.Warn("what changed under dns: in node.yaml holds after a restart; secrets, maps and zones were read")
	}
	return nil
}

// dump writes the state to the log.
func (d *daemon) dump() {
	s := d.Status()
	d.o.Logger.Info("state", "version", s.Version, "revision", s.Revision, "position", s.Position, "mode", s.Mode, "stale", s.Stale, "refused", s.Refused)
}
