package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/probe"
)

// paths judges the neighbours' paths against those of the site. Another node of the
// site may have the neighbours that this one lacks, so that is a warning.
func (j *judge) paths() {
	i := slices.IndexFunc(j.cfg.Fleet.Sites, func(s Site) bool { return s.Name == j.cfg.Node.Site })
	if i < 0 || !j.node.sound("bgp.neighbors") {
		return
	}
	site, at := j.cfg.Fleet.Sites[i], fmt.Sprintf("sites[%d].paths", i)
	if j.node == j.table {
		at = "paths"
	}
	if !j.table.sound(at) {
		return
	}
	led := map[string]bool{}
	for k, nb := range j.cfg.Node.BGP.Neighbors {
		led[nb.Path] = true
		switch {
		case nb.Path == "" || slices.Contains(site.Paths, nb.Path):
		case len(site.Paths) == 0:
			j.say(j.node, fmt.Sprintf("bgp.neighbors[%d].path", k), "%q, and %s has no paths; name them in paths: of the site, the preferred first", brief(nb.Path), site.Name)
		default:
			j.say(j.node, fmt.Sprintf("bgp.neighbors[%d].path", k), "%q is no path of %s; known: %s", brief(nb.Path), site.Name, strings.Join(site.Paths, ", "))
		}
	}
	for k, p := range site.Paths {
		if !led[p] && len(j.cfg.Node.BGP.Neighbors) > 0 {
			j.warn(j.table, fmt.Sprintf("%s[%d]", at, k), "no neighbour of this node is of path %q, so it keeps its routes where they are while the site is diverted to it", brief(p))
		}
	}
}

// pathTarget judges a bgp check that looks at the neighbours of a path, at a node that
// runs it.
func (j *judge) pathTarget(at string, s Service, target string) {
	var known []string
	for _, nb := range j.cfg.Node.BGP.Neighbors {
		if nb.Path != "" {
			known = append(known, probe.PathTarget+nb.Path)
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	// That nobody is of the path of the service itself is told at the path.
	if target != probe.PathTarget+s.Path && !slices.Contains(known, target) && target != probe.PathTarget {
		j.say(j.table, at+".target", "no neighbour of this node is of path %q; known: %s", brief(strings.TrimPrefix(target, probe.PathTarget)), strings.Join(known, ", "))
	}
}

// withPathChecks looks at the sessions of a path of which a service tells without
// saying how.
func withPathChecks(services []Service) []Service {
	services = slices.Clone(services)
	for i := range services {
		if s := &services[i]; s.Path != "" && len(s.Checks) == 0 {
			s.Checks = []probe.Check{{Name: "sessions", Kind: "bgp", Target: probe.PathTarget + s.Path}}
		}
	}
	return services
}

// pathsTold warns of paths that the level path can neither leave nor go to by itself,
// because nothing tells whether they work.
func (j *judge) pathsTold(t decide.Table) {
	if !slices.ContainsFunc(t.Levels, func(l decide.Level) bool { return l.Do == decide.LevelPath }) {
		return
	}
	for i, p := range t.Sites {
		at := fmt.Sprintf("sites[%d].paths", i)
		if j.table == j.node {
			at = "paths"
		}
		for k, path := range p.Paths {
			if _, told := t.PathService(p.Name, path); !told && len(p.Paths) > 1 && j.table.allSound(at, "services") {
				j.warn(j.table, fmt.Sprintf("%s[%d]", at, k), "no service tells whether path %s works, so it is neither left nor gone to by itself; name one with path: %s", path, path)
			}
		}
	}
}
