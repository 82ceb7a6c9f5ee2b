package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
)

// The names of the guards, stable for machines.
const (
	wellFormed    = "well-formed"
	seenGuard     = "seen"
	freezeGuard   = "freeze"
	orderGuard    = "order"
	phaseGuard    = "phase"
	lockGuard     = "lock"
	cooldownGuard = "cooldown"
	levelsGuard   = "level"
	evidenceGuard = "evidence"
	requireGuard  = "require"
	breakerGuard  = "breaker"
	floorGuard    = "floor"
	capacityGuard = "capacity"
	siteBudget    = "site budget"
	fleetBudget   = "fleet budget"
)

// guard is one rule that can refuse. All are asked every time, so that `why`
// shows each answer with its numbers; the first that refuses decides.
type guard struct {
	name  string
	binds binding
	// check answers for a unit that passed the guards well-formed and seen.
	check func(*asking) verdictOf
	// only says where the guard is asked at all; nil means everywhere.
	only func(*asking) bool
}

// binding is what a guard has a say in; elsewhere it passes and says why.
type binding uint8

const (
	onWithdraw binding = 1 << iota // automation wants out
	onReturn                       // automation wants back
	onDeprefer                     // a site asks to be less attractive
	onPerson                       // a person orders out
)

// guards is the order, and the only place that gives it. Budgets come last, so
// that what another guard refuses costs nothing. The first two judge the whole
// request and are asked before (see request).
var guards = [...]guard{
	{freezeGuard, onWithdraw | onReturn, (*asking).freezeGuard, nil},
	{orderGuard, onWithdraw | onReturn | onDeprefer, (*asking).orderGuard, nil},
	{phaseGuard, onWithdraw | onReturn | onDeprefer, (*asking).phaseGuard, nil},
	{lockGuard, onWithdraw | onReturn, (*asking).lockGuard, nil},
	{cooldownGuard, onWithdraw | onReturn, (*asking).cooldownGuard, nil},
	{levelsGuard, onWithdraw, (*asking).levelGuard, (*asking).leveled},
	{evidenceGuard, onWithdraw | onReturn, (*asking).evidenceGuard, nil},
	{requireGuard, onWithdraw | onReturn, (*asking).requireGuard, nil},
	{breakerGuard, onWithdraw | onReturn, (*asking).breakerGuard, nil},
	{floorGuard, onWithdraw | onPerson, (*asking).floorGuard, nil},
	{capacityGuard, onWithdraw | onPerson, (*asking).capacityGuard, nil},
	{siteBudget, onWithdraw | onReturn, (*asking).siteBudgetGuard, nil},
	{fleetBudget, onWithdraw, (*asking).fleetBudgetGuard, nil},
}

// asking is one unit's question with all that the guards may look at. Guards
// only read.
type asking struct {
	*applying
	r      steadycast.Request
	u      *unitState
	action steadycast.Action
	sight  sight
	// ballots count the request's evidence.
	ballots []ballot
	// order is set when a person asks.
	order *steadycast.Order
}

// verdictOf is one guard's answer before it has its name.
type verdictOf struct {
	pass     bool
	text     string
	override string
	retry    Time
}

func pass(format string, args ...any) verdictOf {
	return verdictOf{pass: true, text: fmt.Sprintf(format, args...)}
}

// refuses builds a refusal. retry is the least ledger time after which the
// answer could differ, 0 if time does not help.
func refuses(retry Time, override, format string, args ...any) verdictOf {
	return verdictOf{text: fmt.Sprintf(format, args...), override: override, retry: retry}
}

// soon shortens the wait of a return: it is waived as soon as too few announce
// healthily, so the answer may differ at any time.
func soon(left Time) Time { return min(left, 10_000) }

// all asks every guard, in order.
func (q *asking) all() []steadycast.GuardAnswer {
	answers := make([]steadycast.GuardAnswer, 0, len(guards)+2)
	if q.order == nil {
		answers = append(answers, q.wellFormed(q.r),
			steadycast.GuardAnswer{Guard: seenGuard, Pass: true, Text: fmt.Sprintf("%s is new", q.r.ID)})
	}
	who := q.binding()
	for _, g := range guards {
		if g.only != nil && !g.only(q) {
			continue
		}
		v := verdictOf{pass: true, text: who.why()}
		if g.binds&who != 0 {
			v = g.check(q)
		}
		if !v.pass && q.order != nil && q.order.Force {
			v = pass("%s; forced by %s", v.text, q.order.Actor)
		}
		answers = append(answers, steadycast.GuardAnswer{
			Guard: g.name, Pass: v.pass, Text: v.text, Override: v.override, RetryAfter: wait(v.retry),
		})
	}
	return answers
}

func (q *asking) binding() binding {
	switch {
	case q.order != nil:
		return onPerson
	case q.action == steadycast.Withdraw:
		return onWithdraw
	case q.action == steadycast.Return:
		return onReturn
	default:
		return onDeprefer
	}
}

// why says why a guard has no say.
func (b binding) why() string {
	switch b {
	case onPerson:
		return "binds automation, not a person's order"
	case onReturn:
		return "a return takes nothing away"
	default:
		return "a route that stays needs no leave"
	}
}

// mayDeprefer reports whether a refused withdrawal may be answered with the one
// action that needs no coordination, because the prefix stays reachable even if
// every site does it. That is so when only numbers stand in the way: cooldown,
// floor and budgets, and for a certain failure also the breaker. Then a dead site
// is never simply kept.
func (q *asking) mayDeprefer(answers []steadycast.GuardAnswer) bool {
	if q.action != steadycast.Withdraw {
		return false
	}
	for _, g := range answers {
		if g.Pass {
			continue
		}
		switch g.Guard {
		case cooldownGuard, floorGuard, siteBudget, fleetBudget:
		case breakerGuard:
			if q.r.Class != steadycast.Hard {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// sight is what the proposer saw of one prefix.
type sight struct {
	prefix              netip.Prefix
	announcing, healthy []string
}

// sees finds what the entry's proposer saw of p; nothing if it said nothing,
// which can only make a grant harder.
func (a *applying) sees(p netip.Prefix) sight {
	if a.e.Decide != nil {
		for _, x := range a.e.Decide.Seen {
			if x.Prefix == p {
				return sight{p, x.Announcing, x.Healthy}
			}
		}
	}
	return sight{prefix: p}
}

// announcing lists the sites other than one that count as announcing: phase In,
// and seen announcing by fresh evidence. Either alone is wrong: the phase knows
// nothing of losses, the evidence nothing of permits on their way. Of a phase that an
// older copy says both are unknown.
func (s *state) announcing(v sight, except string) []string {
	var sites []string
	for _, m := range s.of(v.prefix).members {
		u := &s.Units[m]
		site := u.Unit.Site
		if site != except && u.counts() && slices.Contains(v.announcing, site) {
			sites = append(sites, site)
		}
	}
	return sites
}

// healthy lists those of announcing that are healthy by fresh evidence and have
// no committed verdict against them.
func (s *state) healthy(v sight, except string) []string {
	return keep(s.announcing(v, except), func(site string) bool {
		return slices.Contains(v.healthy, site) && !s.troubledVerdict(steadycast.Unit{Site: site, Prefix: v.prefix})
	})
}

// underFloor reports whether too few announce p healthily. Then bringing sites
// back matters more than damping: returns skip budget, cooldown and one at a time.
func (q *asking) underFloor() bool {
	x := q.of(q.sight.prefix)
	return len(q.healthy(q.sight, "")) < max(x.floor, x.healthyFloor)
}

// pinned reports whether a person said that the unit is announced whatever its health.
func (q *asking) pinned() bool {
	o := q.orderOver(q.u.Unit)
	return o != nil && o.Order.Kind == steadycast.OrderAnnounce
}

// pardoned is what a person's word spares the unit's return.
func (q *asking) pardoned() pardon {
	if q.pinned() {
		return sparesAll
	}
	return q.u.Pardon
}

// list writes names for people: "ams, fra, lon", or "none".
func list[T any](xs []T) string {
	if len(xs) == 0 {
		return "none"
	}
	words := make([]string, len(xs))
	for i, x := range xs {
		words[i] = fmt.Sprint(x)
	}
	return strings.Join(words, ", ")
}
