package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/loopback"
)

// TestZone: the demo's name has the addresses of the sites that serve: not that
// of one whose service was killed, nor of one that a person withdrew.
func TestZone(t *testing.T) {
	at := loopback.Own(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	o := Options{Sites: 3, Socket: filepath.Join(t.TempDir(), "d.sock"), JSON: true, Out: io.Discard, DNS: at}
	err := with(ctx, o, func(ctx context.Context, f *fleet) error {
		s := f.stage(ctx)
		client := netip.MustParsePrefix("127.0.0.1/32")
		given := func() []string {
			e, err := f.dns.server.Table().Explain(demoName+"."+demoZone, "A", client)
			if err != nil {
				t.Error(err)
			}
			return e.Records
		}
		want := func(what string, sites ...string) error {
			var records []string
			for _, name := range sites {
				records = append(records, fmt.Sprintf("www.demo.test. %%d IN A %v", f.site(name).named()))
			}
			return s.until(time.Minute, what, func() bool {
				for _, ttl := range []int{5, 1} {
					var all []string
					for _, r := range records {
						all = append(all, fmt.Sprintf(r, ttl))
					}
					if slices.Equal(given(), all) {
						return true
					}
				}
				return false
			})
		}
		if err := want("all are given", "fra", "ams", "lhr"); err != nil {
			return err
		}
		if err := f.breaks("ams", "kill"); err != nil {
			return err
		}
		if err := want("a site whose service was killed is not given", "fra", "lhr"); err != nil {
			return err
		}
		if err := f.breaks("ams", "heal"); err != nil {
			return err
		}
		if err := want("it is given again", "fra", "ams", "lhr"); err != nil {
			return err
		}
		if err := s.order(steadycast.OrderWithdraw, "lhr", "try it", false); err != nil {
			return err
		}
		return want("a site that was withdrawn is not given", "fra", "ams")
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Where another program answers already, a demo that was asked to answer there says
// how to choose another address; one that was not goes on without names, and says so.
func TestAddressOfNamesTaken(t *testing.T) {
	at := loopback.Own(t)
	taken, err := net.ListenPacket("udp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, ifFree := range []bool{true, false} {
		said := ""
		o := Options{Sites: 1, Socket: filepath.Join(t.TempDir(), "d.sock"), JSON: true, Out: io.Discard, DNS: at, DNSIfFree: ifFree}
		err := with(t.Context(), o, func(_ context.Context, f *fleet) error { said = f.nameless; return nil })
		if !ifFree {
			said = fmt.Sprint(err)
		}
		for _, want := range []string{"no names are answered: another program has " + at.String(), "--dns"} {
			if !strings.Contains(said, want) {
				t.Errorf("if free %v: it says %q (%v), not %q", ifFree, said, err, want)
			}
		}
		if ifFree && err != nil {
			t.Errorf("it was not asked to answer there, and ended: %v", err)
		}
	}
}
