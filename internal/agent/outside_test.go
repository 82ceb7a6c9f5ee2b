package agent

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/loopback"
	"github.com/steadycast/steadycast/probe"
)

// A view is asked about every prefix, and agrees only if what it knows is what
// is wanted; what it does not know is no contradiction.
func TestOutsideLooks(t *testing.T) {
	dir := t.TempDir()
	route := func(a string) string { return filepath.Join(dir, a) }
	write := func(a, text string) {
		if err := os.WriteFile(route(a), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, two := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	var mu sync.Mutex
	var told []string
	o := newOutside([]probe.Check{{Name: "table", Kind: "file", Target: route("{address}"), Timeout: time.Second}}, probe.Env{},
		func() time.Duration { return 7 * time.Second },
		func(name string, p netip.Prefix, r steadycast.Result, from time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%s %s %s %s", name, p, r.Outcome, from))
		})
	set := steadycast.RouteSet{Routes: []steadycast.Route{{Prefix: one}}}
	o.want(set, []netip.Prefix{one, two})
	for _, c := range []struct {
		name, one, two string
		agree          bool
	}{
		{"as wanted", "up", "down", true},
		{"a withdrawn route is still there", "up", "up", false},
		{"an announced route is not there", "down", "down", false},
		{"it does not know", "unknown", "unknown", true},
	} {
		write("192.0.2.1", c.one)
		write("192.0.2.2", c.two)
		told = nil
		if got := o.look(t.Context()); got != c.agree {
			t.Errorf("%s: agrees %v, want %v", c.name, got, c.agree)
		}
		slices.Sort(told)
		want := []string{"table 192.0.2.1/32 " + c.one + " 7s", "table 192.0.2.2/32 " + c.two + " 7s"}
		if !slices.Equal(told, want) {
			t.Errorf("%s: told %q, want %q", c.name, told, want)
		}
	}
}

// A view that fails has not said that a route is gone, of whatever kind it is and
// however it fails; one that answers has.
func TestOutsideWord(t *testing.T) {
	release := make(chan struct{})
	glass := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hangs":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/breaks":
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer glass.Close()
	defer close(release)
	const long, short = 30 * time.Second, 100 * time.Millisecond
	for _, c := range []struct {
		check probe.Check
		want  steadycast.Outcome
	}{
		{probe.Check{Kind: "http", Target: glass.URL + "/hangs", Timeout: short}, steadycast.Unknown},
		{probe.Check{Kind: "http", Target: glass.URL + "/breaks", Timeout: long}, steadycast.Unknown},
		{probe.Check{Kind: "http", Target: "http://" + loopback.Own(t).String() + "/{prefix}", Timeout: long}, steadycast.Unknown},
		{probe.Check{Kind: "exec", Exec: &probe.Exec{Argv: []string{"/bin/sleep", "60"}}, Timeout: short}, steadycast.Unknown},
		{probe.Check{Kind: "http", Target: glass.URL + "/gone", Timeout: long}, steadycast.Down},
		{probe.Check{Kind: "exec", Exec: &probe.Exec{Argv: []string{"/bin/false"}}, Timeout: long}, steadycast.Down},
	} {
		c.check.Name = "view"
		if r := newOutside(nil, probe.Env{}, nil, nil).ask(t.Context(), c.check, netip.MustParsePrefix("192.0.2.1/32")); r.Outcome != c.want {
			t.Errorf("%s %s: %+v, want %s", c.check.Kind, c.check.Target, r, c.want)
		}
	}
}

// The prefix is put into every place where it may stand; the configuration's own
// check stays as it is, for it is used for the next prefix too.
func TestAboutPrefix(t *testing.T) {
	c := probe.Check{
		Target: "http://lg/{prefix}", Exec: &probe.Exec{Argv: []string{"show", "{prefix}", "{address}"}},
		HTTP:       &probe.HTTP{Match: "^{prefix} via", NotMatch: "{address}", Body: "{address}"},
		Prometheus: &probe.Prometheus{Query: `bgp_route{prefix="{prefix}"}`},
	}
	got := about(c, netip.MustParsePrefix("192.0.2.0/24"))
	for _, k := range []struct{ got, want string }{
		{got.Target, "http://lg/192.0.2.0/24"},
		{strings.Join(got.Exec.Argv, " "), "show 192.0.2.0/24 192.0.2.0"},
		{got.HTTP.Match, `^192\.0\.2\.0/24 via`},
		{got.HTTP.NotMatch, `192\.0\.2\.0`},
		{got.HTTP.Body, "192.0.2.0"},
		{got.Prometheus.Query, `bgp_route{prefix="192.0.2.0/24"}`},
		{c.Exec.Argv[1], "{prefix}"}, {c.HTTP.Match, "^{prefix} via"}, {c.Prometheus.Query, `bgp_route{prefix="{prefix}"}`},
	} {
		if k.got != k.want {
			t.Errorf("got %q, want %q", k.got, k.want)
		}
	}
}

// Looks for whoever else serves a prefix are seldom, though somebody does all the
// time; a view that should agree and does not is asked every second.
func TestCalmLooks(t *testing.T) {
	for _, c := range []struct {
		calm        bool
		least, most int
	}{{true, 4, 6}, {false, 50, 62}} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "glass")
			if err := os.WriteFile(path, []byte("up"), 0o600); err != nil {
				t.Fatal(err)
			}
			var looks atomic.Int32
			o := newOutside([]probe.Check{{Name: "glass", Kind: "file", Target: path, Timeout: time.Second, File: &probe.File{MaxAge: 1000000 * time.Hour}}}, probe.Env{},
				func() time.Duration { return 0 }, func(string, netip.Prefix, steadycast.Result, time.Duration) { looks.Add(1) })
			o.calm = c.calm
			o.want(steadycast.RouteSet{}, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")})
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { o.run(ctx) })
			time.Sleep(time.Minute)
			cancel()
			wg.Wait()
			if n := int(looks.Load()); n < c.least || n > c.most {
				t.Errorf("calm %v: %d looks within a minute, want %d to %d", c.calm, n, c.least, c.most)
			}
		})
	}
}
