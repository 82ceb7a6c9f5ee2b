package decide

import (
	"slices"
	"strconv"
	"strings"

	"github.com/steadycast/steadycast"
)

// A path's health is a service's that announces nothing and tells of the path
// ([Service.Path]): what its sessions do, and whatever else is looked at through it,
// is counted by the same rules of rounds, and its verdict is committed as any other.
// It is the site's own word. No other vantage knows which way its packets come to a
// site, and what follows of it moves the routes of no site but this one, from one of
// its routers to another.

// PathService finds the service that tells of a path of a site.
func (t Table) PathService(site, path string) (Service, bool) {
	for _, s := range t.Services {
		if s.Path == path && path != "" && slices.Contains(t.sitesOfService(s), site) {
			return s, true
		}
	}
	return Service{}, false
}

// sitesWith are the names of the sites that have a path of that name, in order.
func (t Table) sitesWith(path string) []string {
	return slices.DeleteFunc(t.Announcers(), func(site string) bool {
		p, _ := t.Place(site)
		return !slices.Contains(p.Paths, path)
	})
}

// PathView is one path of a site.
type PathView struct {
	Site string `json:"site"`
	Path string `json:"path"`
	// InUse: the site is to announce by it.
	InUse bool `json:"in_use,omitempty"`
	// Service that tells of it, "" where none does; and what it was found to be.
	Service string           `json:"service,omitempty"`
	State   steadycast.State `json:"state"`
	Reason  string           `json:"reason,omitempty"`
}

// Paths are those of a site, the preferred first, as the ledger has them.
func (v *View) Paths(site string) []PathView {
	p, _ := v.Table.Place(site)
	if len(p.Paths) == 0 {
		return nil
	}
	out := make([]PathView, 0, len(p.Paths))
	used := v.Path(v.Table, site)
	for _, name := range p.Paths {
		x := PathView{Site: site, Path: name, InUse: name == used}
		if s, ok := v.Table.PathService(site, name); ok {
			x.Service = s.Name
			x.State, x.Reason = stateOf(v.Verdicts, site, s.Name)
		}
		out = append(out, x)
	}
	return out
}

func stateOf(vs []steadycast.Verdict, site, service string) (steadycast.State, string) {
	i := slices.IndexFunc(vs, func(v steadycast.Verdict) bool { return v.Site == site && v.Service == service })
	if i < 0 {
		return steadycast.StateUnknown, ""
	}
	return vs[i].State, vs[i].Reason
}

// pathService checks a service that tells of a path.
func (c *critic) pathService(at string, i int, s Service) {
	if s.Path == "" {
		return
	}
	with := c.t.sitesWith(s.Path)
	switch {
	case len(with) == 0:
		c.say(at+".path", "no site has a path %q; name it in sites[].paths", s.Path)
		return
	case len(s.Prefixes) > 0:
		c.say(at+".path", "is for a service that only tells of path %s; give this one prefixes: [], and what it announces to another", s.Path)
	}
	for j, name := range s.Sites {
		if _, ok := c.t.Place(name); ok && !slices.Contains(with, name) {
			c.say(at+".sites["+strconv.Itoa(j)+"]", "%s has no path %s; those that have: %s", name, s.Path, strings.Join(with, ", "))
		}
	}
	for j, q := range c.t.Services[:i] {
		for _, site := range c.t.sitesOfService(s) {
			if q.Path == s.Path && slices.Contains(c.t.sitesOfService(q), site) {
				c.say(at+".path", "services[%d] tells of path %s of %s already; let one service tell of it, by more checks", j, s.Path, site)
				return
			}
		}
	}
}
