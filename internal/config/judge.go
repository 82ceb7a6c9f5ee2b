package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/probe"
)

// A judge looks at the values, after the reader looked at their shape. Most
// rules belong to the packages that use the settings; the judge asks those,
// fills in the defaults, and adds the rules that lie between two sections.
type judge struct {
	// node and table give places; they are the same when the services stand in
	// node.yaml, and node is nil when a fleet.yaml is judged alone.
	node, table *reader
	cfg         *Config
	// known is false when there is no table to judge, because its file could not be read.
	known    bool
	problems Problems
	// said are the paths that have a problem already: one value, one sentence,
	// and a warning besides at most.
	said map[spot]bool
}

type spot struct {
	r       *reader
	path    string
	warning bool
}

// say adds a problem, unless it only follows from one that the reader told.
func (j *judge) say(r *reader, path, format string, args ...any) {
	j.add(r, path, false, format, args...)
}

// warn adds one that leaves the configuration usable.
func (j *judge) warn(r *reader, path, format string, args ...any) {
	j.add(r, path, true, format, args...)
}

func (j *judge) add(r *reader, path string, warning bool, format string, args ...any) {
	if j.said == nil {
		j.said = map[spot]bool{}
	}
	if j.said[spot{r, path, warning}] || !r.sound(path) || len(j.problems) >= maxProblems {
		return
	}
	j.said[spot{r, path, warning}] = true
	place, text := r.locate(path), fmt.Sprintf(format, args...)
	place, text = r.intoText(path, place, text)
	j.problems = append(j.problems, Problem{Place: place, Path: path, Text: text, Warning: warning})
}

// sound reports whether path was read well: neither it nor what is around or
// inside it is wrong, and no unknown key was probably meant to be it.
func (r *reader) sound(path string) bool {
	if r.meant[path] {
		return false
	}
	for at := path; at != ""; at = parent(at) {
		if r.wrong[at] {
			return false
		}
	}
	for at := range r.wrong {
		if inside(at, path) {
			return false
		}
	}
	return true
}

// allSound reports whether every one of the paths was read well.
func (r *reader) allSound(paths ...string) bool {
	return !slices.ContainsFunc(paths, func(p string) bool { return !r.sound(p) })
}

// wrote reports whether the file, a variable or a flag gives the path.
func (r *reader) wrote(path string) bool { _, ok := r.marks[path]; return ok }

// locate gives the place of a path, or of the nearest thing around it that was written.
func (r *reader) locate(path string) Place {
	for at := path; ; at = parent(at) {
		if m, ok := r.marks[at]; ok {
			if at == path {
				return m.value
			}
			return m.key
		}
		if at == "" {
			return Place{File: r.file, Line: 1, Col: 1}
		}
	}
}

var atColumn = regexp.MustCompile(`^column (\d+): `)

// intoText moves the place of a problem that names a column of the value's text.
func (r *reader) intoText(path string, p Place, text string) (Place, string) {
	m := atColumn.FindStringSubmatch(text)
	n := r.marks[path].node
	if m == nil || n == nil || !oneLine(n) {
		return p, text
	}
	col, err := strconv.Atoi(m[1])
	if err != nil || col < 1 {
		return p, text
	}
	p.Col += col - 1
	if isQuoted(n) {
		p.Col++
	}
	return p, text[len(m[0]):]
}

// parent cuts the last key or index off a path.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// inside reports whether path lies below base.
func inside(path, base string) bool {
	rest, ok := strings.CutPrefix(path, base)
	return ok && rest != "" && (base == "" || rest[0] == '.' || rest[0] == '[')
}

// whole judges node.yaml with its table.
func (j *judge) whole() {
	j.daemon()
	j.source()
	if j.known {
		j.fleet()
	}
	j.network()
	if j.known {
		j.between()
	}
}

// fleet asks the owners of the table's parts, then fills in their defaults.
func (j *judge) fleet() {
	f, r := &j.cfg.Fleet, j.table
	table := f.Table()
	j.names()
	for _, p := range table.Problems() {
		if p.Path == "sites" && r == j.node {
			continue // there is no such key here; a missing site: is told by itself
		}
		path := p.Path
		if r == j.node { // the one site's, which stand at the margin here
			path = strings.TrimPrefix(path, "sites[0].")
		}
		j.say(r, path, "%s", p.Text)
	}
	if r != j.node {
		j.addressesOf()
		j.listsOfTable()
		j.quorum()
	}
	j.controls()
	full := table.WithDefaults()
	f.Services = withPathChecks(f.Services)
	for i, s := range f.Services {
		at := fmt.Sprintf("services[%d]", i)
		if len(s.Prefixes) == 0 && s.Path == "" && !r.wrote(at+".prefixes") {
			j.say(r, at+".prefixes", "is missing; name what it announces, or write [] for a service that is only judged: for conditions and site_health")
		}
		ps := probe.Service{
			Name: cmp.Or(s.Name, "unnamed"), Checks: s.Checks, Up: s.Up,
			Interval: s.Health.Interval, FastInterval: s.Health.FastInterval,
		}.Problems()
		for _, p := range ps {
			if p.Path == "interval" || p.Path == "fast_interval" {
				p.Path = "health." + p.Path
			}
			j.say(r, join(at, p.Path), "%s", p.Text)
		}
		j.require(at, s)
		j.inTime(at, s.Checks, full.Services[i].Health.Interval, 0)
		j.remote(at, s, full.Services[i].Health)
	}
	j.placement()
	j.plans()
	j.pathsTold(full)

	written := leavesOf(*f, false)
	f.Prefixes, f.Guards, f.DrainWait, f.Drain, f.Ramp = full.Prefixes, full.Guards, full.DrainWait, full.Drain, full.Ramp
	f.Shed, f.Levels = full.Shed, full.Levels
	f.Sites = slices.Clone(f.Sites)
	for i := range f.Sites {
		f.Sites[i].Place = full.Sites[i]
	}
	if f.Controls != nil {
		c := f.Controls.WithDefaults()
		f.Controls = &c
	}
	f.Placement = f.Placement.WithDefaults()
	services := slices.Clone(f.Services)
	for i := range services {
		services[i].Service = full.Services[i]
		services[i].Checks = slices.Clone(services[i].Checks)
		for k, c := range services[i].Checks {
			services[i].Checks[k] = c.WithDefaults()
		}
		services[i].Remote = services[i].Remote.withDefaults(full.Services[i].Health)
	}
	f.Services = services
	f.Plans = slices.Clone(f.Plans)
	for i, p := range f.Plans {
		f.Plans[i] = p.withDefaults(full.Plans[i])
	}
	j.asWritten(r, "", written, leavesOf(*f, false))
	if r == j.node {
		n := &j.cfg.Node
		n.Services, n.Prefixes, n.Guards, n.DrainWait, n.Levels = f.Services, f.Prefixes, f.Guards, f.DrainWait, f.Levels
	}
}

// placement asks the owner of the zones, with the sites and services of the table.
func (j *judge) placement() {
	f := &j.cfg.Fleet
	if len(f.Zones)+len(f.Pools)+len(f.Maps) == 0 {
		return
	}
	known := dnsfallback.Known{Sites: []string{}, Services: []string{}}
	for _, s := range f.Sites {
		if !s.Witness {
			known.Sites = append(known.Sites, s.Name)
		}
	}
	for _, s := range f.Services {
		known.Services = append(known.Services, s.Name)
	}
	_, ps := dnsfallback.NewPolicy(f.Revision, f.Placement, known)
	for _, p := range ps {
		j.say(j.table, p.Path, "%s", p.Text)
	}
}

const (
	// late is how much later than its timeout a hanging check may be told of.
	late = 250 * time.Millisecond
	// echoed is how old what a remote observation echoes may be.
	echoed = time.Second
)

// inTime finds checks that take longer than what they see counts. An observation
// is as old as its round, the next comes a round later, and in between the one
// before must still count: else a service that hangs would be judged by nobody.
// What is looked at in some rounds only delays no more than those.
func (j *judge) inTime(at string, checks []probe.Check, interval, age time.Duration) {
	fresh := decide.FreshFor(interval) - age - late
	for k, c := range checks {
		most := fresh
		if c.Interval == 0 {
			most = fresh / 2
		}
		if path := fmt.Sprintf("%s.checks[%d].timeout", at, k); c.Timeout > most {
			j.say(j.table, path, "%v is longer than what is seen counts with health.interval %v, so a service that hangs would never be judged; allowed: up to %v", c.Timeout, interval, most)
		}
	}
}

// asWritten finds values that were written but would be taken for "not given",
// as `fall: 0`: what stands in the file must be what is used.
func (j *judge) asWritten(r *reader, section string, written, used []leaf) {
	final := map[string]string{}
	for _, l := range used {
		final[l.path] = l.value
	}
	for _, l := range written {
		at := join(section, l.path)
		if now, ok := final[l.path]; ok && now != l.value && r.wrote(at) && !l.secret {
			j.say(r, at, "%s stands for the default, %s; write that, or remove the key", cmp.Or(l.value, "nothing"), now)
		}
	}
}

var nameShape = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

const nameRule = "allowed: a lower-case letter, then up to 62 of a-z 0-9 _ -"

// names holds the names of sites and services to what fits metrics, commands
// and file names alike.
func (j *judge) names() {
	for i, s := range j.cfg.Fleet.Services {
		j.name(j.table, fmt.Sprintf("services[%d].name", i), s.Name)
	}
	if j.table == j.node {
		return
	}
	for i, s := range j.cfg.Fleet.Sites {
		j.name(j.table, fmt.Sprintf("sites[%d].name", i), s.Name)
		if s.Group != "" {
			j.name(j.table, fmt.Sprintf("sites[%d].group", i), s.Group)
		}
	}
}

func (j *judge) name(r *reader, path, name string) {
	switch {
	case name == "":
		j.say(r, path, "is missing; %s", nameRule)
	case !nameShape.MatchString(name):
		j.say(r, path, "%q is not a name; %s", brief(name), nameRule)
	}
}

// network asks the owner of the BGP and address settings, then fills in the defaults.
func (j *judge) network() {
	n, r := &j.cfg.Node, j.node
	if j.witness() {
		j.noRouters()
	}
	if !j.announces() {
		return
	}
	if len(n.BGP.Allow) == 0 && j.table == j.node {
		n.BGP.Allow = j.cfg.Fleet.Table().AllPrefixes()
	}
	if j.sessions() {
		for _, p := range n.BGP.Problems() {
			if !strings.HasPrefix(p.Path, "allow") || r.wrote("bgp.allow") {
				j.say(r, join("bgp", p.Path), "%s", p.Text)
			} // else it is about a service's prefix, which is judged where it stands
		}
	}
	written := leavesOf(n.BGP, false)
	n.BGP = n.BGP.WithDefaults()
	j.asWritten(r, "bgp", written, leavesOf(n.BGP, false))

	for _, p := range n.VIP.Problems() {
		j.say(r, join("vip", p.Path), "%s", p.Text)
	}
	written = leavesOf(n.VIP, false)
	n.VIP = n.VIP.WithDefaults()
	j.asWritten(r, "vip", written, leavesOf(n.VIP, false))
}

// sessions says which of the keys are missing that every session needs. It
// reports whether there is a section to ask about.
func (j *judge) sessions() bool {
	r := j.node
	if !r.wrote("bgp") {
		j.say(r, "bgp", "is missing; it needs asn, router_id and neighbors")
		return false
	}
	need := func(path, what string) {
		if !r.wrote(path) {
			j.say(r, path, "is missing; %s", what)
		}
	}
	need("bgp.asn", "give this node's autonomous system number")
	need("bgp.router_id", "give an IPv4 address that no other peer of the router uses")
	need("bgp.neighbors", "name at least one router")
	for i := range j.cfg.Node.BGP.Neighbors {
		at := fmt.Sprintf("bgp.neighbors[%d].", i)
		need(at+"name", "give the router a name, such as tor1")
		need(at+"address", "give the router's IP address")
		need(at+"asn", "give the router's autonomous system number")
	}
	return true
}
