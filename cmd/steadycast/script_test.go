package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"steadycast": main}) }

// TestScripts runs the real command line against a real server on a real
// socket; only what is behind the server is made up. Each script has a daemon
// of its own. Beside testscript's own commands there are
//
//	entered TEXT…   the daemon was asked for exactly these changes, in order
//	untouched       nothing was changed
//	daemon WORD     the daemon from now on: calm, pair (calm, and fra has two nodes), unproven, slow, stop
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			d, err := startDaemon(t)
			if err != nil {
				return err
			}
			env.Defer(d.stop)
			env.Values[daemonKey{}] = d
			env.Setenv("STEADYCAST_SOCKET", d.socket)
			env.Setenv("TERM", "dumb")
			good, err := os.ReadFile("../../configs/minimal.yaml")
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(env.WorkDir, "good.yaml"), good, 0o644)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"entered": func(ts *testscript.TestScript, neg bool, args []string) {
				want := strings.Join(args, "\n")
				if got := strings.Join(daemonOf(ts).changes(), "\n"); got != want {
					ts.Fatalf("entered:\n%s\nwant:\n%s", got, want)
				}
			},
			"untouched": func(ts *testscript.TestScript, neg bool, args []string) {
				if got := daemonOf(ts).changes(); len(got) > 0 {
					ts.Fatalf("something was changed: %q", got)
				}
			},
			"daemon": func(ts *testscript.TestScript, neg bool, args []string) {
				d := daemonOf(ts)
				d.mu.Lock()
				defer d.mu.Unlock()
				switch word := strings.Join(args, " "); word {
				case "calm":
					d.snap = calm(t)
				case "pair":
					d.snap = calm(t)
					d.snap.Node = "fra-1"
					for i := range d.snap.View.Table.Sites {
						if p := &d.snap.View.Table.Sites[i]; p.Name == "fra" {
							p.Nodes = []decide.Node{{Name: "fra-1"}, {Name: "fra-2"}}
						}
					}
				case "unproven":
					d.unproven = true
				case "bad config":
					d.badConfig = true
				case "stop":
					go d.stop()
					<-d.done
				default:
					ts.Fatalf("daemon %s?", word)
				}
			},
		},
	})
}

type daemonKey struct{}

func daemonOf(ts *testscript.TestScript) *daemon { return ts.Value(daemonKey{}).(*daemon) }

// daemon is a small fleet that knows one guard, the floor, and acts at once.
type daemon struct {
	*api.Ring
	socket string
	stop   func()
	done   chan struct{}

	mu        sync.Mutex
	snap      *api.Snapshot // guarded by mu; replaced whole
	entered   []string      // guarded by mu
	unproven  bool          // guarded by mu; peers acknowledge nothing
	badConfig bool          // guarded by mu
}

func startDaemon(t *testing.T) (*daemon, error) {
	dir, err := os.MkdirTemp("", "sc-cli")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return startDaemonAt(t, filepath.Join(dir, "s"))
}

func startDaemonAt(t *testing.T, socket string, alter ...func(*api.Snapshot)) (*daemon, error) {
	d := &daemon{Ring: api.NewRing(100), snap: fleet(t), socket: socket, done: make(chan struct{})}
	for _, a := range alter {
		a(d.snap)
	}
	for _, e := range sampleEvents() {
		d.Add(e)
	}
	l, err := net.Listen("unix", d.socket)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(d.done)
		api.NewServer(d, buildVersion(), slog.New(slog.DiscardHandler)).Serve(ctx, l, d.socket)
	}()
	d.stop = func() {
		cancel()
		<-d.done
	}
	return d, nil
}

func (d *daemon) changes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.entered
}

func (d *daemon) Snapshot() *api.Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return live(d.snap)
}

func (d *daemon) Events(after uint64) ([]steadycast.Event, <-chan struct{}) { return d.Since(after) }

// Order asks the floor, and then does what was ordered at once.
func (d *daemon) Order(_ context.Context, _ api.Caller, o steadycast.Order, dry bool) (decide.Reply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	reply := decide.Reply{Fence: d.snap.View.Fence}
	rows := d.snap.Rows()
	for _, r := range rows {
		if r.Unit.Site != o.Site || !o.Covers(r.Unit.Prefix) {
			continue
		}
		left := 0
		for _, x := range rows {
			if x.Unit.Prefix == r.Unit.Prefix && x.Unit.Site != o.Site && x.State.Announces() {
				left++
			}
		}
		g := steadycast.GuardAnswer{Guard: "floor", Pass: left >= 2 || o.Kind == steadycast.OrderAnnounce, Text: fmt.Sprintf("%d of 4 would announce %s; floor 2", left, r.Unit.Prefix), Override: "steadycast withdraw " + r.Unit.String() + " --force: fewer sites than the floor will announce it"}
		reply.Rulings = append(reply.Rulings, decide.Ruling{Unit: r.Unit, Permit: &steadycast.Permit{Unit: r.Unit}, Guards: []steadycast.GuardAnswer{{Guard: "freeze", Pass: true, Text: "an order passes"}, g}})
		if !g.Pass && !o.Force && reply.Refused == nil {
			reply.Refused = &g
		}
		if o.Force {
			reply.Rulings[len(reply.Rulings)-1].Guards[1].Pass = true
		}
	}
	if reply.Refused != nil || dry {
		return reply, nil
	}
	text := fmt.Sprintf("%s %s", o.Kind, o.Target())
	for _, p := range o.Prefixes {
		text += " " + p.String()
	}
	if o.For > 0 {
		text += " for " + o.For.String()
	}
	if o.Force {
		text += " forced"
	}
	d.entered = append(d.entered, text+": "+o.Reason)
	d.act(&reply, o.Site, func(u *api.Unit) bool { return o.Covers(u.Unit.Prefix) }, o.Kind == steadycast.OrderAnnounce)
	return reply, nil
}

// act moves the ledger on and the site with it.
func (d *daemon) act(reply *decide.Reply, site string, covers func(*api.Unit) bool, wanted bool) {
	s := *d.snap
	s.View.Fence.Index++
	reply.Fence = s.View.Fence
	s.Sites = append([]api.Site{}, s.Sites...)
	for i := range s.Sites {
		st := &s.Sites[i]
		st.Fence = s.View.Fence
		if st.Name != site {
			continue
		}
		st.Units = append([]api.Unit{}, st.Units...)
		for j := range st.Units {
			if u := &st.Units[j]; covers(u) {
				u.Wanted, u.Proven, u.Unproven = wanted, !d.unproven, ""
				if d.unproven {
					u.Unproven = "tor1 has not acknowledged the withdrawal"
				}
			}
		}
	}
	d.snap = &s
}

func (d *daemon) Do(_ context.Context, _ api.Caller, kind decide.Kind, sc decide.Scope, reason string, dry bool) (decide.Reply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	reply := decide.Reply{Fence: d.snap.View.Fence}
	if dry {
		return reply, nil
	}
	text := string(kind)
	if sc.Site != "" {
		text += " " + sc.Target()
	}
	if sc.Prefix.IsValid() {
		text += " " + sc.Prefix.String()
	}
	d.entered = append(d.entered, text+": "+reason)
	back := kind == decide.KindOrderClear || kind == decide.KindResume
	d.act(&reply, sc.Site, func(*api.Unit) bool { return back }, true)
	return reply, nil
}

// Its ledger is a node's own: it knows no operators.
func (d *daemon) Carry(context.Context, api.Caller, decide.Signed) (decide.Reply, error) {
	return decide.Reply{}, errors.New("nothing is signed here")
}

func (d *daemon) Revision(context.Context, uint64) (decide.Table, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snap.View.Table, nil
}

func (d *daemon) BreakGlass(_ context.Context, _ api.Caller, o steadycast.Order) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entered = append(d.entered, fmt.Sprintf("local %s %s: %s", o.Kind, o.Target(), o.Reason))
	return nil
}

func (d *daemon) Guards(context.Context) ([]decide.Ruling, error)    { return nil, nil }
func (d *daemon) SitesNow(context.Context) ([]decide.SiteNow, error) { return nil, nil }
func (d *daemon) History(context.Context) ([]decide.Past, error)     { return nil, nil }

func (d *daemon) Enter(_ context.Context, _ api.Caller, w decide.Wish) (decide.Reply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entered = append(d.entered, fmt.Sprintf("%s %d: %s", w.Kind, w.Decision, w.Reason))
	return decide.Reply{Fence: d.snap.View.Fence}, nil
}

func (d *daemon) Rehearse(context.Context, decide.Wish) (decide.Reply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return decide.Reply{Fence: d.snap.View.Fence}, nil
}

func (d *daemon) Reload(_ context.Context, _ api.Caller, dry bool) (api.Reload, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.badConfig {
		return api.Reload{DryRun: dry, Problems: []string{"node.yaml:3:1: bgp.hold_tme: unknown key; did you mean hold_time?", `node.yaml:9:7: interval: "500" is not a duration`}}, nil
	}
	if !dry {
		d.entered = append(d.entered, "reload")
	}
	return api.Reload{Applied: !dry, DryRun: dry, Changes: []string{"neighbor tor1: password changed; its session restarts"}}, nil
}

func (d *daemon) Clear(_ context.Context, _ api.Caller, what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entered = append(d.entered, "clear "+what)
	return nil
}

func (d *daemon) ProbeNow(context.Context, api.Caller, string, string) error { return nil }

func (d *daemon) Fault(_ context.Context, _ api.Caller, site, what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.snap.Mode != "demo" && site == "ams" {
		return api.ErrNotDemo
	}
	d.entered = append(d.entered, what+" "+site)
	return nil
}

// A person who waits on --wait with a terminal that resizes, or a clock that
// does not move, must not wait for ever: the limit is of real time.
func TestWaitEndsWithItsLimit(t *testing.T) {
	d, err := startDaemon(t)
	if err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	d.unproven = true
	var out, errOut strings.Builder
	begun := time.Now()
	code := execute([]string{"--socket", d.socket, "withdraw", "gru", "--reason", "x", "--yes", "--force", "--wait=700ms"}, strings.NewReader(""), &out, &errOut)
	if code != exitTimeout || time.Since(begun) > time.Minute {
		t.Errorf("exit %d after %s: %s", code, time.Since(begun), errOut.String())
	}
	if want := "not proven after 700ms: gru 192.0.2.0/24: tor1 has not acknowledged the withdrawal; the action goes on. Next: steadycast --socket " + d.socket + " why gru 192.0.2.0/24\n"; !strings.HasSuffix(errOut.String(), want) {
		t.Errorf("stderr %q, want the end %q", errOut.String(), want)
	}
}

// A follower stays through a restart of its daemon, says so once, and shows
// what the new one has.
func TestFollowingOutlivesARestart(t *testing.T) {
	d, err := startDaemon(t)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errOut strings.Builder
	c := &cli{socket: d.socket, err: &errOut}
	client := c.client()
	defer client.Close()
	seen := make(chan steadycast.Event, 100)
	done := make(chan error, 1)
	go func() {
		done <- c.events(ctx, client, "", true, nil, func(e steadycast.Event) error { seen <- e; return nil })
	}()
	next := func(want uint64, reason string) {
		t.Helper()
		select {
		case e := <-seen:
			if e.ID != want || !strings.Contains(e.Reason, reason) {
				t.Fatalf("got event %d %q, want %d %q", e.ID, e.Reason, want, reason)
			}
		case err := <-done:
			t.Fatalf("the follower ended: %v", err)
		case <-time.After(10 * time.Second):
			t.Fatalf("no event %d", want)
		}
	}
	for i, e := range sampleEvents() {
		next(uint64(i+1), e.Reason)
	}
	d.stop()
	again, err := startDaemonAt(t, d.socket, func(s *api.Snapshot) { s.Started = s.Started.Add(time.Hour) })
	if err != nil {
		t.Fatal(err)
	}
	defer again.stop()
	// The new daemon counts its events from one again; none of them is missed.
	for i, e := range sampleEvents() {
		next(uint64(i+1), e.Reason)
	}
	cancel()
	<-done
	if n := strings.Count(errOut.String(), "left; waiting for it"); n != 1 {
		t.Errorf("said %d times: %q", n, errOut.String())
	}
}

// With nobody there from the start, following is an error at once.
func TestFollowingNobodyIsAnError(t *testing.T) {
	var out, errOut strings.Builder
	if code := execute([]string{"--socket", filepath.Join(t.TempDir(), "s"), "events", "-f"}, strings.NewReader(""), &out, &errOut); code != exitUnreachable {
		t.Errorf("exit %d: %s", code, errOut.String())
	}
}
