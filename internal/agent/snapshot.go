package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// publish makes a new snapshot of everything a person may ask. It runs in the
// owner's goroutine, after the effects of a step were carried out.
func (a *Agent) publish() {
	x := a.explain()
	wall := time.Now()
	site := api.Site{
		Name: a.o.Site, Heard: wall, Fence: x.Fence, SpeakerLost: a.lost, Actual: a.actual,
		Units: make([]api.Unit, 0, len(x.Units)), Services: make([]api.Service, 0, len(x.Services)),
	}
	bad := a.troubles(x)
	for _, u := range x.Units {
		site.Units = append(site.Units, a.showUnit(u, x.Waiting, bad[u.Unit.Prefix]))
	}
	for _, s := range x.Services {
		site.Services = append(site.Services, a.showService(s, wall))
	}
	site.Checks = a.showChecks(wall)
	a.showCuts(&site, wall)

	s := a.blank()
	s.At, s.View, s.LedgerLost = wall, shown(a.o.Ledger.View()), x.LedgerLost
	s.ViewAt = a.viewAt
	s.Sites = []api.Site{site}
	s.Config.Revision, s.Config.LastError = x.Revision, a.reload
	s.Counts = a.record.snapshot(a.o.Site)
	s.Counts.Dropped = a.seen.lost() + a.errand.lost()
	if a.link != nil {
		s.Mesh = linked(a.link.Peers())
	}
	s.Counts.StateWriteErrors = a.writeErrors.Load()
	s.Skewed = len(a.skewedElsewhere())
	s.Alarms = a.alarms.show(a.standing(x), wall)
	a.snapshot.Store(s)
}

// explain is what the machine says of itself, once for each thing that it was told.
func (a *Agent) explain() decide.Explanation {
	if a.explained == nil {
		x := a.site.Explain()
		a.explained = &x
	}
	return *a.explained
}

// shown is a view without the text of its table, in which there may be passwords:
// what is not there is not logged, dumped or answered.
func shown(v decide.View) decide.View {
	v.Table.Source = ""
	if v.Staged != nil {
		s := *v.Staged
		s.Table.Source = ""
		v.Staged = &s
	}
	return v
}

// troubles says by prefix what is wrong with its services, in the order of the
// table. While all is well it costs nothing, however many there are.
func (a *Agent) troubles(x decide.Explanation) map[netip.Prefix][]string {
	out := map[netip.Prefix][]string{}
	table := a.o.Ledger.View().Table
	for _, s := range x.Services {
		if s.Verdict.State == steadycast.Healthy {
			continue
		}
		text := s.Verdict.Service + " is " + s.Verdict.State.String()
		if s.Verdict.Reason != "" {
			text += ": " + s.Verdict.Reason
		}
		t, _ := table.Service(s.Verdict.Service)
		for _, p := range t.Prefixes {
			out[p] = append(out[p], text+"; next: "+s.Next)
		}
	}
	return out
}

func (a *Agent) showUnit(u decide.UnitStatus, waiting string, bad []string) api.Unit {
	out := api.Unit{Unit: u.Unit, Wanted: u.Announced, Stance: u.Stance, Proven: u.Proven, Unproven: u.Unproven, Moving: u.Moving, Nodes: u.Nodes}
	if c, ok := a.record.changes[u.Unit.Prefix]; ok {
		out.Since = c.since
	}
	if r, ok := a.record.rulings[u.Unit.Prefix]; ok {
		out.Last = &r
	}
	say := func(s string) {
		if s != "" {
			out.Why = append(out.Why, s)
		}
	}
	for _, text := range bad {
		say(text)
	}
	say(waiting)
	say(u.Reason)
	say(u.Refused)
	if u.Blocked != "" {
		text := u.Blocked
		if u.RetryIn > 0 {
			text += fmt.Sprintf("; asked again in %v", u.RetryIn.Round(100*time.Millisecond))
		}
		say(text)
	}
	if !u.Proven {
		say(u.Unproven)
	}
	return out
}

func (a *Agent) showService(s decide.ServiceStatus, wall time.Time) api.Service {
	out := api.Service{Verdict: s.Verdict, Since: wall.Add(-s.For), Fast: s.Fast, Next: s.Next}
	if r, ok := a.rounds.get(s.Verdict.Service); ok {
		out.Why = r.Why
	}
	return out
}

func (a *Agent) showChecks(wall time.Time) []api.Check {
	status := a.probes.Status()
	out := make([]api.Check, 0, len(status))
	zero := a.start.Add(a.probesAt)
	for _, c := range status {
		v := api.Check{Name: c.Check, Service: c.Service, Kind: c.Kind, Target: c.Target, Result: c.Last, Lag: c.Lag,
			Up: c.Ups, Down: c.Downs, Unknown: c.Unknowns, Took: a.took.of(c.Subject, c.Service, c.Check)}
		if c.Subject != a.o.Site {
			v.Subject = c.Subject
		}
		if c.Runs > 0 {
			v.At = zero.Add(c.LastStart + c.Last.Took)
		}
		if c.Ups > 0 {
			v.LastSuccess = zero.Add(c.LastUp)
		}
		out = append(out, v)
	}
	return out
}

// looked reports whether every service was looked at once.
func (a *Agent) looked() bool {
	for _, s := range a.plan.Load().Probes {
		if s.Subject != a.o.Site {
			continue
		}
		if _, ok := a.rounds.get(s.Name); !ok {
			return false
		}
	}
	return a.snapshot.Load() != nil
}

// standing are the alarms that are true now: the machine's own, and what only
// the shell can see.
func (a *Agent) standing(x decide.Explanation) []api.Alarm {
	var out []api.Alarm
	add := func(text, next string) { out = append(out, api.Alarm{Site: a.o.Site, Text: text, Next: next}) }
	for _, e := range x.Alarms {
		text := e.Reason
		if e.Prefix.IsValid() && !strings.Contains(text, e.Prefix.String()) {
			text = e.Prefix.String() + ": " + text
		}
		add(text, "steadycast events")
	}
	// The machine says what the speaker's alarm is; this says where to look.
	for i := range out {
		if a.actual.Alarm != "" && strings.HasSuffix(out[i].Text, a.actual.Alarm) {
			out[i].Next = "steadycast peers"
		}
	}
	for _, v := range a.actual.VIPs {
		if v.Error != "" {
			add(fmt.Sprintf("%v on %s: %s", v.Address, v.Interface, v.Error), "steadycast checks")
		}
	}
	if why := a.refusal.Load(); why != nil {
		add(*why, "steadycast peers")
	}
	if a.half != "" {
		add(a.half, "steadycast reload")
	}
	if a.reload != "" {
		add("the newest reload was refused, the old configuration goes on: "+a.reload, "steadycast check FILE")
	}
	if text := a.localAlarm(); text != "" {
		add(text, "steadycast undrain "+a.o.Site+" --local --reason TEXT")
	}
	if a.skew != "" {
		add(a.skew, "steadycast check FILE")
	}
	if a.unfit != "" {
		add(a.unfit, "steadycast check FILE")
	}
	for _, x := range a.skewedElsewhere() {
		out = append(out, api.Alarm{Site: x.Site, Text: x.String(), Next: "steadycast revisions"})
	}
	for _, text := range a.plan.Load().Alarms {
		add(text, "steadycast reload")
	}
	if a.link != nil {
		for _, text := range severed(a.link.Peers().Links) {
			add(text, "steadycast ledger members")
		}
	}
	if a.ineligible != "" {
		add(a.ineligible, "steadycast checks")
	}
	if a.unlinked != "" {
		add(a.unlinked, "steadycast check FILE")
	}
	if a.o.Alarms != nil {
		for _, text := range a.o.Alarms() {
			add(text, "steadycast pki show")
		}
	}
	if a.keepFailed.Load() {
		add("state is not kept on disk", "df "+a.o.StateDir)
	}
	return out
}

// alarms remembers since when each alarm stands. It belongs to the owner.
type alarms map[string]time.Time

func (m alarms) show(now []api.Alarm, wall time.Time) []api.Alarm {
	on := map[string]bool{}
	for i := range now {
		text := now[i].Text
		on[text] = true
		if _, known := m[text]; !known {
			m[text] = wall
		}
		now[i].Since = m[text]
	}
	for text := range m {
		if !on[text] {
			delete(m, text)
		}
	}
	return now
}

// reloadFailed is shown until a reload succeeds.
func (a *Agent) reloadFailed(text string) {
	a.say(steadycast.Event{Kind: steadycast.EventConfig, Reason: "reload refused, the old configuration goes on: " + text})
	a.post(func() { a.reload = text })
}

// reloadedHalf is shown until a reload succeeds or the speaker starts anew.
func (a *Agent) reloadedHalf(text string) {
	a.say(steadycast.Event{Kind: steadycast.EventAlarm, Reason: text})
	a.post(func() { a.half = text })
}

// reloadWorked ends what reloadFailed and reloadedHalf began.
func (a *Agent) reloadWorked(ctx context.Context) error {
	return a.do(ctx, func() { a.reload, a.half = "", "" })
}

// beatNow tells the ledger what is so, at once.
func (a *Agent) beatNow() { a.post(a.beat) }

// post runs f in the owner's goroutine some time; a full queue drops it, which
// what uses it can bear.
func (a *Agent) post(f func()) {
	select {
	case a.calls <- f:
	default:
	}
}

// Dump writes the state to the log, for SIGUSR1.
func Dump(l *slog.Logger, s *api.Snapshot) {
	b, err := json.Marshal(s)
	if err != nil {
		l.Error("dump", "err", err)
		return
	}
	l.Info("dump", "snapshot", string(b))
}

// cause says why a prefix is announced or withdrawn, in the words of the metrics.
func (a *Agent) cause(p netip.Prefix) string {
	for _, u := range a.o.Ledger.View().Units {
		if u.Unit.Site != a.o.Site || u.Unit.Prefix != p {
			continue
		}
		switch {
		case u.Order != steadycast.OrderNone:
			return "order"
		case u.Phase == steadycast.Returning:
			return "return"
		}
	}
	for _, o := range a.o.Ledger.View().NodeOrders {
		if o.Order.Site == a.o.Site && o.Order.Node == a.o.Node && o.Order.Covers(p) {
			return "order"
		}
	}
	for _, v := range a.site.Verdicts() {
		if v.State == steadycast.Unhealthy || v.State == steadycast.Suspect {
			return "failure"
		}
	}
	if a.wanted.Version == 0 {
		return "start"
	}
	return "return"
}
