package dnsfallback

import (
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSourceOnManyAddresses: on a host with several addresses of each family an
// answer leaves from the one that was asked, also when the kernel would take
// another. The client is connected, so that nothing else arrives.
func TestSourceOnManyAddresses(t *testing.T) {
	if os.Getuid() != 0 {
		lack(t, "network namespaces need root")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test, and its namespace too
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("unshare: %v", err)
	}
	for _, line := range []string{
		"link set lo up",
		"addr add 192.0.2.1/32 dev lo", "addr add 192.0.2.2/32 dev lo", "addr add 192.0.2.3/32 dev lo",
		"addr add 2001:db8::1/128 dev lo nodad", "addr add 2001:db8::2/128 dev lo nodad", "addr add 2001:db8::3/128 dev lo nodad",
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
	table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
	v, _ := serve(t, table, func(s *Settings) {
		s.Listen = []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:5353"), netip.MustParseAddrPort("[::]:5353")}
	})
	for _, network := range []string{"udp", "tcp"} {
		for _, a := range []string{"192.0.2.1:5353", "192.0.2.2:5353", "192.0.2.3:5353", "[2001:db8::1]:5353", "[2001:db8::2]:5353", "[2001:db8::3]:5353"} {
			for _, from := range []string{"192.0.2.1", "192.0.2.3", "2001:db8::1", "2001:db8::3"} {
				near, at := netip.MustParseAddr(from), netip.MustParseAddrPort(a)
				if near.Is4() != at.Addr().Is4() {
					continue
				}
				if m := exchangeFrom(t, network, near, at, question(t, "www.example.com", "A")); len(m.Answer) != 2 {
					t.Errorf("%s from %v at %v:\n%v", network, near, at, m)
				}
			}
		}
	}
	if n := v.Counters(); n.Unsent > 0 || n.Dropped > 0 {
		t.Errorf("%+v", n)
	}
}
