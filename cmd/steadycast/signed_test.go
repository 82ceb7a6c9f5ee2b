package main

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/agent"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/pki"
)

// TestSignedScripts runs the real command line against the real server over a
// real ledger that knows three operators, maria (admin), joe (operator) and vic
// (viewer), whose keys and public halves lie in the script's directory as
// NAME.key and NAME.pub. The sites ams, fra and lon announce 192.0.2.0/24, and
// are only said to; 198.51.100.0/24 too, with a service in mode approve, and fra asks
// for it.
func TestSignedScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/signed",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TERM", "dumb")
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			socket, stop, err := signedFleet(t, env.WorkDir)
			if err != nil {
				return err
			}
			env.Defer(stop)
			env.Setenv("STEADYCAST_SOCKET", socket)
			return nil
		},
	})
}

func signedFleet(t *testing.T, dir string) (socket string, stop func(), err error) {
	var people []steadycast.Operator
	for name, role := range map[string]steadycast.Role{"maria": steadycast.Admin, "joe": steadycast.Mover, "vic": steadycast.Viewer} {
		pen, err := pki.NewPen(filepath.Join(dir, name+".key"), name, role)
		if err != nil {
			return "", nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".pub"), []byte(pen.String()+"\n"), 0o644); err != nil {
			return "", nil, err
		}
		people = append(people, pen.Operator)
	}
	table := decide.Table{Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}}
	table.Services = append(table.Services, decide.Service{Name: "api", Mode: decide.ModeApprove, Prefixes: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}})
	for _, s := range []string{"ams", "fra", "lon"} {
		table.Sites = append(table.Sites, decide.Place{Name: s})
	}
	led, err := ledger.Open("", table, ledger.Options{Fleet: "edge", Node: "ams-1", Operators: people})
	if err != nil {
		return "", nil, err
	}
	if err := wantsBack(led, "fra"); err != nil {
		return "", nil, err
	}
	run, err := os.MkdirTemp("", "sc-signed")
	if err != nil {
		return "", nil, err
	}
	socket = filepath.Join(run, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		return "", nil, err
	}
	ring := api.NewRing(100)
	led.OnEvents(func(evs []steadycast.Event) {
		for _, e := range evs {
			ring.Add(e)
		}
	})
	b := &signedBackend{Backend: agent.Backend{Ledger: led, Ring: ring}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		api.NewServer(b, buildVersion(), slog.New(slog.DiscardHandler)).Serve(ctx, l, socket)
	}()
	return socket, func() {
		cancel()
		<-done
		led.Close()
		os.RemoveAll(run)
	}, nil
}

// wantsBack makes a site ask for a return that waits for a person.
func wantsBack(led *ledger.Local, site string) error {
	up := steadycast.Observation{Vantage: site, Subject: site, Service: "api", Seq: 1, Result: steadycast.Result{Outcome: steadycast.Up}}
	_, err := led.Ask(context.Background(), steadycast.Request{
		ID: steadycast.RequestID{Incarnation: 1, Seq: 1}, Site: site, Service: "api", Action: steadycast.Return, Reason: "passed 20 times",
		Prefixes: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}, Evidence: []steadycast.Observation{up},
	}, steadycast.Verdict{Site: site, Service: "api", State: steadycast.Healthy})
	return err
}

// signedBackend is the agent's own but for the agents, of which there are none.
type signedBackend struct{ agent.Backend }

func (b *signedBackend) Snapshot() *api.Snapshot {
	return &api.Snapshot{Node: "ams-1", Fleet: "edge", Mode: "fleet", At: time.Now(), Started: time.Now(), View: b.Ledger.View(), Sites: []api.Site{}}
}
