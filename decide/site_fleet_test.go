package decide

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"pgregory.net/rapid"
)

// pipe is both machines and nothing between them that could fail: three sites
// that see each other, one ledger, speakers that do at once as they are
// told. What goes wrong here is a disagreement of the machines.
type pipe struct {
	t      failer
	fleet  *Fleet
	sites  []*Site
	up     []bool
	sets   []steadycast.RouteSet
	queue  []func()
	now    Now
	seq    uint64
	fewest int // sites that announced at once, at any time after boot
}

var pipePrefix = netip.MustParsePrefix("192.0.2.0/24")

func newPipe(t failer) *pipe {
	none := time.Duration(0)
	table := Table{
		Revision: 1,
		Services: []Service{{Name: "web", Prefixes: []netip.Prefix{pipePrefix}, Health: Health{
			Interval: 200 * time.Millisecond, Rise: 3, HoldUp: 2 * time.Second, DownFor: &none,
		}}},
		Guards: Guards{
			Cooldown: 5 * time.Second, SiteBudget: 1000, SiteLongBudget: 1000, FleetBudget: 1000, LockCycles: 1000,
			BreakerWindow: 2 * time.Second, BreakerClear: 5 * time.Second,
		},
	}
	for _, name := range []string{"ams", "fra", "nyc"} {
		table.Sites = append(table.Sites, Place{Name: name})
	}
	p := &pipe{t: t, fleet: NewFleet(), fewest: 3}
	d := table.WithDefaults()
	p.apply(Entry{Kind: KindGenesis, Table: &d})
	for _, s := range table.Sites {
		site := NewSite(SiteOptions{Name: s.Name, Incarnation: 1, Table: table, Off: -1})
		p.sites, p.up, p.sets = append(p.sites, site), append(p.up, true), append(p.sets, steadycast.RouteSet{})
	}
	for i := range p.sites {
		p.step(i, Proved{Actual: p.actual(i)})
	}
	p.commit()
	p.run(20 * time.Second)
	if n := p.announcing(); n != 3 {
		t.Fatalf("%d of 3 sites announce after a quiet start\n%s", n, p.why())
	}
	p.fewest = 3
	return p
}

// apply puts one entry into the ledger, at the same time as everywhere.
func (p *pipe) apply(e Entry) Reply {
	e.Schema, e.Rules, e.Epoch, e.LT = Schema, RulesLevel, 1, Time(p.now/time.Millisecond)
	r, err := p.fleet.Apply(e)
	if err != nil || r.Invalid != "" {
		p.t.Fatalf("%s: %v %s", e.Kind, err, r.Invalid)
	}
	return r
}

func (p *pipe) commit() {
	for i := range p.sites {
		p.step(i, Committed{View: p.fleet.View()})
	}
}

func (p *pipe) actual(i int) steadycast.Actual {
	a := steadycast.Actual{
		Incarnation: p.sets[i].Incarnation, Version: p.sets[i].Version, Started: 1,
		Peers: []steadycast.Peer{{Name: "router", State: "established"}},
	}
	for _, r := range p.sets[i].Routes {
		row := steadycast.Sent{Peer: "router", Prefix: r.Prefix, Announced: true, Acked: time.Unix(1, 0)}
		row.Attributes.Communities, row.Attributes.MED = r.Communities, r.MED
		a.Sent = append(a.Sent, row)
	}
	return a
}

func (p *pipe) step(i int, in Input) {
	for _, e := range p.sites[i].Step(p.now, in) {
		switch e := e.(type) {
		case Announce:
			p.sets[i] = e.Set
			p.fewest = min(p.fewest, p.announcing())
			p.queue = append(p.queue, func() { p.step(i, Proved{Actual: p.actual(i)}) })
		case Report:
			p.queue = append(p.queue, func() { p.apply(Entry{Kind: KindVerdict, Verdicts: e.Verdicts}); p.commit() })
		case Ask:
			p.queue = append(p.queue, func() {
				r := p.apply(Entry{Kind: KindDecide, Decide: &Decide{Requests: []steadycast.Request{e.Request}, Seen: p.seen()}})
				p.step(i, Answered{Answer: r.Answers[0]})
				p.commit()
			})
		case GiveUp:
			p.queue = append(p.queue, func() {
				p.apply(Entry{Kind: KindVoid, Give: &GiveUpEntry{Site: p.sites[i].name, ID: e.ID, Units: e.Units}})
				p.commit()
			})
		}
	}
}

// seen is what the beats say.
func (p *pipe) seen() []Seen {
	s := Seen{Prefix: pipePrefix}
	for _, site := range p.sites {
		if len(site.Beat().Announcing) > 0 {
			s.Announcing = append(s.Announcing, site.name)
			if site.Verdicts()[0].State == steadycast.Healthy {
				s.Healthy = append(s.Healthy, site.name)
			}
		}
	}
	return []Seen{s}
}

func (p *pipe) drain() {
	for len(p.queue) > 0 {
		f := p.queue[0]
		p.queue = p.queue[1:]
		f()
	}
}

// run lets time go by in rounds of probes, with a beat and a tick of the ledger each.
func (p *pipe) run(d time.Duration) {
	for end := p.now + d; p.now < end; {
		p.now += 200 * time.Millisecond
		for i, s := range p.sites {
			result := steadycast.Result{Outcome: steadycast.Up}
			if !p.up[i] {
				result = steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard, Reason: "refused"}
			}
			p.seq++
			for _, o := range s.table.evidence(s.name, "web", p.seq, result) {
				p.step(i, Observed{Observation: o, From: p.now})
				p.drain()
			}
		}
		for i, s := range p.sites {
			for _, r := range s.Beat().Returned {
				p.apply(Entry{Kind: KindIn, Return: &r})
				p.commit()
			}
			p.step(i, Tick{})
			p.drain()
		}
		p.apply(Entry{Kind: KindTick})
		p.commit()
		p.drain()
	}
}

func (p *pipe) announcing() (n int) {
	for i := range p.sets {
		if _, ok := p.sets[i].Find(pipePrefix); ok {
			n++
		}
	}
	return n
}

func (p *pipe) stances() string {
	text := ""
	for i := range p.sets {
		r, ok := p.sets[i].Find(pipePrefix)
		word := r.Stance.String()
		if !ok {
			word = "out"
		}
		text += word + " "
	}
	return text
}

func (p *pipe) why() string {
	text := ""
	for _, s := range p.sites {
		text += fmt.Sprintf("%+v\n", s.Explain().Units)
	}
	return text
}

func (p *pipe) want(what, stances string) {
	p.t.Helper()
	if got := p.stances(); got != stances {
		p.t.Errorf("%s: %s, want %s\n%s", what, got, stances, p.why())
	}
}

func TestPipeCrash(t *testing.T) {
	p := newPipe(t)
	p.up[1] = false
	p.run(400 * time.Millisecond)
	p.want("two certain failures later", "normal out normal ")
	p.up[1] = true
	p.run(time.Second)
	p.want("before rise and hold_up", "normal out normal ")
	p.run(10 * time.Second)
	p.want("after them and the cooldown", "normal normal normal ")
}

func TestPipeOneByOne(t *testing.T) {
	p := newPipe(t)
	p.up[0] = false
	p.run(10 * time.Second)
	p.want("the first", "out normal normal ")
	p.up[1] = false
	p.run(10 * time.Second)
	p.want("the second meets the floor", "out depreferred normal ")
	p.up[2] = false
	p.run(30 * time.Second)
	if p.announcing() < 2 {
		t.Errorf("the last ones left: %s", p.stances())
	}
	p.up = []bool{true, true, true}
	p.run(60 * time.Second)
	p.want("all well again", "normal normal normal ")
}

func TestPipeAllFail(t *testing.T) {
	p := newPipe(t)
	p.up = []bool{false, false, false}
	p.run(60 * time.Second)
	if p.fewest < 2 {
		t.Errorf("%d sites were left announcing when all failed at once", p.fewest)
	}
	p.up = []bool{true, true, true}
	p.run(60 * time.Second)
	p.want("all well again", "normal normal normal ")
}

// TestPipeAnything: whatever fails and heals, the floor of two holds at every
// moment (I1), and when all is well for long enough everybody announces (I8).
func TestPipeAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPipe(t)
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			i := rapid.IntRange(0, 2).Draw(t, "site")
			p.up[i] = !p.up[i]
			p.run(Now(rapid.SampledFrom([]int{200, 400, 600, 1000, 3000, 9000}).Draw(t, "ms")) * time.Millisecond)
		}
		if p.fewest < 2 {
			t.Fatalf("only %d sites announced", p.fewest)
		}
		p.up = []bool{true, true, true}
		p.run(40 * time.Second)
		if got := p.stances(); got != "normal normal normal " {
			t.Fatalf("after a quiet time: %s\n%s", got, p.why())
		}
	})
}

// failer is what a test and a property have in common.
type failer interface {
	Helper()
	Errorf(string, ...any)
	Fatalf(string, ...any)
}
