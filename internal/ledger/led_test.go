package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// named has a node beat and say whom its server of names led where.
func (b *bench) named(site string, age int64, led ...decide.Led) {
	b.l.hear(b.now, decide.Beat{Site: site, Incarnation: 1, Announcing: []steadycast.Unit{{Site: site, Prefix: prefix}},
		Led: &decide.LedTold{AgeSeconds: age, Led: led}})
}

// TestLoadsByAnswers: where the table gives a load per answer, a site carries what all
// servers of names together lead to it; its own word comes first; in trouble it is
// what it was before; and a server that does not know makes the figure old.
func TestLoadsByAnswers(t *testing.T) {
	b := newBench(t, "ams", "fra", "lon")
	b.up("ams", "fra", "lon")
	for i := range b.l.view.Table.Sites {
		b.l.view.Table.Sites[i].LoadPerAnswer = 40
	}
	table := b.l.view.Table
	apply := func(e decide.Entry) {
		b.apply(e)
		b.l.view.Table = table
	}
	expect := func(want string) {
		t.Helper()
		if got := fmt.Sprint(b.l.loads(b.now)); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	expect("[]") // nobody counts
	to := func(site string, n int64) decide.Led { return decide.Led{Site: site, Service: "web", Count: n} }
	b.named("ams", 0, to("ams", 100), to("fra", 50))
	b.named("fra", 1, to("fra", 25), decide.Led{Site: "fra", Count: 1})
	expect("[{ams 400 1} {fra 304 1} {lon 0 1}]") // 10 answers a second at 40 each; 7.6 at 40

	b.carry("lon", 77, 0)
	expect("[{ams 400 1} {fra 304 1} {lon 77 0}]")

	e := b.l.entry(b.now, decide.KindVerdict)
	e.Verdicts = []steadycast.Verdict{{Site: "fra", Service: "web", State: steadycast.Suspect}}
	apply(e)
	b.now += time.Second
	b.named("ams", 0, to("ams", 175))
	b.named("fra", 0)
	expect("[{ams 700 0} {fra 304 0} {lon 77 1}]")

	b.now += time.Second
	b.named("ams", 0, to("ams", 100))
	b.named("fra", 90, to("ams", 100)) // heard, and its server has not answered for a while
	expect("[{ams 800 90} {fra 304 90} {lon 77 2}]")

	b.now += 6 * time.Second
	b.named("ams", 0, to("ams", 100)) // fra is silent: who asked it asks others
	expect("[{ams 400 0} {fra 200 0} {lon 77 8}]")

	b.now += time.Hour
	expect("[{ams 800 3696} {fra 304 3696} {lon 77 3608}]")
}
