package bgp

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

const (
	// settleTime is how long a route may be missing at an established session
	// before that is an alarm.
	settleTime = 2 * time.Second
	// bfdSettleTime is the same for BFD, which starts with a packet a second.
	bfdSettleTime = 10 * time.Second
	// publishGap is the least time between two snapshots; it grows with what
	// one costs, so that ten thousand rows never take more than a tenth of a
	// core.
	publishGap = time.Millisecond
	// publishMost is the most that gap grows to.
	publishMost = 200 * time.Millisecond
)

// publish rebuilds the snapshot when something changed, and once a second for
// the counters.
func (s *Speaker) publish() {
	defer close(s.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		changed := true
		select {
		case <-s.dirty:
		case <-tick.C:
			changed = false
		case <-s.quit:
			s.build()
			s.onChange()
			return
		}
		began := time.Now()
		alarm := s.Actual().Alarm
		s.build()
		if changed || alarm != s.Actual().Alarm {
			s.onChange()
		}
		if changed {
			time.Sleep(min(max(publishGap, 10*time.Since(began)), publishMost))
		}
	}
}

// build makes a new snapshot of what every neighbour says.
func (s *Speaker) build() {
	s.mu.Lock()
	neighbors, set, appliedAt, way := s.neighbors, s.set, s.appliedAt, s.way()
	var late []string
	for name, l := range s.late {
		if l {
			late = append(late, name)
		}
	}
	s.mu.Unlock()
	a := &steadycast.Actual{Incarnation: set.Incarnation, Version: set.Version, Started: s.started, Path: way.path(), Toward: way.toward}
	var alarms []string
	slices.Sort(late)
	for _, name := range late {
		alarms = append(alarms, name+": GoBGP does not take the routes over")
	}
	carried := map[string]bool{}
	up := false
	for i, n := range neighbors {
		v := n.look()
		v.peer.BFD = n.watch.look()
		resolver := n.pusher.wanted()
		v.peer.Path, v.peer.OffPath = resolver.n.Path, !way.leads(resolver.n.Path)
		wanted := way.routesFor(resolver.n.Path)
		v.sent = markStale(v.sent, wanted, resolver)
		a.Peers = append(a.Peers, v.peer)
		if i == 0 {
			a.Sent = slices.Clip(v.sent)
		} else {
			a.Sent = append(a.Sent, v.sent...)
		}
		if v.peer.Up() && !v.peer.OffPath {
			up = true
			for _, f := range v.peer.Families {
				carried[f] = true
			}
		}
		if v.refusal != "" {
			alarms = append(alarms, n.cfg.Name+": "+v.refusal)
		}
		if p := n.pusher.trouble(); p != "" {
			alarms = append(alarms, n.cfg.Name+": GoBGP refused a route: "+p)
		}
		if b := v.peer.BFD; v.peer.Up() && b != nil && !b.Up() && time.Since(b.Since) > bfdSettleTime && time.Since(v.peer.Since) > bfdSettleTime {
			alarms = append(alarms, fmt.Sprintf("%s: BFD is %s: %s; only the hold time would notice that the router is gone", n.cfg.Name, b.State, b.Why))
		}
		if v.peer.Up() && time.Since(v.peer.Since) > settleTime && time.Since(appliedAt) > settleTime {
			if m := missing(wanted, v); m != "" {
				alarms = append(alarms, m)
			}
		}
	}
	if up {
		for _, f := range []string{familyIPv4, familyIPv6} {
			if i := slices.IndexFunc(set.Routes, func(r steadycast.Route) bool { return familyOf(r.Prefix.Addr()) == f }); i >= 0 && !carried[f] {
				alarms = append(alarms, fmt.Sprintf("%s is announced to nobody: no established session carries %s", set.Routes[i].Prefix, f))
			}
		}
	}
	a.Alarm = strings.Join(alarms, "; ")
	a.PathWait = s.proceed(way, set, a)
	s.actual.Store(a)
}

// missing says how many routes of a family the session carries are not out.
func missing(routes []steadycast.Route, v neighborView) string {
	want, have, row := 0, 0, 0
	var first steadycast.Route
	for _, r := range routes {
		if !slices.Contains(v.peer.Families, familyOf(r.Prefix.Addr())) {
			continue
		}
		want++
		for row < len(v.sent) && comparePrefix(v.sent[row].Prefix, r.Prefix) < 0 {
			row++
		}
		if row < len(v.sent) && v.sent[row].Prefix == r.Prefix && v.sent[row].Announced {
			have++
		} else if want-have == 1 {
			first = r
		}
	}
	if have == want {
		return ""
	}
	return fmt.Sprintf("%s: the session is up, and only %d of %d prefixes are announced (%s is not)", v.peer.Name, have, want, first.Prefix)
}
