package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// backend records what reaches it and answers as it is told.
type backend struct {
	*Ring
	snap  *Snapshot
	reply decide.Reply
	now   []decide.SiteNow
	past  []decide.Past
	err   error
	hook  func()
	// stalled: the loop behind it has stopped.
	stalled bool

	mu    sync.Mutex
	calls []string // guarded by mu
}

func (b *backend) call(ctx context.Context, who Caller, format string, args ...any) {
	if _, ok := ctx.Deadline(); !ok {
		panic("a call without a deadline")
	}
	if b.hook != nil {
		b.hook()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, fmt.Sprintf(format, args...)+" by "+who.String())
}

func (b *backend) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.calls...)
}

func (b *backend) Snapshot() *Snapshot { return b.snap }
func (b *backend) Order(ctx context.Context, who Caller, o steadycast.Order, dry bool) (decide.Reply, error) {
	b.call(ctx, who, "order %s %s %v for=%s force=%v dry=%v actor=%s: %s", o.Kind, o.Site, o.Prefixes, o.For, o.Force, dry, o.Actor, o.Reason)
	return b.reply, b.err
}
func (b *backend) Do(ctx context.Context, who Caller, kind decide.Kind, sc decide.Scope, reason string, dry bool) (decide.Reply, error) {
	b.call(ctx, who, "%s %q %s dry=%v: %s", kind, sc.Site, sc.Prefix, dry, reason)
	return b.reply, b.err
}
func (b *backend) Carry(ctx context.Context, who Caller, signed decide.Signed) (decide.Reply, error) {
	b.call(ctx, who, "carry %s", signed.Text)
	return b.reply, b.err
}
func (b *backend) Revision(ctx context.Context, n uint64) (decide.Table, error) {
	b.call(ctx, Caller{}, "revision %d", n)
	return decide.Table{Revision: n}, b.err
}
func (b *backend) BreakGlass(ctx context.Context, who Caller, o steadycast.Order) error {
	b.call(ctx, who, "local %s %s: %s", o.Kind, o.Site, o.Reason)
	return b.err
}
func (b *backend) Guards(context.Context) ([]decide.Ruling, error) {
	r := b.reply.Rulings
	return r, b.err
}
func (b *backend) SitesNow(context.Context) ([]decide.SiteNow, error) { return b.now, b.err }
func (b *backend) History(context.Context) ([]decide.Past, error)     { return b.past, b.err }
func (b *backend) Enter(ctx context.Context, who Caller, w decide.Wish) (decide.Reply, error) {
	b.call(ctx, who, "enter %s", w.Kind)
	return b.reply, b.err
}
func (b *backend) Rehearse(ctx context.Context, w decide.Wish) (decide.Reply, error) {
	b.call(ctx, Caller{}, "try %s by %s", w.Kind, w.By)
	return b.reply, b.err
}
func (b *backend) Reload(ctx context.Context, who Caller, dry bool) (Reload, error) {
	b.call(ctx, who, "reload dry=%v", dry)
	return Reload{DryRun: dry}, b.err
}
func (b *backend) Clear(ctx context.Context, who Caller, what string) error {
	b.call(ctx, who, "clear %s", what)
	return b.err
}
func (b *backend) ProbeNow(ctx context.Context, who Caller, site, service string) error {
	b.call(ctx, who, "probe %s %s", site, service)
	return b.err
}
func (b *backend) Fault(ctx context.Context, who Caller, site, what string) error {
	b.call(ctx, who, "fault %s %s", site, what)
	return ErrNotDemo
}
func (b *backend) Events(after uint64) ([]steadycast.Event, <-chan struct{}) { return b.Since(after) }

// serve starts a server on a real socket and returns a client of it.
func serve(t *testing.T, b *backend) (*Client, string) {
	t.Helper()
	c, socket, _, _ := start(t, b)
	return c, socket
}

// start is serve with the server, its limits, and a way to stop it early.
func start(t *testing.T, b *backend, alter ...func(*limits)) (*Client, string, *Server, func() error) {
	t.Helper()
	if b.snap == nil {
		b.snap = fleet()
	}
	if !b.stalled {
		b.snap = live(b.snap)
	}
	if b.Ring == nil {
		b.Ring = NewRing(8)
	}
	dir, err := os.MkdirTemp("", "sc-api")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(b, Version{Version: "v0.1.0"}, slog.New(slog.DiscardHandler))
	for _, a := range alter {
		a(&s.limits)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l, path) }()
	stop := sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	c := NewClient(path)
	t.Cleanup(c.Close)
	return c, path, s, stop
}

// me is how the server must name this process, whatever a request claims.
func me() string {
	uid := uint32(os.Geteuid())
	return (Caller{Name: userName(uid), UID: uid}).String()
}

func userName(uid uint32) string {
	b, _ := os.ReadFile("/etc/passwd")
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Split(line, ":"); len(f) > 2 && f[2] == fmt.Sprint(uid) {
			return f[0]
		}
	}
	return ""
}

// raw sends one request as it is written.
func raw(t *testing.T, socket, method, target, body string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}, Timeout: 10 * time.Second}
	req, err := http.NewRequest(method, "http://x"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(out)
}

func TestRequests(t *testing.T) {
	b := &backend{}
	_, socket := serve(t, b)
	long := strings.Repeat("x", maxReason+1)
	tests := []struct {
		method, target, body string
		status               int
		contains             string
		call                 string // what must reach the backend; empty: nothing
	}{
		{"GET", "/livez", "", 200, "ok", ""},
		{"GET", "/readyz", "", 200, "ok", ""},
		{"GET", "/v1/version", "", 200, `"version":"v0.1.0"`, ""},
		{"GET", "/v1/status", "", 200, `"level":"degraded"`, ""},
		{"GET", "/v1/status?site=fra", "", 200, `"site":"fra"`, ""},
		{"GET", "/v1/status?site=nope", "", 404, `no site \"nope\"; sites: ams, fra, gru, iad, eye`, ""},
		{"GET", "/v1/status?sit=fra", "", 400, `unknown parameter \"sit\"; allowed: site`, ""},
		{"GET", "/v1/status?site=fra&site=ams", "", 400, "is given 2 times", ""},
		{"GET", "/v1/snapshot", "", 200, `"node":"ams-1"`, ""},
		{"GET", "/v1/sites", "", 200, `"site":"iad"`, ""},
		{"GET", "/v1/units?site=fra&prefix=192.0.2.0/24", "", 200, `"prefix":"192.0.2.0/24"`, ""},
		{"GET", "/v1/units", "", 400, "site is missing", ""},
		{"GET", "/v1/why?site=fra&prefix=192.0.2.0/24", "", 200, "connection refused by 192.0.2.1:443", ""},
		{"GET", "/v1/why?site=fra&prefix=192.0.2.7/24", "", 400, "did you mean 192.0.2.0/24?", ""},
		{"GET", "/v1/why?site=fra&prefix=web", "", 400, `\"web\" is not a prefix`, ""},
		{"GET", "/v1/why?site=fra&prefix=198.51.100.0/24", "", 404, "fra does not serve 198.51.100.0/24; prefixes: 192.0.2.0/24, 2001:db8:53::/48", ""},
		{"GET", "/v1/why?site=fra", "", 400, "site and prefix are needed", ""},
		{"GET", "/v1/orders", "", 200, "rack swap, CHG-4411", ""},
		{"GET", "/v1/peers?site=fra", "", 200, `"state":"connect"`, ""},
		{"GET", "/v1/routes?advertised=true&peer=tor1", "", 200, `"peer":"tor1"`, ""},
		{"GET", "/v1/routes?peer=tor9", "", 404, `no peer \"tor9\"`, ""},
		{"GET", "/v1/routes?advertised=yes", "", 400, "allowed: true, false", ""},
		{"GET", "/v1/checks?service=web", "", 200, `"service":"web"`, ""},
		{"GET", "/v1/checks?service=mail", "", 404, `no service \"mail\"; services: web, dns`, ""},
		{"GET", "/v1/nothing", "", 404, "no GET /v1/nothing here", ""},
		{"POST", "/v1/status", "", 404, "no POST /v1/status here", ""},
		{"GET", "/v1/events?site=nope", "", 404, `no site \"nope\"; sites: ams, fra`, ""},
		{"GET", "/v1/events?kind=foo", "", 400, `kind: \"foo\"; allowed: verdict, request, `, ""},
		{"GET", "/v1/events?after=x", "", 400, "is not an event's id", ""},

		{"POST", "/v1/orders", `{"kind":"withdraw","site":"fra","reason":"test","for":"2h","force":true,"prefixes":["192.0.2.0/24"]}`, 200, "the order ends by itself after 2h",
			"order withdraw fra [192.0.2.0/24] for=2h0m0s force=true dry=false actor=" + me() + ": test by " + me()},
		{"POST", "/v1/orders", `{"kind":"drain","site":"ams","reason":"test","dry_run":true}`, 200, "waits 3s, then withdraws it; 1 other site announces it: fra",
			"order drain ams [] for=0s force=false dry=true actor=" + me() + ": test by " + me()},
		{"POST", "/v1/orders", `{"kind":"drain","site":"fra","reason":"x","actor":"root"}`, 400, `unknown field \"actor\"`, ""},
		{"POST", "/v1/orders", `{"kind":"explode","site":"fra","reason":"x"}`, 400, `is not a order; allowed: none, withdraw, drain, announce`, ""},
		{"POST", "/v1/orders", `{"kind":"none","site":"fra","reason":"x"}`, 400, "kind is missing", ""},
		{"POST", "/v1/orders", `{"kind":"drain","reason":"x"}`, 400, "site is missing", ""},
		{"POST", "/v1/orders", `{"kind":"drain","site":"fra"}`, 400, "a change needs a reason", ""},
		{"POST", "/v1/orders", `{"kind":"drain","site":"fra","reason":"` + long + `"}`, 400, "at most 500", ""},
		{"POST", "/v1/orders", `{"kind":"drain","site":"fra","reason":"a\u001b[2Jb"}`, 400, "control characters", ""},
		{"POST", "/v1/orders", `{"kind":"drain","site":"fra","reason":"x","for":"soon"}`, 400, `\"soon\" is not a duration`, ""},
		{"POST", "/v1/orders", `{"kind":"drain","site":"fra","reason":"x","for":"-1h"}`, 400, "out of range", ""},
		{"POST", "/v1/orders", `{"kind":"drain","site":"nope","reason":"x"}`, 404, `no site \"nope\"`, ""},
		{"POST", "/v1/orders", `{"kind":"drain","site":"fra","reason":"x","prefixes":["198.51.100.0/24"]}`, 404, "does not serve", ""},
		{"POST", "/v1/orders", `{"kind":"drain","site":"fra","reason":"x"} {}`, 400, "more than one JSON value", ""},
		{"POST", "/v1/orders", `{"kind":"drain"`, 400, "not understood", ""},
		{"POST", "/v1/orders", ``, 400, "no body", ""},
		{"POST", "/v1/orders?x=1", `{"kind":"drain","site":"fra","reason":"x"}`, 400, "unknown parameter", ""},
		{"POST", "/v1/orders", `{"reason":"` + strings.Repeat("y", maxBody) + `"}`, 400, "over 65536 bytes", ""},
		{"POST", "/v1/orders/clear", `{"site":"gru","reason":"done"}`, 200, "ends: gru drain by maria", `order_clear "gru" invalid Prefix dry=false: done by ` + me()},
		{"POST", "/v1/orders/clear", `{"site":"ams","reason":"done"}`, 200, "no order stands over ams: nothing changes", `order_clear "ams" invalid Prefix dry=false: done by ` + me()},
		{"POST", "/v1/freeze", `{"reason":"storm"}`, 200, "automation changes nothing at every site until: steadycast thaw --reason TEXT", `freeze "" invalid Prefix dry=false: storm by ` + me()},
		{"POST", "/v1/thaw", `{"prefix":"192.0.2.0/24","reason":"over","dry_run":true}`, 200, "goes on at every site 192.0.2.0/24", `thaw "" 192.0.2.0/24 dry=true: over by ` + me()},
		{"POST", "/v1/unlock", `{"site":"fra","reason":"fixed"}`, 200, "the lock of fra is cleared", `unlock "fra" invalid Prefix dry=false: fixed by ` + me()},
		{"POST", "/v1/resume", `{"site":"fra","reason":"fixed"}`, 200, "fra may return", `resume "fra" invalid Prefix dry=false: fixed by ` + me()},
		{"POST", "/v1/clear", `{"what":"fence"}`, 200, `"done":true`, "clear fence by " + me()},
		{"POST", "/v1/clear", `{"what":"everything"}`, 400, "crash_loop, fence", ""},
		{"POST", "/v1/reload", `{"dry_run":true}`, 200, `"dry_run":true`, "reload dry=true by " + me()},
		{"POST", "/v1/probe", `{"site":"fra","service":"web"}`, 200, "true", "probe fra web by " + me()},
		{"POST", "/v1/probe", `{"service":"mail"}`, 404, "no service", ""},
		{"POST", "/v1/fault", `{"site":"fra","what":"kill"}`, 400, "not a demo", "fault fra kill by " + me()},
		{"POST", "/v1/fault", `{"site":"fra/fra-1","what":"kill"}`, 404, "the same with fra", ""}, // it has one node
		{"POST", "/v1/fault", `{"site":"fra"}`, 400, "are needed", ""},
	}
	for _, tt := range tests {
		name := tt.method + " " + tt.target + " " + tt.body
		t.Run(name[:min(len(name), 80)], func(t *testing.T) {
			before := len(b.seen())
			code, body := raw(t, socket, tt.method, tt.target, tt.body)
			if code != tt.status || !strings.Contains(body, tt.contains) {
				t.Errorf("answers %d %s; want %d with %s", code, body, tt.status, tt.contains)
			}
			if code != 200 && strings.HasPrefix(tt.target, "/v1") {
				var e Error
				if err := json.Unmarshal([]byte(body), &e); err != nil || e.Code == "" || e.Message == "" {
					t.Errorf("the error is not one: %s", body)
				}
			}
			calls := b.seen()[before:]
			if got := strings.Join(calls, "\n"); got != tt.call {
				t.Errorf("reached the backend: %q; want %q", got, tt.call)
			}
		})
	}
}

func TestRefusalNamesTheGuardAndTheWayPast(t *testing.T) {
	g := steadycast.GuardAnswer{Guard: "floor", Text: "1 of 4 would announce 192.0.2.0/24; floor 2", Override: "steadycast withdraw fra 192.0.2.0/24 --force: fewer sites than the floor will announce it"}
	u := steadycast.Unit{Site: "fra", Prefix: p4}
	for name, reply := range map[string]decide.Reply{
		"whole":       {Refused: &g, Rulings: []decide.Ruling{{Unit: u, Guards: []steadycast.GuardAnswer{g}}}},
		"every unit":  {Rulings: []decide.Ruling{{Unit: u, Guards: []steadycast.GuardAnswer{g}}}},
		"order alone": {Refused: &g},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := serve(t, &backend{reply: reply})
			err := c.Post(t.Context(), "orders", OrderRequest{Kind: steadycast.OrderDrain, Site: "fra", Reason: "it's time"}, new(Changed))
			var e *Error
			if !errors.As(err, &e) || e.Code != CodeRefused || e.Guard != "floor" || e.Override != g.Override ||
				e.Message != "refused by floor: 1 of 4 would announce 192.0.2.0/24; floor 2" ||
				e.Next != `steadycast drain fra --reason 'it'\''s time' --force` || e.Reply == nil {
				t.Errorf("%+v", e)
			}
		})
	}
	// One unit refused beside one granted: the change stands, and says what is missing.
	ok := decide.Ruling{Unit: steadycast.Unit{Site: "fra", Prefix: p6}, Permit: &steadycast.Permit{}}
	c, _ := serve(t, &backend{reply: decide.Reply{Rulings: []decide.Ruling{{Unit: u, Guards: []steadycast.GuardAnswer{g}}, ok}}})
	var got Changed
	if err := c.Post(t.Context(), "orders", OrderRequest{Kind: steadycast.OrderDrain, Site: "fra", Reason: "x"}, &got); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(got.Follows, "\n"), "not fra 192.0.2.0/24: refused by floor") {
		t.Errorf("%q", got.Follows)
	}
}

func TestOnlyTheKernelSaysWhoMayChange(t *testing.T) {
	b := &backend{snap: fleet(), Ring: NewRing(1)}
	h := NewServer(b, Version{}, slog.New(slog.DiscardHandler)).Handler()
	for _, who := range []any{nil, Caller{Name: "bob", UID: 1004}} {
		ctx := context.WithValue(t.Context(), callerKey{}, who)
		r, _ := http.NewRequestWithContext(ctx, "POST", "http://x/v1/freeze", strings.NewReader(`{"reason":"x"}`))
		r.Header.Set("X-Remote-User", "root")
		w := &recorder{header: http.Header{}}
		h.ServeHTTP(w, r)
		if w.code != http.StatusForbidden || !strings.Contains(w.body.String(), `"code":"forbidden"`) {
			t.Errorf("%v: %d %s", who, w.code, w.body.String())
		}
	}
	if calls := b.seen(); len(calls) > 0 {
		t.Errorf("reached the backend: %q", calls)
	}
}

type recorder struct {
	header http.Header
	code   int
	body   strings.Builder
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(c int)           { r.code = c }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

func TestAFaultInsideStopsNothingElse(t *testing.T) {
	b := &backend{}
	c, _ := serve(t, b)
	b.hook = func() { panic("boom") }
	err := c.Post(t.Context(), "freeze", ScopeRequest{Reason: "x"}, new(Changed))
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeFailed || strings.Contains(e.Message, "boom") {
		t.Errorf("got %v", err)
	}
	if err := c.Get(t.Context(), "status", nil, new(Status)); err != nil {
		t.Errorf("after a fault: %v", err)
	}
}

func TestNotReady(t *testing.T) {
	for name, alter := range map[string]func(*Snapshot){
		"ledger: disk full":       func(s *Snapshot) { s.LedgerLost = "disk full" },
		"speaker of fra: refused": func(s *Snapshot) { s.Sites[1].SpeakerLost = "refused" },
		"no site is heard yet":    func(s *Snapshot) { s.Sites = nil },
	} {
		s := fleet()
		alter(s)
		_, socket := serve(t, &backend{snap: s})
		if code, body := raw(t, socket, "GET", "/readyz", ""); code != 503 || strings.TrimSpace(body) != name {
			t.Errorf("%d %s; want 503 %s", code, body, name)
		}
	}
}

// A daemon that stopped looking is not ready, and does not go on telling its
// last state.
func TestAStalledDaemonKnowsNothing(t *testing.T) {
	c, socket := serve(t, &backend{stalled: true})
	if code, body := raw(t, socket, "GET", "/readyz", ""); code != 503 || !strings.HasPrefix(body, "the loop that decides has finished no step for ") {
		t.Errorf("%d %s", code, body)
	}
	var st Status
	if err := c.Get(t.Context(), "status", nil, &st); err != nil {
		t.Fatal(err)
	}
	for _, r := range st.Rows {
		if r.State != NotHeard {
			t.Errorf("%s is told to be %s", r.Unit, r.State)
		}
	}
	if st.Summary.Level == LevelOK {
		t.Error("all is told to be well")
	}
}

func TestEventsFollow(t *testing.T) {
	b := &backend{Ring: NewRing(8)}
	c, socket := serve(t, b)
	for i := range 12 {
		b.Add(steadycast.Event{Kind: steadycast.EventVerdict, Site: "fra", Reason: fmt.Sprint("n", i+1)})
	}
	// Without following: what the ring holds, then the end.
	var ids []uint64
	last, err := c.Events(t.Context(), "", false, nil, func(e steadycast.Event) error { ids = append(ids, e.ID); return nil })
	if err != nil || !strings.HasSuffix(last, "-12") || fmt.Sprint(ids) != "[5 6 7 8 9 10 11 12]" {
		t.Errorf("%v, last %s, %v", ids, last, err)
	}
	// A reader that comes back too late is told what it missed.
	var first steadycast.Event
	c.Events(t.Context(), "2", false, nil, func(e steadycast.Event) error { first = e; return io.EOF })
	if first.Kind != KindGap || first.Reason != "2 events could not be shown" {
		t.Errorf("%+v", first)
	}
	// A place of another start of the daemon, or an id of the future, begins anew.
	for _, place := range []string{"1-11", "99999"} {
		ids = nil
		c.Events(t.Context(), place, false, nil, func(e steadycast.Event) error { ids = append(ids, e.ID); return nil })
		if len(ids) != 8 {
			t.Errorf("after %s: %v", place, ids)
		}
	}
	// Its own place goes on.
	ids = nil
	c.Events(t.Context(), strings.Replace(last, "-12", "-10", 1), false, nil, func(e steadycast.Event) error { ids = append(ids, e.ID); return nil })
	if fmt.Sprint(ids) != "[11 12]" {
		t.Errorf("after its own place: %v", ids)
	}
	// Server-sent events, with the place a browser sends when it comes back.
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(conn, "GET /v1/events?follow=true HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nLast-Event-ID: 11\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	expect := func(want string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == "" {
				continue
			}
			if !strings.HasPrefix(lines.Text(), want) {
				t.Fatalf("got %q, want %q", lines.Text(), want)
			}
			return
		}
		t.Fatalf("the stream ended: %v", lines.Err())
	}
	expect("id: " + last)
	expect("event: verdict")
	expect(`data: {"id":12,`)
	b.Add(steadycast.Event{Kind: steadycast.EventRoute})
	expect("id: " + strings.Replace(last, "-12", "-13", 1))
	expect("event: route")
}

func TestAStreamEndsWithTheServer(t *testing.T) {
	b := &backend{}
	c, _, s, stop := start(t, b)
	got := make(chan error, 1)
	go func() {
		_, err := c.Events(t.Context(), "", true, nil, func(steadycast.Event) error { return nil })
		got <- err
	}()
	waitFor(t, "a stream", func() bool { return len(s.streams) == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	var gone *Unreachable
	if err := <-got; !errors.As(err, &gone) {
		t.Errorf("the follower of a server that stopped gets %v", err)
	}
}

// A stream lives longer than the time a request may take to arrive.
func TestAStreamOutlivesTheReadLimit(t *testing.T) {
	b := &backend{}
	_, socket, _, _ := start(t, b, func(l *limits) { l.read, l.beat = 50*time.Millisecond, 60*time.Millisecond })
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(conn, "GET /v1/events?follow=true HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
	r := bufio.NewReader(conn)
	for beats := 0; beats < 4; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("after %d beats: %v", beats, err)
		}
		if strings.HasPrefix(line, ": still here") {
			beats++
		}
	}
}

// A reader that never reads is let go, and delays no other.
func TestAReaderThatDoesNotReadIsLetGo(t *testing.T) {
	b := &backend{Ring: NewRing(64)}
	c, socket, s, _ := start(t, b, func(l *limits) { l.write = 100 * time.Millisecond })
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /v1/events?follow=true HTTP/1.1\r\nHost: x\r\n\r\n")
	waitFor(t, "a stream", func() bool { return len(s.streams) == 1 })
	fat := strings.Repeat("x", 60<<10)
	waitFor(t, "the end of the stream", func() bool {
		b.Add(steadycast.Event{Kind: steadycast.EventRoute, Reason: fat})
		if err := c.Get(t.Context(), "status", nil, new(Status)); err != nil {
			t.Fatal(err)
		}
		return len(s.streams) == 0
	})
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s in vain", what)
		}
		runtime.Gosched()
	}
}

func TestTooManyStreamsAreRefused(t *testing.T) {
	c, _ := serve(t, &backend{Ring: NewRing(8)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var open []io.Closer
	defer func() {
		for _, o := range open {
			o.Close()
		}
	}()
	for range maxStreams {
		resp, err := c.open(ctx, "GET", "events", map[string][]string{"follow": {"true"}}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, resp.Body)
	}
	_, err := c.open(ctx, "GET", "events", nil, nil, nil)
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeBusy {
		t.Fatalf("one stream too many: %v", err)
	}
	if err := c.Get(ctx, "status", nil, new(Status)); err != nil {
		t.Errorf("streams keep status away: %v", err)
	}
	// A place that is given back can be taken.
	open[0].Close()
	deadline := time.Now().Add(5 * time.Second)
	for {
		resp, err := c.open(ctx, "GET", "events", nil, nil, nil)
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead")
	l, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no daemon answers at " + filepath.Join(dir, "none") + " (no such file or directory)",
		dead:                       "no daemon answers at " + dead + " (connection refused)",
	} {
		err := NewClient(path).Get(t.Context(), "status", nil, new(Status))
		var u *Unreachable
		if !errors.As(err, &u) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
