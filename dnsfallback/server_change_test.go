package dnsfallback

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/steadycast/steadycast/internal/loopback"
)

// TestSwap changes the table under load: every answer is whole and of one
// table, none is lost, and versions never go back.
func TestSwap(t *testing.T) {
	tables := make([]*Table, 3)
	for i := range tables {
		tables[i] = mustPolicy(t, []Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Records: []string{
			fmt.Sprintf("www A 192.0.2.%d", i), fmt.Sprintf("www A 198.51.100.%d", i)}}}).Table(uint64(i), nil, FleetState{})
	}
	v, stop := serve(t, tables[0], func(s *Settings) { s.RateLimit = new(0) })
	done := make(chan struct{})
	var asked atomic.Uint64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c, err := net.Dial("udp", v.Addresses()[0].String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			d := &dns.Conn{Conn: c}
			p, last := question(t, "www.example.com", "A"), byte(0)
			for {
				select {
				case <-done:
					return
				default:
				}
				c.SetDeadline(time.Now().Add(patience))
				d.Write(p)
				m, err := d.ReadMsg()
				if err != nil || len(m.Answer) != 2 {
					t.Errorf("%v %v", err, m)
					return
				}
				a, b := m.Answer[0].(*dns.A).A.To4()[3], m.Answer[1].(*dns.A).A.To4()[3]
				if a != b || a < last {
					t.Errorf("an answer of tables %d and %d, after %d", a, b, last)
					return
				}
				last = a
				asked.Add(1)
			}
		})
	}
	for i := 1; i < len(tables); i++ {
		more(t, &asked, 500)
		if err := v.Set(tables[i]); err != nil {
			t.Error(err)
		}
	}
	if err := v.Set(tables[0]); err == nil || v.Table().Version() != 2 {
		t.Error("an older table is taken")
	}
	more(t, &asked, 500)
	close(done)
	wg.Wait()
	stop()
	var n uint64
	for _, a := range v.Counters().Answers {
		n += a.Count
	}
	if n != asked.Load() {
		t.Errorf("%d answers are counted of %d", n, asked.Load())
	}
}

// TestTakeOver starts a second server on the first one's sockets under load and
// stops the first: every query is answered, by the one or the other.
func TestTakeOver(t *testing.T) {
	for _, listen := range []netip.AddrPort{loopback.Own(t), netip.AddrPortFrom(netip.IPv4Unspecified(), 0)} {
		t.Run(listen.String(), func(t *testing.T) {
			table := mustPolicy(t, exampleZones()).Table(1, nil, FleetState{})
			old, stop := serve(t, table, func(s *Settings) { s.Listen, s.RateLimit = []netip.AddrPort{listen}, new(0) })
			at := old.Addresses()[0]
			if at.Addr().IsUnspecified() {
				at = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at.Port())
			}
			done := make(chan struct{})
			var asked atomic.Uint64
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					p := question(t, "www.example.com", "A")
					for {
						select {
						case <-done:
							return
						default:
						}
						for _, network := range []string{"udp", "tcp"} {
							c, err := net.Dial(network, at.String())
							if err != nil {
								t.Errorf("%s: %v", network, err)
								return
							}
							c.SetDeadline(time.Now().Add(patience))
							d := &dns.Conn{Conn: c}
							_, err = d.Write(p)
							var m *dns.Msg
							if err == nil {
								m, err = d.ReadMsg()
							}
							c.Close()
							if err != nil || len(m.Answer) != 2 {
								t.Errorf("%s: %v %v", network, err, m)
								return
							}
							asked.Add(1)
						}
					}
				})
			}
			more(t, &asked, 200)
			files, err := old.Files()
			if err != nil {
				t.Fatal(err)
			}
			s := old.settings
			if _, err := TakeOver(s, nil, files[1:]); err == nil {
				t.Error("too few sockets are taken")
			}
			other := s
			other.Listen = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.9:53")}
			if _, err := TakeOver(other, nil, files); err == nil {
				t.Error("sockets of another address are taken")
			}
			next, err := TakeOver(s, nil, files)
			for _, f := range files {
				f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := next.Set(table); err != nil {
				t.Fatal(err)
			}
			end := keepServing(t, next)
			more(t, &asked, 200)
			stop()
			more(t, &asked, 200)
			close(done)
			wg.Wait()
			end()
			if len(next.Counters().Answers) == 0 {
				t.Error("the second server answered nothing")
			}
		})
	}
}

// TestSecretsRoll changes the secret in three steps on a server that goes on
// answering: no cookie is refused on the way, and the old one is in the end.
func TestSecretsRoll(t *testing.T) {
	v, _ := serve(t, mustPolicy(t, exampleZones()).Table(1, nil, FleetState{}))
	a, b := Secret{1}, Secret{2}
	cookie := "0102030405060708"
	ask := func() (good, bad uint64) {
		before := v.Counters()
		m := exchange(t, "udp", v.Addresses()[0], question(t, "www.example.com", "A", withOption(&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: cookie})))
		o, ok := optionOf[*dns.EDNS0_COOKIE](m)
		if !ok || len(m.Answer) != 2 {
			t.Fatal(m)
		}
		cookie = o.Cookie
		after := v.Counters()
		return after.CookieGood - before.CookieGood, after.CookieBad - before.CookieBad
	}
	v.SetSecrets(Secrets{a})
	ask()
	first := cookie
	for _, step := range []Secrets{{a}, {a, b}, {b, a}, {b}} {
		if err := v.SetSecrets(step); err != nil {
			t.Fatal(err)
		}
		if good, bad := ask(); good != 1 || bad != 0 {
			t.Errorf("with %v: good %d, bad %d", step, good, bad)
		}
	}
	cookie = first
	if good, bad := ask(); good != 0 || bad != 1 {
		t.Error("a cookie of the old secret is still good")
	}
	if v.SetSecrets(nil) == nil {
		t.Error("no secrets are taken")
	}
}

// TestSwapsAndReloads puts 60 states and 20 readings of a map into force under
// load: nobody is given a member that no state of the time allows, or nothing.
func TestSwapsAndReloads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nets")
	files := []MapFile{{"nets", file}}
	draw := func(i int) {
		write(t, file+".new", fmt.Sprintf("127.0.0.0/8 elsewhere\n10.0.0.0/8 fra # %d\n10.%d.0.0/16 ams\n", i, i+1))
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	draw(0)
	maps, ps := LoadMaps(nil, files)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	p := steeredPolicy(t, Choice{Service: "web", Methods: []string{"topology", "ratio"}, Members: sites("fra", "ams", "iad")})
	v, _ := serve(t, p.Table(1, maps, state("iad down")), func(s *Settings) { s.RateLimit = new(0) })
	done := make(chan struct{})
	var asked atomic.Uint64
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			c, err := net.Dial("udp", v.Addresses()[0].String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			d := &dns.Conn{Conn: c, UDPSize: udpSize}
			// By the map, 10.200 is always fra's, and 172.16 nobody's.
			subnet, allowed := []byte{10, 200, 0, 0}, "192.0.2.1 192.0.2.2"
			if k%2 == 0 {
				subnet = []byte{172, 16, 0, 0}
			}
			q := question(t, "www.example.com", "A", withOption(&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: subnet}))
			for {
				select {
				case <-done:
					return
				default:
				}
				c.SetDeadline(time.Now().Add(patience))
				d.Write(q)
				m, err := d.ReadMsg()
				if err != nil || m.Rcode != dns.RcodeSuccess || len(m.Answer) != 1 || !strings.Contains(allowed, m.Answer[0].(*dns.A).A.String()) {
					t.Errorf("%v %v", err, m)
					return
				}
				asked.Add(1)
			}
		})
	}
	version := uint64(1)
	for i := range 60 {
		version++
		s := "iad down"
		if i%2 == 0 {
			s = "iad down, fra down"
		}
		if err := v.Set(p.Table(version, maps, state(s))); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			draw(i)
			if maps, ps = LoadMaps(maps, files); len(ps) > 0 {
				t.Fatal(ps)
			}
			version++
			if err := v.Set(v.Table().WithMaps(version, maps)); err != nil {
				t.Fatal(err)
			}
		}
		more(t, &asked, 20)
	}
	close(done)
	wg.Wait()
	if got := v.Table().Version(); got != version {
		t.Errorf("version %d of %d", got, version)
	}
}
