package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/role"
)

// asProcess makes the test's own program a server of names: by the node.yaml that it names.
const asProcess = "STEADYCAST_TEST_NODE"

func TestMain(m *testing.M) {
	if file := os.Getenv(asProcess); file != "" {
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		load := func() (*config.Config, config.Problems) {
			return config.Load(config.Options{File: file, Env: []string{}})
		}
		cfg, ps := load()
		err := ps.Err()
		if err == nil {
			err = role.Run(context.Background(), role.Spec{Name: "dns", Logger: log}, func(ctx context.Context, p *role.Process) error {
				return Run(ctx, p, Options{Config: cfg, Load: load, Logger: log, Version: "test"})
			})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// table is a fleet.yaml of two sites, with www steered over them.
const table = `
sites:
  - {name: fra, address: [10.0.0.1], nodes: [{name: fra-1, mesh: "10.0.0.1:7482"}]}
  - {name: ams, address: [10.0.0.2], nodes: [{name: ams-1, mesh: "10.0.0.2:7482"}]}
services:
  - name: web
    prefixes: [192.0.2.80/32]
    checks: [{name: port, kind: tcp, target: "192.0.2.80:80"}]
    remote:
      checks: [{name: page, kind: http, target: "https://{address}/health", http: {host: www.example.com, identity: "X-Site: {site}"}}]
zones:
  - name: example.com
    ns: [ns.example.net.]
    records: [static A 192.0.2.99]
    names:
      - name: www
        service: web
        methods: [priority]
        members: [{site: fra, addresses: [192.0.2.1]}, {site: ams, addresses: [192.0.2.2]}]
        anycast: [192.0.2.80]
`

// view is what a ledger has committed at a position: all is well, but at the sites that are down.
func view(t testing.TB, index uint64, text string, down ...string) decide.View {
	t.Helper()
	fleet, ps := config.ParseTable("fleet.yaml", []byte(text))
	if err := ps.Err(); err != nil {
		t.Fatal(err)
	}
	tab := fleet.Table()
	tab.Source, tab.Revision = text, max(fleet.Revision, 1)
	v := decide.View{Fence: steadycast.Fence{Epoch: 1, Term: 1, Index: index}, Table: tab}
	for _, site := range []string{"ams", "fra"} {
		x := steadycast.Verdict{Site: site, Service: "web", State: steadycast.Healthy}
		for _, d := range down {
			if d == site {
				x.State, x.Reason = steadycast.Unhealthy, "refused"
			}
		}
		v.Verdicts = append(v.Verdicts, x)
		v.Units = append(v.Units, decide.UnitView{Unit: steadycast.Unit{Site: site, Prefix: netip.MustParsePrefix("192.0.2.80/32")}, Phase: steadycast.In})
	}
	return v
}

// fakeSource says what the test says.
type fakeSource struct {
	mu    sync.Mutex
	v     decide.View
	lost  time.Duration
	moved chan struct{}
	past  map[uint64]decide.Table

	viewed, asked atomic.Int32 // calls of View and of Lost
}

func newSource() *fakeSource {
	return &fakeSource{moved: make(chan struct{}, 1), past: map[uint64]decide.Table{}}
}

func (f *fakeSource) commit(v decide.View) {
	f.mu.Lock()
	f.v = v
	f.past[v.Table.Revision] = v.Table
	f.mu.Unlock()
	select {
	case f.moved <- struct{}{}:
	default:
	}
}

func (f *fakeSource) lose(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = d
}

func (f *fakeSource) View() decide.View {
	f.viewed.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.v
}
func (f *fakeSource) Watch() (<-chan struct{}, func()) { return f.moved, func() {} }
func (f *fakeSource) Lost() error {
	f.asked.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost == 0 {
		return nil
	}
	return &ledger.LostError{For: f.lost}
}

func (f *fakeSource) Revision(_ context.Context, r uint64) (decide.Table, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, ok := f.past[r]
	if !ok {
		return t, ledger.Invalid("it is not remembered")
	}
	return t, nil
}
func (f *fakeSource) Close() error { return nil }

// fakeAgent answers for /v1/view on a node's socket.
func fakeAgent(t testing.TB, dir string, v func() decide.View) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(dir, "agent.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/view" {
			api.Answer(w, nil, errors.New("nothing else is here"))
			return
		}
		now := v()
		out := api.Committed{}
		if r.URL.Query().Get("after") != now.Fence.String() {
			now.Table.Source = ""
			out.View = &now
		}
		api.Answer(w, out, nil)
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
}

// ask asks one question over UDP and gives the addresses, or what else came.
func ask(at netip.AddrPort, name string) string {
	m := new(dns.Msg)
	m.SetQuestion(name+".", dns.TypeA)
	r, _, err := (&dns.Client{Timeout: 2 * time.Second}).Exchange(m, at.String())
	if err != nil {
		return "error: " + err.Error()
	}
	var out []string
	for _, rr := range r.Answer {
		if a, ok := rr.(*dns.A); ok {
			out = append(out, a.A.String())
		}
	}
	if len(out) == 0 {
		return dns.RcodeToString[r.Rcode]
	}
	return strings.Join(out, " ")
}
