package bench

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/steadycast/steadycast/bgp/sink"
)

// BenchmarkIdle is what a node costs that has nothing to do but look: 100
// services of one prefix each, a probe a second each, one router. CPU is that of
// both processes, in percent of one core; memory is what is resident, and so
// counts the binary's pages that both share twice. Beside it run two least Go
// programs that open and close as many connections (see dial), one after the
// other and in batches as the node's scheduler does: what of the figure is the
// machine's and the runtime's, and not the node's.
func BenchmarkIdle(b *testing.B) {
	const n = 100
	p := pace{interval: time.Second, fast: 200 * time.Millisecond, fall: 3}
	for _, kind := range []string{"tcp", "http"} {
		b.Run(kind, func(b *testing.B) {
			r, err := sink.Listen(sink.Options{Address: loopback.String() + ":0", ASN: routerASN})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { r.Close() })
			t := newTarget(b, "", "0.0.0.0:0") // for all of 127.0.0.0/8
			_, port, _ := strings.Cut(t.address[strings.LastIndex(t.address, "]")+1:], ":")
			var services strings.Builder
			for i, x := range serviceAddresses(n) {
				at := fmt.Sprintf("127.0.1.%d:%s", i+1, port)
				if kind == "http" {
					at = "http://" + at + "/"
				}
				services.WriteString(p.service("s"+strconv.Itoa(i), kind, at, []netip.Prefix{x}))
			}
			node := newNode(b, "", "", r.Addr(), nodeAddress, services.String())
			heard(b, r, n, true)
			least := partOf(b, "", "dialler", port, strconv.Itoa(n), "1")
			batched := partOf(b, "", "dialler", port, strconv.Itoa(n), "25")
			<-time.After(3 * time.Second) // what the start has stirred up settles
			all := []*process{node.agent, node.speaker, least, batched}
			used := make([]sample, len(all)) // in each second
			for b.Loop() {
				const slices, slice = 5, 2 * time.Second
				for range slices {
					before := make([]time.Duration, len(all))
					for i, p := range all {
						before[i] = cpu(b, p)
					}
					began := time.Now()
					<-time.After(slice)
					for i, p := range all {
						used[i] = append(used[i], time.Duration(float64(cpu(b, p)-before[i])/time.Since(began).Seconds()))
					}
				}
			}
			agent, speaker := used[0], used[1]
			both := 100 * (agent.median() + speaker.median()).Seconds()
			b.ReportMetric(both, "%core")
			b.ReportMetric(100*agent.median().Seconds(), "%core/agent")
			b.ReportMetric(100*speaker.median().Seconds(), "%core/speaker")
			b.ReportMetric(100*used[2].median().Seconds(), "%core/least")
			b.ReportMetric(100*used[3].median().Seconds(), "%core/least-batched")
			ra, rs := resident(b, node.agent), resident(b, node.speaker)
			b.ReportMetric(ra+rs, "MB")
			b.ReportMetric(ra, "MB/agent")
			b.ReportMetric(rs, "MB/speaker")
			done(b)
		})
	}
}

// dial is the main function of the least prober: it connects to n addresses a
// second, evenly, so many at a time, and closes.
func dial(args []string, words *bufio.Scanner) int {
	n, err := strconv.Atoi(args[1])
	batch, err2 := strconv.Atoi(args[2])
	if err != nil || err2 != nil {
		fmt.Println(err, err2)
		return 2
	}
	one := func(i int) {
		d := net.Dialer{Timeout: time.Second}
		c, err := d.Dial("tcp", fmt.Sprintf("127.0.1.%d:%s", i+1, args[0]))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		c.Close()
	}
	go func() {
		tick := time.NewTicker(time.Second * time.Duration(batch) / time.Duration(n))
		for i := 0; ; {
			<-tick.C
			for range batch {
				if batch == 1 {
					one(i)
				} else {
					go one(i)
				}
				i = (i + 1) % n
			}
		}
	}()
	for words.Scan() {
	}
	return 0
}

// cpu is the time that a process has run, from its CPU clock: clock_getcpuclockid(3).
func cpu(b testing.TB, p *process) time.Duration {
	b.Helper()
	const scheduled = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^p.pid()<<3|scheduled), &ts); err != nil {
		b.Fatalf("%s: %v\n%s", p.name, err, p.tail())
	}
	return time.Duration(ts.Nano())
}

// resident is VmRSS in megabytes (10^6).
func resident(b testing.TB, p *process) float64 { b.Helper(); return status(b, p, "VmRSS:") }

// status is one of the figures of memory in proc_pid_status(5), in megabytes (10^6).
func status(b testing.TB, p *process, name string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			kib, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib * 1024 / 1e6
		}
	}
	b.Fatalf("%s has no %s", p.name, name)
	return 0
}
