package main

import (
	"bytes"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

func TestPageSaysWhichSiteItIs(t *testing.T) {
	w := httptest.NewRecorder()
	page("fra").ServeHTTP(w, httptest.NewRequest("GET", "/any", nil))
	if w.Code != 200 || w.Header().Get("X-Site") != "fra" || strings.TrimSpace(w.Body.String()) != "ok" {
		t.Errorf("got %d, %v, %q", w.Code, w.Header(), w.Body)
	}
}

func TestLookingGlass(t *testing.T) {
	glass := lookingGlass(`[ "$ADDRESS" = 192.0.2.53 ] && echo "$ADDRESS is here"`)
	for path, want := range map[string]int{"/route/192.0.2.53": 200, "/route/192.0.2.54": 404, "/route/;id": 400, "/else": 404} {
		w := httptest.NewRecorder()
		glass.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != want || want == 200 && !strings.Contains(w.Body.String(), "192.0.2.53 is here") {
			t.Errorf("%s: got %d, %q", path, w.Code, w.Body)
		}
	}
}

// Questions come by one interface, and the answers' route may be another's.
func TestTheRouteChoosesTheInterfaceOfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name        string
		asked, want []byte
	}{
		{"IPv4", unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: 3, Spec_dst: [4]byte{192, 0, 2, 53}, Addr: [4]byte{192, 0, 2, 53}}),
			unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: [4]byte{192, 0, 2, 53}, Addr: [4]byte{192, 0, 2, 53}})},
		{"IPv6", unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: 3, Addr: netip.MustParseAddr("2001:db8:53::53").As16()}),
			unix.PktInfo6(&unix.Inet6Pktinfo{Addr: netip.MustParseAddr("2001:db8:53::53").As16()})},
		{"IPv4 on a socket of both families", unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: 3, Addr: netip.MustParseAddr("::ffff:192.0.2.53").As16()}),
			unix.PktInfo6(&unix.Inet6Pktinfo{Addr: netip.MustParseAddr("::ffff:192.0.2.53").As16()})},
		{"link-local", unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: 3, Addr: netip.MustParseAddr("fe80::53").As16()}),
			unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: 3, Addr: netip.MustParseAddr("fe80::53").As16()})},
		{"no word of it", nil, nil},
	} {
		if err := turnAround(c.asked); err != nil || !bytes.Equal(c.asked, c.want) {
			t.Errorf("%s: got % x (%v), want % x", c.name, c.asked, err, c.want)
		}
	}
}

// A client with a connected socket hears only the address it asked.
func TestAnswersFromTheAddressThatWasAsked(t *testing.T) {
	conn, err := listenDNS(":0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go serveDNS(conn, "fra")
	_, port, _ := net.SplitHostPort(conn.LocalAddr().String())
	for _, host := range []string{"127.0.0.1", "127.9.8.7", "::1"} {
		c, err := net.Dial("udp", net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, q := range []struct {
			kind    dnsmessage.Type
			answers int
		}{{dnsmessage.TypeA, 1}, {dnsmessage.TypeTXT, 1}, {dnsmessage.TypeAAAA, 0}} {
			m := dnsmessage.Message{
				Header:    dnsmessage.Header{ID: 77, RecursionDesired: true},
				Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("a.example.net."), Type: q.kind, Class: dnsmessage.ClassINET}},
			}
			b, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(5 * time.Second))
			if _, err := c.Write(b); err != nil {
				t.Fatal(err)
			}
			n, err := c.Read(b[:cap(b)])
			if err != nil {
				t.Fatalf("%s: no answer: %v", host, err)
			}
			if err := m.Unpack(b[:n]); err != nil {
				t.Fatal(err)
			}
			if m.ID != 77 || !m.Response || len(m.Answers) != q.answers {
				t.Errorf("%s %v: got %+v", host, q.kind, m)
			}
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		answer, err := answerTo(b, "fra")
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(answer); err != nil {
			t.Errorf("the answer cannot be read: %v", err)
		}
	})
}
