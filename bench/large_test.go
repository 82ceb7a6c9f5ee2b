package bench

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast/bgp/sink"
	ports "github.com/steadycast/steadycast/internal/loopback"
	"github.com/steadycast/steadycast/internal/pki"
)

// The large fleet: 300 sites of one node, 20 services of one prefix each, of which
// one site is real and three voters are. All else is a crowd (see crowd_test.go).
const (
	largeSites    = 300
	largeServices = 20
	largeVoters   = 3
	largeName     = "bench"
)

// large is where everybody of the large fleet is.
type large struct {
	dir           string
	port, web     uint16 // of every node's end of the mesh, and of every service
	calls, ears   [largeVoters]uint16
	table, binary string
}

// address of a site: each has one of its own in 127.0.0.0/8.
func (l *large) address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 1, byte(i / 200), byte(i%200 + 1)})
}

func largeSite(i int) string { return fmt.Sprintf("s%03d", i) }

// BenchmarkLargeFleet is what a voter and a node cost in a fleet of 300 sites with
// 20 services each, at steady state: everything announced, every site beats once a
// second to every voter, tells them the newest of what it sees of nine sites every
// ten seconds and follows the committed state; every two seconds a verdict changes.
// The node is an agent and its speaker: it looks at its own services and at those of
// nine sites, with a round every two seconds, and hears from its own nine vantages.
// Its peers are simulated by one process; the three voters and the node are the
// product's own, as an operator runs them. CPU is in percent of one core, memory what
// is resident; peak is the most that a voter ever had, at the start of all 300.
func BenchmarkLargeFleet(b *testing.B) {
	l := newLarge(b)
	r, err := sink.Listen(sink.Options{Address: loopback.String() + ":0", ASN: routerASN})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.Close() })
	voters := l.vote(b)
	b.Cleanup(func() {
		for _, v := range voters {
			if b.Failed() {
				b.Logf("── %s\n%s", v.name, v.tail())
			}
		}
	})
	crowd := partOf(b, "", "crowd", l.args()...)
	crowd.expect(b, 4*time.Minute, "ready", func(line string) bool { return line == "ready" })
	real := largeSites - 1
	file := l.node(b, real, fmt.Sprintf(`roles: [speaker, agent]
mesh: {listen: %[1]v:%[2]d}
bgp:
  asn: %[3]d
  router_id: 192.0.2.1
  allow: [198.18.0.0/15]
  neighbors:
    - {name: router, address: %[4]v, port: %[5]d, asn: %[6]d, local_address: 127.0.0.1, next_hop4: 127.0.0.1}
vip: {manage: off}
metrics: {listen: off}
`, l.address(real), l.port, edgeASN, r.Addr().Addr(), r.Addr().Port(), routerASN))
	speaker := start(b, "", nil, l.binary, "speaker", "-c", file)
	agent := start(b, "", nil, l.binary, "agent", "-c", file)
	for range largeServices { // one return at a time has the ledger's leave
		agent.expect(b, 2*time.Minute, "that it announces", func(line string) bool {
			return strings.Contains(line, "msg=route") && strings.Contains(line, "to=announced")
		})
	}
	<-time.After(15 * time.Second) // what the start has stirred up settles

	all := append([]*process{agent, speaker}, voters...)
	for b.Loop() {
		crowd.say(b, "count")
		before := make([]time.Duration, len(all))
		for i, p := range all {
			before[i] = cpu(b, p)
		}
		began := time.Now()
		<-time.After(30 * time.Second)
		wall := time.Since(began).Seconds()
		share := func(i int) float64 { return 100 * (cpu(b, all[i]) - before[i]).Seconds() / wall }
		b.ReportMetric(share(0)+share(1), "%core/node")
		b.ReportMetric(resident(b, agent), "MB/agent")
		b.ReportMetric(resident(b, speaker), "MB/speaker")
		most, peak, busy := 0.0, 0.0, 0.0
		for i, v := range voters {
			most, peak, busy = max(most, resident(b, v)), max(peak, highWater(b, v)), max(busy, share(2+i))
		}
		b.ReportMetric(most, "MB/voter")
		b.ReportMetric(peak, "MB/voter-peak")
		b.ReportMetric(busy, "%core/voter")
		crowd.say(b, "count")
		crowd.expect(b, time.Minute, "what was sent", func(line string) bool {
			var words, bytes, watched float64
			if n, _ := fmt.Sscanf(line, "sent %f words %f bytes watched %f", &words, &bytes, &watched); n != 3 {
				return false
			}
			b.ReportMetric(words/wall/largeVoters, "words/s/voter")
			b.ReportMetric(bytes/wall/largeVoters/1e3, "kB/s/voter")
			b.ReportMetric(watched/wall/(largeSites-1), "B/s/watcher")
			return true
		})
	}
	b.ReportMetric(0, "ns/op")
	done(b)
}

// newLarge makes the table, everybody's certificate and the places of all.
func newLarge(b *testing.B) *large {
	binary, err := product()
	if err != nil {
		b.Fatalf("building the product: %v", err)
	}
	l := &large{dir: running.folder(b, ""), binary: binary}
	l.port, l.web = ports.Own(b).Port(), ports.Own(b).Port()
	for i := range largeVoters {
		l.calls[i], l.ears[i] = ports.Own(b).Port(), ports.Own(b).Port()
	}
	a, err := pki.Init(filepath.Join(l.dir, "ca"), largeName, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	for i := range largeSites {
		id := pki.Identity{Site: largeSite(i), Node: largeSite(i) + "-1"}
		if _, err := a.Issue(id, filepath.Join(l.dir, "pki", largeSite(i)), pki.DefaultLife, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
	var t strings.Builder
	t.WriteString("sites:\n")
	for i := range largeSites {
		fmt.Fprintf(&t, "  - {name: %[1]s, address: [%[2]v], nodes: [{name: %[1]s-1, mesh: %[2]v:%[3]d}]}\n", largeSite(i), l.address(i), l.port)
	}
	t.WriteString("services:\n")
	for i, p := range serviceAddresses(largeServices) {
		fmt.Fprintf(&t, `  - name: svc%02d
    prefixes: [%v]
    health: {interval: 2s, fast_interval: 500ms, rise: 2, hold_up: 1s}
    checks: [{name: page, kind: http, target: "http://127.0.0.1:%d/"}]
    remote: {checks: [{name: page, kind: http, target: "http://{address}:%[3]d/"}]}
`, i, p, l.web)
	}
	fmt.Fprintf(&t, `controls:
  positive: [{name: a1, kind: http, target: "http://127.0.9.1:%[1]d/"}, {name: a2, kind: http, target: "http://127.0.9.2:%[1]d/"}, {name: a3, kind: http, target: "http://127.0.9.3:%[1]d/"}]
  negative: [{name: no, kind: tcp, target: "127.0.9.4:9"}]
guards: {cooldown: 1s}
`, l.web)
	l.table = filepath.Join(l.dir, "fleet.yaml")
	if err := os.WriteFile(l.table, []byte(t.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	return l
}

// node writes the node.yaml of a site.
func (l *large) node(b *testing.B, i int, rest string) string {
	dir := filepath.Join(l.dir, "at", largeSite(i))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	var t strings.Builder
	fmt.Fprintf(&t, "mode: fleet\nfleet: %s\nsite: %[2]s\nnode: %[2]s-1\ntable: %s\ntls: {dir: %s}\nledger:\n  peers:\n", largeName, largeSite(i), l.table, filepath.Join(l.dir, "pki", largeSite(i)))
	for v := range largeVoters {
		fmt.Fprintf(&t, "    - {node: %[1]s-1, address: %[2]v:%[3]d, failure_domain: %[1]s, mesh: %[2]v:%[4]d}\n", largeSite(v), l.address(v), l.calls[v], l.ears[v])
	}
	fmt.Fprintf(&t, "state_dir: %[1]s\nrun_dir: %[1]s\nsocket: %[1]s/agent.sock\nspeaker_socket: %[1]s/speaker.sock\n%[2]s", dir, rest)
	file := filepath.Join(dir, "node.yaml")
	if err := os.WriteFile(file, []byte(t.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	return file
}

// vote starts the voters and begins their ledger.
func (l *large) vote(b *testing.B) (out []*process) {
	operator := filepath.Join(l.dir, "operator")
	if err := command("sh", "-c", fmt.Sprintf("%s pki operator bench --role admin --out %s.key > %[2]s.pub", l.binary, operator)); err != nil {
		b.Fatal(err)
	}
	first := ""
	for v := range largeVoters {
		file := l.node(b, v, "roles: [ledger]\n")
		if first == "" {
			first = file
		}
		out = append(out, start(b, "", nil, l.binary, "ledger", "-c", file))
	}
	var err error
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); {
		if err = command(l.binary, "ledger", "init", l.table, "--operator", operator+".pub", "-c", first, "--reason", "first start"); err == nil {
			return out
		}
		<-time.After(200 * time.Millisecond)
	}
	b.Fatalf("beginning the ledger: %v\n%s", err, out[0].tail())
	return nil
}

// args tell the crowd where everybody is.
func (l *large) args() []string {
	out := []string{l.dir, strconv.Itoa(int(l.port)), strconv.Itoa(int(l.web))}
	for v := range largeVoters {
		out = append(out, strconv.Itoa(int(l.calls[v])), strconv.Itoa(int(l.ears[v])))
	}
	return out
}

// highWater is VmHWM in megabytes (10^6).
func highWater(b testing.TB, p *process) float64 { return status(b, p, "VmHWM:") }
