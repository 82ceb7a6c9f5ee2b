package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// A site may have several paths ([Place.Paths]): ways by which packets come to it,
// such as straight or through somebody who scrubs them. It announces by the first
// unless it is diverted to another. That moves no unit: a diverted site counts as
// announcing as before, so no floor, budget or cooldown is asked, and which of its
// routers hear the routes is the speaker's to carry out, make-before-break.

// DivertOrder is a path for a site.
type DivertOrder struct {
	Site string `json:"site"`
	// Path by its name, or empty for the first of the site; the first ends the order.
	Path string `json:"path,omitempty"`
	// For is how long it stands, in ledger time from its entry; 0 until ended.
	For time.Duration `json:"for_ns,omitempty"`
}

// String is the order as it is typed.
func (o DivertOrder) String() string {
	if o.Path == "" {
		return "undivert " + o.Site
	}
	return "divert " + o.Site + " --path " + o.Path
}

// Divert is a site that announces by another path than its first.
type Divert struct {
	Order  DivertOrder      `json:"order"`
	Actor  string           `json:"actor"`
	Reason string           `json:"reason"`
	Since  Time             `json:"since"`
	Fence  steadycast.Fence `json:"fence"`
	// Auto: automation went there, since a path failed (switch.go), and Guards are what
	// was answered then.
	Auto   bool                     `json:"auto,omitempty"`
	Guards []steadycast.GuardAnswer `json:"guards,omitempty"`
	// Until is the ledger time at which it ends; 0 means not by itself. LeftMS is
	// what is left of it at View.LT.
	Until  Time  `json:"until,omitempty"`
	LeftMS int64 `json:"left_ms,omitempty"`
}

// DivertOf is the order that a site announces by; ok is false for one that goes by its first path.
func (v *View) DivertOf(site string) (d Divert, ok bool) {
	i, ok := divertAt(v.Diverts, site)
	if ok {
		d = v.Diverts[i]
	}
	return d, ok
}

// Path is the one that a site is to announce by, "" where it has no paths.
func (v *View) Path(t Table, site string) string {
	p, _ := t.Place(site)
	if d, ok := v.DivertOf(site); ok && slices.Contains(p.Paths, d.Order.Path) {
		return d.Order.Path
	}
	if len(p.Paths) == 0 {
		return ""
	}
	return p.Paths[0]
}

func divertAt(ds []Divert, site string) (int, bool) {
	return slices.BinarySearchFunc(ds, site, func(d Divert, site string) int { return strings.Compare(d.Order.Site, site) })
}

func (s *state) diverts() []Divert {
	ds := slices.Clone(s.Moves.Diverts)
	for i := range ds {
		if ds[i].Until != 0 {
			ds[i].LeftMS = int64(ds[i].Until - s.LT)
		}
	}
	return ds
}

// divert carries out a person's wish, whole or not at all.
func (a *applying) divert(o DivertOrder) string {
	if o.For < 0 || lt(o.For) > maxTime {
		return fmt.Sprintf("a divert for %s; give a positive time of at most %s, or none", o.For, wait(maxTime))
	}
	if o.Site == "" {
		a.refuse(wellFormed, "a divert names its site", "")
		return ""
	}
	if !a.known(o.Site) || !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	p, _ := a.Table.Place(o.Site)
	switch {
	case len(p.Paths) == 0:
		a.refuse(wellFormed, fmt.Sprintf("%s has no paths; its neighbours hear everything", o.Site), "")
		return ""
	case o.Path == "":
		o.Path = p.Paths[0]
	case !slices.Contains(p.Paths, o.Path):
		a.refuse(wellFormed, fmt.Sprintf("%s has no path %s; its paths: %s", o.Site, o.Path, list(p.Paths)), "")
		return ""
	}
	if o.Path == p.Paths[0] {
		i, ok := divertAt(a.Moves.Diverts, o.Site)
		switch {
		case o.For != 0:
			a.refuse(wellFormed, fmt.Sprintf("%s is the first path of %s, which it announces by without an end", o.Path, o.Site), "")
		case ok:
			a.undivert(i, a.e.Actor, a.e.Reason)
			a.movedByHand(o.Site)
		default:
			a.refuse(orderGuard, fmt.Sprintf("%s announces by %s already", o.Site, o.Path), "")
		}
		return ""
	}
	d := Divert{Order: o, Actor: a.e.Actor, Reason: a.e.Reason, Since: a.LT, Fence: a.Fence}
	if o.For > 0 {
		d.Until = a.LT + max(lt(o.For), 1)
	}
	if l, used := a.Table.level(LevelPath); used {
		if v := a.roomOn(l, o.Path, o.Site); !v.pass {
			a.refuse(capacityGuard, v.text, v.override)
			return ""
		}
	}
	a.divertTo(d, a.pathNow(p))
	a.movedByHand(o.Site)
	return ""
}

// putDivert sets that of one site, in a new list.
func putDivert(ds []Divert, d Divert) []Divert {
	ds = slices.Clone(ds)
	i, ok := divertAt(ds, d.Order.Site)
	if !ok {
		return slices.Insert(ds, i, d)
	}
	ds[i] = d
	return ds
}

// divertTo makes a site announce by another path than its first, and than from.
func (a *applying) divertTo(d Divert, from string) {
	a.Moves.Diverts = putDivert(a.Moves.Diverts, d)
	a.event(steadycast.Event{Kind: steadycast.EventPath, Site: d.Order.Site, Actor: d.Actor, From: from, To: d.Order.Path, Reason: d.Reason})
}

// movedByHand: after a person's word on its path automation leaves the site where it
// is for the cooldown.
func (a *applying) movedByHand(site string) {
	if _, used := a.Table.level(LevelPath); used {
		x := a.switchOf(site)
		x.Cool, x.ByHand = a.LT, true
		a.keepSwitch(x)
	}
}

// undivert ends the divert at i.
func (a *applying) undivert(i int, actor, reason string) {
	d := a.Moves.Diverts[i]
	a.Moves.Diverts = slices.Concat(a.Moves.Diverts[:i], a.Moves.Diverts[i+1:])
	if len(a.Moves.Diverts) == 0 {
		a.Moves.Diverts = nil // as it is read back from a snapshot
	}
	to := "no path"
	if p, ok := a.Table.Place(d.Order.Site); ok && len(p.Paths) > 0 {
		to = p.Paths[0]
	}
	a.event(steadycast.Event{Kind: steadycast.EventPath, Site: d.Order.Site, Actor: actor, From: d.Order.Path, To: to, Reason: reason})
}

// endDiverts ends those whose time has come.
func (a *applying) endDiverts() {
	for {
		i := slices.IndexFunc(a.Moves.Diverts, func(d Divert) bool { return d.Until != 0 && d.Until <= a.LT })
		if i < 0 {
			return
		}
		d := a.Moves.Diverts[i]
		a.undivert(i, d.Actor, fmt.Sprintf("its %s are over", d.Order.For))
	}
}

// settleDiverts forgets what a new table does not have any more.
func (a *applying) settleDiverts() {
	for i := len(a.Moves.Diverts) - 1; i >= 0; i-- {
		if d := a.Moves.Diverts[i]; !a.Table.leads(d.Order) {
			a.undivert(i, d.Actor, fmt.Sprintf("the table has no path %s beside the first of %s any more", d.Order.Path, d.Order.Site))
		}
	}
}

// leads reports whether a divert can stand: the path is one of the site and not its first.
func (t Table) leads(o DivertOrder) bool {
	p, ok := t.Place(o.Site)
	return ok && slices.Index(p.Paths, o.Path) > 0
}

// soundDiverts checks of a snapshot what this code relies on.
func (s *state) soundDiverts() error {
	for i, d := range s.Moves.Diverts {
		if !s.Table.leads(d.Order) || d.LeftMS != 0 || d.Until != 0 && d.Until <= s.LT || i > 0 && s.Moves.Diverts[i-1].Order.Site >= d.Order.Site {
			return fmt.Errorf("the divert of %s cannot be", d.Order.Site)
		}
	}
	return nil
}

// paths checks the paths of one site.
func (c *critic) paths(i int, p Place) {
	for k, name := range p.Paths {
		at := fmt.Sprintf("sites[%d].paths[%d]", i, k)
		c.name(at, name, "path")
		switch j := slices.Index(p.Paths, name); {
		case p.Witness:
			c.say(at, "is of a witness, which announces nothing; remove it")
		case j < k:
			c.say(at, "%q stands here twice; name it once", name)
		}
	}
}
