package mesh

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/steadycast/steadycast"
)

// rooms are network namespaces on one bridge, with one address of 192.0.2.0/24
// each, in the order of their names.
type rooms struct {
	t      *testing.T
	prefix string
}

func newRooms(t *testing.T, names ...string) *rooms {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("network namespaces need root")
		}
		t.Skip("network namespaces need root")
	}
	r := &rooms{t, fmt.Sprintf("sc-%d-%s-", os.Getpid(), strings.ToLower(t.Name()[strings.LastIndex(t.Name(), "/")+1:]))}
	for _, n := range append([]string{"hub"}, names...) {
		r.ip("netns", "add", r.ns(n))
		t.Cleanup(func() { exec.Command("ip", "netns", "del", r.ns(n)).Run() })
	}
	r.ip("-n", r.ns("hub"), "link", "add", "name", "bridge0", "type", "bridge")
	r.ip("-n", r.ns("hub"), "link", "set", "bridge0", "up")
	for i, n := range names {
		r.ip("-n", r.ns("hub"), "link", "add", "name", n, "type", "veth", "peer", "name", "eth0", "netns", r.ns(n))
		r.ip("-n", r.ns("hub"), "link", "set", n, "master", "bridge0", "up")
		r.ip("-n", r.ns(n), "addr", "add", fmt.Sprintf("192.0.2.%d/24", i+1), "dev", "eth0")
		r.ip("-n", r.ns(n), "link", "set", "dev", "eth0", "up")
	}
	return r
}

func (r *rooms) ns(name string) string { return r.prefix + name }

func (r *rooms) ip(args ...string) { r.run("ip", args...) }

func (r *rooms) run(name string, args ...string) {
	r.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		r.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// inside runs f on a thread that is in a namespace.
func (r *rooms) inside(name string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		ns, err := os.Open("/run/netns/" + r.ns(name))
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			ns.Close()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// lose drops what comes to one room from another's address, from now on.
func (r *rooms) lose(at, from string) {
	r.run("ip", "netns", "exec", r.ns(at), "nft", "add table ip cut; add chain ip cut in { type filter hook input priority 0; }; add rule ip cut in ip saddr "+from+" drop")
}

func (r *rooms) find(at string) { r.run("ip", "netns", "exec", r.ns(at), "nft", "delete table ip cut") }

// On real sockets, with a direction of the direct way dropped by a packet
// filter, observations go on through the voter, fresh, and directly again when
// the drop ends.
func TestOneWayDrop(t *testing.T) {
	for _, c := range []struct{ name, at, from string }{
		{"toReader", "fra", "192.0.2.2"},
		{"fromReader", "ams", "192.0.2.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRooms(t, "fra", "ams", "vot")
			f := newFleet(t)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			heard := make(chan Heard, 1024)
			meshes := map[string]*Mesh{}
			var peers []Peer
			for i, site := range []string{"fra", "ams", "vot"} {
				o := Options{Credentials: f.credentials(site, site+"-1"), Voter: site == "vot", Incarnation: 1}
				o.Dial = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
					err = r.inside(site, func() (err error) {
						conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
						return err
					})
					return conn, err
				}
				if site == "fra" {
					o.OnObservation = func(h Heard) {
						select {
						case heard <- h:
						default:
						}
					}
				}
				m, err := New(o)
				if err != nil {
					t.Fatal(err)
				}
				addr := netip.MustParseAddrPort(fmt.Sprintf("192.0.2.%d:4443", i+1))
				var ln net.Listener
				if err := r.inside(site, func() (err error) { ln, err = net.Listen("tcp", addr.String()); return err }); err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					if err := m.Run(ctx, ln); err != nil {
						t.Error(err)
					}
				})
				meshes[site] = m
				peers = append(peers, Peer{Site: site, Node: site + "-1", Addr: addr, Voter: site == "vot"})
			}
			for _, m := range meshes {
				if err := m.SetPeers(peers); err != nil {
					t.Fatal(err)
				}
			}

			// The vantage observes five times a second, all the time.
			beat := time.NewTicker(200 * time.Millisecond)
			defer beat.Stop()
			seq, oldest := uint64(0), time.Duration(0)
			until := func(what string, limit time.Duration, want func(Heard) bool) {
				t.Helper()
				begun, last := time.Now(), time.Now()
				oldest = 0
				var gap time.Duration
				for {
					select {
					case <-beat.C:
						seq++
						meshes["ams"].Publish(steadycast.Observation{Subject: "fra", Service: "web", Seq: seq, Result: steadycast.Result{Outcome: steadycast.Up}})
					case h := <-heard:
						oldest = max(oldest, time.Since(h.Issued))
						gap, last = max(gap, time.Since(last)), time.Now()
						if want(h) {
							t.Logf("%s: after %s; up to %s old, a gap of %s", what, time.Since(begun).Round(time.Millisecond), oldest.Round(time.Millisecond), gap.Round(time.Millisecond))
							return
						}
					}
					if time.Since(begun) > limit {
						t.Fatalf("%s: not within %s; %+v", what, limit, meshes["ams"].Peers())
					}
				}
			}
			until("directly", time.Minute, func(h Heard) bool { return h.Via == "" && h.Observation.Seq > 10 })
			r.lose(c.at, c.from)
			until("relayed", time.Minute, func(h Heard) bool { return h.Via == "vot-1" })
			n := 0
			until("fresh for three seconds", time.Minute, func(h Heard) bool {
				if age := time.Since(h.Issued); age > 5*time.Second {
					t.Errorf("an observation is %s old", age)
				}
				n++
				return n > 15
			})
			r.find(c.at)
			until("directly again", 40*time.Second, func(h Heard) bool { return h.Via == "" && h.Observation.Seq+5 >= seq })
			if s := meshes["fra"].Peers(); s.Drops[Forged]+s.Drops[AsAnother] != 0 {
				t.Errorf("drops: %v", s.Drops)
			}
		})
	}
}
