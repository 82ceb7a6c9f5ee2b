package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// BenchmarkCommit is how long an agent waits for an entry, through its client,
// TLS and three voters with real disks on one machine.
//
// far: the same with voters and agents 50 ms (round trip) from each other.
func BenchmarkCommit(b *testing.B) {
	b.Run("near", func(b *testing.B) { commits(b, begun(b, nil, "ams", "fra", "lon")) })
	b.Run("far", func(b *testing.B) {
		c := newCluster(b, nil, "ams", "fra", "lon")
		c.wires.far = 25 * time.Millisecond
		c.init()
		commits(b, c)
	})
}

func commits(b *testing.B, c *cluster) {
	c.leader()
	cl := c.client("fra", nil)
	until(b, "the view", func() bool { return cl.View().Fence.Epoch == 1 })
	var took []time.Duration
	i := 0
	for b.Loop() {
		i++
		began := time.Now()
		state := []steadycast.State{steadycast.Healthy, steadycast.Suspect}[i%2]
		if err := cl.Report(b.Context(), []steadycast.Verdict{{Site: "fra", Service: "web", State: state}}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50_ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99_ms")
}

// BenchmarkFailOver is how long no entry is taken when the leader is gone: killed
// without a word, and handing over in order.
func BenchmarkFailOver(b *testing.B) {
	for _, way := range []string{"killed", "handed over"} {
		b.Run(way, func(b *testing.B) {
			ps := newProcesses(b, nil)
			cl := ps.client("fra")
			var took []time.Duration
			state := steadycast.Healthy
			for b.Loop() {
				b.StopTimer()
				lead := ps.leader(cl)
				ps.agree(cl)
				permits(b, cl, state)
				state = steadycast.Suspect + steadycast.Healthy - state
				p := ps.running[lead]
				b.StartTimer()
				if way == "killed" {
					_ = p.cmd.Process.Kill()
				} else {
					_ = p.in.Close()
				}
				took = append(took, permits(b, cl, state))
				b.StopTimer()
				p.ended(b)
				ps.start(lead)
				b.StartTimer()
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds(), "p50_s")
			b.ReportMetric(took[len(took)-1].Seconds(), "max_s")
		})
	}
}

// BenchmarkFailOverFar is the same with voters and agents 50 ms (round trip) from
// each other, and a leader that is cut off from all without a word. The way is
// delayed in this process, which holds the voters, too.
func BenchmarkFailOverFar(b *testing.B) {
	c := newCluster(b, nil, "ams", "fra", "lon")
	c.wires.far = 25 * time.Millisecond
	c.init()
	cl := c.client("fra", nil)
	var took []time.Duration
	state := steadycast.Healthy
	for b.Loop() {
		b.StopTimer()
		lead := c.leader().opts.Node
		c.agree()
		permits(b, cl, state)
		state = steadycast.Suspect + steadycast.Healthy - state
		others := []string{cl.opts.Node}
		for _, p := range c.peers {
			others = append(others, p.Node)
		}
		silence := func(yes bool) {
			for _, x := range others {
				if x != lead {
					c.wires.cut(lead, x, yes)
					c.wires.cut(x, lead, yes)
				}
			}
		}
		silence(true)
		b.StartTimer()
		took = append(took, permits(b, cl, state))
		b.StopTimer()
		silence(false)
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds(), "p50_s")
	b.ReportMetric(took[len(took)-1].Seconds(), "max_s")
}

// BenchmarkWatchers is what one entry costs a voter that 300 agents watch, at a
// table of 300 sites and 20 services each.
func BenchmarkWatchers(b *testing.B) {
	table := decide.Table{Revision: 1}
	for i := range 300 {
		table.Sites = append(table.Sites, decide.Place{Name: fmt.Sprintf("s%03d", i)})
	}
	for i := range 20 {
		table.Services = append(table.Services, decide.Service{Name: fmt.Sprintf("svc%02d", i), Prefixes: policy("x").Services[0].Prefixes})
	}
	f := decide.NewFleet()
	if _, err := f.Apply(decide.Entry{Kind: decide.KindGenesis, Schema: decide.Schema, Rules: decide.RulesLevel, Epoch: 1, Table: &table}); err != nil {
		b.Fatal(err)
	}
	var fed feed
	fed.add(f.View(), nil)
	at := f.Fence()
	sent := 0
	n := int64(0)
	for b.Loop() {
		n++
		r, err := f.Apply(decide.Entry{Kind: decide.KindVerdict, Schema: decide.Schema, Rules: decide.RulesLevel, Epoch: 1, LT: decide.Time(n),
			Verdicts: []steadycast.Verdict{{Site: "s007", Service: "svc07", State: steadycast.State(1 + n%2)}}})
		if err != nil || r.Invalid != "" {
			b.Fatal(err, r.Invalid)
		}
		fed.add(f.View(), r.Events)
		for range 300 {
			lines, _ := fed.since(at)
			for _, l := range lines {
				sent += len(l)
			}
		}
		at = f.Fence()
	}
	b.ReportMetric(float64(sent)/float64(n)/300, "bytes/watcher")
}
