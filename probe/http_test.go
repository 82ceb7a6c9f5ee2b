package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"encoding/pem"

	"github.com/steadycast/steadycast/internal/loopback"
)

// The truth table of httpjudge.go, against a server.
func TestHTTPTruthTable(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Site", "fra")
		w.Header().Set("X-Role", "edge")
		switch r.URL.Path {
		case "/json":
			io.WriteString(w, `{"status":{"ok":true,"n":12345678901234567890,"parts":[{"name":"db"}],"none":null,"text":"fine"}}`)
		case "/echo":
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.Host, r.Header.Get("X-Ask"), r.UserAgent(), b)
		case "/moved":
			http.Redirect(w, r, "/moved2", http.StatusFound)
		case "/moved2":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/500":
			http.Error(w, "broken", 500)
		case "/page": // an error page of something in front
			w.Header().Del("X-Site")
			http.Error(w, "bad gateway", http.StatusBadGateway)
		case "/anon":
			w.Header().Del("X-Site")
		case "/204":
			w.WriteHeader(204)
		case "/ok":
			io.WriteString(w, "all is well\n")
		}
	}))
	defer srv.Close()
	for _, c := range []struct {
		path string
		set  HTTP
		want string
	}{
		{"/ok", HTTP{}, "up"},
		{"/204", HTTP{}, "up"},
		{"/500", HTTP{}, "down soft: status 500, not 2xx"},
		{"/500", HTTP{Status: []string{"200", "5xx"}}, "up"},
		{"/500", HTTP{Status: []string{"400-499"}}, "down soft: status 500, not 400-499"},
		{"/ok", HTTP{Status: []string{"200-200"}}, "up"},
		{"/ok", HTTP{Status: []string{"201"}}, "down soft: status 200, not 201"},
		{"/ok", HTTP{Match: "(?i)ALL is"}, "up"},
		{"/ok", HTTP{Match: "ill"}, `down soft: the body does not match "ill": "all is well."`},
		{"/ok", HTTP{NotMatch: "ill"}, "up"},
		{"/ok", HTTP{NotMatch: "w.ll"}, `down soft: the body matches "w.ll": "well"`},
		{"/ok", HTTP{Match: "well", MaxBody: 5}, "down soft: the body does not match"},
		{"/ok", HTTP{Header: "x-role", HeaderMatch: "^edge$"}, "up"},
		{"/ok", HTTP{Header: "X-Role", HeaderMatch: "core"}, `down soft: header X-Role is "edge"`},
		{"/ok", HTTP{Header: "X-None", HeaderMatch: ".*"}, "down soft: no header X-None"},
		{"/ok", HTTP{Identity: "X-Site: fra"}, "up"},
		{"/ok", HTTP{Identity: "X-Site: ams"}, `down hard: somebody else answered: X-Site is "fra", not "ams"`},
		{"/500", HTTP{Identity: "X-Site: ams"}, "down hard: somebody else answered"},
		{"/page", HTTP{Identity: "X-Site: fra"}, "down soft: status 502"},
		{"/anon", HTTP{Identity: "X-Site: fra"}, "down soft: the answer carries no X-Site"},
		{"/json", HTTP{JSONField: "status.ok", JSONValue: "true"}, "up"},
		{"/json", HTTP{JSONField: "status.ok", JSONValue: "false"}, `down soft: status.ok is "true", not "false"`},
		{"/json", HTTP{JSONField: "status.n", JSONValue: "12345678901234567890"}, "up"},
		{"/json", HTTP{JSONField: "status.parts.0.name", JSONValue: "db"}, "up"},
		{"/json", HTTP{JSONField: "status.none", JSONValue: "null"}, "up"},
		{"/json", HTTP{JSONField: "status.parts.1.name", JSONValue: "db"}, "down soft: no field status.parts.1"},
		{"/json", HTTP{JSONField: "status.text.deep", JSONValue: "x"}, "down soft: no field status.text.deep"},
		{"/json", HTTP{JSONField: "status", JSONValue: "x"}, "down soft: not a single value"},
		{"/json", HTTP{JSONField: "status.ok", JSONValue: "true", MaxBody: 20}, "down soft: over max_body"},
		{"/ok", HTTP{JSONField: "status", JSONValue: "x"}, "down soft: the body is not JSON"},
		{"/moved", HTTP{}, "down soft: status 302, not 2xx (a redirect to /moved2; follow_redirects allows 0)"},
		{"/moved", HTTP{Status: []string{"3xx"}}, "up"},
		{"/moved", HTTP{FollowRedirects: 1}, "down soft: status 302"},
		{"/moved", HTTP{FollowRedirects: 2}, "up"},
		{"/loop", HTTP{FollowRedirects: 5}, "down soft: status 302"},
		{"/echo", HTTP{Method: "POST", Body: "ping", Host: "www.example.test", Headers: map[string]string{"X-Ask": "a b"},
			Match: "^POST www.example.test a b steadycast ping$"}, "up"},
		{"/ok", HTTP{Method: "HEAD"}, "up"},
		{"/ok", HTTP{Version: "1.1"}, "up"},
		{"/ok", HTTP{Version: "2"}, "down soft"},
		{"/ok", HTTP{MaxLatency: time.Nanosecond}, "down soft: right, but slow"},
	} {
		t.Run(c.path+" "+c.want, func(t *testing.T) {
			expect(t, run(t, Check{Kind: "http", Target: srv.URL + c.path, HTTP: &c.set}), c.want)
		})
	}
}

func TestHTTPS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto+" "+r.TLS.ServerName) }))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set  HTTP
		want string
	}{
		{HTTP{CAFile: ca, Match: "^HTTP/2.0"}, "up"},
		{HTTP{CAFile: ca, Version: "2", Match: "^HTTP/2.0"}, "up"},
		{HTTP{CAFile: ca, Version: "1.1", Match: "^HTTP/1.1"}, "up"},
		{HTTP{CAFile: ca, Host: "example.com", Match: " example.com$"}, "up"}, // a name of the certificate
		{HTTP{CAFile: ca, Host: "example.com:8443", Match: " example.com$"}, "up"},
		{HTTP{CAFile: ca, Host: "other.test"}, "down soft: certificate"},
		{HTTP{}, "down soft: certificate"},
		{HTTP{SkipVerify: true}, "up"},
	} {
		expect(t, run(t, Check{Kind: "http", Target: srv.URL, HTTP: &c.set}), c.want)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	expect(t, run(t, Check{Kind: "http", Target: strings.Replace(plain.URL, "http:", "https:", 1)}), "down soft")
	only1 := httptest.NewTLSServer(http.NotFoundHandler())
	defer only1.Close()
	expect(t, run(t, Check{Kind: "http", Target: only1.URL, HTTP: &HTTP{Version: "2", SkipVerify: true}}), "down soft")
}

func TestHTTP2Unencrypted(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	defer srv.Close()
	expect(t, run(t, Check{Kind: "http", Target: srv.URL, HTTP: &HTTP{Version: "2", Match: "2.0"}}), "up")
}

// Servers that lie, stall and flood: each ends within the deadline, in bounded
// memory, with its reason.
func TestHTTPBadServers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	write := func(parts ...string) func(net.Conn) {
		return func(c net.Conn) {
			var b [4096]byte
			c.Read(b[:])
			for _, p := range parts {
				if _, err := io.WriteString(c, p); err != nil {
					return
				}
			}
		}
	}
	forever := func(head, piece string, pause time.Duration) func(net.Conn) {
		return func(c net.Conn) {
			write(head)(c)
			tick := time.NewTicker(max(pause, 1))
			defer tick.Stop()
			for {
				if _, err := io.WriteString(c, piece); err != nil {
					return
				}
				if pause > 0 {
					<-tick.C
				}
			}
		}
	}
	for name, c := range map[string]struct {
		srv  func(net.Conn)
		set  HTTP
		want string
	}{
		"silent":                 {silent, HTTP{}, "down soft: timeout while waiting for the response"},
		"reset":                  {reset, HTTP{}, "down hard: connection reset"},
		"hangs up":               {func(c net.Conn) { var b [4096]byte; c.Read(b[:]) }, HTTP{}, "down soft: closed the connection"},
		"no HTTP":                {write("SSH-2.0-OpenSSH_9.2\r\n\r\n"), HTTP{}, "down soft"},
		"binary":                 {write("\x00\x01\xff\xfe\r\n\r\n\r\n"), HTTP{}, "down soft"},
		"header drips":           {forever(ok, "X", 20*time.Millisecond), HTTP{}, "down soft: timeout"},
		"header never ends":      {forever(ok, "X-A: "+strings.Repeat("a", 1000)+"\r\n", 0), HTTP{}, "down soft"},
		"one endless header":     {forever(ok+"X-A: ", strings.Repeat("a", 1000), 0), HTTP{}, "down soft"},
		"100 without end":        {forever("", "HTTP/1.1 100 Continue\r\n\r\n", 0), HTTP{}, "down soft"},
		"body drips":             {forever(ok+"Content-Length: 100000\r\n\r\n", "x", 20*time.Millisecond), HTTP{}, "down soft: timeout while reading the body"},
		"body never ends":        {forever(ok+"\r\n", strings.Repeat("x", 65536), 0), HTTP{}, "up"},
		"body never ends, match": {forever(ok+"\r\n", strings.Repeat("x", 65536), 0), HTTP{Match: "y"}, "down soft: the body does not match"},
		"body of 1 GB":           {forever(ok+"Content-Length: 1073741824\r\n\r\n", strings.Repeat("x", 65536), 0), HTTP{MaxBody: 1 << 20}, "up"},
		"chunk of 1 GB":          {forever(ok+"Transfer-Encoding: chunked\r\n\r\n40000000\r\n", strings.Repeat("x", 65536), 0), HTTP{}, "up"},
		"short body":             {write(ok + "Content-Length: 100\r\n\r\nhello"), HTTP{}, "down soft: closed the connection while reading the body"},
		"negative length":        {write(ok + "Content-Length: -1\r\n\r\nhello"), HTTP{}, "down soft"},
		"two lengths":            {write(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nhello"), HTTP{}, "down soft"},
		"bad chunks":             {write(ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello"), HTTP{}, "down soft"},
		"500 and then silence":   {func(c net.Conn) { write("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n")(c); silent(c) }, HTTP{}, "down soft: status 500"},
		"deep JSON":              {write(ok + "\r\n" + strings.Repeat("[", 60000)), HTTP{JSONField: "a", JSONValue: "b"}, "down soft: the body is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			check := Check{Kind: "http", Target: "http://" + server(t, c.srv), Timeout: patient(c.want, 300*time.Millisecond), HTTP: &c.set}
			if strings.HasSuffix(name, "silence") { // it ends by the deadline
				check.Timeout = 300 * time.Millisecond
			}
			expect(t, run(t, check), c.want)
			if took := time.Since(began); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
	expect(t, run(t, Check{Kind: "http", Target: "http://" + loopback.Own(t).String()}), "down hard: connection refused by http://127.")
}

func TestHTTPMemory(t *testing.T) {
	var sent atomic.Int64
	addr := server(t, func(c net.Conn) {
		var b [4096]byte
		c.Read(b[:])
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
		piece := make([]byte, 1<<16)
		for {
			n, err := c.Write(piece)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	c := compiled(t, Check{Kind: "http", Target: "http://" + addr, Timeout: 5 * time.Second}, Env{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 5 {
		expect(t, c.Run(context.Background()), "up")
	}
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / 5; per > 1<<20 {
		t.Errorf("%d bytes allocated for one look at a 1 GB body", per)
	}
	if got := sent.Load(); got > 5*(64<<20) {
		t.Errorf("the server could send %d bytes", got)
	}
}

// A request is made on one connection that ends with the answer, whatever of it
// was read; what says only that an answer will come is passed over.
func TestHTTPOneConnection(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"early hints":                          {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "up"},
		"kept alive":                           {"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "up"},
		"answered before the request was over": {"HTTP/1.1 413 Too Large\r\n\r\n", "down soft: status 413"},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			addr := server(t, func(conn net.Conn) {
				var b [4096]byte
				n, _ := conn.Read(b[:])
				if !strings.Contains(string(b[:n]), "\r\nConnection: close\r\n") {
					t.Errorf("it asks to keep the connection: %q", b[:n])
				}
				io.WriteString(conn, c.answer)
				_, err := io.Copy(io.Discard, conn) // until the other end is closed
				ended <- err
			})
			expect(t, run(t, Check{Kind: "http", Target: "http://" + addr, Timeout: 10 * time.Second, HTTP: &HTTP{Method: "POST", Body: strings.Repeat("x", 8192)}}), c.want)
			<-ended
		})
	}
}
