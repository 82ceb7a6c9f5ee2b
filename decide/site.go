package decide

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// The words of SiteOptions.Isolated.
const (
	IsolatedDeprefer = "deprefer"
	IsolatedFreeze   = "freeze"
)

// SiteOptions is what a site machine is told at its start.
type SiteOptions struct {
	// Name of the site in the table, Node the daemon of it.
	Name, Node string
	// Incarnation counts the starts of the site's agent and is kept on disk, so
	// that request ids never repeat.
	Incarnation uint64
	// Table is the policy until the ledger commits one with another revision.
	// Defaults are filled in.
	Table Table
	// Solo: the site's own checks are the only evidence.
	Solo bool
	// Isolated says what a certain local failure does while the ledger is out of
	// reach: IsolatedDeprefer (default) or IsolatedFreeze. Nothing withdraws alone.
	Isolated string
	// LastResort is how long the ledger must be out of reach before a site that is
	// well announces what nobody serves; 0 means 15m, negative never. See site_resort.go.
	LastResort time.Duration
	// DeafFor is how long everything is held after most of the others are heard
	// again; 0 means 1m, negative that nothing is held. See site_deaf.go.
	DeafFor time.Duration
	// Off is how long the node was off; negative when that is not known, as at
	// its first start. Longer than warm_start, and a resumed unit waits Jitter
	// and is depreferred for its first minute.
	Off time.Duration
	// Fence is the highest ledger position that the speaker carried out for an
	// earlier agent. A view below it is not believed: it comes from a voter that
	// lags, and may count as in what has left since.
	Fence steadycast.Fence
	// Jitter is this start's random delay, chosen by the caller.
	Jitter time.Duration
	// VIPs go into every RouteSet.
	VIPs []netip.Prefix
}

// The times of a site that are not policy.
const (
	resendEvery  = time.Second      // an unanswered request, or a statement the ledger has not taken
	askAgain     = 10 * time.Second // between two requests for one unit, when no guard says how long
	freezeAfter  = 15 * time.Second // without the ledger
	warmFor      = time.Minute      // depreferred after a cold resume
	proveWithin  = 5 * time.Second  // then an unproven change is an alarm
	certainAlone = 5                // certain local failures in a row before an isolated site deprefers
)

// Site is the pure machine of one site: what happened goes in, what must be
// done comes out, in order. Whoever calls Step owns it; nothing here locks. All
// instants are the node's monotonic time since the agent started.
type Site struct {
	o     SiteOptions
	name  string
	table Table // with defaults
	now   Now

	me       string     // this node, where the site has several; see node.go
	siblings []relative // in order of name
	spoke    bool       // this node told the ledger the site's verdicts

	services []service // in the order of the table
	units    []unit    // in order of prefix
	own      []cover   // single sites' addresses, in order of prefix

	committed, proved bool // the first of each has arrived
	begun             bool // and an earlier agent's routes were taken over
	view              View
	fence             steadycast.Fence // highest ledger position seen
	actual            steadycast.Actual

	ledgerGone  string // why the ledger cannot be reached; empty when it can
	ledgerSince Now
	ledgerAt    steadycast.Fence  // where it stood when it failed last
	frozen      bool              // by itself, for want of a ledger
	local       *steadycast.Order // of a person at this node, without a ledger
	stale       Outdated          // of one service; without a reason there is none
	outdated    string            // why the node acts on another table than the fleet; empty while it does not
	speakerGone string            // why the speaker cannot be reached; empty when it can

	seq    uint64               // of the newest request in this incarnation
	ahead  uint64               // the start of this node that asked for more than this one has; see Overtaken
	asked  *asked               // the one request in flight
	dead   steadycast.RequestID // every request up to it will never be carried out any more
	spent  bool                 // the one in flight was granted and may not be carried out
	doubt  []netip.Prefix       // of one that just died, perhaps granted
	giveAt Now                  // when the statement that one is dead is due again

	set     steadycast.RouteSet // as last given to the speaker
	setAt   Now
	given   bool           // there was one
	resend  bool           // give it again whole, although it is the same
	changed []netip.Prefix // since the last proof

	peers         []peerWatch // those that are up, or stuck
	compared      bool        // with the newest set and proof
	views         []view      // by name, then prefix
	sessionless   bool        // none is
	sessionlessAt Now
	alarms        []alarm // by key

	load    *Loaded // as reported last
	hearing hearing
	others  []Elsewhere // the newest of each

	idleUntil Now // before it, nothing but an input changes anything; see settle
	idle      bool
	out       []Effect
}

// NewSite makes a machine that has learnt nothing yet.
func NewSite(o SiteOptions) *Site {
	setDefault(&o.Isolated, IsolatedDeprefer)
	setDefault(&o.LastResort, defaultResort)
	setDefault(&o.DeafFor, defaultDeaf)
	o.VIPs = slices.Clone(o.VIPs)
	s := &Site{o: o, name: o.Name, fence: o.Fence, dead: steadycast.RequestID{Incarnation: o.Incarnation}}
	s.adopt(o.Table)
	return s
}

// Step takes one input at an instant and returns what must be done, in order.
// An instant before an earlier one counts as that one.
func (s *Site) Step(now Now, in Input) []Effect {
	now = max(now, s.now)
	s.now = now
	dirty := s.expire(now)
	switch in := in.(type) {
	case Observed:
		dirty = s.observed(now, in) || dirty
	case Answered:
		s.answer(now, in.Answer)
		dirty = true
	case Committed:
		s.commit(now, in.View)
		dirty = true
	case Proved:
		s.prove(now, in.Actual)
		dirty = true
	case Viewed:
		dirty = s.looked(now, in) || dirty
	case Equipped:
		s.o.VIPs = slices.Clone(in.VIPs)
		s.forget(in.Views)
		dirty = true
	case Loaded:
		if s.load == nil || in.From >= s.load.From {
			in.From = min(in.From, now)
			s.load = &in
		}
	case Told:
		dirty = s.told(now, in) || dirty
	case Local:
		s.local = in.Order
		s.ordered()
		for i := range s.units {
			s.overrule(&s.units[i])
		}
		dirty = true
	case Outdated:
		if in.Service != "" {
			s.stale = in
		} else {
			s.outdated = in.Reason
		}
		dirty = true
	case Elsewhere:
		dirty = s.lookedElsewhere(in) || dirty
	case Unfenced:
		s.fence, s.resend = steadycast.Fence{}, true
	case SpeakerLost:
		s.loseSpeaker(in.Reason)
		dirty = true
	case LedgerLost:
		s.loseLedger(now, in)
		dirty = true
	case LedgerFound:
		s.findLedger()
		dirty = true
	}
	if dirty || !s.idle || now >= s.idleUntil {
		s.settle(now)
	}
	out := s.out
	s.out = nil
	return out
}

// Wake is the next instant at which a Tick could have an effect; before it,
// none has. False means that only another input can.
func (s *Site) Wake() (Now, bool) {
	var d deadline
	d.at, d.ok = s.idleUntil, s.idle && s.idleUntil < forever
	if !s.idle {
		d.by(s.now)
	}
	for i := range s.services {
		if at, ok := s.services[i].jury.expires(); ok {
			d.by(at)
		}
	}
	if s.hearing.until != 0 && !s.hearing.deaf {
		d.by(s.hearing.until)
	}
	return d.at, d.ok
}

// Verdicts are the newest of every service, in the order of the table.
func (s *Site) Verdicts() []steadycast.Verdict {
	vs := make([]steadycast.Verdict, len(s.services))
	for i := range s.services {
		vs[i] = s.verdict(&s.services[i])
	}
	return vs
}

// Beat is what the site says of itself now.
func (s *Site) Beat() Beat {
	b := Beat{Site: s.name, Node: s.me, Incarnation: s.o.Incarnation, DeadThrough: s.dead, At: s.fence, Ramps: s.rampsNow()}
	if s.load != nil {
		b.Load = &Load{Site: s.name, Load: s.load.Load, AgeSeconds: int64((s.now - s.load.From) / time.Second)}
	}
	for i := range s.units {
		u := &s.units[i]
		if !u.proven {
			b.Unproven = append(b.Unproven, u.id)
		}
		if !u.announced || !u.onWire || u.contradicted {
			switch {
			case u.view.Unheard && u.announced:
				b.Wanted = append(b.Wanted, u.id)
			case u.left:
				b.Left = append(b.Left, u.id)
			}
			continue
		}
		b.Announcing = append(b.Announcing, u.id)
		if id := u.view.Return; u.view.Phase == steadycast.Returning && u.acked && id != (steadycast.RequestID{}) {
			b.Returned = append(b.Returned, ReturnProof{Unit: u.id, ID: id})
		}
	}
	return b
}

// adopt takes a table, keeping what is known of services and units that stay.
func (s *Site) adopt(t Table) {
	t = t.WithDefaults()
	old, oldUnits := s.services, s.units
	s.table, s.services, s.units, s.compared = t, nil, nil, false
	s.own = coversOf(t)
	place, _ := t.Place(s.name)
	var prefixes [][]netip.Prefix // of each service, in order
	for _, conf := range t.Services {
		if !slices.Contains(conf.Sites, s.name) {
			continue
		}
		sv := service{}
		if i := slices.IndexFunc(old, func(o service) bool { return o.conf.Name == conf.Name }); i >= 0 {
			sv = old[i]
		}
		sv.conf = conf
		family := newHome(place, s.o.Node, sv.jury.home)
		sv.jury = newJury(t, s.name, s.o.Solo || conf.Path != "", conf.Health.Interval, sv.jury)
		sv.jury.home = family
		s.services = append(s.services, sv)
		prefixes = append(prefixes, slices.SortedFunc(slices.Values(conf.Prefixes), comparePrefix))
	}
	for _, p := range t.PrefixesAt(s.name) {
		u := unit{id: steadycast.Unit{Site: s.name, Prefix: p}}
		if i, ok := findUnit(oldUnits, p); ok {
			u = oldUnits[i]
		}
		u.policy, u.services = t.PrefixPolicy(p), nil
		for i := range s.services {
			if sortedContains(prefixes[i], p) {
				u.services = append(u.services, i)
			}
		}
		s.units = append(s.units, u)
	}
	s.befriend(place)
}

func sortedContains(ps []netip.Prefix, p netip.Prefix) bool {
	_, ok := slices.BinarySearchFunc(ps, p, comparePrefix)
	return ok
}

func findUnit(units []unit, p netip.Prefix) (int, bool) {
	return slices.BinarySearchFunc(units, p, func(u unit, p netip.Prefix) int { return comparePrefix(u.id.Prefix, p) })
}

// expire lets silence count: it can only make a service Held.
func (s *Site) expire(now Now) (changed bool) {
	for i := range s.services {
		sv := &s.services[i]
		if !sv.jury.expire(now) {
			continue
		}
		changed = true
		if sv.tally = sv.jury.count(); !sv.tally.enough {
			s.hold(now, sv, true)
		}
	}
	if changed || s.hearing.until != 0 {
		changed = s.relisten(now) || changed
	}
	return changed
}

// gist is all of a service that anything else rests on, besides its state, of
// which every change is loud.
type gist struct {
	held, failing, passing bool
	passed, steady         bool
	localCertain, doubtful bool
	dead, fit, fails       bool // of this node alone
}

// observed takes one round and reports whether more than counters changed.
func (s *Site) observed(now Now, in Observed) bool {
	o := in.Observation
	if strings.Contains(o.Service, "/") {
		return s.required(now, in)
	}
	if node, ok := s.siblingOf(o.Subject); ok && o.Vantage == s.name {
		return s.glanced(now, in, node)
	}
	i := s.service(o.Service)
	if o.Subject != s.name || i < 0 {
		return false
	}
	sv := &s.services[i]
	before := sv.gist(now)
	if !sv.jury.hear(now, o, in.From) {
		return false
	}
	s.count(sv, o)
	if o.Local() {
		s.sawItself(now, sv)
	}
	turned := s.listen(now)
	s.judge(now, sv)
	return turned || sv.loud || sv.gist(now) != before
}

// service finds a service by name; -1 when there is none.
func (s *Site) service(name string) int {
	for i := range s.services { // not copied: there may be many, and this is asked for each observation
		if s.services[i].conf.Name == name {
			return i
		}
	}
	return -1
}

func (s *Site) note(e steadycast.Event) {
	e.Site = s.name
	s.out = append(s.out, Note{Event: e})
}
