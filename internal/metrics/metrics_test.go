package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/loopback"
)

// fleet is the snapshot that the api package keeps as the record of its wire form.
func fleet(t *testing.T) *api.Snapshot {
	t.Helper()
	b, err := os.ReadFile("../api/testdata/snapshot.json")
	if err != nil {
		t.Fatal(err)
	}
	s := new(api.Snapshot)
	if err := json.Unmarshal(b, s); err != nil {
		t.Fatal(err)
	}
	s.View.Table.Plans = []decide.Plan{{Name: "leave"}}
	s.View.Plans = []decide.PlanRun{{Plan: s.View.Table.Plans[0], State: decide.PlanComplete}}
	for i := range s.View.Table.Sites {
		if p := &s.View.Table.Sites[i]; p.Name == "fra" {
			p.Paths = []string{"direct", "scrubbed"}
		}
	}
	s.View.Table.Services = append(s.View.Table.Services, decide.Service{Name: "scrubber", Path: "scrubbed", Sites: []string{"fra"}})
	s.View.Verdicts = append(s.View.Verdicts, steadycast.Verdict{Site: "fra", Service: "scrubber", State: steadycast.Suspect})
	return s
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("scrape: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func page(t *testing.T, s *api.Snapshot) string {
	return scrape(t, Handler(func() *api.Snapshot { return s }, quiet()))
}

// Every metric of the file is on the page, and every one of ours on the page is
// in the file, with the kind and the help that the file gives.
func TestTheFileListsEveryMetric(t *testing.T) {
	text := page(t, fleet(t))
	var listed, shown []string
	for _, m := range all {
		listed = append(listed, m.name)
		kind := map[bool]string{true: "counter", false: "gauge"}[m.kind == counter]
		if m.kind == histogram {
			kind = "histogram"
		}
		for _, want := range []string{"# TYPE " + m.name + " " + kind + "\n", "# HELP " + m.name + " " + m.help + "\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (steadycast_\S+)`).FindAllStringSubmatch(text, -1) {
		shown = append(shown, match[1])
	}
	slices.Sort(listed)
	slices.Sort(shown)
	if !slices.Equal(listed, shown) {
		t.Errorf("listed %v\nshown  %v", listed, shown)
	}
	for _, other := range []string{"go_goroutines", "process_start_time_seconds"} {
		if !strings.Contains(text, "\n"+other+" ") {
			t.Errorf("%s is missing", other)
		}
	}
}

func TestPromtoolFindsNoFault(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool is missing: apt-get install prometheus")
		}
		t.Skip("promtool is missing: apt-get install prometheus")
	}
	cmd := exec.Command(tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(page(t, fleet(t)))
	if out, err := cmd.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

func TestValues(t *testing.T) {
	s := fleet(t)
	s.Counts.Detect = api.Histogram{}
	for _, d := range []time.Duration{time.Millisecond, 2 * time.Millisecond, time.Hour} {
		s.Counts.Detect.Observe(d)
	}
	text := page(t, s)
	for _, want := range []string{
		`steadycast_build_info{goversion="go1`,
		`steadycast_config_info{hash="9f2c",revision="7"} 1`,
		`steadycast_config_last_reload_successful 0`,
		`steadycast_bgp_session_up{peer="tor1",site="fra"} 1`,
		`steadycast_bgp_session_up{peer="tor2",site="fra"} 0`,
		`steadycast_bgp_session_state{peer="tor2",site="fra",state="connect"} 1`,
		`steadycast_bgp_session_state{peer="tor2",site="fra",state="established"} 0`,
		`steadycast_bgp_session_flaps_total{peer="tor2",site="fra"} 2`,
		`steadycast_bgp_unacknowledged{peer="tor1",site="fra"} 1`,
		`steadycast_bgp_malformed_messages_total{peer="tor2",site="fra"} 1`,
		`steadycast_prefix_state{prefix="192.0.2.0/24",site="fra",state="held"} 1`,
		`steadycast_prefix_state{prefix="192.0.2.0/24",site="iad",state="unknown"} 1`,
		`steadycast_prefix_intent{prefix="192.0.2.0/24",site="gru"} 0`,
		`steadycast_prefix_proven{prefix="2001:db8:53::/48",site="fra"} 0`,
		`steadycast_prefix_announcing_sites{prefix="192.0.2.0/24"} 2`,
		`steadycast_prefix_unknown_sites{prefix="192.0.2.0/24"} 1`,
		`steadycast_prefix_floor_sites{prefix="192.0.2.0/24"} 2`,
		`steadycast_route_transitions_total{cause="order",prefix="192.0.2.0/24",site="gru",to="withdrawn"} 1`,
		`steadycast_mesh_link_bytes_total{direction="out",peer="ams-1"} 2.1e+06`,
		`steadycast_table_skewed_nodes 1`,
		`steadycast_mesh_link_bytes_total{direction="in",peer="ams-1"} 61000`,
		`steadycast_mesh_link_rtt_seconds{peer="ams-1"} 0.0124`,
		`steadycast_mesh_link_backoff_seconds{peer="ams-1"} 0`,
		`steadycast_mesh_link_backoff_seconds{peer="gru-1"} 7.5`,
		`steadycast_orders{kind="drain",site="gru"} 1`,
		`steadycast_orders{kind="drain",site="fra"} 0`,
		`steadycast_freezes{by="breaker"} 1`,
		`steadycast_guard_refusals_total{guard="floor"} 3`,
		`steadycast_guard_budget_remaining{guard="site_budget",prefix="192.0.2.0/24",site="fra"} 1`,
		`steadycast_guard_budget_remaining{guard="fleet_budget",prefix="192.0.2.0/24",site=""} 0`,
		`steadycast_service_state{service="web",site="fra",state="unhealthy"} 1`,
		`steadycast_path_in_use{path="direct",site="fra"} 1`,
		`steadycast_path_in_use{path="scrubbed",site="fra"} 0`,
		`steadycast_path_state{path="scrubbed",site="fra",state="suspect"} 1`,
		`steadycast_check_status{check="https",service="web",site="fra",status="down",subject="fra"} 1`,
		`steadycast_check_results_total{check="https",service="web",site="fra",status="down",subject="fra"} 31`,
		`steadycast_decision_latency_seconds_bucket{stage="detect",le="0.001"} 1`,
		`steadycast_decision_latency_seconds_bucket{stage="detect",le="300"} 2`,
		`steadycast_decision_latency_seconds_bucket{stage="detect",le="+Inf"} 3`,
		`steadycast_decision_latency_seconds_count{stage="detect"} 3`,
		`steadycast_decision_latency_seconds_sum{stage="detect"} 3600.003`,
		`steadycast_ledger_up 1`,
		`steadycast_vip_usable{address="192.0.2.1/32",site="ams"} 1`,
		`steadycast_metrics_failures_total 0`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("missing %s", want)
		}
	}
}

// What is gone from the snapshot is gone from the page: a peer, a site, a check.
func TestTheGoneVanish(t *testing.T) {
	s := fleet(t)
	now := s
	h := Handler(func() *api.Snapshot { return now }, quiet())
	if before := scrape(t, h); !strings.Contains(before, `peer="tor2"`) || !strings.Contains(before, `site="iad"`) || !strings.Contains(before, `check="ask"`) {
		t.Fatal("the fixture has none of what is to vanish")
	}
	next := fleet(t)
	next.Sites = next.Sites[:3]
	next.View.Units = next.View.Units[:6]
	next.View.Table.Sites = next.View.Table.Sites[:3]
	for i := range next.Sites {
		next.Sites[i].Actual.Peers = next.Sites[i].Actual.Peers[:1]
		next.Sites[i].Checks = next.Sites[i].Checks[:1]
	}
	now = next
	after := scrape(t, h)
	for _, gone := range []string{`peer="tor2"`, `site="iad"`, `check="ask"`} {
		if strings.Contains(after, gone) {
			t.Errorf("%s is still there", gone)
		}
	}
}

// What is not known is absent, not zero.
func TestTheUnknownIsAbsent(t *testing.T) {
	s := fleet(t)
	s.Sites[0].Checks[0].LastSuccess = time.Time{}
	s.Counts.LoopRan = time.Time{}
	text := page(t, s)
	for _, absent := range []string{
		`steadycast_check_last_success_timestamp_seconds{check="https",service="web",site="ams",subject="ams"}`,
		"\nsteadycast_loop_last_run_timestamp_seconds ",
	} {
		if strings.Contains(text, absent) {
			t.Errorf("%s is shown", absent)
		}
	}
	if page(t, &api.Snapshot{}) == "" {
		t.Error("an empty snapshot gives an empty page")
	}
}

// A lost speaker's sessions are not shown as up.
func TestNoSessionIsUpBehindALostSpeaker(t *testing.T) {
	s := fleet(t)
	s.Sites[0].SpeakerLost = "connection refused"
	text := page(t, s)
	for _, want := range []string{`steadycast_bgp_session_up{peer="tor1",site="ams"} 0`, `steadycast_speaker_up{site="ams"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %s", want)
		}
	}
}

// A fault inside a scrape is counted, and the rest of the page stands.
func TestAFaultStopsNothing(t *testing.T) {
	broken := true
	s := fleet(t)
	h := Handler(func() *api.Snapshot {
		if broken {
			panic("a torn snapshot")
		}
		return s
	}, quiet())
	text := scrape(t, h)
	if !strings.Contains(text, "\nsteadycast_metrics_failures_total 1\n") || !strings.Contains(text, "\ngo_goroutines ") {
		t.Errorf("during the fault:\n%s", text)
	}
	broken = false
	if text = scrape(t, h); !strings.Contains(text, "\nsteadycast_ledger_up 1\n") || !strings.Contains(text, "\nsteadycast_metrics_failures_total 1\n") {
		t.Error("after the fault the page is not whole")
	}
	// No snapshot yet, and one that names a thing twice or in bytes that are no text.
	if text := page(t, nil); !strings.Contains(text, "go_goroutines") {
		t.Error("no page before the first snapshot")
	}
	twice := fleet(t)
	twice.Sites = append(twice.Sites, twice.Sites[0])
	twice.Sites[0].Actual.Peers = append(twice.Sites[0].Actual.Peers, twice.Sites[0].Actual.Peers[0])
	twice.Sites[1].Actual.Peers[0].Name = "tor\xff"
	if text := page(t, twice); !strings.Contains(text, "steadycast_ledger_up 1") || !strings.Contains(text, `check="ask",service="dns",site="iad"`) {
		t.Error("a name given twice, or no text, takes the page away")
	}
}

func TestServe(t *testing.T) {
	address := loopback.Own(t).String()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var said lines
	// The address is in use: nothing fails, it is said once.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Serve(ctx, address, func() *api.Snapshot { return nil }, slog.New(slog.NewTextHandler(&said, nil)))
	}()
	wait(t, func() bool { return strings.Contains(said.String(), "address already in use") })
	cancel()
	<-done
	l.Close()

	ctx, cancel = context.WithCancel(t.Context())
	done = make(chan struct{})
	s := fleet(t)
	go func() {
		defer close(done)
		Serve(ctx, address, func() *api.Snapshot { return s }, quiet())
	}()
	var body []byte
	wait(t, func() bool {
		resp, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err = io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == 200
	})
	if !bytes.Contains(body, []byte("steadycast_ledger_up 1")) {
		t.Errorf("%s", body)
	}
	// A scraper that connects and says nothing does not keep the end away.
	idle, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	cancel()
	<-done
}

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *lines) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func wait(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
		runtime.Gosched()
	}
}

// Ten thousand prefixes fit in a scrape's time many times over.
func BenchmarkScrape(b *testing.B) {
	s := &api.Snapshot{At: time.Now()}
	site := api.Site{Name: "fra", Heard: s.At}
	for i := range 10_000 {
		u := steadycast.Unit{Site: "fra", Prefix: prefix(i)}
		s.View.Units = append(s.View.Units, viewOf(u))
		site.Units = append(site.Units, api.Unit{Unit: u, Wanted: true, Proven: true})
	}
	s.Sites = []api.Site{site}
	h := Handler(func() *api.Snapshot { return s }, quiet())
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if w.Code != 200 {
			b.Fatal(fmt.Sprint(w.Code))
		}
	}
}

func prefix(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
}

func viewOf(u steadycast.Unit) decide.UnitView {
	return decide.UnitView{Unit: u, Phase: steadycast.In, Ever: true, BudgetLimit: 2}
}

// A node of a fleet looks at several sites by checks of one name: each has a
// series of its own.
func TestChecksOfOtherSites(t *testing.T) {
	s := fleet(t)
	own := s.Sites[0].Checks[0]
	for _, subject := range []string{"fra", "gru"} {
		c := own
		c.Subject = subject
		s.Sites[0].Checks = append(s.Sites[0].Checks, c)
	}
	text := page(t, s)
	for _, subject := range []string{s.Sites[0].Name, "fra", "gru"} {
		if want := fmt.Sprintf(`steadycast_check_status{check=%q,service=%q,site=%q,status="up",subject=%q}`, own.Name, own.Service, s.Sites[0].Name, subject); strings.Count(text, want) != 1 {
			t.Errorf("%d of %s", strings.Count(text, want), want)
		}
	}
}
