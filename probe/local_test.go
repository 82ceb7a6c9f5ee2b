package probe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

func vips(vs ...steadycast.VIP) func() []steadycast.VIP {
	return func() []steadycast.VIP { return vs }
}

func peers(ps ...steadycast.Peer) func() []steadycast.Peer {
	return func() []steadycast.Peer { return ps }
}

func TestNodeChecks(t *testing.T) {
	const vip = "192.0.2.53"
	p := netip.MustParsePrefix(vip + "/32")
	peerUp := func(n string) steadycast.Peer { return steadycast.Peer{Name: n, State: "established"} }
	of := func(path string, p steadycast.Peer) steadycast.Peer { p.Path = path; return p }
	peerDown := func(n string) steadycast.Peer {
		return steadycast.Peer{Name: n, State: "connect", LastError: "connection refused"}
	}
	link := func(up bool, err error) func(string) (bool, error) {
		return func(string) (bool, error) { return up, err }
	}
	for _, c := range []struct {
		kind, target string
		env          Env
		want         string
	}{
		{"vip", vip, Env{VIPs: vips(steadycast.VIP{Address: p, Interface: "lo", Present: true, Usable: true})}, "up: present on lo"},
		{"vip", vip, Env{VIPs: vips(steadycast.VIP{Address: p, Interface: "lo", Present: true})}, "down hard: 192.0.2.53 is on lo but cannot be used yet"},
		{"vip", vip, Env{VIPs: vips(steadycast.VIP{Address: p, Interface: "lo"})}, "down hard: 192.0.2.53 is not on this host"},
		{"vip", vip, Env{VIPs: vips(steadycast.VIP{Address: p, Error: "not permitted"})}, "down hard: is not on this host: not permitted"},
		{"vip", vip, Env{VIPs: vips()}, "unknown: nothing is known of 192.0.2.53"},
		{"vip", vip, Env{}, "down hard: 192.0.2.53 is not on this host"},
		{"vip", "127.0.0.1", Env{}, "up: present"},
		{"link", "eth0", Env{Link: link(true, nil)}, "up"},
		{"link", "eth0", Env{Link: link(false, nil)}, "down hard: eth0 has no carrier"},
		{"link", "eth0", Env{Link: link(false, errors.New("no interface eth0 on this host"))}, "unknown: no interface eth0"},
		{"link", "lo", Env{}, "up"},
		{"link", "nosuch0", Env{}, "unknown: no interface nosuch0 on this host"},
		{"bgp", "r1", Env{Peers: peers(peerUp("r1"), peerDown("r2"))}, "up"},
		{"bgp", "r2", Env{Peers: peers(peerUp("r1"), peerDown("r2"))}, "down soft: r2 is connect (connection refused)"},
		{"bgp", "r3", Env{Peers: peers(peerUp("r1"))}, "unknown: there is no neighbour r3"},
		{"bgp", "any", Env{Peers: peers(peerDown("r1"), peerUp("r2"))}, "up"},
		{"bgp", "any", Env{Peers: peers(peerDown("r1"), peerDown("r2"))}, "down soft: r1 is connect (connection refused); r2"},
		{"bgp", "all", Env{Peers: peers(peerUp("r1"), peerUp("r2"))}, "up"},
		{"bgp", "all", Env{Peers: peers(peerUp("r1"), peerDown("r2"))}, "down soft: r2 is connect"},
		{"bgp", "path:far", Env{Peers: peers(of("far", peerUp("r1")), of("far", peerDown("r2")), peerDown("r3"))}, "up"},
		{"bgp", "path:far", Env{Peers: peers(of("near", peerUp("r1")), of("far", peerDown("r2")), peerUp("r3"))}, "down soft: r2 is connect"},
		{"bgp", "path:far", Env{Peers: peers(of("far", steadycast.Peer{Name: "r1", State: steadycast.PeerStuck}))}, "down soft: r1 is stuck"},
		{"bgp", "path:far", Env{Peers: peers(of("near", peerUp("r1")), peerUp("r2"))}, "unknown: no neighbour here is of path far"},
		{"bgp", "any", Env{Peers: peers()}, "unknown: nothing is known of BGP sessions"},
		{"bgp", "any", Env{}, "unknown: nothing is known of BGP sessions"},
	} {
		expect(t, compiled(t, Check{Kind: c.kind, Target: c.target}, c.env).Run(context.Background()), c.want)
	}
}

func TestSysfsLink(t *testing.T) {
	root := t.TempDir()
	for name, f := range map[string][2]string{
		"up": {"up", "1"}, "lower": {"lowerlayerdown", "1"}, "down": {"down", ""}, "lo": {"unknown", "1"}, "dormant": {"dormant", "1"}, "nocarrier": {"unknown", "0"},
	} {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(dir, "operstate"), []byte(f[0]+"\n"), 0o644)
		if f[1] != "" { // an interface that is down gives EINVAL
			os.WriteFile(filepath.Join(dir, "carrier"), []byte(f[1]+"\n"), 0o644)
		}
		if got, err := sysfsLink(root, name); err != nil || got != (name == "up" || name == "lo") {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}

// A probe of a service address never asks another site: when the address is
// not here that is the answer, even if something would have answered.
func TestServiceAddressIsAskedHereOnly(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer srv.Close()
	addr := srv.Listener.Addr().String() // stands for another site that answers on the address
	vip := steadycast.VIP{Address: netip.MustParsePrefix("127.0.0.1/32"), Interface: "lo"}
	checks := []Check{
		{Kind: "http", Target: srv.URL}, {Kind: "tcp", Target: addr}, {Kind: "tls", Target: addr, TLS: &TLS{SkipVerify: true}}, {Kind: "grpc", Target: addr},
		{Kind: "dns", Target: addr, DNS: &DNS{Names: []string{"a.test"}, Protocol: "both"}}, {Kind: "icmp", Target: "127.0.0.1"},
		{Kind: "tcp", Target: strings.Replace(addr, "127.0.0.1", "[::ffff:127.0.0.1]", 1)}, // the same address, written for IPv6
	}
	for _, c := range checks {
		r := compiled(t, c, Env{VIPs: vips(vip)}).Run(context.Background())
		expect(t, r, "down hard: 127.0.0.1 is not on this host")
	}
	if n := asked.Load(); n != 0 {
		t.Fatalf("it was asked %d times", n)
	}
	// Nor by a name, nor by way of a redirect.
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	second := &http.Server{Handler: http.RedirectHandler(srv.URL, http.StatusFound)}
	go second.Serve(l)
	defer second.Close()
	expect(t, compiled(t, Check{Kind: "http", Target: "http://" + l.Addr().String(), HTTP: &HTTP{FollowRedirects: 1}}, Env{VIPs: vips(vip)}).Run(context.Background()),
		"down hard: 127.0.0.1 is not on this host")
	expect(t, compiled(t, Check{Kind: "tcp", Target: strings.Replace(addr, "127.0.0.1", "localhost", 1), Source: netip.MustParseAddr("127.0.0.1")},
		Env{VIPs: vips(vip)}).Run(context.Background()), "down hard: 127.0.0.1 is not on this host")
	// Prometheus is an instrument, whoever answers.
	expect(t, compiled(t, Check{Kind: "prometheus", Target: srv.URL, Prometheus: &Prometheus{Query: "x", Above: new(1.0)}},
		Env{VIPs: vips(vip)}).Run(context.Background()), "unknown: cannot ask Prometheus: 127.0.0.1 is not on this host")
	if n := asked.Load(); n != 0 {
		t.Fatalf("it was asked %d times", n)
	}
	vip.Present, vip.Usable = true, true
	expect(t, compiled(t, checks[0], Env{VIPs: vips(vip)}).Run(context.Background()), "up")
	// An address of no service is not bound to this host.
	vip.Address, vip.Present = netip.MustParsePrefix("192.0.2.53/32"), false
	expect(t, compiled(t, checks[0], Env{VIPs: vips(vip)}).Run(context.Background()), "up")
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, age time.Duration) string {
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(f, at, at); err != nil {
			t.Fatal(err)
		}
		return f
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	there, absent := write("there", "", 0), filepath.Join(dir, "absent")
	for _, c := range []struct {
		path string
		set  File
		want string
	}{
		{write("up", "up\n", 0), File{}, "up"},
		{write("upper", "  UP  all good \nmore", 0), File{}, "up: all good"},
		{write("down", "down replica is 40 s behind\n", 0), File{}, "down soft: replica is 40 s behind"},
		{write("plain", "down", 0), File{}, "down soft: says so"},
		{write("unknown", "unknown starting\n", 0), File{}, "unknown: starting"},
		{write("empty", "", 0), File{}, "unknown: is empty"},
		{write("junk", "yes\n", 0), File{}, `unknown: starts with "yes"`},
		{write("big", "up "+string(make([]byte, 1<<20)), 0), File{}, "up"},
		{write("old", "down\n", 2*time.Minute), File{}, "unknown: was last written 2m0s ago, over 1m0s"},
		{write("oldok", "down\n", 2*time.Minute), File{MaxAge: time.Hour}, "down soft"},
		{write("future", "up\n", -time.Hour), File{}, "up"},
		{absent, File{}, "unknown: is not there"},
		{dir, File{}, "unknown: is not a regular file"},
		{fifo, File{}, "unknown: is not a regular file"},
		{there, File{Presence: "up_if_present"}, "up: is there"},
		{absent, File{Presence: "up_if_present"}, "down soft: is not there"},
		{there, File{Presence: "down_if_present"}, "down soft: is there"},
		{absent, File{Presence: "down_if_present"}, "up: is not there"},
	} {
		expect(t, run(t, Check{Kind: "file", Target: c.path, File: &c.set}), c.want)
	}
}

// A stepped clock makes an old file neither young nor old: after the first look
// only this process's own clock counts.
func TestFileAgeIsMonotonic(t *testing.T) {
	f := filepath.Join(t.TempDir(), "result")
	set := func(mtime time.Time) {
		t.Helper()
		if err := os.WriteFile(f, []byte("up\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(f, mtime, mtime); err != nil {
			t.Fatal(err)
		}
	}
	p := &fileProbe{path: f, set: *(&File{}).withDefaults()}
	look := func() steadycast.Result { return p.probe(context.Background()) }
	pass := func(d time.Duration) { p.first = p.first.Add(-d) } // as if d had passed on the monotonic clock

	set(time.Now().Add(time.Hour)) // the writer's clock is an hour ahead
	expect(t, look(), "up")
	pass(59 * time.Second)
	expect(t, look(), "up")
	pass(2 * time.Second)
	expect(t, look(), "unknown: was last written 1m1s ago")

	set(time.Now().Add(-time.Hour)) // it is set back; a change that we saw is new
	expect(t, look(), "up")
	pass(61 * time.Second)
	expect(t, look(), "unknown: ago, over")
}
