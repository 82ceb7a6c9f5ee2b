package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/steadycast/steadycast/dnsfallback"
	lo "github.com/steadycast/steadycast/internal/loopback"
)

// dnsZone is the zone that all servers serve: s0 to s99 are static, w0 to w9 are
// drawn by weight, g0 to g9 are chosen by the client's subnet.
const dnsZone = "bench.test"

var dnsWeights = []int{10, 20, 30, 40}

// answer is our server as a part: one worker at the address it is given.
func answer(args []string, words *bufio.Scanner) int {
	at := netip.MustParseAddrPort(args[0])
	z := dnsfallback.Zone{Name: dnsZone, NS: []string{"ns"}, Records: []string{"ns A 192.0.2.250"}}
	for i := range 100 {
		z.Records = append(z.Records, fmt.Sprintf("s%d 30 A 192.0.2.%d", i, i+1))
	}
	for i := range 10 {
		w := dnsfallback.Steered{Name: fmt.Sprintf("w%d", i), TTL: dnsfallback.TTL(30 * time.Second)}
		for k, weight := range dnsWeights {
			w.Members = append(w.Members, dnsfallback.Member{Name: fmt.Sprint(k), Site: fmt.Sprintf("site%d", k), Service: "web",
				Addresses: []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, byte(4*i + k + 1)})}, Weight: new(weight)})
		}
		g := w
		g.Name, g.Methods = fmt.Sprintf("g%d", i), []string{"topology", "ratio"}
		z.Names = append(z.Names, w, g)
	}
	maps, problems := dnsfallback.LoadMaps(nil, []dnsfallback.MapFile{{Name: "nets", File: args[1]}})
	policy, more := dnsfallback.NewPolicy(1, dnsfallback.Placement{Zones: []dnsfallback.Zone{z}}, dnsfallback.Known{})
	if problems = append(problems, more...); len(problems) > 0 {
		fmt.Println(problems)
		return 1
	}
	// The limiter works as it does by default, but for what one network may have.
	v, err := dnsfallback.Listen(dnsfallback.Settings{Listen: []netip.AddrPort{at}, Workers: 1, RateLimit: new(1_000_000)}, nil)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	up := map[string]dnsfallback.SiteState{}
	for k := range dnsWeights {
		up[fmt.Sprintf("site%d", k)] = dnsfallback.SiteState{Services: map[string]dnsfallback.ServiceState{"web": {V4: dnsfallback.Up, V6: dnsfallback.Up}}}
	}
	if err := v.Set(policy.Table(1, maps, dnsfallback.FleetState{At: time.Now(), Sites: up})); err != nil {
		fmt.Println(err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for words.Scan() {
		}
		cancel()
	}()
	if err := v.Serve(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

const dnsNets = "192.0.2.0/24 site0\n127.0.0.0/8 site1\n10.0.0.0/8 site2\n203.0.113.0/24 site3\n"

// dnsPeers start each server at an address of its own.
var dnsPeers = []struct {
	name  string
	start func(b *testing.B, at netip.AddrPort, dir string) *process
	sets  []string
}{
	{"steadycast", func(b *testing.B, at netip.AddrPort, dir string) *process {
		return partOf(b, "", "dns", at.String(), put(b, dir, "nets", dnsNets))
	}, []string{"static", "ratio", "topology"}},
	{"gdnsd", func(b *testing.B, at netip.AddrPort, dir string) *process {
		var weighted, geo, names strings.Builder
		for i := range 10 {
			fmt.Fprintf(&weighted, "w%d => {", i)
			for k, w := range dnsWeights {
				fmt.Fprintf(&weighted, " a%d => [ 198.51.100.%d, %d ]", k, 4*i+k+1, w)
			}
			fmt.Fprintln(&weighted, " }")
			fmt.Fprintf(&geo, "g%d => { map => m, dcmap => { a => 198.51.100.%d, b => 198.51.100.%d, c => 198.51.100.%d } }\n", i, 4*i+1, 4*i+2, 4*i+3)
			fmt.Fprintf(&names, "w%d 30 DYNA weighted!w%d\ng%d 30 DYNA geoip!g%d\n", i, i, i, i)
		}
		put(b, dir, "config", fmt.Sprintf(`options => { listen => %v, dns_port => %d, run_dir => %s/run, state_dir => %[3]s/state, udp_threads => 1, tcp_threads => 1 }
plugins => {
 weighted => { service_types => up
 %s }
 geoip => { service_types => up, maps => { m => { datacenters => [a,b,c], nets => { 192.0.2.0/24 => [a,b,c], 127.0.0.0/8 => [b,a,c], 10.0.0.0/8 => [c,a,b] } } }, resources => { %s } }
}`, at.Addr(), at.Port(), dir, weighted.String(), geo.String()))
		put(b, dir, "zones/"+dnsZone, staticZone()+names.String())
		for _, d := range []string{"run", "state"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
				b.Fatal(err)
			}
		}
		return start(b, "", nil, "gdnsd", "-c", dir, "start")
	}, []string{"static", "ratio", "topology"}},
	{"knot", func(b *testing.B, at netip.AddrPort, dir string) *process {
		put(b, dir, "zone", staticZone())
		return start(b, "", nil, "knotd", "-c", put(b, dir, "knot.conf", fmt.Sprintf(`
server:
    rundir: %[1]s
    listen: %[2]v@%[3]d
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
log:
  - target: stderr
    any: warning
database:
    storage: %[1]s
zone:
  - domain: bench.test
    file: %[1]s/zone
    zonefile-sync: -1
    journal-content: none
`, dir, at.Addr(), at.Port())))
	}, []string{"static"}},
	{"nsd", func(b *testing.B, at netip.AddrPort, dir string) *process {
		put(b, dir, "zone", staticZone())
		return start(b, "", nil, "nsd", "-d", "-c", put(b, dir, "nsd.conf", fmt.Sprintf(`
server:
    ip-address: %[2]v@%[3]d
    server-count: 1
    username: ""
    chroot: ""
    zonesdir: "%[1]s"
    pidfile: ""
    zonelistfile: "%[1]s/zone.list"
    xfrdfile: "%[1]s/xfrd.state"
    xfrdir: "%[1]s"
    database: ""
    minimal-responses: yes
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: bench.test
    zonefile: %[1]s/zone
`, dir, at.Addr(), at.Port())))
	}, []string{"static"}},
}

func staticZone() string {
	var z strings.Builder
	z.WriteString("$ORIGIN bench.test.\n$TTL 300\n@ 3600 IN SOA ns hostmaster 1 3600 600 1209600 60\n@ IN NS ns\nns IN A 192.0.2.250\n")
	for i := range 100 {
		fmt.Fprintf(&z, "s%d 30 IN A 192.0.2.%d\n", i, i+1)
	}
	return z.String()
}

func put(b *testing.B, dir, name, text string) string {
	b.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// dnsQuestions are the packets of a set.
func dnsQuestions(set string) [][]byte {
	var out [][]byte
	ask := func(name string, subnet []byte) {
		p := []byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}
		for l := range strings.SplitSeq(name+"."+dnsZone, ".") {
			p = append(append(p, byte(len(l))), l...)
		}
		p = append(p, 0, 0, 1, 0, 1)
		if subnet != nil {
			p[11] = 1
			p = append(p, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0)
			p = append(p, subnet...)
		}
		out = append(out, p)
	}
	for i := range 100 {
		switch set {
		case "static":
			ask(fmt.Sprintf("s%d", i), nil)
		case "ratio":
			ask(fmt.Sprintf("w%d", i%10), nil)
		case "topology":
			ask(fmt.Sprintf("g%d", i%10), [][]byte{{192, 0, 2}, {127, 0, 1}, {10, 5, byte(i)}}[i%3])
		}
	}
	return out
}

const (
	dnsFlows  = 4
	dnsWindow = 64
)

// flood asks n questions over UDP, a window of each flow's at a time, and
// returns how many were answered with an address.
func flood(b *testing.B, at netip.AddrPort, questions [][]byte, n int) int {
	var wg sync.WaitGroup
	answered := make([]int, dnsFlows)
	for f := range dnsFlows {
		c, err := net.Dial("udp4", at.String())
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			defer c.Close()
			p := ipv4.NewPacketConn(c.(*net.UDPConn))
			out, in := make([]ipv4.Message, dnsWindow), make([]ipv4.Message, dnsWindow)
			for i := range out {
				out[i].Buffers = [][]byte{slices.Clone(questions[(f+i)%len(questions)])}
				in[i].Buffers = [][]byte{make([]byte, 1500)}
			}
			for sent := 0; sent < n/dnsFlows; {
				for i := range out { // the next questions, of the same length or not
					out[i].Buffers[0] = append(out[i].Buffers[0][:0], questions[(f+sent+i)%len(questions)]...)
				}
				k, err := p.WriteBatch(out, 0)
				if err != nil {
					return
				}
				sent += k
				for back := 0; back < k; {
					c.SetReadDeadline(time.Now().Add(time.Second))
					got, err := p.ReadBatch(in, 0)
					if err != nil {
						break // lost: they are missing in the count
					}
					for _, m := range in[:got] {
						if a := m.Buffers[0]; m.N > 12 && a[3]&15 == 0 && binary.BigEndian.Uint16(a[6:]) > 0 {
							answered[f]++
						}
					}
					back += got
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, a := range answered {
		sum += a
	}
	return sum
}

// stream asks n questions over 8 connections, 12 at a time on each.
func stream(b *testing.B, at netip.AddrPort, questions [][]byte, n int) int {
	const connections, at12 = 8, 12
	var wg sync.WaitGroup
	answered := make([]int, connections)
	for f := range connections {
		c, err := net.Dial("tcp4", at.String())
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			defer c.Close()
			c.SetDeadline(time.Now().Add(2 * time.Minute))
			r := bufio.NewReaderSize(c, 1<<16)
			var out, in []byte
			for sent := 0; sent < n/connections; sent += at12 {
				out = out[:0]
				for i := range at12 {
					q := questions[(f+sent+i)%len(questions)]
					out = append(binary.BigEndian.AppendUint16(out, uint16(len(q))), q...)
				}
				if _, err := c.Write(out); err != nil {
					return
				}
				for range at12 {
					var head [2]byte
					if _, err := io.ReadFull(r, head[:]); err != nil {
						return
					}
					in = slices.Grow(in[:0], 1<<16)[:binary.BigEndian.Uint16(head[:])]
					if _, err := io.ReadFull(r, in); err != nil {
						return
					}
					if in[3]&15 == 0 && binary.BigEndian.Uint16(in[6:]) > 0 {
						answered[f]++
					}
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, a := range answered {
		sum += a
	}
	return sum
}

// processorTime is what a process and its children have used, by the scheduler's
// own clock, of all their threads.
func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	var sum time.Duration
	pids := []string{strconv.Itoa(pid)}
	for i := 0; i < len(pids); i++ {
		tasks, _ := filepath.Glob("/proc/" + pids[i] + "/task/*")
		for _, t := range tasks {
			text, err := os.ReadFile(t + "/schedstat")
			if err != nil {
				continue
			}
			ns, _ := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
			sum += time.Duration(ns)
			children, _ := os.ReadFile(t + "/children")
			pids = append(pids, strings.Fields(string(children))...)
		}
	}
	return sum
}

// BenchmarkDNS asks our server and its peers the same questions in turns, and
// reports what an answer costs each of the processor, and ours in terms of theirs.
func BenchmarkDNS(b *testing.B) {
	const rounds = 5
	for _, c := range []struct {
		name, set string
		over      func(*testing.B, netip.AddrPort, [][]byte, int) int
		n         int
	}{
		{"udp/static", "static", flood, 60_000},
		{"udp/ratio", "ratio", flood, 60_000},
		{"udp/topology", "topology", flood, 60_000},
		{"tcp/static", "static", stream, 12_000},
	} {
		b.Run(c.name, func(b *testing.B) {
			questions := dnsQuestions(c.set)
			servers := startServers(b, c.set, questions)
			for round := range rounds + 1 {
				for _, s := range servers {
					before, began := processorTime(b, s.p.pid()), time.Now()
					got := c.over(b, s.at, questions, c.n)
					took := time.Since(began)
					used := processorTime(b, s.p.pid()) - before
					if got < c.n*9/10 {
						b.Fatalf("%s answered %d of %d:\n%s", s.name, got, c.n, s.p.tail())
					}
					if round > 0 { // the first warms up
						s.cost = append(s.cost, used/time.Duration(got/1000)) // of a thousand
						s.rate = append(s.rate, took/time.Duration(got/1000))
					}
				}
			}
			for _, s := range servers {
				b.ReportMetric(float64(s.cost.median().Nanoseconds())/1e6, "µs-cpu/"+s.name)
				b.ReportMetric(1e6/float64(s.rate.median().Microseconds()), "kq-s/"+s.name)
				if s != servers[0] {
					ratio(b, servers[0].cost, s.cost, s.name)
				}
			}
			done(b)
		})
	}
}

// dnsServer is one that runs, with what its answers cost.
type dnsServer struct {
	name string
	at   netip.AddrPort
	p    *process
	cost sample
	rate sample
}

// startServers starts those that have the names of a set, ours first, and waits
// until they answer.
func startServers(b *testing.B, set string, questions [][]byte) (servers []*dnsServer) {
	b.Helper()
	dir := running.folder(b, "")
	for _, peer := range dnsPeers {
		if !slices.Contains(peer.sets, set) {
			continue
		}
		if peer.name != "steadycast" {
			if _, err := lookPath(map[string]string{"gdnsd": "gdnsd", "knot": "knotd", "nsd": "nsd"}[peer.name]); err != nil {
				lack(b, err.Error())
			}
		}
		s := &dnsServer{name: peer.name, at: lo.Own(b)}
		s.p = peer.start(b, s.at, filepath.Join(dir, peer.name))
		for end := time.Now().Add(20 * time.Second); flood(b, s.at, questions, dnsFlows) == 0; {
			if time.Now().After(end) {
				b.Fatalf("%s does not answer:\n%s", peer.name, s.p.tail())
			}
			time.Sleep(50 * time.Millisecond)
		}
		servers = append(servers, s)
	}
	return servers
}

// paced asks ten questions each millisecond for d, and returns how long each
// answer took. A question without an answer counts as a second.
func paced(b *testing.B, at netip.AddrPort, questions [][]byte, d time.Duration) sample {
	c, err := net.Dial("udp4", at.String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	n := int(d/time.Millisecond) * 10
	sent, took := make([]atomic.Int64, n), make(sample, n)
	for i := range took {
		took[i] = time.Second
	}
	began := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		in := make([]byte, 1500)
		for got := 0; got < n; got++ {
			c.SetReadDeadline(began.Add(d + time.Second))
			k, err := c.Read(in)
			if err != nil || k < 12 {
				return
			}
			i := int(binary.BigEndian.Uint16(in))
			took[i] = time.Since(began) - time.Duration(sent[i].Load())
		}
	})
	var q []byte
	for i := 0; i < n; {
		if wait := time.Duration(i/10)*time.Millisecond - time.Since(began); wait > 0 {
			time.Sleep(wait)
		}
		for range 10 {
			q = append(q[:0], questions[i%len(questions)]...)
			binary.BigEndian.PutUint16(q, uint16(i))
			sent[i].Store(int64(time.Since(began)))
			if _, err := c.Write(q); err != nil {
				b.Fatal(err)
			}
			i++
		}
	}
	wg.Wait()
	return took
}

// BenchmarkDNSLatency asks each server ten thousand questions a second and
// reports the median and the 99th of a hundred of what an answer took.
func BenchmarkDNSLatency(b *testing.B) {
	const rounds = 5
	questions := dnsQuestions("static")
	servers := startServers(b, "static", questions)
	p99 := make([]sample, len(servers))
	for round := range rounds + 1 {
		for i, s := range servers {
			if took := paced(b, s.at, questions, time.Second); round > 0 {
				s.rate = append(s.rate, took.median())
				p99[i] = append(p99[i], took.quantile(0.99))
			}
		}
	}
	for i, s := range servers {
		b.ReportMetric(float64(s.rate.median().Nanoseconds())/1000, "µs/"+s.name)
		b.ReportMetric(float64(p99[i].median().Nanoseconds())/1000, "µs-p99/"+s.name)
	}
	done(b)
}

// lookPath finds a server, which may be where only root's path leads.
func lookPath(name string) (string, error) {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("there is no %s here", name)
}
