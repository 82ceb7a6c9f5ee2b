package count

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// rooms are two network namespaces, host and client, on one cable.
func rooms(t *testing.T) (host, client string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("network namespaces need root")
		}
		t.Skip("network namespaces need root")
	}
	host, client = fmt.Sprintf("sc-%d-counts", os.Getpid()), fmt.Sprintf("sc-%d-client", os.Getpid())
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	for _, ns := range []string{host, client} {
		run("netns", "add", ns)
		t.Cleanup(func() { exec.Command("ip", "netns", "del", ns).Run() })
		run("-n", ns, "link", "set", "lo", "up")
	}
	run("-n", host, "link", "add", "name", "eth0", "type", "veth", "peer", "name", "eth0", "netns", client)
	for i, ns := range []string{host, client} {
		run("-n", ns, "addr", "add", fmt.Sprintf("10.9.9.%d/24", i+1), "dev", "eth0")
		run("-n", ns, "addr", "add", fmt.Sprintf("2001:db8:9::%d/64", i+1), "dev", "eth0", "nodad")
		run("-n", ns, "link", "set", "eth0", "up")
	}
	run("-n", client, "route", "add", "192.0.2.0/24", "via", "10.9.9.1")
	run("-n", client, "route", "add", "2001:db8:80::/48", "via", "2001:db8:9::1")
	run("-n", host, "addr", "add", "192.0.2.80/32", "dev", "lo")
	run("-n", host, "addr", "add", "2001:db8:80::80/128", "dev", "lo")
	return host, client
}

// Only the very names that were given are counters of ours: whoever may add one to
// the table can give it any other.
func TestPlace(t *testing.T) {
	for name, want := range map[string]int{
		"p0": 0, "p2": 2, "p3": -1, "p": -1, "": -1, "0": -1, "x1": -1, "q0": -1, "pp1": -1, "p01": -1, "p+1": -1, "p-1": -1, "p1 ": -1, "P1": -1,
		"p99999999999999999999": -1,
	} {
		got, ours := place(name, 3)
		if !ours {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %d; want %d", name, got, want)
		}
	}
	for i := range 300 {
		if got, ours := place(counterName(i), 300); !ours || got != i {
			t.Errorf("the counter of %d is %d, %t", i, got, ours)
		}
	}
}

// inside runs f on a thread that is in a namespace.
func inside(t *testing.T, ns string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		file, err := os.Open("/run/netns/" + ns)
		if err == nil {
			err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
			file.Close()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// send sends n datagrams.
func send(to string, n int) func() error {
	return func() error {
		// Not connected, so that the port's being closed is no error of a later one.
		c, err := net.ListenUDP("udp", nil)
		if err != nil {
			return err
		}
		defer c.Close()
		for range n {
			if _, err := c.WriteToUDPAddrPort([]byte("x"), netip.MustParseAddrPort(to)); err != nil {
				return err
			}
		}
		return nil
	}
}

// What comes over the network for a prefix is counted, once for each prefix that it
// is in, and what the host sends itself is not. A set of prefixes that stays keeps
// its counts; a table that somebody removed is said, and made again.
func TestCount(t *testing.T) {
	host, client := rooms(t)
	p4, p6 := netip.MustParsePrefix("192.0.2.80/32"), netip.MustParsePrefix("2001:db8:80::/48")
	wide, other := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")
	prefixes := []netip.Prefix{p4, p6, wide, other}
	var c *Counter
	inside(t, host, func() (err error) {
		c, err = Open("steadycast_test")
		return err
	})
	expect := func(want ...uint64) {
		t.Helper()
		got, err := c.Read(prefixes)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range prefixes {
			if got[p] != want[i] {
				t.Errorf("%s: %d packets; want %d", p, got[p], want[i])
			}
		}
	}
	expect(0, 0, 0, 0)
	inside(t, client, send("192.0.2.80:9", 5))
	inside(t, client, send("192.0.2.7:9", 2))
	inside(t, client, send("[2001:db8:80::80]:9", 3))
	inside(t, host, send("192.0.2.80:9", 7))
	expect(5, 3, 7, 0)
	for _, name := range []string{"x0", "p00", "p4"} { // somebody else's, with a count of its own
		if out, err := exec.Command("ip", "netns", "exec", host, "nft", "add", "counter", "inet", "steadycast_test", name, "{ packets 900 bytes 900; }").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	expect(5, 3, 7, 0)

	if out, err := exec.Command("ip", "netns", "exec", host, "nft", "delete", "table", "inet", "steadycast_test").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := c.Read(prefixes); err == nil {
		t.Errorf("a table that is gone counts %v", got)
	}
	expect(0, 0, 0, 0)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if out, err := exec.Command("ip", "netns", "exec", host, "nft", "list", "tables").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("left behind: %s %v", out, err)
	}
}
