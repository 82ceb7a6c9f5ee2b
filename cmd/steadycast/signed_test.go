package main

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
			socket, led, stop, err := signedFleet(t, env.WorkDir)
			if err != nil {
				return err
			}
			env.Defer(stop)
			env.Setenv("STEADYCAST_SOCKET", socket)
			env.Values[signedKey{}] = &signedWorld{led: led}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"announces": announces, "answers": answers, "obeys": obeys},
	})
}

func signedFleet(t *testing.T, dir string) (socket string, led *ledger.Local, stop func(), err error) {
	var people []steadycast.Operator
	for name, role := range map[string]steadycast.Role{"maria": steadycast.Admin, "joe": steadycast.Mover, "vic": steadycast.Viewer} {
		pen, err := pki.NewPen(filepath.Join(dir, name+".key"), name, role)
		if err != nil {
			return "", nil, nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".pub"), []byte(pen.String()+"\n"), 0o644); err != nil {
			return "", nil, nil, err
		}
		people = append(people, pen.Operator)
	}
	table := decide.Table{Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}}
	table.Services = append(table.Services, decide.Service{Name: "api", Mode: decide.ModeApprove, Prefixes: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}})
	for _, s := range []string{"ams", "fra", "lon"} {
		table.Sites = append(table.Sites, decide.Place{Name: s})
	}
	led, err = ledger.Open("", table, ledger.Options{Fleet: "edge", Node: "ams-1", Operators: people})
	if err != nil {
		return "", nil, nil, err
	}
	if err := wantsBack(led, "fra"); err != nil {
		return "", nil, nil, err
	}
	run, err := os.MkdirTemp("", "sc-signed")
	if err != nil {
		return "", nil, nil, err
	}
	socket = filepath.Join(run, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		return "", nil, nil, err
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
	return socket, led, func() {
		cancel()
		<-done
		led.Close()
		os.RemoveAll(run)
	}, nil
}

// wantsBack makes a site ask for a return that waits for a person.
func wantsBack(led *ledger.Local, site string) error {
	_, err := led.Ask(context.Background(), steadycast.Request{
		ID: steadycast.RequestID{Incarnation: 1, Seq: 1}, Site: site, Service: "api", Action: steadycast.Return, Reason: "passed 20 times",
		Prefixes: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}, Evidence: passing(site, "api"),
	}, steadycast.Verdict{Site: site, Service: "api", State: steadycast.Healthy})
	return err
}

type signedKey struct{}

// signedWorld is what a script has: the ledger, and the nodes that answer.
type signedWorld struct {
	led  *ledger.Local
	hush func() // ends the nodes that answer now

	mu       sync.Mutex
	obedient []string // sites that do what the ledger says; guarded by mu
}

func (w *signedWorld) obeys(site string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.obedient, site)
}

// obeys SITE… makes sites stop announcing, and say so, from now on.
func obeys(ts *testscript.TestScript, _ bool, sites []string) {
	w := worldOf(ts)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.obedient = append(w.obedient, sites...)
}

func worldOf(ts *testscript.TestScript) *signedWorld { return ts.Value(signedKey{}).(*signedWorld) }

var webPrefix = netip.MustParsePrefix("192.0.2.0/24")

// announces SITE… makes sites announce 192.0.2.0/24, as the ledger counts it, for
// as long as the script runs.
func announces(ts *testscript.TestScript, _ bool, sites []string) {
	w := worldOf(ts)
	led := w.led
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, site := range sites {
		unit := steadycast.Unit{Site: site, Prefix: webPrefix}
		id := steadycast.RequestID{Incarnation: 1, Seq: 9}
		_, err := led.Ask(ctx, steadycast.Request{
			ID: id, Site: site, Service: "web", Action: steadycast.Return, Prefixes: []netip.Prefix{webPrefix}, Evidence: passing(site, "web"),
		}, steadycast.Verdict{Site: site, Service: "web", State: steadycast.Healthy})
		ts.Check(err)
		stop := make(chan struct{})
		ts.Defer(func() { close(stop) })
		go func() {
			beat := time.NewTicker(50 * time.Millisecond)
			defer beat.Stop()
			for {
				b := decide.Beat{Site: site, Incarnation: 1, Announcing: []steadycast.Unit{unit}, Returned: []decide.ReturnProof{{Unit: unit, ID: id}}}
				if w.obeys(site) {
					b.At, b.Announcing = led.View().Fence, nil
				}
				led.Beat(b)
				select {
				case <-beat.C:
				case <-stop:
					return
				}
			}
		}()
		for in := false; !in; {
			for _, u := range led.View().Units {
				in = in || u.Unit == unit && u.Phase == steadycast.In
			}
			if ctx.Err() != nil {
				ts.Fatalf("%s does not announce", site)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// answers [SITE[=REFUSAL]]… lets nodes say that, whatever table is staged from
// now on and until the next such line; the others are silent.
func answers(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	if w.hush != nil {
		w.hush()
	}
	led := w.led
	changed, cancel := led.Watch()
	stop, done := make(chan struct{}), make(chan struct{})
	w.hush = sync.OnceFunc(func() { close(stop); <-done; cancel() })
	ts.Defer(w.hush)
	go func() {
		defer close(done)
		for {
			select {
			case <-changed:
			case <-stop:
				return
			}
			s := led.View().Staged
			if s == nil {
				continue
			}
			for _, a := range args {
				site, no, refuses := strings.Cut(a, "=")
				k := decide.Ack{Revision: s.Table.Revision, Site: site, Node: site + "-1", Refusal: no}
				if !refuses {
					k.Changes = []string{"1 prefix more"}
				}
				_ = led.Ack(context.Background(), k)
			}
		}
	}()
}

func passing(site, service string) []steadycast.Observation {
	return []steadycast.Observation{{Vantage: site, Subject: site, Service: service, Seq: 1, Result: steadycast.Result{Outcome: steadycast.Up}}}
}

// signedBackend is the agent's own but for the agents, of which there are none.
type signedBackend struct{ agent.Backend }

func (b *signedBackend) Snapshot() *api.Snapshot {
	return &api.Snapshot{Node: "ams-1", Fleet: "edge", Mode: "fleet", At: time.Now(), Started: time.Now(), View: b.Ledger.View(), Sites: []api.Site{}}
}
