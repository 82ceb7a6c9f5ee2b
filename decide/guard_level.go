package decide

import (
	"slices"

	"github.com/steadycast/steadycast"
)

// levelGuard: where the fault may be the path's, the path is changed before the site
// leaves. It waits no longer than the level's settle, from when the path began to
// fail and from when it was changed; and never for what fails at the site itself,
// which another path would lead to just as well.
func (q *asking) levelGuard() verdictOf {
	level, _ := q.Table.level(LevelPath)
	site := q.u.Unit.Site
	place, _ := q.Table.Place(site)
	settle := level.Settle
	switch {
	case q.r.Class == steadycast.Hard:
		return pass("a certain failure of its own, to which any path leads")
	case slices.ContainsFunc(q.r.Evidence, func(o steadycast.Observation) bool {
		return o.Local() && o.Vantage == site && o.Result.Outcome == steadycast.Down
	}):
		return pass("its own check fails, too, to which any path leads")
	}
	if i, ok := divertAt(q.Moves.Diverts, site); ok {
		d := q.Moves.Diverts[i]
		switch age := q.LT - d.Since; {
		case !d.Auto:
			return pass("%s chose path %s", d.Actor, d.Order.Path)
		case age < lt(settle):
			return refuses(lt(settle)-age, "steadycast withdraw "+q.u.Unit.String(), "its path was changed to %s %s ago; the site may leave after %s", d.Order.Path, wait(age), settle)
		}
	}
	now := q.pathNow(place)
	from, known := q.pathVerdict(site, now)
	to := q.wellPath(place, now)
	switch {
	case !known || !from.Verdict.State.Troubled():
		return pass("path %s is not known to fail", now)
	case to == "":
		return pass("path %s is %s, and no other is healthy", now, from.Verdict.State)
	}
	if m, ok := q.pathWish(place); ok {
		if g, refused := m.Refusal(); refused {
			return pass("path %s is %s, and %s refuses path %s: %s", now, from.Verdict.State, g.Guard, to, g.Text)
		}
	}
	if age := q.LT - from.Onset; age < lt(settle) {
		return refuses(lt(settle)-age, "steadycast withdraw "+q.u.Unit.String(), "path %s is %s since %s, and %s is healthy: the path is changed first; the site may leave after %s", now, from.Verdict.State, wait(age), to, settle)
	}
	return pass("path %s is %s for longer than %s", now, from.Verdict.State, settle)
}

// leveled: the site could go another path by itself.
func (q *asking) leveled() bool {
	level, used := q.Table.level(LevelPath)
	p, _ := q.Table.Place(q.u.Unit.Site)
	return used && level.Mode == ModeAuto && len(p.Paths) > 1
}
