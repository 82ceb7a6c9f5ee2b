package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// The levels are what automation does about a fault, from the smallest change to the
// largest. Each is entered by a fault of its own, so that one is never answered by
// more than it takes:
//
//	1 member   a service fails at a site, and its routes stay: who else answers for
//	           the name, in its site before others, takes over
//	2 path     the path in use fails, and another is well: the routes go that way
//	3 site     the site fails: its routes leave, and names lead to other sites
//	4 minimal  health can move no answers any more: the plain anycast addresses
//
// The third waits for the second ([Level.Settle]). A table says which of them are used
// (levels:); without, the first, the third, and the fourth by a person.

// The words of [Level.Do], in their one order.
const (
	LevelMember  = "member"
	LevelPath    = "path"
	LevelSite    = "site"
	LevelMinimal = "minimal"
)

// levelNames in their order; a level's number is its place here, from 1.
var levelNames = []string{LevelMember, LevelPath, LevelSite, LevelMinimal}

// LevelNumber is a level's number, 1 the smallest change; 0 for no level.
func LevelNumber(do string) int { return slices.Index(levelNames, do) + 1 }

// Level is one of them, as the table wants it.
type Level struct {
	// Do is member, path, site or minimal.
	Do string `yaml:"do" json:"do"`
	// Mode of path: auto (default), approve (a person diverts; it says what and why) or
	// observe (it only says).
	Mode string `yaml:"mode" json:"mode,omitempty"`
	// Return of path: auto (default) goes back to a path that stands before the one in use when
	// that is healthy again; hold stays until a person undiverts.
	Return string `yaml:"return" json:"return,omitempty"`
	// Settle is how long a site whose path fails, or was just changed for that, waits
	// before it leaves itself; default 15s.
	Settle time.Duration `yaml:"settle" json:"settle_ns,omitempty"`
	// Limits are the most sites that announce by one path at a time, whoever wants it.
	Limits []PathLimit `yaml:"limits" json:"limits,omitempty"`
}

// PathLimit is the most sites that announce by a path of that name.
type PathLimit struct {
	Path  string `yaml:"path" json:"path"`
	Sites int    `yaml:"sites" json:"sites"`
}

func withLevelDefaults(levels []Level) []Level {
	levels = slices.Clone(levels)
	for i := range levels {
		if l := &levels[i]; l.Do == LevelPath {
			setDefault(&l.Mode, ModeAuto)
			setDefault(&l.Return, ReturnAuto)
			setDefault(&l.Settle, 15*time.Second)
			l.Limits = slices.Clone(l.Limits)
		}
	}
	return levels
}

// level finds one of the table's; ok is false where it is not used.
func (t *Table) level(do string) (*Level, bool) {
	for i := range t.Levels {
		if l := &t.Levels[i]; l.Do == do {
			return l, true
		}
	}
	return nil, false
}

// limit is how many sites may announce by a path; 0 where the table does not say.
func (l *Level) limit(path string) int {
	for _, x := range l.Limits {
		if x.Path == path {
			return x.Sites
		}
	}
	return 0
}

// levels checks the list of them.
func (c *critic) levels() {
	last := 0
	for i, l := range c.t.Levels {
		at := fmt.Sprintf("levels[%d]", i)
		n := LevelNumber(l.Do)
		switch {
		case n == 0:
			c.say(at+".do", "%q is no level; they are, in this order: %s", l.Do, strings.Join(levelNames, ", "))
		case slices.ContainsFunc(c.t.Levels[:i], func(o Level) bool { return o.Do == l.Do }):
			c.say(at+".do", "%s stands here twice; each level stands once", l.Do)
		case n < last:
			c.say(at+".do", "%s stands behind %s, which is the larger change; the order is %s", l.Do, levelNames[last-1], strings.Join(levelNames, ", "))
		}
		last = max(last, n)
		if l.Do == LevelPath {
			c.pathLevel(at, l)
			continue
		}
		for _, x := range []struct {
			key   string
			given bool
		}{{"mode", l.Mode != ""}, {"return", l.Return != ""}, {"settle", l.Settle != 0}, {"limits", len(l.Limits) > 0}} {
			if x.given {
				c.say(at+"."+x.key, "is for do: path; what %s does is said at its services", l.Do)
			}
		}
	}
	for _, do := range []string{LevelMember, LevelSite} {
		if _, ok := c.t.level(do); len(c.t.Levels) > 0 && !ok {
			c.say("levels", "do: %s is missing; it cannot be switched off here, mode: of a service can", do)
		}
	}
}

func (c *critic) pathLevel(at string, l Level) {
	c.word(at+".mode", l.Mode, ModeAuto, ModeApprove, ModeObserve)
	c.word(at+".return", l.Return, ReturnAuto, ReturnHold)
	c.span(at+".settle", l.Settle, time.Hour)
	if !slices.ContainsFunc(c.t.Sites, func(p Place) bool { return len(p.Paths) > 1 }) {
		c.say(at+".do", "no site has a second path to go to; name them in sites[].paths, or leave this level out")
	}
	for k, x := range l.Limits {
		at := fmt.Sprintf("%s.limits[%d]", at, k)
		switch {
		case len(c.t.sitesWith(x.Path)) == 0:
			c.say(at+".path", "no site has a path %q", x.Path)
		case slices.ContainsFunc(l.Limits[:k], func(o PathLimit) bool { return o.Path == x.Path }):
			c.say(at+".path", "%s stands here twice", x.Path)
		}
		if x.Sites < 1 || x.Sites > 100_000 {
			c.say(at+".sites", "%d is out of range; allowed: 1 to 100000", x.Sites)
		}
	}
}

// LevelNow is a level that is in force at a site, or, without one, everywhere.
type LevelNow struct {
	Level int    `json:"level"`
	Do    string `json:"do"`
	Site  string `json:"site,omitempty"`
	// Why is the fault that it answers, or who wanted it.
	Why string `json:"why"`
}

// Levels are those in force, the largest change first, then by site. More than one may
// be at a site, each by a fault of its own.
func (v *View) Levels() []LevelNow {
	var out []LevelNow
	say := func(do, site, why string) {
		at := slices.IndexFunc(out, func(l LevelNow) bool { return l.Do == do && l.Site == site })
		switch {
		case at < 0:
			out = append(out, LevelNow{LevelNumber(do), do, site, why})
		case !strings.Contains(out[at].Why, why):
			out[at].Why += "; " + why
		}
	}
	if mode, why := v.Names.Rung(); mode == NamesMinimal {
		say(LevelMinimal, "", why)
	}
	gone := map[string]bool{} // whose routes are no more
	for i := range v.Units {
		u := &v.Units[i]
		if why := v.left(u); why != "" {
			gone[u.Unit.Site] = true
			say(LevelSite, u.Unit.Site, why)
		}
	}
	for i := range v.Gone {
		gone[v.Gone[i].Site] = true
		say(LevelSite, v.Gone[i].Site, v.Gone[i].Service+": "+v.Gone[i].String())
	}
	for _, d := range v.Diverts {
		say(LevelPath, d.Order.Site, "goes by "+d.Order.Path+": "+d.Actor+": "+d.Reason)
	}
	for _, x := range v.Verdicts {
		s, ok := v.Table.Service(x.Service)
		if ok && s.Path == "" && s.TTL > 0 && !gone[x.Site] && (x.State == steadycast.Unhealthy || x.State == steadycast.Recovering) {
			say(LevelMember, x.Site, x.Service+" "+x.State.String()+": "+x.Reason)
		}
	}
	for _, m := range v.Names.Members {
		if m.To == MemberDown {
			say(LevelMember, "", m.Member+" is switched down: "+m.Actor+": "+m.Reason)
		}
	}
	slices.SortStableFunc(out, func(a, b LevelNow) int {
		if a.Level != b.Level {
			return b.Level - a.Level
		}
		return strings.Compare(a.Site, b.Site)
	})
	return out
}

// left says why a unit that once was in is not announced as usual, "" if it is.
func (v *View) left(u *UnitView) string {
	switch {
	case u.Order == steadycast.OrderWithdraw || u.Order == steadycast.OrderDrain:
		return u.Order.String() + " by order"
	case u.Depreferred:
		return "depreferred, since " + u.Guard + " keeps its routes"
	case u.Phase == steadycast.In || !u.Ever:
		return ""
	}
	why := "its routes are " + u.Phase.String()
	for _, s := range v.Table.ServicesAt(u.Unit.Site, u.Unit.Prefix) {
		if state, reason := stateOf(v.Verdicts, u.Unit.Site, s.Name); state.Troubled() {
			why += ", " + s.Name + " is " + state.String() + ": " + reason
		}
	}
	return why
}
