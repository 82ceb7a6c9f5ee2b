package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// place is one host of a site or witness, where most have one only: what serves
// there, and what the world sees of it. Its speaker is in speaker.go, its agent in
// agent.go; what the hosts of one site have to do with each other in nodes.go.
type place struct {
	w       *world
	i       int      // which host it is
	s       int      // which site; the first host of each site has the number of the site
	name    string   // of the site
	node    string   // of the daemon there
	group   []*place // all hosts of the site, in order of node
	witness bool
	ppm     int64

	up      bool
	demand  int64           // what its clients ask for, in the unit of capacities
	ill     []illness       // of each service of the table
	illAt   []time.Duration // since when the service here is ill as it can see itself; never if it is not
	lies    lie             // what its prober says of others
	broken  int             // faults of its prober, which its controls notice
	selfish int             // faults of its check of itself

	backAt steadycast.Fence // where the ledger stood when it was set back to an older disk
	unfit  bool             // it cannot carry out the table that is staged
	glass  *glass           // what a person did at the node; on its disk
	kept   *decide.View     // what its ledger had committed; on its disk
	keptAt time.Duration    // when that was written last

	speaker speaker
	agent   *agent
	starts  uint64 // of the agent; kept on disk
	deaths  int    // of the agent: what was meant for an earlier one is dropped

	peers []peer // whom it exchanges packets with
}

// illness counts the faults that a service suffers now, by what can be seen of them.
type illness struct{ hard, soft, path int }

// lie is what a lying prober says.
type lie uint8

const (
	honest  lie = iota
	saysBad     // of everybody
	saysGood
)

// peer is another place: one that this one watches, or that watches this one.
type peer struct {
	place   *place
	watched bool
}

func newPlace(w *world, i, site, node int, shape *rand.Rand) *place {
	conf := w.table.Sites[site]
	return &place{
		w: w, i: i, s: site, name: conf.Name, node: nodeName(conf.Name, node), witness: conf.Witness, ppm: shape.Int64N(2*maxDrift+1) - maxDrift,
		ill:     make([]illness, len(w.table.Services)),
		illAt:   slices.Repeat([]time.Duration{never}, len(w.table.Services)),
		demand:  20 + shape.Int64N(41),
		speaker: speaker{out: make([]bool, len(w.prefixes)), session: true},
	}
}

// meet finds whom the table makes it watch, and be watched by.
func (p *place) meet() {
	watchers := map[string]bool{}
	for _, v := range p.w.table.Vantages(p.name) {
		watchers[v] = true
	}
	for _, q := range p.w.places {
		if q.s == p.s {
			continue
		}
		watched := false
		for _, v := range p.w.table.Vantages(q.name) {
			watched = watched || !q.witness && v == p.name
		}
		if watched || watchers[q.name] && !p.witness {
			p.peers = append(p.peers, peer{q, watched})
		}
	}
}

// sees is what an honest probe of a service from here finds: of its own instance, or
// of another site, whose address leads to any of its instances that is well.
func (p *place) sees(q *place, service int) steadycast.Result {
	if p.s == q.s || !q.several() {
		return p.looksAt(q, service)
	}
	up, worst := 0, steadycast.Result{}
	for _, x := range q.group {
		if r := p.looksAt(x, service); r.Outcome == steadycast.Up {
			up++
		} else {
			worst = r
		}
	}
	if up >= q.least() {
		return steadycast.Result{Outcome: steadycast.Up}
	}
	return worst
}

// looksAt is what an honest probe of one instance finds. A probe that the network
// eats fails like one that the service does not answer.
func (p *place) looksAt(q *place, service int) steadycast.Result {
	w := p.w
	x := q.ill[service]
	reach := w.net.open(p.i, q.i) && w.net.open(q.i, p.i) && w.net.late[p.i][q.i]+w.net.late[q.i][p.i] < time.Second
	switch {
	case p == q && x.hard > 0:
		return steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard, Reason: "connection refused"}
	case p == q && (x.soft > 0 || p.selfish > 0):
		return steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Soft, Reason: "timeout"}
	case p == q:
		return steadycast.Result{Outcome: steadycast.Up}
	case !reach || !q.up || x.path > 0 || x.soft > 0:
		return steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Soft, Reason: "timeout"}
	case x.hard > 0:
		return steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard, Reason: "connection refused"}
	default:
		return steadycast.Result{Outcome: steadycast.Up}
	}
}

// boot starts everything on the host; off is how long it was without power,
// negative when it never ran.
func (p *place) boot(off time.Duration) {
	p.up = true
	p.speaker.start(p)
	p.startAgent(off)
}

// crash takes the power. Its routes go with its sessions, against its will.
func (p *place) crash() {
	p.up = false
	p.killAgent()
	p.speaker.stop(p)
}
