package agent

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/probe"
)

// TestWhoAnswers: a site that is out is met when one of a few answers is its own, with
// whatever status; others that answer are only asked, and where nobody answers, or
// the site is in, or this node has the address itself, nothing is said.
func TestWhoAnswers(t *testing.T) {
	var answer atomic.Pointer[func(n int) string]
	var n atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Site", (*answer.Load())(int(n.Add(1))))
		w.WriteHeader(http.StatusServiceUnavailable)
	})}}
	server.Start()
	defer server.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())

	p := netip.MustParsePrefix("127.0.0.9/32")
	fra, ams := steadycast.Unit{Site: "fra", Prefix: p}, steadycast.Unit{Site: "ams", Prefix: p}
	view := decide.View{Table: decide.Table{
		Sites:    []decide.Place{{Name: "ams"}, {Name: "fra", Nodes: []decide.Node{{Name: "fra-1"}, {Name: "fra-2"}}}, {Name: "eye", Witness: true}},
		Services: []decide.Service{{Name: "web", Sites: []string{"ams", "fra"}, Prefixes: []netip.Prefix{p}}},
	}, Units: []decide.UnitView{{Unit: ams, Phase: steadycast.In, Ever: true}, {Unit: fra, Phase: steadycast.Out, Ever: true}}}
	check := func(identity string) []probe.Check {
		return []probe.Check{probe.Check{Name: "who", Kind: "http", Target: "http://{address}:" + port + "/", Timeout: time.Second,
			HTTP: &probe.HTTP{Identity: "X-Site: " + identity, Status: []string{"100-599"}}}.WithDefaults()}
	}
	checks := check("{site}")
	w := newWhose("eye", func() decide.View { return view }, func() []probe.Check { return checks }, probe.Env{})
	says := func(f func(n int) string) { answer.Store(&f) }
	expect := func(name, want string) {
		t.Helper()
		n.Store(0)
		clear(w.asked)
		clear(w.met)
		w.round(t.Context())
		got := "nothing"
		if m := w.told(); m != nil {
			got = fmt.Sprint(m.Asked, m.Met)
		}
		if got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
	says(func(int) string { return "ams" })
	expect("another site answers", fmt.Sprint([]steadycast.Unit{fra}, []steadycast.Unit{}))
	if n.Load() != whoseTimes {
		t.Errorf("%d asks of a check that does not tell nodes apart", n.Load())
	}
	says(func(n int) string { return map[bool]string{true: "fra", false: "ams"}[n == whoseTimes] })
	expect("one answer in a few is its own", fmt.Sprint([]steadycast.Unit{fra}, []steadycast.Unit{fra}))
	checks = check("{node}")
	says(func(int) string { return "fra-2" })
	expect("one of its nodes", fmt.Sprint([]steadycast.Unit{fra}, []steadycast.Unit{fra}))
	checks = check("{site}")
	checks[0].Target = "http://127.0.0.8:" + port + "/"
	expect("an address of another prefix", "[] []")
	checks = check("{site}")
	w.site = "ams"
	expect("this node has the address itself", "[] []")
	w.site = "eye"
	view.Units[1].Phase = steadycast.Returning
	expect("it is on its way back", "[] []")
	view.Units[1].Phase = steadycast.Out
	checks = nil
	expect("this node does not ask", "nothing")
	checks = check("{site}")
	server.Close()
	expect("nobody answers", fmt.Sprint([]steadycast.Unit{fra}, []steadycast.Unit{}))
}

// TestAsking: what is asked for stands in the words of each kind, quoted where they
// are a regular expression, and in brackets where it is an address of IPv6 in a target.
func TestAsking(t *testing.T) {
	v6 := steadycast.Unit{Site: "fra.1", Prefix: netip.MustParsePrefix("2001:db8::53/128")}
	c := asking(probe.Check{Target: "{address}:53", DNS: &probe.DNS{Identity: "{node}"}, TCP: &probe.TCP{Expect: "^{site}$"}, TLS: &probe.TLS{ServerName: "{site}.example.net"},
		HTTP: &probe.HTTP{Identity: "X-Site: {site}", Match: "{site}"}, Exec: &probe.Exec{Argv: []string{"/bin/who", "{address}", "{site}"}}}, v6, "n-1")
	got := strings.Join([]string{c.Target, c.DNS.Identity, c.TCP.Expect, c.TLS.ServerName, c.HTTP.Identity, c.HTTP.Match, strings.Join(c.Exec.Argv, " ")}, " | ")
	if want := `[2001:db8::53]:53 | n-1 | ^fra\.1$ | fra.1.example.net | X-Site: fra.1 | fra\.1 | /bin/who 2001:db8::53 fra.1`; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	for target, want := range map[string]bool{
		"[2001:db8::53]:53": true, "http://[2001:db8::53]/": true, "[2001:db8::54]:53": false, "192.0.2.1:53": false, "https://192.0.2.1:8443/x": false, "": true, "2001:db8::53": true,
	} {
		if within(probe.Check{Target: target}, v6.Prefix) != want {
			t.Errorf("%q is within %s: %t", target, v6.Prefix, !want)
		}
	}
}
