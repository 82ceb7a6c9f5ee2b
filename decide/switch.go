package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
)

// The path of a site is changed by itself where the table has the level path. What a
// site reports of its paths is the request, and the committed verdicts are the
// evidence; so every entry that brings one, or lets time pass, may carry the change,
// and each replica finds the same.
//
//	path in use      another path     then
//	unhealthy        healthy          to the first healthy one: away
//	any              a more preferred one is healthy, and automation
//	                 had left it (return: auto): home
//	anything else                     nothing
//
// So no site is ever moved to a path that is not known to work, and what a person
// diverted stays where he put it. The guards bind as they bind a withdrawal, in the
// same words, but that the cooldown keeps nobody on a path that fails, for the budget
// and the lock bound that; no unit moves, and no floor is asked.

// switchState is what is remembered of the path changes of one site.
type switchState struct {
	Site string `json:"site"`
	// Cool is when its path was changed last, and ByHand whether a person did that.
	Cool   Time `json:"cool"`
	ByHand bool `json:"by_hand,omitempty"`
	// Away is when automation left a path that failed, oldest first.
	Away []Time `json:"away,omitempty"`
	// Locked: it was left so often that a person has to look; Looked is when one did,
	// and what came before does not lock it again.
	Locked bool `json:"locked,omitempty"`
	Looked Time `json:"looked,omitempty"`
	// Refused is the guard that keeps the site from what it wants, as was told last.
	Refused string `json:"refused,omitempty"`
}

// PathWish is a change of path that automation calls for and may not make.
type PathWish struct {
	Site string `json:"site"`
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why"`
	// Guards are all their answers, in order.
	Guards []steadycast.GuardAnswer `json:"guards"`
}

// Refusal is the guard that refused first.
func (w *PathWish) Refusal() (steadycast.GuardAnswer, bool) {
	return Ruling{Guards: w.Guards}.Refusal()
}

// moving is one site's wish with what its guards look at.
type moving struct {
	*state
	level *Level
	place Place
	PathWish
	away bool
}

func switchAt(list []switchState, site string) (int, bool) {
	return slices.BinarySearchFunc(list, site, func(x switchState, site string) int { return strings.Compare(x.Site, site) })
}

// switchOf is what is remembered of a site.
func (s *state) switchOf(site string) switchState {
	if i, ok := switchAt(s.Moves.Switches, site); ok {
		return s.Moves.Switches[i]
	}
	return switchState{Site: site, Cool: never}
}

// keepSwitch replaces it.
func (s *state) keepSwitch(x switchState) {
	i, ok := switchAt(s.Moves.Switches, x.Site)
	s.Moves.Switches = slices.Clone(s.Moves.Switches)
	if ok {
		s.Moves.Switches[i] = x
	} else {
		s.Moves.Switches = slices.Insert(s.Moves.Switches, i, x)
	}
}

// pathNow is the path that a site is to announce by, "" where it has none.
func (s *state) pathNow(p Place) string {
	if i, ok := divertAt(s.Moves.Diverts, p.Name); ok {
		return s.Moves.Diverts[i].Order.Path
	}
	if len(p.Paths) == 0 {
		return ""
	}
	return p.Paths[0]
}

// pathVerdict is what is committed of a path; ok is false where nothing is known, or
// too little is to judge it now.
func (s *state) pathVerdict(site, path string) (v verdictState, ok bool) {
	if sv, told := s.Table.PathService(site, path); told {
		if i, has := s.verdict(site, sv.Name); has {
			return s.Verdicts[i], !s.Verdicts[i].Verdict.Held
		}
	}
	return v, false
}

// well is the first healthy path of a site but for one.
func (s *state) wellPath(p Place, except string) string {
	for _, path := range p.Paths {
		if v, ok := s.pathVerdict(p.Name, path); path != except && ok && v.Verdict.State == steadycast.Healthy {
			return path
		}
	}
	return ""
}

// pathWish is the change that the evidence calls for at a site; ok is false for none.
func (s *state) pathWish(p Place) (m moving, ok bool) {
	level, used := s.Table.level(LevelPath)
	if !used || len(p.Paths) < 2 {
		return m, false
	}
	m = moving{state: s, level: level, place: p, PathWish: PathWish{Site: p.Name, From: s.pathNow(p)}}
	i, diverted := divertAt(s.Moves.Diverts, p.Name)
	if diverted && !s.Moves.Diverts[i].Auto {
		return m, false
	}
	if m.To = s.wellPath(p, m.From); m.To == "" {
		return m, false
	}
	from, known := s.pathVerdict(p.Name, m.From)
	switch {
	case known && from.Verdict.State == steadycast.Unhealthy:
		m.away = true
		m.Why = fmt.Sprintf("path %s is unhealthy: %s; %s is healthy", m.From, from.Verdict.Reason, m.To)
	case diverted && level.Return == ReturnAuto && slices.Index(p.Paths, m.To) < slices.Index(p.Paths, m.From):
		m.Why = fmt.Sprintf("path %s is healthy again", m.To)
	default:
		return m, false
	}
	m.ask()
	return m, true
}

// ask asks the guards, in their order.
func (m *moving) ask() {
	x, g := m.switchOf(m.Site), m.Table.Guards
	say := func(guard string, v verdictOf) {
		m.Guards = append(m.Guards, steadycast.GuardAnswer{Guard: guard, Pass: v.pass, Text: v.text, Override: v.override, RetryAfter: wait(v.retry)})
	}
	by := m.order().String()
	say(freezeGuard, m.frozen())
	switch m.level.Mode {
	case ModeApprove:
		say(orderGuard, refuses(0, "steadycast "+by, "the level path has mode approve: it waits for a person"))
	case ModeObserve:
		say(orderGuard, refuses(0, "steadycast "+by, "the level path has mode observe: it only says so"))
	default:
		say(orderGuard, pass("no person diverted it"))
	}
	if x.Locked {
		say(lockGuard, refuses(0, "steadycast unlock "+m.Site, "locked after %d paths that failed in %s", g.LockCycles, g.LockWindow))
	} else {
		say(lockGuard, pass("%d of %d paths that failed in %s", m.count(&x), g.LockCycles, g.LockWindow))
	}
	switch age, ok := m.since(x.Cool); {
	case !ok:
		say(cooldownGuard, pass("its path was not changed yet; cooldown %s", g.Cooldown))
	case age >= lt(g.Cooldown):
		say(cooldownGuard, pass("last change %s ago; cooldown %s", past(age), g.Cooldown))
	case m.away && !x.ByHand:
		say(cooldownGuard, pass("last change %s ago; cooldown %s does not bind a site whose path fails, but after a person's word", past(age), g.Cooldown))
	default:
		say(cooldownGuard, refuses(lt(g.Cooldown)-age, "steadycast "+by, "last change %s ago; cooldown %s", past(age), g.Cooldown))
	}
	say(capacityGuard, m.room())
	say(siteBudget, m.budget(x))
}

// order is the change as a person would give it.
func (m *moving) order() DivertOrder {
	o := DivertOrder{Site: m.Site, Path: m.To}
	if m.To == m.place.Paths[0] {
		o.Path = ""
	}
	return o
}

// frozen: who froze any of what the site announces froze its paths.
func (m *moving) frozen() verdictOf {
	for _, f := range m.Freezes {
		if f.Scope.Site != "" && f.Scope.Site != m.Site || f.Scope.Prefix.IsValid() && m.unit(m.Site, f.Scope.Prefix) == nil {
			continue
		}
		return refuses(0, "steadycast "+m.order().String(), "%s froze %s %s ago: %s", cmp.Or(f.Actor, "the breaker"), f.Scope, past(m.LT-f.Since), f.Reason)
	}
	return pass("nobody froze it")
}

// room: no more sites go one path than may.
func (m *moving) room() verdictOf {
	return m.roomOn(m.level, m.To, m.Site)
}

// roomOn says whether one more site may announce by a path.
func (s *state) roomOn(l *Level, path, site string) verdictOf {
	most := l.limit(path)
	if most == 0 {
		return pass("path %s has no limit", path)
	}
	var on []string
	for _, p := range s.Table.Sites {
		if p.Name != site && s.pathNow(p) == path {
			on = append(on, p.Name)
		}
	}
	if len(on) < most {
		return pass("%d of %d sites go by path %s", len(on), most, path)
	}
	return refuses(0, "", "%d of %d sites go by path %s already: %s", len(on), most, path, list(on))
}

// budget: routes that go here and there are punished by other networks as flapping.
func (m *moving) budget(x switchState) verdictOf {
	g := m.Table.Guards
	if !m.away {
		return pass("the way home costs nothing")
	}
	charges := make([]charge, len(x.Away))
	for i, t := range x.Away {
		charges[i].LT = t
	}
	n, left := m.spent(charges, g.SiteWindow, g.SiteBudget)
	if left == 0 {
		return pass("%d of %d changes of path in %s", n, g.SiteBudget, g.SiteWindow)
	}
	return refuses(left, "steadycast "+m.order().String(), "%d of %d changes of path in %s", n, g.SiteBudget, g.SiteWindow)
}

// count is how often paths failed within the lock's window.
func (s *state) count(x *switchState) int {
	return len(keep(x.Away, func(t Time) bool { return t >= x.Looked && s.within(t, s.Table.Guards.LockWindow) }))
}

// switchPaths makes every change of path that is called for and that no guard refuses.
func (a *applying) switchPaths() {
	if _, used := a.Table.level(LevelPath); !used {
		return
	}
	for _, p := range a.Table.Sites {
		m, ok := a.pathWish(p)
		x := a.switchOf(p.Name)
		g, refused := m.Refusal()
		switch {
		case !ok || !refused && x.Refused != "":
			if x.Refused != "" {
				x.Refused = ""
				a.keepSwitch(x)
			}
		case refused && x.Refused != g.Guard:
			x.Refused = g.Guard
			a.keepSwitch(x)
			a.event(steadycast.Event{Kind: steadycast.EventRefused, Site: p.Name, Guard: g.Guard, From: m.order().String(), Reason: m.Why + "; " + g.Text})
		}
		if ok && !refused {
			a.switchPath(&m)
		}
	}
}

// switchPath makes one.
func (a *applying) switchPath(m *moving) {
	x, g := a.switchOf(m.Site), a.Table.Guards
	x.Cool, x.ByHand, x.Refused = a.LT, false, ""
	if m.away {
		longest := max(g.SiteWindow, g.LockWindow)
		x.Away = grow(keep(x.Away, func(t Time) bool { return a.within(t, longest) }), a.LT)
		if n := a.count(&x); n >= g.LockCycles && !x.Locked {
			x.Locked = true
			a.event(steadycast.Event{Kind: steadycast.EventAlarm, Site: m.Site, Guard: lockGuard, To: "locked",
				Reason: fmt.Sprintf("%d of its paths failed in %s; a person unlocks it", n, g.LockWindow)})
		}
	}
	a.keepSwitch(x)
	if m.To == m.place.Paths[0] {
		i, _ := divertAt(a.Moves.Diverts, m.Site)
		a.undivert(i, automation, m.Why)
		return
	}
	a.divertTo(Divert{Order: DivertOrder{Site: m.Site, Path: m.To}, Actor: automation, Reason: m.Why, Since: a.LT, Fence: a.Fence, Auto: true, Guards: m.Guards}, m.From)
}

// automation is who wants what nobody ordered.
const automation = "auto"

// pathWishes are those that a guard refuses.
func (s *state) pathWishes() []PathWish {
	if _, used := s.Table.level(LevelPath); !used {
		return nil
	}
	var out []PathWish
	for _, p := range s.Table.Sites {
		if m, ok := s.pathWish(p); ok {
			out = append(out, m.PathWish)
		}
	}
	return out
}

// pathEnd is when a guard that waits for time could let a change of path through.
func (s *state) pathEnd() (at Time, ok bool) {
	for _, w := range s.pathWishes() {
		g, refused := w.Refusal()
		if end := s.LT + lt(g.RetryAfter); refused && g.RetryAfter > 0 && (!ok || end < at) {
			at, ok = end, true
		}
	}
	return at, ok
}

// unlockPaths ends the locks of a person's scope, and reports whether there was one.
func (a *applying) unlockPaths(s Scope) (done bool) {
	for _, x := range a.Moves.Switches {
		if !x.Locked || s.Site != "" && s.Site != x.Site || s.Prefix.IsValid() {
			continue
		}
		x.Locked, x.Looked, done = false, a.LT+1, true
		a.keepSwitch(x)
		a.event(steadycast.Event{Kind: steadycast.EventRecovery, Site: x.Site, Guard: lockGuard, From: "locked", Actor: a.e.Actor, Reason: a.e.Reason})
	}
	return done
}

// settleSwitches forgets sites that have no second path any more, and all of it where
// the table changes no path by itself.
func (a *applying) settleSwitches() {
	_, used := a.Table.level(LevelPath)
	a.Moves.Switches = keep(a.Moves.Switches, func(x switchState) bool {
		p, ok := a.Table.Place(x.Site)
		return used && ok && len(p.Paths) > 1
	})
}

// soundSwitches checks of a snapshot what this code relies on.
func (s *state) soundSwitches() error {
	_, used := s.Table.level(LevelPath)
	for i, x := range s.Moves.Switches {
		p, ok := s.Table.Place(x.Site)
		if !used || !ok || len(p.Paths) < 2 || x.Cool < never || x.Cool > s.LT || x.Looked < 0 || x.Looked > s.LT+1 || !slices.IsSorted(x.Away) || i > 0 && s.Moves.Switches[i-1].Site >= x.Site {
			return fmt.Errorf("the path changes of %s cannot be", x.Site)
		}
		if n := len(x.Away); n > 0 && (x.Away[0] < 0 || x.Away[n-1] > s.LT) {
			return fmt.Errorf("the path of %s failed at %d, which cannot be", x.Site, x.Away[n-1])
		}
	}
	return nil
}
