package decide

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"pgregory.net/rapid"
)

// camp is a fleet of three sites of which the first, ams, has several nodes: real
// machines for each node and for the ledger, under one clock, with a network between
// the nodes of ams and to the ledger that can be bent.
type camp struct {
	t     failer
	table Table
	fleet *Fleet
	at    []*tent // the nodes of ams, then fra and nyc
	nodes int     // of ams
	now   Now
	mail  []letter
	sent  int
	seq   uint64
	gone  bool // no ledger
	delay func() Now
	say   func(format string, args ...any)
	check func(what string)
}

// tent is one node.
type tent struct {
	site, node string
	m          *Site
	inc        uint64
	began      Now
	well       bool
	set        steadycast.RouteSet
	cut        map[string]bool
	alone      int // times that it left alone
}

func (n *tent) name() string {
	if n.node != "" {
		return n.node
	}
	return n.site
}

func (n *tent) announces() bool { _, ok := n.set.Find(pipePrefix); return ok }

// newCamp is a site of several nodes and two others; mode is that of the site, or
// SITE/NODE of each level.
func newCamp(t failer, nodes, least int, mode string) *camp {
	none := time.Duration(0)
	mode, alone, _ := strings.Cut(mode, "/")
	c := &camp{t: t, fleet: NewFleet(), nodes: nodes, say: func(string, ...any) {}, check: func(string) {}}
	c.delay = func() Now { return 5 * time.Millisecond }
	c.table = Table{
		Revision: 1, Sites: []Place{{Name: "ams", MinNodes: least}, {Name: "fra"}, {Name: "nyc"}},
		Services: []Service{{Name: "web", Mode: mode, NodeMode: alone, Prefixes: []netip.Prefix{pipePrefix}, Health: Health{
			Interval: 200 * time.Millisecond, Rise: 3, HoldUp: 2 * time.Second, DownFor: &none,
		}}},
		Guards: Guards{
			Cooldown: 5 * time.Second, SiteBudget: 1000, SiteLongBudget: 1000, FleetBudget: 1000, LockCycles: 1000,
			BreakerWindow: 2 * time.Second, BreakerClear: 5 * time.Second,
		},
	}
	for i := range nodes {
		name := fmt.Sprintf("ams-%d", i+1)
		c.table.Sites[0].Nodes = append(c.table.Sites[0].Nodes, Node{Name: name, Mesh: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 7482)})
		c.at = append(c.at, &tent{site: "ams", node: name})
	}
	c.at = append(c.at, &tent{site: "fra"}, &tent{site: "nyc"})
	d := c.table.WithDefaults()
	c.apply(Entry{Kind: KindGenesis, Table: &d})
	for _, n := range c.at {
		n.well, n.cut = true, map[string]bool{}
		c.start(n)
	}
	c.run(40 * time.Second) // a node that has just started may have promised before
	for _, n := range c.at {
		if !n.announces() {
			t.Fatalf("%s does not announce after a quiet start\n%s", n.name(), c.why())
		}
	}
	return c
}

// keepsFloor ends the test where fewer sites announce than the floor.
func (c *camp) keepsFloor(what string) {
	sites := 0
	for _, p := range c.table.Sites {
		if c.siteAnnounces(p.Name) {
			sites++
		}
	}
	if sites < 2 {
		c.t.Fatalf("%s: %d sites announce; the floor is 2\n%s", what, sites, c.why())
	}
}

// start starts a node's agent; its speaker goes on with what it was told.
func (c *camp) start(n *tent) {
	off := Now(-1)
	if n.inc > 0 {
		off = time.Second
	}
	c.startAfter(n, off, c.now-Now(n.inc+1)*time.Hour) // nobody's clock is another's
}

// startAfter does the same for one that was off for so long, with a clock that began then.
func (c *camp) startAfter(n *tent, off, began Now) {
	n.inc++
	n.began = began
	n.m = NewSite(SiteOptions{Name: n.site, Node: n.node, Incarnation: n.inc, Table: c.table, Off: off, Fence: n.set.Fence})
	n.set.Incarnation = min(n.set.Incarnation, n.inc)
	c.step(n, Proved{Actual: c.actual(n)})
	if !c.gone {
		c.step(n, Committed{View: c.fleet.View()})
	}
}

func (c *camp) actual(n *tent) steadycast.Actual {
	p := pipe{sets: []steadycast.RouteSet{n.set}}
	return p.actual(0)
}

func (c *camp) apply(e Entry) Reply {
	e.Schema, e.Rules, e.Epoch, e.LT = Schema, RulesLevel, max(e.Epoch, c.fleet.Fence().Epoch, 1), Time(c.now/time.Millisecond)
	r, err := c.fleet.Apply(e)
	if err != nil {
		c.t.Fatalf("%s: %v", e.Kind, err)
	}
	for _, ev := range r.Events {
		if ev.Kind == steadycast.EventPermit || ev.Kind == steadycast.EventProof {
			c.say("ledger: %s %s → %s by %s", ev.Site, ev.From, ev.To, ev.Request)
		}
	}
	return r
}

// commit shows every node what the ledger holds.
func (c *camp) commit() {
	v := c.fleet.View()
	for _, n := range c.at {
		c.post(n, func() Input { return Committed{View: v} })
	}
}

// post delivers an input some time later, unless the node was restarted meanwhile.
func (c *camp) post(to *tent, in func() Input) {
	d, inc := c.delay(), to.inc
	if d < 0 {
		return
	}
	c.sent++
	c.mail = append(c.mail, letter{at: c.now + d, n: c.sent, make: func(Now) Input {
		if to.inc == inc {
			c.step(to, in())
		}
		return nil
	}})
}

// call carries something to the ledger, and perhaps its answer back.
func (c *camp) call(from *tent, f func() Input) {
	d := c.delay()
	if c.gone || d < 0 {
		return
	}
	c.sent++
	c.mail = append(c.mail, letter{at: c.now + d, n: c.sent, make: func(Now) Input {
		if c.gone {
			return nil
		}
		if in := f(); in != nil {
			c.post(from, func() Input { return in })
		}
		c.commit()
		return nil
	}})
}

func (c *camp) step(n *tent, in Input) {
	for _, e := range n.m.Step(c.now-n.began, in) {
		switch e := e.(type) {
		case Announce:
			was := n.announces()
			n.set = e.Set
			if is := n.announces(); is != was {
				word := "withdraws"
				why := ""
				if u := n.m.units[0]; true {
					why = u.reason
				}
				if is {
					word = "announces"
				} else if n.m.units[0].aside != "" {
					n.alone++
				}
				c.say("%s %s: %s", n.name(), word, why)
			}
			c.check(n.name() + " changed its routes")
			c.step(n, Proved{Actual: c.actual(n)})
		case Report:
			c.call(n, func() Input { c.apply(Entry{Kind: KindVerdict, Verdicts: e.Verdicts}); return nil })
		case Ask:
			c.call(n, func() Input {
				r := c.apply(Entry{Kind: KindDecide, Decide: &Decide{Requests: []steadycast.Request{e.Request}, Seen: c.seen()}})
				return Answered{Answer: r.Answers[0]}
			})
		case GiveUp:
			c.call(n, func() Input {
				c.apply(Entry{Kind: KindVoid, Give: &GiveUpEntry{Site: n.site, ID: e.ID, Units: e.Units}})
				return nil
			})
		case Tell:
			for _, to := range c.at[:c.nodes] {
				if to == n || n.cut[to.node] || e.To != "" && e.To != to.node {
					continue
				}
				said, kin := c.now, e.Kin
				c.post(to, func() Input { return Told{Node: n.node, From: said - to.began, Kin: kin} })
			}
		case Look:
			for _, of := range c.at[:c.nodes] {
				if of.node == e.Node {
					c.look(n, of)
				}
			}
		case Note:
			if g := e.Event.Guard; n.node != "" && g == minNodesGuard || e.Event.Kind == steadycast.EventAlarm && strings.HasPrefix(e.Event.Reason, n.node) {
				c.say("%s: %s", n.name(), e.Event.Reason)
			}
		}
	}
}

func (c *camp) result(well bool) steadycast.Result {
	if well {
		return steadycast.Result{Outcome: steadycast.Up}
	}
	return steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard, Reason: "refused"}
}

// look is one look of a node at a sibling's instance.
func (c *camp) look(n, of *tent) {
	if n == of || n.node == "" {
		return
	}
	c.seq++
	c.step(n, Observed{Observation: steadycast.Observation{
		Vantage: n.site, Node: n.node, Subject: n.site + "/" + of.node, Service: "web", Seq: c.seq, Result: c.result(of.well),
	}, From: c.now - n.began})
}

// served: enough nodes of the site are well, of those that no order takes out.
func (c *camp) served(site string) bool {
	well, serve := 0, 0
	for _, n := range c.at {
		o := c.fleet.s.nodeOrderOver(n.node, steadycast.Unit{Site: n.site, Prefix: pipePrefix})
		if n.site != site || o != nil && outBy(o.Order.Kind) {
			continue
		}
		serve++
		if n.well {
			well++
		}
	}
	place, _ := c.table.Place(site)
	return well >= min(place.leastNodes(), max(serve, 1))
}

// siteAnnounces: one of its nodes does.
func (c *camp) siteAnnounces(site string) bool {
	return slices.ContainsFunc(c.at, func(n *tent) bool { return n.site == site && n.announces() })
}

func (c *camp) seen() []Seen {
	s := Seen{Prefix: pipePrefix}
	for _, p := range c.table.Sites {
		if c.siteAnnounces(p.Name) {
			s.Announcing = append(s.Announcing, p.Name)
			if i, ok := c.fleet.s.verdict(p.Name, "web"); ok && c.fleet.s.Verdicts[i].Verdict.State == steadycast.Healthy {
				s.Healthy = append(s.Healthy, p.Name)
			}
		}
	}
	return []Seen{s}
}

// run lets time go by in rounds of probes; once a second each node beats, and
// tells its siblings how it is.
func (c *camp) run(d time.Duration) {
	for end := c.now + d; c.now < end; {
		c.now += 10 * time.Millisecond
		for {
			i := -1
			for j, l := range c.mail {
				if l.at <= c.now && (i < 0 || l.at < c.mail[i].at || l.at == c.mail[i].at && l.n < c.mail[i].n) {
					i = j
				}
			}
			if i < 0 {
				break
			}
			l := c.mail[i]
			c.mail = slices.Delete(c.mail, i, i+1)
			l.make(c.now)
		}
		if c.now%(200*time.Millisecond) == 0 {
			c.round()
		}
		for i, n := range c.at {
			if at, ok := n.m.Wake(); ok && c.now-n.began >= at {
				c.step(n, Tick{})
			}
			if (c.now+Now(i)*130*time.Millisecond)%time.Second == 0 {
				c.beat(n)
			}
		}
	}
}

func (c *camp) round() {
	for _, n := range c.at {
		c.seq++
		for _, o := range n.m.table.evidence(n.site, "web", c.seq, c.result(c.served(n.site))) {
			if o.Local() {
				o.Node, o.Result = n.node, c.result(n.well)
			}
			c.step(n, Observed{Observation: o, From: c.now - n.began})
		}
		for _, of := range c.at {
			if of.site == n.site {
				c.look(n, of)
			}
		}
	}
}

func (c *camp) beat(n *tent) {
	b := n.m.Beat()
	c.call(n, func() Input {
		for _, r := range b.Returned {
			if u := c.fleet.s.unit(n.site, pipePrefix); u.Phase == steadycast.Returning && u.Return == r.ID {
				c.apply(Entry{Kind: KindIn, Return: &r})
			}
		}
		u := c.fleet.s.unit(n.site, pipePrefix)
		if u.Phase == steadycast.Out && u.Auto && u.Permit.ID.Through(b.DeadThrough) && len(b.Announcing) > 0 {
			c.apply(Entry{Kind: KindVoid, Give: &GiveUpEntry{Site: n.site, ID: b.DeadThrough, Units: []steadycast.Unit{u.Unit}}})
		}
		c.apply(Entry{Kind: KindTick})
		return nil
	})
	if k, ok := n.m.Kin(c.now - n.began); ok {
		for _, to := range c.at[:c.nodes] {
			if to != n && !n.cut[to.node] {
				said := c.now
				c.post(to, func() Input { return Told{Node: n.node, From: said - to.began, Kin: k} })
			}
		}
	}
}

func (c *camp) why() string {
	text := ""
	for _, n := range c.at {
		x := n.m.Explain()
		text += fmt.Sprintf("%s: well %v announces %v: %+v\n  %s, %s\n", n.name(), n.well, n.announces(), x.Units, x.Services[0].Verdict.State, x.Services[0].Next)
	}
	return text
}

func (c *camp) find(name string) *tent {
	for _, n := range c.at {
		if n.name() == name {
			return n
		}
	}
	c.t.Fatalf("no node %s", name)
	return nil
}

// TestNodesText plays the scripts in testdata/nodes: a line at the margin is a
// command or a comment, what the nodes and the ledger do is indented below.
func TestNodesText(t *testing.T) {
	files, err := filepath.Glob("testdata/nodes/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			var c *camp
			for line := range strings.Lines(string(want)) {
				if strings.HasPrefix(line, " ") {
					continue
				}
				got.WriteString(line)
				w := strings.Fields(line)
				if len(w) == 0 || w[0][0] == '#' {
					continue
				}
				if w[0] == "nodes" { // nodes NUMBER min NUMBER [MODE[/NODEMODE]]
					var nodes, least int
					fmt.Sscan(w[1], &nodes)
					fmt.Sscan(w[3], &least)
					c = newCamp(t, nodes, least, strings.Join(w[4:], ""))
					began := c.now
					c.say = func(format string, args ...any) {
						fmt.Fprintf(&got, "    %v %s\n", c.now-began, fmt.Sprintf(format, args...))
					}
					continue
				}
				c.command(w, &got)
			}
			if got.String() != string(want) {
				if *updateSite {
					if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				t.Errorf("%s says otherwise (run with -update and read the change):\n%s", file, firstDifference(string(want), got.String()))
			}
		})
	}
}

// command: DURATION | dead|well|restart|lost NODE… | first | cut|mend NODE NODE | ledger off|on | show
// | order withdraw|drain|announce NODE [force] [for DURATION] | clear NODE
func (c *camp) command(w []string, out *strings.Builder) {
	if d, err := time.ParseDuration(w[0]); err == nil {
		c.run(d)
		return
	}
	switch w[0] {
	case "dead", "well":
		for _, n := range w[1:] {
			c.find(n).well = w[0] == "well"
		}
	case "restart":
		for _, n := range w[1:] {
			c.start(c.find(n))
		}
	case "lost": // its host was off for an hour
		for _, n := range w[1:] {
			n := c.find(n)
			n.set.Routes = nil
			c.startAfter(n, time.Hour, c.now)
		}
	case "first": // the first start of each, with nothing in the ledger
		for _, n := range c.at {
			n.set = steadycast.RouteSet{}
			n.inc = 0
		}
		c.mail = nil
		c.fleet = NewFleet()
		d := c.table.WithDefaults()
		c.apply(Entry{Kind: KindGenesis, Table: &d})
		for _, n := range c.at {
			c.startAfter(n, -1, c.now)
		}
	case "cut", "mend":
		a, b := c.find(w[1]), c.find(w[2])
		a.cut[w[2]], b.cut[w[1]] = w[0] == "cut", w[0] == "cut"
	case "ledger":
		c.ledger(w[1] == "on")
	case "order", "clear":
		c.orders(w, out)
	case "show":
		for _, n := range c.at[:c.nodes] {
			r, ok := n.set.Find(pipePrefix)
			text := fmt.Sprint(ok)
			if ok && r.Stance != steadycast.Normal {
				text = r.Stance.String()
			}
			fmt.Fprintf(out, "    %s announces=%s\n", n.name(), text)
		}
		fmt.Fprintf(out, "    the ledger counts ams %s\n", c.fleet.s.unit("ams", pipePrefix).Phase)
	default:
		c.t.Fatalf("no such command: %v", w)
	}
}

func (c *camp) ledger(on bool) {
	c.gone = !on
	for _, n := range c.at {
		if on {
			c.step(n, LedgerFound{})
		} else {
			c.step(n, LedgerLost{Reason: "no voter answers", At: c.fleet.Fence()})
		}
	}
	if on {
		c.commit()
	}
}

// TestNodesAnything: whatever dies, heals, restarts, is cut off, delayed or lost,
// nodes leave alone only while min_nodes others announce, the floor of two sites holds,
// and after a quiet time in which all is well everybody announces.
func TestNodesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 4).Draw(t, "nodes")
		least := rapid.IntRange(1, nodes-1).Draw(t, "min")
		c := newCamp(t, nodes, least, "")
		lossy := rapid.Bool().Draw(t, "lossy")
		c.delay = func() Now {
			if !lossy {
				return 5 * time.Millisecond
			}
			return Now(rapid.SampledFrom([]int{0, 5, 5, 5, 5, 5, 50, 500, 3000, -1}).Draw(t, "delay ms")) * time.Millisecond
		}
		before, withSite := make([]int, len(c.at)), -2*promiseFor-1
		c.check = func(what string) {
			stay, left := 0, false
			for i, n := range c.at[:nodes] {
				if n.announces() {
					stay++
				}
				left = left || n.alone > before[i]
				before[i] = n.alone
			}
			// Who promised to stay leaves with the site all the same.
			if u := c.fleet.s.unit("ams", pipePrefix); u.Phase != steadycast.In {
				withSite = c.now
			}
			if left && stay < least && c.now-withSite > 2*promiseFor {
				t.Fatalf("%s: it left alone, %d nodes announce and %d must\n%s", what, stay, least, c.why())
			}
			c.keepsFloor(what)
		}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			n := c.at[rapid.IntRange(0, nodes-1).Draw(t, "who")]
			switch rapid.SampledFrom([]string{"dead", "dead", "well", "all", "restart", "cut", "mend"}).Draw(t, "what") {
			case "dead":
				n.well = false
			case "well":
				n.well = true
			case "all":
				for _, n := range c.at[:nodes] {
					n.well = false
				}
			case "restart":
				c.start(n)
			case "cut":
				o := c.at[rapid.IntRange(0, nodes-1).Draw(t, "from")]
				n.cut[o.node], o.cut[n.node] = true, true
			case "mend":
				clear(n.cut)
			}
			c.run(Now(rapid.SampledFrom([]int{200, 400, 1000, 3000, 9000}).Draw(t, "ms")) * time.Millisecond)
		}
		c.delay = func() Now { return 5 * time.Millisecond }
		for _, n := range c.at {
			n.well = true
			clear(n.cut)
		}
		c.run(90 * time.Second)
		for _, n := range c.at {
			if !n.announces() {
				t.Fatalf("%s does not announce after a quiet time\n%s", n.name(), c.why())
			}
		}
	})
}
