package bgp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// host is a network namespace of the test's own, with lo up. The test's thread
// is locked into it and dies with the test, and the namespace with it.
type host struct{ *testing.T }

func newHost(t *testing.T) host {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root, to make network namespaces")
		}
		t.Skip("needs root, to make network namespaces")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("unshare: %v", err)
	}
	h := host{t}
	h.ip("link", "set", "lo", "up")
	return h
}

func (h host) ip(args ...string) string {
	h.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		h.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// has reports whether `ip address`, a judge that is not ours, shows the address on dev.
func (h host) has(dev, address string) bool {
	h.Helper()
	return strings.Contains(h.ip("-o", "address", "show", "dev", dev), " "+address+" ")
}

func (h host) expect(dev, address string, want bool) {
	h.Helper()
	if h.has(dev, address) != want {
		h.Fatalf("%s on %s: %v, want %v\n%s", address, dev, !want, want, h.ip("address"))
	}
}

// watched are VIPs whose changes and log a test can wait for.
type watched struct {
	*VIPs
	host    host
	changed chan struct{}
	log     *syncBuffer
}

func (h host) vips(s VIPSettings) *watched { return h.vipsOver(s, openWatch) }

func (h host) vipsOver(s VIPSettings, subscribe func() (*nl.NetlinkSocket, error)) *watched {
	h.Helper()
	if s.Reconcile == 0 {
		s.Reconcile = time.Hour // so that only the kernel's reports can be what tells
	}
	w := &watched{host: h, changed: make(chan struct{}, 1), log: &syncBuffer{}}
	v, err := newVIPs(s, VIPOptions{
		Logger: slog.New(slog.NewTextHandler(w.log, nil)),
		OnChange: func() {
			select {
			case w.changed <- struct{}{}:
			default:
			}
		},
	}, subscribe)
	if err != nil {
		h.Fatal(err)
	}
	w.VIPs = v
	h.Cleanup(v.Close)
	return w
}

// until waits for the row of address to satisfy ok.
func (w *watched) until(address, what string, ok func(steadycast.VIP) bool) steadycast.VIP {
	w.host.Helper()
	deadline := time.After(5 * time.Second)
	for {
		if row, found := w.row(address); found && ok(row) {
			return row
		}
		select {
		case <-w.changed:
		case <-deadline:
			w.host.Fatalf("%s is never %s: %+v\n%s", address, what, w.Actual(), w.log)
		}
	}
}

func (w *watched) row(address string) (steadycast.VIP, bool) {
	i := slices.IndexFunc(w.Actual(), func(v steadycast.VIP) bool { return v.Address == netip.MustParsePrefix(address) })
	if i < 0 {
		return steadycast.VIP{}, false
	}
	return w.Actual()[i], true
}

func (w *watched) mustSet(addresses ...string) {
	w.host.Helper()
	if err := w.Set(prefixes(addresses...)); err != nil {
		w.host.Fatal(err)
	}
}

func (w *watched) expectRows(want ...steadycast.VIP) {
	w.host.Helper()
	if got := w.Actual(); !slices.Equal(got, want) {
		w.host.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func prefixes(ss ...string) (ps []netip.Prefix) {
	for _, s := range ss {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

func vip(address, dev string, ours bool) steadycast.VIP {
	return steadycast.VIP{Address: netip.MustParsePrefix(address), Interface: dev, Present: true, Ours: ours, Usable: true}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

const (
	four, four2 = "192.0.2.53/32", "192.0.2.54/32"
	six         = "2001:db8::53/128"
)

func TestVIPsComeAndGo(t *testing.T) {
	h := newHost(t)
	v := h.vips(VIPSettings{Label: "lo:anycast"})
	v.mustSet(six, four, four2)
	v.expectRows(vip(four, "lo", true), vip(four2, "lo", true), vip(six, "lo", true))
	h.expect("lo", four, true)
	h.expect("lo", six, true)
	if shown := h.ip("-o", "address", "show", "dev", "lo"); !strings.Contains(shown, "lo:anycast") || !strings.Contains(shown, "nodad") {
		t.Errorf("the label or nodad is missing:\n%s", shown)
	}
	v.mustSet(six, four, four2) // again: nothing to do, no error
	v.mustSet(four2)
	v.expectRows(vip(four2, "lo", true))
	h.expect("lo", four, false)
	h.expect("lo", six, false)
	if err := v.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	v.expectRows()
	h.expect("lo", four2, false)
	h.expect("lo", "127.0.0.1/8", true)
	v.Close()
	if err := v.Set(nil); !errors.Is(err, errVIPsClosed) {
		t.Errorf("set after close: %v", err)
	}
}

func TestVIPsOfOthersAreNeverTouched(t *testing.T) {
	h := newHost(t)
	h.ip("address", "add", four, "dev", "lo")
	h.ip("address", "add", six, "dev", "lo", "nodad")
	h.ip("address", "add", "192.0.2.99/24", "dev", "lo")
	v := h.vips(VIPSettings{})
	// Wanted and there: present, not ours. Another length is the same address.
	v.mustSet(four, six, "192.0.2.99/32")
	v.expectRows(vip(four, "lo", false), vip("192.0.2.99/32", "lo", false), vip(six, "lo", false))
	v.mustSet(four2)
	if err := v.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{four, six, "192.0.2.99/24"} {
		h.expect("lo", a, true)
	}
	h.expect("lo", four2, false)
}

// TestVIPTakenOver: someone puts our address back as their own, between two readings.
func TestVIPTakenOver(t *testing.T) {
	h := newHost(t)
	v := h.vips(VIPSettings{})
	v.mustSet(four)
	batch := exec.Command("ip", "-batch", "-")
	batch.Stdin = strings.NewReader("address del " + four + " dev lo\naddress add " + four + " dev lo\n")
	if out, err := batch.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	v.until(four, "someone else's", func(r steadycast.VIP) bool { return r.Present && !r.Ours })
	if err := v.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.expect("lo", four, true)
}

func TestVIPRemovedByOthersIsAFault(t *testing.T) {
	h := newHost(t)
	v := h.vips(VIPSettings{})
	for _, address := range []string{four, six} {
		v.mustSet(four, six)
		began := time.Now()
		h.ip("address", "del", address, "dev", "lo")
		row := v.until(address, "absent", func(r steadycast.VIP) bool { return !r.Present })
		t.Logf("%s: noticed %v after ip was started", address, time.Since(began))
		if !strings.Contains(row.Error, "removed by someone else") {
			t.Errorf("error %q does not say why", row.Error)
		}
		// A new set of routes comes with the same addresses, and is no repair.
		v.mustSet(four, six)
		h.expect("lo", address, false)
		if err := v.Repair(); err != nil {
			t.Fatal(err)
		}
		h.expect("lo", address, true)
		v.expectRows(vip(four, "lo", true), vip(six, "lo", true))
	}
	// Put back by hand: present, and theirs now.
	h.ip("address", "flush", "dev", "lo", "to", four)
	v.until(four, "absent", func(r steadycast.VIP) bool { return !r.Present })
	h.ip("address", "add", four, "dev", "lo")
	v.until(four, "someone else's", func(r steadycast.VIP) bool { return r.Usable && !r.Ours && r.Error == "" })
}

func TestVIPRemovedByOthersIsRepaired(t *testing.T) {
	h := newHost(t)
	v := h.vips(VIPSettings{OnRemoved: "repair"})
	v.mustSet(four, six)
	for range 3 {
		h.ip("address", "flush", "dev", "lo")
		deadline := time.Now().Add(5 * time.Second)
		for !h.has("lo", four) || !h.has("lo", six) {
			if time.Now().After(deadline) {
				t.Fatalf("not repaired\n%s", v.log)
			}
		}
	}
	if said := strings.Count(v.log.String(), "removed by someone else"); said < 6 {
		t.Errorf("said %d times of 6 that an address was removed:\n%s", said, v.log)
	}
}

// TestVIPsOverflow drowns a subscription of the smallest size, with a removal
// among the flood. Nothing else would tell of it: the whole reading is an hour away.
func TestVIPsOverflow(t *testing.T) {
	h := newHost(t)
	v := h.vipsOver(VIPSettings{}, func() (*nl.NetlinkSocket, error) {
		s, err := openWatch()
		if err == nil {
			err = s.SetReceiveBufferSize(1, true)
		}
		return s, err
	})
	var flood strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&flood, "address add 10.%d.%d.1/32 dev lo\n", i/250, i%250)
		if i == 500 {
			fmt.Fprintf(&flood, "address del %s dev lo\n", four)
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for v.Overflows() == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the subscription never overflowed")
		}
		h.ip("address", "flush", "dev", "lo", "to", "10.0.0.0/8")
		v.mustSet()
		v.mustSet(four)
		batch := exec.Command("ip", "-batch", "-")
		batch.Stdin = strings.NewReader(flood.String())
		if out, err := batch.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		v.until(four, "absent", func(r steadycast.VIP) bool { return !r.Present })
	}
	// And it still listens.
	if err := v.Repair(); err != nil {
		t.Fatal(err)
	}
	h.ip("address", "del", four, "dev", "lo")
	v.until(four, "absent", func(r steadycast.VIP) bool { return !r.Present })
}

// TestVIPsReadAgain: addresses come and go so fast that a reading does not end before
// there is another change. What was removed meanwhile is found when that is over, and
// not only at the next whole reading.
func TestVIPsReadAgain(t *testing.T) {
	h := newHost(t)
	v := h.vips(VIPSettings{Reconcile: time.Hour})
	v.mustSet(four)
	batch := func(lines string) {
		t.Helper()
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(lines)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	var many, churn strings.Builder
	for i := range 3000 { // a reading takes long
		fmt.Fprintf(&many, "address add 10.%d.%d.1/32 dev lo\n", i/250, i%250)
	}
	fmt.Fprintf(&churn, "address del %s dev lo\n", four)
	for range 3000 {
		fmt.Fprintf(&churn, "address add 10.200.0.1/32 dev lo\naddress del 10.200.0.1/32 dev lo\n")
	}
	batch(many.String())
	batch(churn.String())
	v.until(four, "absent", func(r steadycast.VIP) bool { return !r.Present })
}

// TestVIPsSubscribeAgain: the subscription ends altogether.
func TestVIPsSubscribeAgain(t *testing.T) {
	h := newHost(t)
	first, err := openWatch()
	if err != nil {
		t.Fatal(err)
	}
	second, err := openWatch() // opened here, in the namespace of this thread
	if err != nil {
		t.Fatal(err)
	}
	spare := []*nl.NetlinkSocket{first, nil, second} // the first try to subscribe again fails
	v := h.vipsOver(VIPSettings{}, func() (*nl.NetlinkSocket, error) {
		s := spare[0]
		spare = spare[1:]
		if s == nil {
			return nil, unix.EMFILE
		}
		return s, nil
	})
	v.mustSet(four)
	first.Close()
	h.ip("address", "del", four, "dev", "lo")
	v.until(four, "absent", func(r steadycast.VIP) bool { return !r.Present })
}

func TestVIPsWholeReading(t *testing.T) {
	h := newHost(t)
	deaf, err := nl.Subscribe(unix.NETLINK_ROUTE) // hears nothing
	if err != nil {
		t.Fatal(err)
	}
	v := h.vipsOver(VIPSettings{Reconcile: time.Second}, func() (*nl.NetlinkSocket, error) { return deaf, nil })
	v.mustSet(four)
	h.ip("address", "del", four, "dev", "lo")
	v.until(four, "absent", func(r steadycast.VIP) bool { return !r.Present })
}

func TestVIPsAreAdoptedAfterKill(t *testing.T) {
	h := newHost(t)
	child := vipChild(t, "set")
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 2)
	if _, err := stdout.Read(word); err != nil || string(word) != "ok" {
		t.Fatalf("child said %q, %v", word, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	h.expect("lo", four, true)
	h.expect("lo", six, true)

	// Another daemon's mark is not ours.
	other := h.vips(VIPSettings{Mark: 99})
	other.expectRows()
	if err := other.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	v := h.vips(VIPSettings{})
	v.expectRows(vip(four, "lo", true), vip(six, "lo", true))
	h.expect("lo", four, true) // adopted, and nothing done before someone says what is wanted
	v.mustSet(six)
	h.expect("lo", four, false)
	h.expect("lo", six, true)
}

func TestVIPsWithoutPrivilege(t *testing.T) {
	newHost(t)
	child := vipChild(t, "denied")
	child.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	out, err := child.Output()
	want := "add 192.0.2.53/32 on lo: operation not permitted; the speaker needs CAP_NET_ADMIN, or vip.manage: require"
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s", err, out)
	}
}

// vipChild runs this test binary again as the process of TestVIPChild.
func vipChild(t *testing.T, mode string) *exec.Cmd {
	dir := t.TempDir() // where another user can reach the binary
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	// TempDir's parents are private, so the path is opened before the user changes.
	path := dir + "/child"
	if err := os.WriteFile(path, bin, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	child := exec.Command("/proc/self/fd/3", "-test.run=^TestVIPChild$")
	child.ExtraFiles = []*os.File{f}
	child.Dir = "/"
	child.Env = append(os.Environ(), "STEADYCAST_VIP_CHILD="+mode)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return child
}

// TestVIPChild is the other process of the tests above; alone it does nothing.
func TestVIPChild(t *testing.T) {
	mode := os.Getenv("STEADYCAST_VIP_CHILD")
	if mode == "" {
		return
	}
	v, err := NewVIPs(VIPSettings{}, VIPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = v.Set(prefixes(four, six))
	if mode == "denied" {
		fmt.Println(err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("ok")
	select {} // until killed
}

func TestVIPTentativeAndDuplicate(t *testing.T) {
	h := newHost(t)
	h.ip("link", "add", "left", "type", "veth", "peer", "name", "right")
	h.ip("link", "set", "left", "up")
	h.ip("link", "set", "right", "up")
	v := h.vips(VIPSettings{Manage: "require", Interface: "left"})
	v.mustSet("2001:db8::1/64", "2001:db8::2/64")
	h.ip("address", "add", "2001:db8::2/64", "dev", "right", "nodad")
	h.ip("address", "add", "2001:db8::1/64", "dev", "left")
	h.ip("address", "add", "2001:db8::2/64", "dev", "left")
	row := v.until("2001:db8::1/64", "tentative", func(r steadycast.VIP) bool { return r.Present && !r.Usable })
	if row.Ours || !strings.Contains(row.Error, "tentative") {
		t.Errorf("%+v", row)
	}
	v.until("2001:db8::1/64", "usable", func(r steadycast.VIP) bool { return r.Usable && r.Error == "" })
	v.until("2001:db8::2/64", "a duplicate", func(r steadycast.VIP) bool {
		return r.Present && !r.Usable && strings.Contains(r.Error, "duplicate")
	})
}

func TestVIPInterface(t *testing.T) {
	h := newHost(t)
	v := h.vips(VIPSettings{Interface: "edge0"})
	err := v.Set(prefixes(four))
	if !errors.Is(err, errNoLink) || !strings.Contains(err.Error(), "edge0") {
		t.Errorf("set without the interface: %v", err)
	}
	if row, _ := v.row(four); row.Present || !strings.Contains(row.Error, "interface edge0 does not exist") {
		t.Errorf("%+v", row)
	}
	h.ip("link", "add", "edge0", "type", "bridge") // it comes: the address follows
	row := v.until(four, "there", func(r steadycast.VIP) bool { return r.Present })
	if row.Usable || row.Error != "interface edge0 is down" {
		t.Errorf("%+v", row)
	}
	h.ip("link", "set", "edge0", "up")
	v.until(four, "usable", func(r steadycast.VIP) bool { return r.Usable })
	v.Close()

	// The setting moves to lo: the leftover elsewhere is still known as ours.
	moved := h.vips(VIPSettings{})
	moved.expectRows(vip(four, "edge0", true))
	moved.mustSet(four)
	moved.expectRows(vip(four, "lo", true))
	h.expect("edge0", four, false)
}

func TestVIPsDryRun(t *testing.T) {
	h := newHost(t)
	left := h.vips(VIPSettings{})
	left.mustSet(four2)
	left.Close()
	v := h.vips(VIPSettings{DryRun: true})
	v.mustSet(four)
	v.mustSet(four)
	h.expect("lo", four, false)
	h.expect("lo", four2, true)
	for _, line := range []string{`would add service address" vip=192.0.2.53/32`, `would remove service address" vip=192.0.2.54/32`} {
		if n := strings.Count(v.log.String(), line); n != 1 {
			t.Errorf("said %d times, want once: %s\n%s", n, line, v.log)
		}
	}
	if row, _ := v.row(four); row.Present || row.Error != "not added: dry run" {
		t.Errorf("%+v", row)
	}
}

func TestVIPsRequiredOfOthers(t *testing.T) {
	h := newHost(t)
	h.ip("link", "add", "edge0", "type", "bridge")
	h.ip("address", "add", four, "dev", "edge0")
	v := h.vips(VIPSettings{Manage: "require"})
	v.mustSet(four)
	h.expect("lo", four, false)
	if row, _ := v.row(four); row.Present || !strings.Contains(row.Error, "present on edge0") {
		t.Errorf("%+v", row)
	}
	h.ip("address", "add", four, "dev", "lo")
	v.until(four, "there", func(r steadycast.VIP) bool { return r.Usable && !r.Ours })
}

func TestVIPsOff(t *testing.T) {
	v, err := NewVIPs(VIPSettings{Manage: "off"}, VIPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := errors.Join(v.Set(prefixes(four)), v.Repair(), v.Release(context.Background())); err != nil || len(v.Actual()) > 0 {
		t.Errorf("%v, %v", err, v.Actual())
	}
}
