package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// The proposer's times.
const (
	beatFresh    = decide.BeatFresh // a beat older than that says nothing
	lostAfter    = 5 * time.Second  // of beats that do not name a unit that is In
	tickPending  = 10 * time.Second // between entries while ledger time is being waited for
	tickIdle     = 60 * time.Second // and otherwise
	incidentOver = 10 * time.Minute // then a denial is worth writing down again
)

// leader is the proposer: it adds to entries what replicas cannot know, and
// proposes by itself what follows from beats and from time. It is pure: now is
// the process's monotonic time, given by whoever owns it, and the owner writes
// and applies what it proposes.
type leader struct {
	fleet *decide.Fleet
	view  decide.View // of fleet, made once for each entry
	node  string

	// start and base fix the offset between ledger time and monotonic time for
	// as long as this leader leads: no entry is ever ahead of what really
	// passed, whoever led before (rule T1).
	start time.Duration
	base  decide.Time
	last  time.Duration // when the last entry was applied

	beats  []heard       // in order of site, then node
	stepAt time.Duration // when returning sites are looked at again
	absent []absent      // units that are In and not named by fresh beats
	denied []denial
	held   time.Duration // when it was last tried to end a trial
	goneAt time.Duration // when silent sites are looked at again
	cutsAt time.Duration // when what became of cuts is looked at again
	// unheard are the cuts of silent sites that were called failed and that the ledger
	// does not remember yet, so that each is once.
	unheard []decide.CutTold

	cross  *crossBox // what this process hears of everybody's observations
	verify Verifier  // opens the evidence of requests; nil where nobody signs
}

// heard is the newest beat of one node of a site.
type heard struct {
	beat decide.Beat
	at   time.Duration
	load burden
	led  []ledTo // in order of site
}

// absent is a unit that beats do not name, since when.
type absent struct {
	unit  steadycast.Unit
	since time.Duration
}

// denial is one that was written down, so that its likes need not be.
type denial struct {
	unit  steadycast.Unit
	guard string
	at    time.Duration
}

// newLeader starts to lead a machine to which every entry so far was applied.
func newLeader(fleet *decide.Fleet, node string, now time.Duration) *leader {
	return &leader{fleet: fleet, view: fleet.View(), node: node, cross: &crossBox{}, start: now, base: fleet.LT(), last: now}
}

// lt is the ledger time now.
func (l *leader) lt(now time.Duration) decide.Time {
	return l.base + decide.Time((now-l.start)/time.Millisecond)
}

// entry begins an entry.
func (l *leader) entry(now time.Duration, kind decide.Kind) decide.Entry {
	return decide.Entry{
		Kind: kind, Schema: decide.Schema, Rules: decide.RulesLevel, Epoch: max(l.fleet.Fence().Epoch, 1),
		LT: l.lt(now), Proposer: l.node, Actor: "auto",
	}
}

// applied notes that an entry was applied.
func (l *leader) applied(now time.Duration) { l.last, l.view = now, l.fleet.View() }

// hear takes a beat whose age counts from an instant. One that was said before
// another that came is late and says nothing.
func (l *leader) hear(now time.Duration, b decide.Beat) {
	b.Led, b.Met = b.Led.Sound(), b.Met.Sound()
	i, ok := slices.BinarySearchFunc(l.beats, b, func(h heard, b decide.Beat) int { return h.beat.Speaker(b) })
	switch {
	case !ok:
		l.beats = slices.Insert(l.beats, i, heard{b, now, l.carries(burden{}, now, b), l.leads(nil, b)})
	case !b.Late(l.beats[i].beat, now-l.beats[i].at):
		now = max(now, l.beats[i].at) // said later, so no older
		l.beats[i] = heard{b, now, l.carries(l.beats[i].load, now, b), l.leads(l.beats[i].led, b)}
	}
}

// chorus is what the nodes of one site say of it lately: a unit is announced
// where one of them announces it.
type chorus []decide.Beat

func (c chorus) announces(u steadycast.Unit) bool {
	return slices.ContainsFunc(c, func(b decide.Beat) bool { return slices.Contains(b.Announcing, u) })
}

// announcesAt does the same for the unit that is number i of its site, which is where a
// beat of a site that announces everything has it.
func (c chorus) announcesAt(i int, u steadycast.Unit) bool {
	for j := range c {
		if a := c[j].Announcing; i < len(a) && a[i] == u {
			return true
		}
	}
	return c.announces(u)
}

// proves: a node that announces the unit shows the return's id.
func (c chorus) proves(r decide.ReturnProof) bool {
	return slices.ContainsFunc(c, func(b decide.Beat) bool {
		return slices.Contains(b.Announcing, r.Unit) && slices.Contains(b.Returned, r)
	})
}

// dead is the newest request that the node which made id will not carry out, by its
// own word that it announces the unit. That a sibling still does says nothing: it
// may only not have followed yet.
func (c chorus) dead(id steadycast.RequestID, u steadycast.Unit) (through steadycast.RequestID, ok bool) {
	for _, b := range c {
		if id.Through(b.DeadThrough) && slices.Contains(b.Announcing, u) {
			return b.DeadThrough, true
		}
	}
	return through, false
}

// fresh are the beats that count, by site.
func (l *leader) fresh(now time.Duration) []chorus {
	var out []chorus
	for _, h := range l.beats {
		if now-h.at > beatFresh {
			continue
		}
		if n := len(out); n > 0 && out[n-1][0].Site == h.beat.Site {
			out[n-1] = append(out[n-1], h.beat)
		} else {
			out = append(out, chorus{h.beat})
		}
	}
	return out
}

// seen is who announces each prefix, and who of them is healthy: what a fresh
// beat of the very site names and the ledger counts as In. What a beat says of
// another site is nothing: it would keep a floor that nobody stands on.
func (l *leader) seen(now time.Duration) []decide.Seen {
	v := &l.view
	fresh := l.fresh(now)
	seen := make([]decide.Seen, 0, len(v.Prefixes))
	for _, p := range v.Prefixes {
		seen = append(seen, decide.Seen{Prefix: p.Prefix})
	}
	for _, u := range v.Units {
		if u.Phase != steadycast.In || u.Lost || u.Unheard || !slices.ContainsFunc(fresh, func(c chorus) bool {
			return c[0].Site == u.Unit.Site && c.announces(u.Unit)
		}) {
			continue
		}
		i := slices.IndexFunc(seen, func(s decide.Seen) bool { return s.Prefix == u.Unit.Prefix })
		seen[i].Announcing = append(seen[i].Announcing, u.Unit.Site)
		if healthy(v, u.Unit) {
			seen[i].Healthy = append(seen[i].Healthy, u.Unit.Site)
		}
	}
	return seen
}

// healthy: every service of the unit has a healthy verdict, or one where the
// prefix needs any.
func healthy(v *decide.View, u steadycast.Unit) bool {
	any := v.Table.PrefixPolicy(u.Prefix).Needs == decide.NeedsAny
	for _, sv := range v.Table.ServicesAt(u.Site, u.Prefix) {
		good := slices.ContainsFunc(v.Verdicts, func(x steadycast.Verdict) bool {
			return x.Site == u.Site && x.Service == sv.Name && x.State == steadycast.Healthy
		})
		if good == any {
			return any
		}
	}
	return !any
}

// look adds what is seen to an entry whose guards count it.
func (l *leader) look(now time.Duration, e *decide.Entry) {
	if e.Kind.Looks() {
		e.Decide = &decide.Decide{Seen: l.seen(now), Loads: l.loads(now), Nodes: l.nodes(now, l.countsNodes(e))}
	}
}

// duties are the entries to propose now, by what beats and time say. After each
// one that is applied they must be asked for again.
func (l *leader) duties(now time.Duration) (decide.Entry, bool) {
	if e, ok := l.reconcile(now); ok {
		return e, true
	}
	if e, ok := l.compare(now); ok {
		return e, true
	}
	if e, ok := l.revert(now); ok {
		return e, true
	}
	if e, ok := l.step(now); ok {
		return e, true
	}
	if e, ok := l.gone(now); ok {
		return e, true
	}
	if e, ok := l.cuts(now); ok {
		return e, true
	}
	if now >= l.tickAt() {
		return l.entry(now, decide.KindTick), true
	}
	return decide.Entry{}, false
}

// wake is the next time at which duties could have something without a beat.
func (l *leader) wake() time.Duration {
	at := l.tickAt()
	for _, a := range l.absent {
		at = min(at, a.since+lostAfter)
	}
	if l.view.Trial != nil {
		at = min(at, l.revertAt())
	}
	if l.returning() {
		at = min(at, l.stepAt)
	}
	if l.watches() {
		at = min(at, l.goneAt, l.cutsAt)
	}
	return at
}

// revertAt is when to look whether the table on trial has to go: when its time is
// over, and after that, while a guard holds it, once a second. Not before this
// leader has heard the sites: who announces is what the guards count.
func (l *leader) revertAt() time.Duration {
	over := l.start + time.Duration(l.view.Trial.Until-l.base)*time.Millisecond
	return max(over, l.start+beatFresh, l.held+time.Second)
}

// revert ends a trial that nobody confirmed. That a guard holds it is written down
// once, as a denial is.
func (l *leader) revert(now time.Duration) (decide.Entry, bool) {
	t := l.view.Trial
	if t == nil || now < l.revertAt() {
		return decide.Entry{}, false
	}
	e := l.entry(now, decide.KindRevert)
	e.Revision = t.Revision
	l.look(now, &e)
	r, err := l.fleet.Try(e)
	if l.held = now; err != nil || r.Invalid != "" || r.Refused != nil && t.Held != nil && t.Held.Guard == r.Refused.Guard {
		return decide.Entry{}, false
	}
	return e, true
}

// tickAt is when time must be proposed: just when something ends by itself, and
// often enough that little of it is lost at a restart (rule T2).
func (l *leader) tickAt() time.Duration {
	at := l.last + tickIdle
	if l.fleet.Timed() {
		at = l.last + tickPending
	}
	if end, ok := l.fleet.NextEnd(); ok {
		at = min(at, l.start+time.Duration(end-l.base)*time.Millisecond)
	}
	return at
}

// compare holds fresh beats against phases and finds the next entry that makes
// them agree: a proven return, a permit given up, a unit lost or found.
func (l *leader) compare(now time.Duration) (decide.Entry, bool) {
	v := &l.view
	var absents []absent
	var lost, found []steadycast.Unit
	for _, c := range l.fresh(now) {
		var dead []steadycast.Unit
		var through steadycast.RequestID
		units := unitsOf(v, c[0].Site)
		for i := range units {
			u := &units[i]
			if u.Unheard {
				continue
			}
			announcing := c.announcesAt(i, u.Unit)
			switch {
			case u.Phase == steadycast.Returning && c.proves(decide.ReturnProof{Unit: u.Unit, ID: u.Return}):
				e := l.entry(now, decide.KindIn)
				e.Return = &decide.ReturnProof{Unit: u.Unit, ID: u.Return}
				return e, true
			case u.Phase == steadycast.Out && announcing && voidable(u):
				if id, ok := c.dead(u.Permit.ID, u.Unit); ok && (len(dead) == 0 || id == through) { // another's in the next turn
					dead, through = append(dead, u.Unit), id
				}
			case u.Phase == steadycast.In && u.Lost && announcing:
				found = append(found, u.Unit)
			case u.Phase == steadycast.In && !u.Lost && !announcing:
				a := absent{u.Unit, now}
				if i := slices.IndexFunc(l.absent, func(x absent) bool { return x.unit == u.Unit }); i >= 0 {
					a = l.absent[i]
				}
				if now-a.since >= lostAfter {
					lost = append(lost, u.Unit)
				} else {
					absents = append(absents, a)
				}
			}
		}
		if len(dead) > 0 {
			e := l.entry(now, decide.KindVoid)
			e.Give = &decide.GiveUpEntry{Site: c[0].Site, ID: through, Units: dead}
			return e, true
		}
	}
	l.absent = absents
	kind, units := decide.KindLost, lost
	if len(units) == 0 {
		kind, units = decide.KindFound, found
	}
	if len(units) == 0 {
		return decide.Entry{}, false
	}
	e := l.entry(now, kind)
	e.Units = units
	return e, true
}

// unitsOf are the units of one site; a view has them in order of site.
func unitsOf(v *decide.View, site string) []decide.UnitView {
	first, _ := slices.BinarySearchFunc(v.Units, site, func(u decide.UnitView, site string) int { return cmp.Compare(u.Unit.Site, site) })
	end := first
	for end < len(v.Units) && v.Units[end].Unit.Site == site {
		end++
	}
	return v.Units[first:end]
}

// voidable: the unit is out by a permit of its own site's request. An order's
// permit has no request and is not given back.
func voidable(u *decide.UnitView) bool {
	return u.Order == steadycast.OrderNone && u.Permit.Action == steadycast.Withdraw && u.Permit.ID != (steadycast.RequestID{})
}

// propose judges requests on the own state first. It gives the entry that must be
// written, if any, and the answers to requests that need none: repeats, and
// refusals whose like was written down before (rule P5). The machine judges again
// when the entry is applied; this only spares the log. News are verdicts that
// the same entry records before it answers; they are always worth writing.
func (l *leader) propose(now time.Duration, requests []steadycast.Request, news ...steadycast.Verdict) (e decide.Entry, write bool, answers []decide.Answer, err error) {
	e = l.entry(now, decide.KindDecide)
	e.Verdicts, e.Decide = news, &decide.Decide{Seen: l.seen(now), Loads: l.loads(now)}
	requests = slices.Clone(requests)
	for i := range requests {
		requests[i] = l.examine(now, e.Decide, requests[i])
	}
	e.Decide.Requests = requests
	r, err := l.fleet.Try(e)
	if err != nil {
		return e, false, nil, err
	}
	if slices.ContainsFunc(r.Events, func(ev steadycast.Event) bool {
		return ev.Kind != steadycast.EventRefused && ev.Kind != steadycast.EventPermit
	}) {
		return e, true, nil, nil // something else came of it, the breaker say: all of it counts
	}
	e.Decide.Requests = nil
	for _, a := range r.Answers {
		if !l.worthWriting(now, a) {
			answers = append(answers, a)
			continue
		}
		for _, q := range requests {
			if q.Site == a.Site && q.ID == a.ID {
				e.Decide.Requests = append(e.Decide.Requests, q)
				break
			}
		}
	}
	if len(e.Decide.Requests) == 0 && len(news) > 0 {
		e.Kind, e.Decide = decide.KindVerdict, nil
		return e, true, answers, nil
	}
	return e, len(e.Decide.Requests) > 0, answers, nil
}

// worthWriting: a new permit, or a refusal that was not written down yet.
func (l *leader) worthWriting(now time.Duration, a decide.Answer) bool {
	for _, r := range a.Rulings {
		if r.Permit != nil && r.Permit.Fence.Compare(l.fleet.Fence()) > 0 {
			return true
		}
		if g, refused := r.Refusal(); refused && r.Unit.Prefix.IsValid() && l.deniedAt(now, r, g.Guard) < 0 {
			return true
		}
	}
	return false
}

// deniedAt finds a denial that was written down in the same incident.
func (l *leader) deniedAt(now time.Duration, r decide.Ruling, guard string) int {
	return slices.IndexFunc(l.denied, func(d denial) bool {
		return d.unit == r.Unit && d.guard == guard && now-d.at < incidentOver
	})
}

// answered remembers what was written down of refusals, and forgets what an
// incident's end makes worth writing again.
func (l *leader) answered(now time.Duration, answers []decide.Answer) {
	l.denied = slices.DeleteFunc(l.denied, func(d denial) bool { return now-d.at >= incidentOver })
	for _, a := range answers {
		for _, r := range a.Rulings {
			g, refused := r.Refusal()
			switch {
			case !refused:
				l.denied = slices.DeleteFunc(l.denied, func(d denial) bool { return d.unit == r.Unit })
			case r.Unit.Prefix.IsValid() && l.deniedAt(now, r, g.Guard) < 0:
				l.denied = append(l.denied, denial{unit: r.Unit, guard: g.Guard, at: now})
			}
		}
	}
}

// changed are the verdicts that tell the ledger something new.
func (l *leader) changed(verdicts []steadycast.Verdict) []steadycast.Verdict {
	was := l.view.Verdicts
	var news []steadycast.Verdict
	for _, v := range verdicts {
		known := slices.ContainsFunc(was, func(w steadycast.Verdict) bool {
			return w.Site == v.Site && w.Service == v.Service && w.State == v.State && w.Held == v.Held && w.Class == v.Class
		})
		// In a batch the newest of a service counts, and must not be lost to an equal older one.
		said := slices.ContainsFunc(news, func(n steadycast.Verdict) bool { return n.Site == v.Site && n.Service == v.Service })
		if !known || said {
			news = append(news, v)
		}
	}
	return news
}

// serves reports whether the table has the service at the site.
func serves(t decide.Table, site, service string) bool {
	s, ok := t.Service(service)
	return ok && slices.Contains(s.Sites, site)
}
