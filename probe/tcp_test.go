package probe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast/internal/loopback"
)

func TestTCP(t *testing.T) {
	banner := func(c net.Conn) { io.WriteString(c, "220 mail.example.test ESMTP\r\n"); silent(c) }
	echo := func(c net.Conn) { io.Copy(c, c) }
	for name, c := range map[string]struct {
		addr string
		set  TCP
		want string
	}{
		"connects":           {server(t, silent), TCP{}, "up"},
		"refused":            {loopback.Own(t).String(), TCP{}, "down hard: connection refused by 127."},
		"banner":             {server(t, banner), TCP{Expect: "^220 "}, "up"},
		"wrong banner":       {server(t, banner), TCP{Expect: "^554 "}, `down soft: timeout: `},
		"send and expect":    {server(t, echo), TCP{Send: "PING\r\n", Expect: "PING"}, "up"},
		"send alone":         {server(t, echo), TCP{Send: "PING\r\n"}, "up"},
		"silent":             {server(t, silent), TCP{Send: "PING\r\n", Expect: "PONG"}, "down soft: timeout while waiting for an answer"},
		"reset":              {server(t, reset), TCP{Send: "PING\r\n", Expect: "PONG"}, "down hard: connection reset"},
		"hangs up":           {server(t, func(net.Conn) {}), TCP{Expect: "PONG"}, "down soft: closed the connection while waiting"},
		"says and hangs up":  {server(t, func(c net.Conn) { io.WriteString(c, "no") }), TCP{Expect: "PONG"}, `down soft: answered "no", which does not match "PONG"`},
		"comes in pieces":    {server(t, func(c net.Conn) { io.WriteString(c, "PO"); io.WriteString(c, "NG"); silent(c) }), TCP{Expect: "PONG"}, "up"},
		"floods":             {server(t, func(c net.Conn) { io.Copy(c, endless{}) }), TCP{Expect: "PONG"}, "down soft: nothing in the first 65536 bytes"},
		"slow":               {server(t, silent), TCP{MaxLatency: 1}, "down soft: right, but slow"},
		"control characters": {server(t, func(c net.Conn) { io.WriteString(c, "\x1b[31m\x00\xff\n") }), TCP{Expect: "PONG"}, "down soft: answered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			short := 300 * time.Millisecond
			expect(t, run(t, Check{Kind: "tcp", Target: c.addr, Timeout: patient(c.want, short), TCP: &c.set}), c.want)
		})
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// IPv6 is a check of its own and works alike.
func TestTCP6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatalf("no IPv6 on the loopback: %v", err)
	}
	serve(t, l, silent)
	expect(t, run(t, Check{Kind: "tcp", Target: l.Addr().String(), Source: netip.MustParseAddr("::1")}), "up")
}

// Trouble of this host is unknown, and never down.
func TestLocalTrouble(t *testing.T) {
	addr := server(t, silent)
	for name, c := range map[string]struct {
		c    Check
		want string
	}{
		"no such source":   {Check{Kind: "tcp", Target: addr, Source: netip.MustParseAddr("192.0.2.77")}, "unknown: the source address is not on this host"},
		"no such device":   {Check{Kind: "tcp", Target: addr, Device: "nosuch0"}, "unknown"},
		"resolver":         {Check{Kind: "tcp", Target: "no-such-host.invalid:80", Timeout: 300 * time.Millisecond}, "unknown: this host cannot resolve no-such-host.invalid"},
		"resolver, http":   {Check{Kind: "http", Target: "http://no-such-host.invalid/", Timeout: 300 * time.Millisecond}, "unknown: this host cannot resolve"},
		"resolver, follow": {Check{Kind: "http", Target: "http://no-such-host.invalid/", Timeout: 300 * time.Millisecond, HTTP: &HTTP{FollowRedirects: 3}}, "unknown: this host cannot resolve"},
		"resolver, grpc":   {Check{Kind: "grpc", Target: "no-such-host.invalid:80", Timeout: 300 * time.Millisecond}, "unknown: this host cannot resolve"},
		"source, http":     {Check{Kind: "http", Target: "http://" + addr, Source: netip.MustParseAddr("192.0.2.77")}, "unknown: the source address"},
		"source, https":    {Check{Kind: "http", Target: "https://" + addr, Source: netip.MustParseAddr("192.0.2.77")}, "unknown: the source address"},
		"source, tls":      {Check{Kind: "tls", Target: addr, Source: netip.MustParseAddr("192.0.2.77")}, "unknown: the source address"},
		"source, grpc":     {Check{Kind: "grpc", Target: addr, Source: netip.MustParseAddr("192.0.2.77")}, "unknown: the source address"},
		"source, icmp":     {Check{Kind: "icmp", Target: "127.0.0.1", Source: netip.MustParseAddr("192.0.2.77")}, "unknown"},
		"source, dns udp":  {Check{Kind: "dns", Target: addr, Source: netip.MustParseAddr("192.0.2.77"), DNS: &DNS{Names: []string{"a.test"}}}, "unknown: the source address"},
		"source, dns both": {Check{Kind: "dns", Target: addr, Source: netip.MustParseAddr("192.0.2.77"), DNS: &DNS{Names: []string{"a.test"}, Protocol: "both"}}, "unknown: the source address"},
		"source, prom": {Check{Kind: "prometheus", Target: "http://" + addr, Source: netip.MustParseAddr("192.0.2.77"),
			Prometheus: &Prometheus{Query: "up", Above: new(0.5)}}, "unknown: the source address"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); expect(t, run(t, c.c), c.want) })
	}
}

// Each flag is tested both ways: with the source given the server sees it.
func TestSource(t *testing.T) {
	seen := make(chan string, 8)
	addr := server(t, func(c net.Conn) { seen <- c.RemoteAddr().(*net.TCPAddr).IP.String() })
	for source, want := range map[string]string{"": "127.0.0.1", "127.0.0.9": "127.0.0.9"} {
		c := Check{Kind: "tcp", Target: addr}
		if source != "" {
			c.Source = netip.MustParseAddr(source)
		}
		expect(t, run(t, c), "up")
		for range 2 { // alone, and among others
			if got := <-seen; got != want {
				t.Errorf("source %q: the server saw %s", source, got)
			}
		}
	}
}

// A device that cannot lead to the target does not, even if the target is here.
func TestDevice(t *testing.T) {
	addr := server(t, silent)
	r := run(t, Check{Kind: "tcp", Target: addr, Device: "lo"})
	if strings.Contains(r.Reason, "permitted") {
		mayLack(t, "binding to a device needs CAP_NET_RAW")
	}
	expect(t, r, "up")
}

// mayLack skips where a right is missing, but not in CI, where it must be there.
func mayLack(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// pair makes a self-signed certificate and its file.
func pair(t testing.TB, name string, from, to time.Time) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: from, NotAfter: to, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func tlsServer(t testing.TB, conf *tls.Config) string {
	return server(t, func(c net.Conn) {
		s := tls.Server(c, conf)
		if s.Handshake() == nil {
			silent(s)
		}
	})
}

func TestTLS(t *testing.T) {
	day := 24 * time.Hour
	now := time.Now()
	good, ca := pair(t, "www.example.test", now.Add(-day), now.Add(30*day+time.Hour))
	old, oldCA := pair(t, "www.example.test", now.Add(-9*day), now.Add(-day))
	srv := tlsServer(t, &tls.Config{Certificates: []tls.Certificate{good}, NextProtos: []string{"h2", "dot"}})
	v12 := tlsServer(t, &tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS12})
	v10 := tlsServer(t, &tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	expired := tlsServer(t, &tls.Config{Certificates: []tls.Certificate{old}})
	for name, c := range map[string]struct {
		addr string
		set  TLS
		want string
	}{
		"right":                  {srv, TLS{CAFile: ca, ServerName: "www.example.test"}, "up"},
		"right by address":       {srv, TLS{CAFile: ca}, "up"},
		"another name":           {srv, TLS{CAFile: ca, ServerName: "mail.example.test"}, "down soft: certificate"},
		"unknown authority":      {srv, TLS{}, "down soft: certificate"},
		"not verified":           {srv, TLS{SkipVerify: true}, "up"},
		"expired":                {expired, TLS{CAFile: oldCA}, "down soft: certificate"},
		"enough days":            {srv, TLS{CAFile: ca, MinDays: 30}, "up"},
		"too few days":           {srv, TLS{CAFile: ca, MinDays: 31}, `down soft: the certificate of "www.example.test" ends `},
		"days without verifying": {srv, TLS{SkipVerify: true, MinDays: 31}, "down soft: the certificate"},
		"1.3 wanted":             {srv, TLS{CAFile: ca, MinVersion: "1.3"}, "up"},
		"1.3 wanted, 1.2 got":    {v12, TLS{CAFile: ca, MinVersion: "1.3"}, "down soft"},
		"1.2":                    {v12, TLS{CAFile: ca}, "up"},
		"only old versions":      {v10, TLS{CAFile: ca}, "down soft"},
		"ALPN":                   {srv, TLS{CAFile: ca, ALPN: []string{"dot"}}, "up"},
		"no common ALPN":         {srv, TLS{CAFile: ca, ALPN: []string{"smtp"}}, "down soft"},
		"server without ALPN":    {v12, TLS{CAFile: ca, ALPN: []string{"dot"}}, "down soft: agreed on no protocol of dot"},
		"slow":                   {srv, TLS{CAFile: ca, MaxLatency: 1}, "down soft: right, but slow"},
		"refused":                {loopback.Own(t).String(), TLS{}, "down hard: connection refused"},
		"silent":                 {server(t, silent), TLS{}, "down soft: timeout while shaking hands"},
		"reset":                  {server(t, reset), TLS{}, "down hard: connection reset"},
		"no TLS":                 {server(t, func(c net.Conn) { io.WriteString(c, "220 hello there\r\n"); silent(c) }), TLS{}, "down soft"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, run(t, Check{Kind: "tls", Target: c.addr, Timeout: patient(c.want, 200*time.Millisecond), TLS: &c.set}), c.want)
		})
	}
}
