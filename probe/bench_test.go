package probe

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/steadycast/steadycast"
	"golang.org/x/sys/unix"
)

// The servers of the benchmarks are another process, so that what is measured
// with getrusage is the prober's own.
const benchServers = "PROBE_TEST_SERVERS"

func serveBench() {
	l, err := net.Listen("tcp", "0.0.0.0:0") // for all of 127.0.0.0/8
	if err != nil {
		panic(err)
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(fmt.Sprintf("127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port), pc.LocalAddr())
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }() // ends with its parent
	go func() {
		b := make([]byte, 512)
		rr, _ := dns.NewRR("s1.bench.test. 60 IN A 192.0.2.1")
		for {
			n, from, err := pc.ReadFrom(b)
			q := new(dns.Msg)
			if err != nil || q.Unpack(b[:n]) != nil {
				continue
			}
			m := new(dns.Msg).SetReply(q)
			m.Answer = append(m.Answer, rr)
			out, _ := m.Pack()
			pc.WriteTo(out, from)
		}
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer c.Close()
			b := make([]byte, 1024)
			n, err := c.Read(b)
			if err == nil && bytes.HasSuffix(b[:n], []byte("\r\n\r\n")) {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n")
			}
		}()
	}
}

func startBench(b *testing.B) (tcp, udp string) {
	tcp, udp, _ = startServers(b)
	return tcp, udp
}

// startServers starts the other process; kill ends it as a crash would.
func startServers(b *testing.B) (tcp, udp string, kill func()) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), benchServers+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	f := strings.Fields(line)
	return f[0], f[1], func() { cmd.Process.Kill() }
}

func cpu() time.Duration {
	var r unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// spread gives addr on other addresses of the loopback, so that ports in
// TIME_WAIT do not run out.
func spread(addr string, i int) string {
	return strings.Replace(addr, "127.0.0.1", fmt.Sprintf("127.0.%d.1", i%200), 1)
}

func benchChecks(tcp, udp string) map[string]func(i int) Check {
	return map[string]func(i int) Check{
		"http": func(i int) Check { return Check{Kind: "http", Target: "http://" + spread(tcp, i) + "/health"} },
		"http match": func(i int) Check {
			return Check{Kind: "http", Target: "http://" + spread(tcp, i) + "/health", HTTP: &HTTP{Match: "^ok", Status: []string{"200"}}}
		},
		"tcp": func(i int) Check { return Check{Kind: "tcp", Target: spread(tcp, i)} },
		"dns": func(i int) Check { return Check{Kind: "dns", Target: udp, DNS: &DNS{Names: []string{"s1.bench.test"}}} },
	}
}

// BenchmarkProbe is what one attempt costs at saturation, on a new connection
// each: CPU time of this process, and how many attempts one core could make.
func BenchmarkProbe(b *testing.B) {
	tcp, udp := startBench(b)
	for _, kind := range []string{"http", "http match", "tcp", "dns"} {
		make1 := benchChecks(tcp, udp)[kind]
		b.Run(kind, func(b *testing.B) {
			const workers = 8
			b.ReportAllocs()
			began := cpu()
			var wg sync.WaitGroup
			for w := range workers {
				c := compiled(b, make1(w), Env{})
				n := b.N / workers
				wg.Go(func() {
					for range n {
						if r := c.Run(context.Background()); r.Outcome != steadycast.Up {
							b.Errorf("%+v", r)
							return
						}
					}
				})
			}
			wg.Wait()
			used := cpu() - began
			b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-us/probe")
			b.ReportMetric(float64(b.N)/used.Seconds(), "probes/s/core")
		})
	}
}

// BenchmarkScheduled is what attempts cost when they are paced: 100 services
// at one round a second, and 2000.
func BenchmarkScheduled(b *testing.B) {
	tcp, udp := startBench(b)
	for _, kind := range []string{"http", "tcp", "dns"} {
		for _, n := range []int{100, 2000} {
			b.Run(fmt.Sprintf("%s %d a second", kind, n), func(b *testing.B) {
				var all []Service
				for i := range n {
					c := benchChecks(tcp, udp)[kind](i)
					c.Name = "it"
					all = append(all, Service{Name: fmt.Sprint(i), Checks: []Check{c}})
				}
				s := NewScheduler(Options{OnResult: func(o steadycast.Observation, _ time.Duration) {
					if o.Result.Outcome != steadycast.Up {
						b.Errorf("%+v", o)
					}
				}})
				defer s.Stop()
				if err := s.Set(all); err != nil {
					b.Fatal(err)
				}
				<-time.After(time.Second)
				began, rounds := cpu(), s.Stats().Rounds
				start := time.Now()
				for range b.N {
					<-time.After(2 * time.Second)
				}
				used, made := cpu()-began, s.Stats().Rounds-rounds
				b.ReportMetric(float64(used.Microseconds())/float64(made), "cpu-us/probe")
				b.ReportMetric(100*used.Seconds()/time.Since(start).Seconds(), "%core")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkCrash is the time from the death of a service's process to the
// second failing round, at an interval of 1 s and a fast one of 10 ms.
func BenchmarkCrash(b *testing.B) {
	for _, wire := range []bool{false, true} {
		b.Run(fmt.Sprintf("tripwire %v", wire), func(b *testing.B) {
			var took []time.Duration
			for range b.N {
				tcp, _, kill := startServers(b)
				var s *Scheduler
				ups, failed := make(chan struct{}, 100), make(chan time.Time, 100)
				s = NewScheduler(Options{OnResult: func(o steadycast.Observation, _ time.Duration) {
					if o.Result.Outcome == steadycast.Up {
						ups <- struct{}{}
					} else {
						s.Pace("s", true)
						failed <- time.Now()
					}
				}})
				if err := s.Set([]Service{{Name: "s", FastInterval: 10 * time.Millisecond,
					Checks: []Check{{Name: "web", Kind: "http", Target: "http://" + tcp + "/health", Tripwire: wire}}}}); err != nil {
					b.Fatal(err)
				}
				<-ups
				if wire {
					eventually(b, "armed", func() bool { return s.Status()[0].Tripwire == "armed" })
				}
				<-time.After(rand.N(time.Second))
				began := time.Now()
				kill()
				<-failed
				took = append(took, (<-failed).Sub(began))
				s.Stop()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-max")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkEval is what deciding a round costs.
func BenchmarkEval(b *testing.B) {
	e, err := ParseExpr("up1 and (s1 or not h1) and at_least(2, up1, up2, u1)", names4())
	if err != nil {
		b.Fatal(err)
	}
	get := func(n string) steadycast.Result { return sample4[n] }
	b.Run("outcome", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e.outcome(get)
		}
	})
	b.Run("explained", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e.Eval(get)
		}
	})
}
