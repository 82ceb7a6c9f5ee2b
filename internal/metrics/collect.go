package metrics

import (
	"cmp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// collector turns the newest snapshot into series at each scrape. It keeps
// nothing between scrapes but the count of its own failures.
type collector struct {
	snapshot func() *api.Snapshot
	failures atomic.Uint64
}

// Describe sends every metric of metrics.go.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range all {
		out <- m.desc
	}
}

// Collect sends the series of one snapshot. A panic ends the scrape early and
// is counted; it goes no further.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := sender{out: out, seen: map[string]bool{}}
	func() {
		defer func() {
			if recover() != nil {
				c.failures.Add(1)
			}
		}()
		if snap := c.snapshot(); snap != nil {
			s.daemon(snap)
			s.units(snap)
			s.ledger(snap)
			s.mesh(snap.Mesh)
			for i := range snap.Sites {
				s.site(&snap.Sites[i])
				s.paths(snap.Paths(snap.Sites[i].Name))
			}
		}
	}()
	s.put(metricsErrors, float64(c.failures.Load()))
}

// sender sends series, each combination of labels once: a second one would
// make the whole scrape fail.
type sender struct {
	out  chan<- prometheus.Metric
	seen map[string]bool
}

func (s *sender) fresh(m *metric, labels []string) bool {
	key := m.name + "\xff" + strings.Join(labels, "\xff")
	if s.seen[key] {
		return false
	}
	s.seen[key] = true
	return true
}

func (s *sender) put(m *metric, v float64, labels ...string) {
	if !s.fresh(m, labels) {
		return
	}
	if x, err := prometheus.NewConstMetric(m.desc, m.kind, v, labels...); err == nil {
		s.out <- x
	}
}

// moment sends a time, and nothing while it is not known.
func (s *sender) moment(m *metric, t time.Time, labels ...string) {
	if !t.IsZero() {
		s.put(m, float64(t.UnixNano())/1e9, labels...)
	}
}

// states sends one series per state, 1 for the one that holds.
func states(s *sender, m *metric, is string, every []string, labels ...string) {
	for _, st := range every {
		v := 0.0
		if st == is {
			v = 1
		}
		s.put(m, v, append(labels[:len(labels):len(labels)], st)...)
	}
}

func (s *sender) hist(m *metric, h *api.Histogram, labels ...string) {
	if !s.fresh(m, labels) {
		return
	}
	buckets := make(map[float64]uint64, len(api.Bounds))
	var n uint64
	for i, b := range api.Bounds {
		n += h.Counts[i]
		buckets[b.Seconds()] = n
	}
	if x, err := prometheus.NewConstHistogram(m.desc, h.Count(), h.Sum.Seconds(), buckets, labels...); err == nil {
		s.out <- x
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s *sender) daemon(snap *api.Snapshot) {
	s.put(buildInfo, 1, snap.Version, runtime.Version())
	s.moment(startTime, snap.Started)
	s.put(configInfo, 1, strconv.FormatUint(snap.Config.Revision, 10), snap.Config.Hash)
	s.put(configOK, truth(snap.Config.LastError == ""))
	s.moment(configTime, snap.Config.LoadedAt)
	s.moment(loopRun, snap.Counts.LoopRan)
	s.put(dropped, float64(snap.Counts.Dropped))
	s.put(stateErrors, float64(snap.Counts.StateWriteErrors))
	of := map[string]int{}
	for i := range snap.Sites {
		of[snap.Sites[i].Name] = 0
	}
	for _, a := range snap.Alarms {
		of[a.Site]++
	}
	for site, n := range of {
		s.put(alarms, float64(n), site)
	}
}

func (s *sender) units(snap *api.Snapshot) {
	rows := snap.Rows()
	for i := range rows {
		r := &rows[i]
		s.put(prefixState, 1, r.Unit.Site, r.Unit.Prefix.String(), string(r.State))
	}
	for _, t := range api.Tallies(&snap.View, rows) {
		s.put(prefixAnnouncing, float64(t.Announcing), t.Prefix.String())
		s.put(prefixUnknown, float64(t.Unknown), t.Prefix.String())
	}
	for _, p := range snap.View.Prefixes {
		s.put(prefixFloor, float64(p.Floor), p.Prefix.String())
		s.put(prefixTroubled, float64(p.Troubled), p.Prefix.String())
	}
	for _, t := range snap.Counts.Transitions {
		s.put(transitions, float64(t.Count), t.Unit.Site, t.Unit.Prefix.String(), t.To, t.Cause)
	}
}

func (s *sender) ledger(snap *api.Snapshot) {
	s.put(ledgerUp, truth(snap.LedgerLost == ""))
	s.put(tableSkew, float64(snap.Skewed))
	s.put(onTrial, truth(snap.View.Trial != nil))
	for _, r := range snap.Counts.Refusals {
		s.put(refusals, float64(r.Count), r.Guard)
	}
	for _, u := range snap.View.Units {
		s.budget("site_budget", u.Unit.Site, u.Unit.Prefix.String(), u.BudgetUsed, u.BudgetLimit)
	}
	for _, p := range snap.View.Prefixes {
		s.budget("fleet_budget", "", p.Prefix.String(), p.FleetUsed, p.FleetLimit)
	}
	type key struct{ site, kind string }
	standing := map[key]int{}
	for _, p := range snap.View.Table.Sites {
		for _, k := range []steadycast.OrderKind{steadycast.OrderWithdraw, steadycast.OrderDrain, steadycast.OrderAnnounce} {
			standing[key{p.Name, k.String()}] = 0
		}
	}
	for _, o := range slices.Concat(snap.View.Orders, snap.View.NodeOrders) {
		if !o.Recovered {
			standing[key{o.Order.Site, o.Order.Kind.String()}]++
		}
	}
	for k, n := range standing {
		s.put(orders, float64(n), k.site, k.kind)
	}
	by := map[string]int{"person": 0, "breaker": 0}
	for _, f := range snap.View.Freezes {
		if f.Breaker {
			by["breaker"]++
		} else {
			by["person"]++
		}
	}
	for who, n := range by {
		s.put(freezes, float64(n), who)
	}
	type run struct{ plan, state string }
	runs := map[run]int{}
	for _, p := range snap.View.Table.Plans {
		for _, state := range []decide.PlanState{decide.PlanProposed, decide.PlanRunning, decide.PlanBack, decide.PlanComplete, decide.PlanRolledBack, decide.PlanDismissed, decide.PlanGivenUp} {
			runs[run{p.Name, string(state)}] = 0
		}
		runs[run{p.Name, "held"}] = 0
	}
	for _, r := range snap.View.Plans {
		if r.Hold != nil {
			runs[run{r.Plan.Name, "held"}]++
		} else {
			runs[run{r.Plan.Name, string(r.State)}]++
		}
	}
	for k, n := range runs {
		s.put(planRuns, float64(n), k.plan, k.state)
	}
	c := &snap.Counts
	for _, st := range []struct {
		stage string
		h     *api.Histogram
	}{{"detect", &c.Detect}, {"decide", &c.Decide}, {"announce", &c.Announce}, {"confirm", &c.Confirm}} {
		s.hist(decisionLatency, st.h, st.stage)
	}
}

func (s *sender) budget(guard, site, prefix string, used, limit int) {
	if limit == 0 {
		return // no such budget: a site alone has none of the fleet
	}
	s.put(budgetLimit, float64(limit), guard, site, prefix)
	s.put(budgetRemaining, float64(max(limit-used, 0)), guard, site, prefix)
}

// stateWords are those of what is believed of a service.
var stateWords = []string{"unknown", "healthy", "suspect", "unhealthy", "recovering"}

func (s *sender) site(site *api.Site) {
	s.moment(siteHeard, site.Heard, site.Name)
	s.put(speakerUp, truth(site.SpeakerLost == ""), site.Name)
	s.put(speakerStarts, float64(site.Actual.Started), site.Name)
	late := map[string]int{}
	for _, x := range site.Actual.Sent {
		if x.Acked.IsZero() {
			late[x.Peer]++
		}
	}
	for i := range site.Actual.Peers {
		s.peer(site, &site.Actual.Peers[i], late)
	}
	for _, v := range site.Actual.VIPs {
		s.put(vipUsable, truth(v.Present && v.Usable), site.Name, v.Address.String())
	}
	for i := range site.Units {
		u := &site.Units[i]
		s.put(prefixIntent, truth(u.Wanted), site.Name, u.Unit.Prefix.String())
		s.put(prefixProven, truth(u.Proven), site.Name, u.Unit.Prefix.String())
	}
	for i := len(site.Cuts) - 1; i >= 0; i-- { // of each unit the newest is sent, which comes first
		s.cut(&site.Cuts[i])
	}
	for i := range site.Services {
		v := &site.Services[i].Verdict
		states(s, serviceState, v.State.String(), stateWords, site.Name, v.Service)
		s.put(serviceHeld, truth(v.Held), site.Name, v.Service)
	}
	for i := range site.Checks {
		s.check(site.Name, &site.Checks[i])
	}
}

func (s *sender) paths(ps []decide.PathView) {
	for _, p := range ps {
		s.put(pathInUse, truth(p.InUse), p.Site, p.Path)
		if p.Service != "" {
			states(s, pathState, p.State.String(), stateWords, p.Site, p.Path)
		}
	}
}

func (s *sender) cut(c *api.Cut) {
	site, prefix := c.Unit.Site, c.Unit.Prefix.String()
	if s.seen["cut\xff"+site+"\xff"+prefix] {
		return
	}
	s.seen["cut\xff"+site+"\xff"+prefix] = true
	states(s, cutState, string(c.State), []string{"in progress", "complete", "failed", "unmeasured"}, site, prefix)
	stages := func(f *metric, decided, effect, migrated, lost time.Duration) {
		s.put(f, decided.Seconds(), site, prefix, "decided")
		s.put(f, lost.Seconds(), site, prefix, "lost")
		if effect > 0 {
			s.put(f, effect.Seconds(), site, prefix, "effect")
		}
		if migrated > 0 {
			s.put(f, migrated.Seconds(), site, prefix, "migrated")
		}
	}
	stages(cutSeconds, c.Decided, c.Effect, c.Migrated, c.Lost)
	if e := c.Earlier; e != nil {
		stages(cutMedian, e.Decided, e.Effect, e.Migrated, e.Lost)
	}
	if c.Counted && !c.Over {
		s.put(cutResidual, float64(c.Rest), site, prefix)
	}
}

func (s *sender) peer(site *api.Site, p *steadycast.Peer, late map[string]int) {
	// While the speaker is lost, nobody knows whether a session is up.
	up := p.Up() && site.SpeakerLost == ""
	s.put(sessionUp, truth(up), site.Name, p.Name)
	states(s, sessionState, p.State, []string{"idle", "connect", "open", "established", "stuck", "stopped"}, site.Name, p.Name)
	s.put(sessionFlaps, float64(p.Flaps), site.Name, p.Name)
	s.put(prefixesAdvertised, float64(p.Announced), site.Name, p.Name)
	s.put(unacknowledged, float64(late[p.Name]), site.Name, p.Name)
	s.put(messages, float64(p.MessagesIn), site.Name, p.Name, "in")
	s.put(messages, float64(p.MessagesOut), site.Name, p.Name, "out")
	s.put(updatesDropped, float64(p.UpdatesDropped), site.Name, p.Name)
	s.put(malformed, float64(p.Malformed), site.Name, p.Name)
	if b := p.BFD; b != nil {
		s.put(bfdUp, truth(b.Up() && site.SpeakerLost == ""), site.Name, p.Name)
		states(s, bfdState, b.State, []string{"admin-down", "down", "init", "up"}, site.Name, p.Name)
		s.put(bfdDowns, float64(b.Downs), site.Name, p.Name)
		s.put(bfdDetection, b.Detection.Seconds(), site.Name, p.Name)
		for i, n := range []uint64{b.Received, b.Sent, b.Dropped} {
			s.put(bfdPackets, float64(n), site.Name, p.Name, []string{"in", "out", "dropped"}[i])
		}
	}
}

func (s *sender) check(site string, c *api.Check) {
	outcomes := []string{"up", "down", "unknown"}
	subject := cmp.Or(c.Subject, site)
	states(s, checkStatus, c.Result.Outcome.String(), outcomes, site, subject, c.Service, c.Name)
	for i, n := range []uint64{c.Up, c.Down, c.Unknown} {
		s.put(checkResults, float64(n), site, subject, c.Service, c.Name, outcomes[i])
	}
	s.hist(checkDuration, &c.Took, site, subject, c.Service, c.Name)
	s.moment(checkSuccess, c.LastSuccess, site, subject, c.Service, c.Name)
	s.put(checkLag, c.Lag.Seconds(), site, subject, c.Service, c.Name)
}
