package probe

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/miekg/dns"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/loopback"
)

// answers reads a request and writes these bytes.
func answers(text string) func(net.Conn) {
	return func(c net.Conn) {
		c.Read(make([]byte, 4096))
		io.WriteString(c, text)
	}
}

func http200(head, body string) func(net.Conn) {
	return answers(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", len(body), head, body))
}

// A view is down only by its own word. However it fails otherwise, each of which is
// a failure of a service, it has said nothing.
func TestView(t *testing.T) {
	const short = 200 * time.Millisecond // for what is meant to run out
	gone, ok := "the route is not there", "192.0.2.1/32 via 10.0.0.1"
	refused := loopback.Own(t).String()
	zero := 0.0
	match := &HTTP{Match: "via", Identity: "X-Site: fra"}
	rcode := func(rcode int) func(*dns.Msg, bool) []byte {
		return func(q *dns.Msg, _ bool) []byte {
			m := new(dns.Msg)
			b, _ := m.SetRcode(q, rcode).Pack()
			return b
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"down": "down no route", "garbage": "\x00\xff", "empty": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := func(text string) []string { return []string{"/bin/sh", "-c", text} }
	addr, h := grpcServer(t, true)
	h.SetServingStatus("route", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	fra := "X-Site: fra\r\n"

	type view struct {
		name  string
		check Check
		want  string
	}
	var all []view
	add := func(want, name string, c Check) { all = append(all, view{name, c, want}) }
	overHTTP := func(want, name string, timeout time.Duration, handle func(net.Conn)) {
		add(want, "http "+name, Check{Kind: "http", Target: "http://" + server(t, handle), HTTP: match, Timeout: timeout})
	}
	overHTTP("up", "has it", 0, http200(fra, ok))
	overHTTP("down soft", "has it not", 0, http200(fra, gone))
	overHTTP("down soft", "404", 0, answers("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n"+fra+"\r\n"))
	overHTTP("down soft", "410", 0, answers("HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n"+fra+"\r\n"))
	overHTTP("unknown", "another's 404", 0, answers("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
	overHTTP("unknown", "another's answer", 0, http200("X-Site: lon\r\n", gone))
	overHTTP("unknown", "nobody's answer", 0, http200("", gone))
	for _, status := range []int{204, 301, 400, 401, 403, 408, 429, 500, 502, 503, 504} {
		overHTTP("unknown", fmt.Sprint(status), 0, answers(fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: 0\r\n%s\r\n", status, http.StatusText(status), fra)))
	}
	overHTTP("unknown", "empty", 0, http200(fra, ""))
	overHTTP("unknown", "garbage", 0, answers("\x00\x01\x02 what\r\n\r\n"))
	overHTTP("unknown", "nothing", 0, answers(""))
	overHTTP("unknown", "half a head", 0, answers("HTTP/1.1 200 OK\r\nX-Si"))
	overHTTP("unknown", "half a body", 0, answers("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n"+fra+"\r\n"+gone))
	overHTTP("unknown", "reset", 0, reset)
	overHTTP("unknown", "silence", short, silent)
	overHTTP("unknown", "a body that stops", short, func(c net.Conn) {
		answers("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n" + fra + "\r\n" + gone)(c)
		silent(c)
	})
	add("unknown", "http refused", Check{Kind: "http", Target: "http://" + refused, HTTP: match})
	add("unknown", "http slow", Check{Kind: "http", Target: "http://" + server(t, http200(fra, ok)), HTTP: &HTTP{Match: "via", MaxLatency: time.Nanosecond}})

	vector := func(result string) func(net.Conn) {
		return http200("Content-Type: application/json\r\n", `{"status":"success","data":{"resultType":"vector","result":[`+result+`]}}`)
	}
	query := func(want, name, empty string, timeout time.Duration, handle func(net.Conn)) {
		add(want, "prometheus "+name, Check{Kind: "prometheus", Target: "http://" + server(t, handle), Timeout: timeout, Prometheus: &Prometheus{Query: "route", Above: &zero, Empty: empty}})
	}
	query("up", "has it", "", 0, vector(`{"metric":{},"value":[1,"1"]}`))
	query("down soft", "has it not", "", 0, vector(`{"metric":{},"value":[1,"0"]}`))
	query("down soft", "has no data, which is down", "down", 0, vector(""))
	query("unknown", "has no data", "", 0, vector(""))
	query("unknown", "garbage", "down", 0, http200("", "\x00{"))
	query("unknown", "empty", "down", 0, http200("", ""))
	query("unknown", "503", "down", 0, answers("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"))
	query("unknown", "reset", "down", 0, reset)
	query("unknown", "silence", "down", short, silent)
	add("unknown", "prometheus refused", Check{Kind: "prometheus", Target: "http://" + refused, Prometheus: &Prometheus{Query: "route", Above: &zero, Empty: "down"}})

	names := &DNS{Names: []string{"1.2.0.192.origin.test"}, Type: "TXT"}
	for want, codes := range map[string][]int{
		"down soft": {dns.RcodeSuccess, dns.RcodeNameError},
		"unknown":   {dns.RcodeServerFailure, dns.RcodeRefused, dns.RcodeNotImplemented, dns.RcodeFormatError},
	} {
		for _, code := range codes {
			add(want, "dns "+dns.RcodeToString[code], Check{Kind: "dns", Target: dnsServer(t, rcode(code)), DNS: names})
		}
	}
	add("unknown", "dns refused", Check{Kind: "dns", Target: refused, DNS: names})
	add("unknown", "dns silence", Check{Kind: "dns", Target: dnsServer(t, func(*dns.Msg, bool) []byte { return nil }), DNS: names, Timeout: short})
	add("unknown", "dns garbage", Check{Kind: "dns", Target: dnsServer(t, func(q *dns.Msg, _ bool) []byte {
		b, _ := new(dns.Msg).SetReply(q).Pack()
		b[7] = 1 // an answer, of which this is the beginning
		return append(b, 0xc0)
	}), DNS: names})

	telnet := &TCP{Send: "show route\n", Expect: "via"}
	for name, c := range map[string]struct {
		handle  func(net.Conn)
		timeout time.Duration
		want    string
	}{
		"has it":        {answers(ok), 0, "up"},
		"has it not":    {answers(gone), 0, "down soft"},
		"nothing":       {answers(""), 0, "unknown"},
		"reset":         {reset, 0, "unknown"},
		"silence":       {silent, short, "unknown"},
		"half a answer": {func(c net.Conn) { answers(gone)(c); silent(c) }, short, "unknown"},
	} {
		add(c.want, "tcp "+name, Check{Kind: "tcp", Target: server(t, c.handle), TCP: telnet, Timeout: c.timeout})
	}
	add("unknown", "tcp refused", Check{Kind: "tcp", Target: refused, TCP: telnet})

	add("down soft", "grpc says no", Check{Kind: "grpc", Target: addr, GRPC: &GRPC{Service: "route"}})
	add("unknown", "grpc knows nothing of it", Check{Kind: "grpc", Target: addr, GRPC: &GRPC{Service: "other"}})
	add("unknown", "grpc refused", Check{Kind: "grpc", Target: refused, GRPC: &GRPC{Service: "route"}})
	add("unknown", "grpc reset", Check{Kind: "grpc", Target: server(t, reset), GRPC: &GRPC{Service: "route"}, Timeout: short})

	add("down soft", "exec 1", Check{Kind: "exec", Exec: &Exec{Argv: script("exit 1")}})
	add("unknown", "exec 2", Check{Kind: "exec", Exec: &Exec{Argv: script("exit 2")}})
	add("unknown", "exec killed", Check{Kind: "exec", Exec: &Exec{Argv: script("kill -9 $$")}})
	add("unknown", "exec hangs", Check{Kind: "exec", Exec: &Exec{Argv: script("sleep 60")}, Timeout: short})

	add("down soft", "file", Check{Kind: "file", Target: filepath.Join(dir, "down")})
	for _, name := range []string{"garbage", "empty", "missing"} {
		add("unknown", "file "+name, Check{Kind: "file", Target: filepath.Join(dir, name)})
	}
	add("unknown", "tls refused", Check{Kind: "tls", Target: refused})
	add("unknown", "tls reset", Check{Kind: "tls", Target: server(t, reset)})

	for _, v := range all {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c := v.check
			c.Name = "view"
			if c.Timeout == 0 {
				c.Timeout = 30 * time.Second
			}
			k, err := CompileView(c, Env{})
			if err != nil {
				t.Fatal(err)
			}
			r := k.Ask(t.Context())
			expect(t, r, v.want)
			if (r.Outcome == steadycast.Down) != (r.Class != steadycast.NoFailure) {
				t.Errorf("%+v", r)
			}
		})
	}
}
