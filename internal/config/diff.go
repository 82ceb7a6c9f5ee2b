package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadycast/steadycast/decide"
)

// Effect is what a changed setting does, mildest first.
type Effect string

// The effects of a change.
const (
	EffectPolicy  Effect = "policy"  // judged by from now on; no session and no route is touched by it
	EffectHost    Effect = "host"    // addresses on this host are put or removed
	EffectUpdate  Effect = "update"  // routes are sent once more with other attributes; sessions stay
	EffectRoutes  Effect = "routes"  // prefixes are announced or withdrawn
	EffectSession Effect = "session" // a session is opened
	EffectReset   Effect = "reset"   // a session is closed and opened again
	EffectRestart Effect = "restart" // nothing happens until the processes are restarted
)

var effects = []Effect{EffectPolicy, EffectHost, EffectUpdate, EffectRoutes, EffectSession, EffectReset, EffectRestart}

// Change is one difference between two configurations.
type Change struct {
	// Path of the setting, with names for numbers: bgp.neighbors[tor1].hold_time.
	Path string
	// From and To are the values; both empty for a secret, one of them for a
	// setting that was added or removed.
	From, To string
	Effect   Effect
	// Peer is the neighbour whose session or routes are touched; "*" for every one.
	Peer string
	// Text is the whole change in one line for people.
	Text string
}

func (c Change) String() string { return c.Text }

// Diff tells what going from old to new changes, in the order of the settings,
// and what each change does.
func Diff(old, next *Config) []Change {
	a, b := old.leaves(), next.leaves()
	before, after := index(a), index(b)
	var out []Change
	told := map[string]bool{}
	visit := func(path string) {
		x, had := before[path]
		y, has := after[path]
		if had && has && x.value == y.value {
			return
		}
		c := Change{Path: path, From: x.value, To: y.value}
		if had != has {
			if entry := newEntry(path, a, b, has); entry != "" {
				c.Path, c.From, c.To = entry, "", ""
			}
		}
		if told[c.Path] {
			return
		}
		told[c.Path] = true
		how := "changed"
		switch {
		case !had:
			how = "added"
		case !has:
			how = "removed"
		}
		if x.secret || y.secret {
			c.From, c.To = "", ""
		}
		c.Effect, c.Peer = effectOf(c.Path, how)
		if c.Path != path { // the entry does what the strongest of its values does
			for _, l := range append(slices.Clone(a), b...) {
				if e, peer := effectOf(l.path, how); inside(l.path, c.Path) && slices.Index(effects, e) > slices.Index(effects, c.Effect) && c.Effect != EffectSession {
					c.Effect, c.Peer = e, peer
				}
			}
		}
		if strings.Contains(c.Path, "].password") {
			was, known := old.secrets[c.Peer]
			if is, ok := next.secrets[c.Peer]; known && ok && is == was {
				c.Effect, c.Peer = EffectPolicy, "" // it only stands elsewhere
			}
		}
		out = append(out, c.worded(how))
	}
	for _, l := range merged(a, b) {
		visit(l)
	}
	for _, nb := range next.Node.BGP.Neighbors {
		sum, known := next.secrets[nb.Name]
		if was, ok := old.secrets[nb.Name]; ok && known && was != sum {
			c := Change{Path: "bgp.neighbors[" + nb.Name + "].password_file"}
			if inline := "bgp.neighbors[" + nb.Name + "].password"; !told[c.Path] && !told[inline] {
				c.Effect, c.Peer = effectOf(c.Path, "changed")
				out = append(out, c.worded("content changed"))
			}
		}
	}
	return out
}

// leaves are all values that make up the configuration, each once.
func (c *Config) leaves() []leaf {
	n := c.Node
	n.Services, n.Prefixes, n.DrainWait, n.Levels, n.Guards = nil, nil, 0, nil, c.Fleet.Guards
	n.BGP.Neighbors = slices.Clone(n.BGP.Neighbors)
	for i := range n.BGP.Neighbors { // whose order says nothing
		n.BGP.Neighbors[i].Families = slices.Sorted(slices.Values(n.BGP.Neighbors[i].Families))
	}
	drop := func(l leaf) bool { return l.path == "drain_wait" || inside(l.path, "guards") }
	return append(slices.DeleteFunc(leavesOf(n, true), drop), leavesOf(c.Fleet, true)...)
}

func index(ls []leaf) map[string]leaf {
	m := make(map[string]leaf, len(ls))
	for _, l := range ls {
		m[l.path] = l
	}
	return m
}

// merged gives the paths of b in order, and those of a alone after the one they followed.
func merged(a, b []leaf) []string {
	inB := index(b)
	after := map[string][]string{} // path in both → paths of a alone that follow it
	last := ""
	for _, l := range a {
		if _, ok := inB[l.path]; ok {
			last = l.path
		} else {
			after[last] = append(after[last], l.path)
		}
	}
	out := slices.Clone(after[""])
	for _, l := range b {
		out = append(append(out, l.path), after[l.path]...)
	}
	return out
}

// newEntry gives the outermost list entry around path that one side lacks as a whole.
func newEntry(path string, a, b []leaf, added bool) string {
	other := a
	if !added {
		other = b
	}
	for i, r := range path {
		if r != ']' {
			continue
		}
		entry := path[:i+1]
		if !slices.ContainsFunc(other, func(l leaf) bool { return l.path == entry || inside(l.path, entry) }) {
			return entry
		}
	}
	return ""
}

// worded says the change in a line.
func (c Change) worded(how string) Change {
	what := map[Effect]string{
		EffectPolicy:  "no session or route is touched",
		EffectHost:    "addresses of this host change",
		EffectUpdate:  "routes are sent once more to " + everyone(c.Peer) + ", sessions stay",
		EffectRoutes:  "what is announced changes",
		EffectSession: "a session with " + everyone(c.Peer) + " is opened",
		EffectReset:   "the session with " + everyone(c.Peer) + " is reset",
		EffectRestart: "holds after a restart",
	}[c.Effect]
	if c.Effect == EffectUpdate && strings.Contains(c.Path, "].bfd") {
		what = "agreed with " + everyone(c.Peer) + " in flight, its session stays"
	}
	if c.Effect == EffectReset && how == "removed" && strings.HasSuffix(c.Path, "]") {
		what = "the session with " + everyone(c.Peer) + " is closed"
	}
	switch {
	case how != "changed" || c.From == "" && c.To == "":
		c.Text = fmt.Sprintf("%s %s: %s", c.Path, how, what)
	default:
		c.Text = fmt.Sprintf("%s %s → %s: %s", c.Path, c.From, c.To, what)
	}
	return c
}

func everyone(peer string) string {
	if peer == "*" {
		return "every neighbour"
	}
	return peer
}

// restarts are the settings that a running process does not change.
var restarts = []string{"mode", "fleet", "site", "node", "roles", "state_dir", "run_dir", "socket", "speaker_socket", "ledger_socket", "dns_socket", "dns", "socket_group", "ledger", "fallback_url", "mesh", "tls", "metrics", "log",
	"agent_lost", "agent_lost_after", "isolated", "stop"}

// attributes are the settings of a neighbour that only change what is sent.
var attributes = []string{"path", "next_hop4", "next_hop6", "communities", "large_communities", "med", "prepend", "local_pref", "deprefer", "drain", "backup"}

// effectOf says what a change of the path does, and to whom.
func effectOf(path, how string) (Effect, string) {
	within := func(base string) bool { return path == base || inside(path, base) }
	if slices.ContainsFunc(restarts, within) {
		return EffectRestart, ""
	}
	switch {
	case within("bgp.neighbors"):
		name, key, _ := strings.Cut(strings.TrimPrefix(path, "bgp.neighbors["), "]")
		key = strings.TrimPrefix(key, ".")
		switch {
		case key == "" && how == "added":
			return EffectSession, name
		case key == "bfd" || inside(key, "bfd"):
			if how == "removed" {
				return EffectReset, name
			}
			return EffectUpdate, name
		case key == "connect_retry":
			return EffectPolicy, ""
		case slices.ContainsFunc(attributes, func(a string) bool { return key == a || inside(key, a) }):
			return EffectUpdate, name
		default:
			return EffectReset, name
		}
	case within("bgp.allow"), within("bgp.allow_backup"):
		return EffectRoutes, "*"
	case within("bgp"):
		return EffectReset, "*"
	case within("vip"):
		return EffectHost, ""
	case within("prefixes"):
		for _, key := range []string{"communities", "large_communities", "med"} {
			if strings.Contains(path, "]."+key) {
				return EffectUpdate, "*"
			}
		}
	case within("sites") && (strings.Contains(path, "].own") || strings.Contains(path, "].paths")):
		return EffectRoutes, "*"
	case within("services"):
		_, key, _ := strings.Cut(path, "]")
		switch {
		case key == "", inside(key, ".prefixes"), inside(key, ".sites"):
			return EffectRoutes, "*"
		case inside(key, ".vips"):
			return EffectHost, ""
		}
	}
	return EffectPolicy, ""
}

// DiffTables tells what going from one table to another changes, wherever the
// nodes are. Of tables that carry their text the checks are compared, too.
func DiffTables(old, next decide.Table) []Change {
	a, readA := FleetIn(old)
	b, readB := FleetIn(next)
	if !readA || !readB {
		a, b = FleetOf(old.WithDefaults()), FleetOf(next.WithDefaults())
	}
	a.Revision, b.Revision = 0, 0
	changes := Diff(&Config{Fleet: a}, &Config{Fleet: b})
	if len(changes) == 0 && old.Source != next.Source {
		changes = []Change{{Effect: EffectPolicy, Text: "the text of the table changes, and nothing that it says"}}
	}
	return changes
}

// FleetIn is all that a table's text says, if it says the table.
func FleetIn(t decide.Table) (Fleet, bool) {
	if t.Source == "" {
		return Fleet{}, false
	}
	f, ps := ParseTable(committedFile, []byte(t.Source))
	return f, ps.Err() == nil && samePolicy(f.Table(), t)
}
