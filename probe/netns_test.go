package probe

import (
	"context"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"golang.org/x/sys/unix"
)

// inNamespace runs f on a thread of its own in a fresh network namespace, which
// ends with the thread. What f starts on other goroutines is not in there.
func inNamespace(t *testing.T, f func()) {
	t.Helper()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = loopbackUp()
		}
		if err == nil {
			f()
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		mayLack(t, "a network namespace needs root: "+err.Error())
	}
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// here makes one attempt on this goroutine, and so on this thread.
func here(t *testing.T, c Check, env Env) steadycast.Result {
	t.Helper()
	x := compiled(t, c, env)
	return x.attempt(context.Background(), time.Now(), x.body.probe)
}

// A host without a route sees nothing, and so says nothing against the service.
func TestNoRoute(t *testing.T) {
	inNamespace(t, func() {
		for _, target := range []string{"192.0.2.1:80", "[2001:db8::1]:80"} {
			for _, c := range []Check{
				{Kind: "tcp"}, {Kind: "tls"}, {Kind: "dns", DNS: &DNS{Names: []string{"a.test"}}},
			} {
				c.Target = target
				expect(t, here(t, c, Env{}), "unknown: no route from here")
			}
			expect(t, here(t, Check{Kind: "icmp", Target: netip.MustParseAddrPort(target).Addr().String()}, Env{}), "unknown: no route from here")
		}
	})
}

// The kernel's ping socket is enough where a group is let in, for both families.
func TestUnprivilegedPing(t *testing.T) {
	inNamespace(t, func() {
		if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0o644); err != nil {
			t.Error(err)
			return
		}
		for _, target := range []string{"127.0.0.1", "::1"} {
			p := &icmpProbe{target: target, set: ICMP{Count: 3}, kinds: []int{unix.SOCK_DGRAM}}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			expect(t, p.probe(ctx), "up")
			cancel()
		}
		if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("1 0"), 0o644); err != nil {
			t.Error(err)
			return
		}
		p := &icmpProbe{target: "127.0.0.1", set: ICMP{Count: 1}, kinds: []int{unix.SOCK_DGRAM}}
		expect(t, p.probe(context.Background()), "unknown: ping is not permitted here")
	})
}

// Errors of this host are unknown, those of the far side are down; each errno
// as it comes wrapped from the net package.
func TestFailed(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.ECONNREFUSED:  "down hard: connection refused by it",
		syscall.ECONNRESET:    "down hard: connection reset by it while connecting",
		syscall.EPIPE:         "down hard: connection reset",
		syscall.ETIMEDOUT:     "down soft: timeout while connecting",
		syscall.EPROTO:        "down soft",
		syscall.ENETUNREACH:   "unknown: no route from here",
		syscall.EHOSTUNREACH:  "unknown: no route to the host from here",
		syscall.ENETDOWN:      "unknown: the network is down here",
		syscall.EADDRNOTAVAIL: "unknown: the source address is not on this host",
		syscall.EADDRINUSE:    "unknown: no local port is free",
		syscall.EMFILE:        "unknown: this process has no file descriptor left",
		syscall.ENFILE:        "unknown: this host has no file descriptor left",
		syscall.ENOBUFS:       "unknown: this host has no buffer left",
		syscall.ENOMEM:        "unknown: this host has no memory left",
		syscall.EACCES:        "unknown: not permitted here",
		syscall.EPERM:         "unknown: not permitted here",
		syscall.ENODEV:        "unknown: no such device",
		syscall.EAFNOSUPPORT:  "unknown: does not speak the address family",
	} {
		expect(t, failed(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}, "it", "connecting"), want)
	}
}

// A process without descriptors sees nothing.
func TestNoDescriptors(t *testing.T) {
	addr := server(t, silent)
	c := compiled(t, Check{Kind: "tcp", Target: addr}, Env{})
	script := compiled(t, Check{Kind: "exec", Exec: shell("exit 1")}, Env{})
	expect(t, c.Run(context.Background()), "up")
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	r, s := c.Run(context.Background()), script.Run(context.Background())
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	expect(t, r, "unknown: this process has no file descriptor left")
	expect(t, s, "unknown: cannot run /bin/sh")
	expect(t, c.Run(context.Background()), "up")
}
