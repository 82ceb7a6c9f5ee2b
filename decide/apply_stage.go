package decide

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// A fleet's table comes into force in three steps, because a bad one is worse
// than a dead site: an admin stages it; every node tries it against its own
// host and says what it would change there, or why it cannot; and an admin
// activates it, at one position of the log for all.

// acksGuard is the guard that asks whether the nodes can carry a table out.
const acksGuard = "acks"

// answersGuard asks whether every name that has members keeps one.
const answersGuard = "answers"

const (
	// revisionsKept is how many tables the ledger remembers besides the one in
	// force, and revisionBytes how large they may be together.
	revisionsKept = 8
	revisionBytes = 4 << 20
	// acksMost bounds the acknowledgements of one entry, and the nodes of a fleet.
	acksMost = 4096
	// ackText bounds what a node says, in bytes.
	ackText = 2000
)

// Staged is a table that waits to be activated.
type Staged struct {
	Table  Table            `json:"table"`
	Actor  string           `json:"actor"`
	Reason string           `json:"reason"`
	Fence  steadycast.Fence `json:"fence"`
	Since  Time             `json:"since"`
	// Signed is the wish that it came by; nil in a [View], which has the table already.
	Signed *Signed `json:"signed,omitempty"`
}

// Ack is what one node says of the staged table.
type Ack struct {
	Revision uint64 `json:"revision"`
	Site     string `json:"site"`
	Node     string `json:"node"`
	// Refusal says why it cannot be carried out there; empty if it can.
	Refusal string `json:"refusal,omitempty"`
	// Changes are what it would change there, in sentences.
	Changes []string `json:"changes,omitempty"`
	// Emptied are the names that would have nobody left to answer with, by what this
	// node reads in the table's text.
	Emptied []string `json:"emptied,omitempty"`
}

// Sound cuts what a node says to its bounds.
func (k Ack) Sound() Ack {
	k.Refusal = cut(k.Refusal, ackText)
	k.Changes, k.Emptied = few(k.Changes), few(k.Emptied)
	return k
}

// few are as many of the texts as fit into the bound, and how many more there are.
func few(texts []string) []string {
	left := ackText
	for i, t := range texts {
		if left -= len(t); left < 0 {
			return append(slices.Clone(texts[:i]), fmt.Sprintf("and %d more", len(texts)-i))
		}
	}
	return texts
}

// cut shortens a text to at most n bytes.
func cut(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// Revision is a table that was in force once, or is.
type Revision struct {
	Revision uint64 `json:"revision"`
	Actor    string `json:"actor"`
	Reason   string `json:"reason"`
	// At is when it came into force.
	At    Time             `json:"at"`
	Fence steadycast.Fence `json:"fence"`
	// Table is its content; nil in a [View], and for the one in force.
	Table *Table `json:"table,omitempty"`
	Bytes int    `json:"bytes"`
}

// stage lays a table before the nodes. It takes the place of the one that waits.
func (a *applying) stage(t Table, force bool) string {
	if !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	if ps := t.Problems(); len(ps) > 0 {
		return unsound(ps)
	}
	t = t.WithDefaults()
	above := a.Table.Revision
	if a.Staged != nil {
		above = max(above, a.Staged.Table.Revision)
	}
	switch {
	case t.Revision == 0:
		t.Revision = above + 1
	case t.Revision <= above:
		return fmt.Sprintf("revision %d is not above %d, which is known already; leave it out and the ledger counts", t.Revision, above)
	}
	if !force && !a.keepsFloors(t, true) {
		return ""
	}
	a.Staged = &Staged{Table: t, Actor: a.e.Actor, Reason: a.e.Reason, Fence: a.Fence, Since: a.LT, Signed: a.e.Signed}
	a.Acks = nil
	a.reply.Revision = t.Revision
	a.event(steadycast.Event{Kind: steadycast.EventConfig, Actor: a.e.Actor, Reason: a.e.Reason, To: fmt.Sprintf("revision %d staged", t.Revision)})
	return ""
}

// unsound says what is wrong with a table.
func unsound(problems []Problem) string {
	if len(problems) == 1 {
		return fmt.Sprintf("the table has a problem: %s", problems[0])
	}
	return fmt.Sprintf("the table has %d problems; the first: %s", len(problems), problems[0])
}

// acks notes what nodes say of the staged table; the newest of a node counts.
func (a *applying) acks(ks []Ack) string {
	if len(ks) > acksMost {
		return fmt.Sprintf("%d acknowledgements in one entry; at most %d", len(ks), acksMost)
	}
	if a.Staged == nil {
		return "no table is staged"
	}
	noted := false
	for _, k := range ks {
		if k.Revision != a.Staged.Table.Revision || k.Site == "" || k.Node == "" {
			continue
		}
		if len(a.Acks) >= acksMost {
			break
		}
		a.Acks = NoteAck(a.Acks, k.Sound())
		noted = true
		to, why := "acknowledged", strings.Join(k.Changes, "; ")
		if k.Refusal != "" {
			to, why = "refused", k.Refusal
		}
		a.event(steadycast.Event{
			Kind: steadycast.EventConfig, Site: k.Site, Actor: k.Node, From: fmt.Sprintf("revision %d staged", k.Revision), To: to, Reason: cut(why, ackText),
		})
	}
	if !noted {
		return fmt.Sprintf("nobody acknowledges revision %d, which is staged", a.Staged.Table.Revision)
	}
	return ""
}

// NoteAck puts what a node says into a list in order of site and node, in the
// place of what it said before. The list given stays as it is.
func NoteAck(list []Ack, k Ack) []Ack {
	list = slices.Clone(list)
	i, known := slices.BinarySearchFunc(list, k, func(a, b Ack) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Node, b.Node))
	})
	if known {
		list[i] = k
		return list
	}
	return slices.Insert(list, i, k)
}

// unready lists the sites that announce and have not said yes to the staged table,
// each with the reason; of a site of several nodes those nodes, as SITE/NODE. What is
// not heard may announce, so only a person's order takes a node off the list.
func (s *state) unready(waived []string) []string {
	var out []string
	for _, site := range s.Table.Announcers() {
		if slices.Contains(waived, site) || !s.announces(site) {
			continue
		}
		place, _ := s.Table.Place(site)
		said := map[string]bool{}
		for _, k := range s.Acks {
			name := site
			if place.several() {
				name = steadycast.Order{Site: site, Node: k.Node}.Target()
			}
			if k.Site != site || slices.Contains(waived, name) {
				continue
			}
			said[k.Node] = true
			if k.Refusal != "" {
				out = append(out, fmt.Sprintf("%s (%s refuses: %s)", name, k.Node, k.Refusal))
			}
		}
		if !place.several() {
			if len(said) == 0 {
				out = append(out, site+" (nothing heard)")
			}
			continue
		}
		for _, n := range place.Nodes {
			if name := (steadycast.Order{Site: site, Node: n.Name}).Target(); !said[n.Name] && !slices.Contains(waived, name) && !s.outByOrder(site, n.Name) {
				out = append(out, name+" (nothing heard)")
			}
		}
	}
	slices.Sort(out)
	return out
}

// outByOrder: orders take a node out of everything that its site is counted in for.
func (s *state) outByOrder(site, node string) bool {
	return !slices.ContainsFunc(s.Units, func(u unitState) bool {
		if u.Unit.Site != site || u.Phase != steadycast.In {
			return false
		}
		o := s.nodeOrderOver(node, u.Unit)
		return o == nil || !outBy(o.Order.Kind)
	})
}

// keepsAnswers refuses the staged table if a node says that it leaves names
// without anybody to answer with. The ledger reads no zones, so it goes by their word.
func (a *applying) keepsAnswers() bool {
	for _, k := range a.Acks {
		if len(k.Emptied) > 0 {
			a.refuse(answersGuard, fmt.Sprintf("after revision %d nobody would be left to answer with, by %s: %s", k.Revision, k.Node, strings.Join(k.Emptied, "; ")), "--force")
			return false
		}
	}
	return true
}

// announces: the ledger counts a unit of the site in.
func (s *state) announces(site string) bool {
	return slices.ContainsFunc(s.Units, func(u unitState) bool {
		return u.Unit.Site == site && (u.Unheard || u.counts())
	})
}

// activate puts the staged table into force, for all nodes at this position.
func (a *applying) activate(revision uint64, waive []string, force bool, within time.Duration) string {
	if within < 0 || within > trialMost {
		return fmt.Sprintf("a trial of %s; at most %s, or none", within, trialMost)
	}
	switch {
	case !a.explained(a.e.Actor, a.e.Reason):
		return ""
	case a.Staged == nil:
		a.refuse(wellFormed, "no table is staged", "steadycast apply FILE")
		return ""
	case a.Staged.Table.Revision != revision:
		a.refuse(wellFormed, fmt.Sprintf("revision %d is not staged; %d is, by %s: %s", revision, a.Staged.Table.Revision, a.Staged.Actor, a.Staged.Reason), "")
		return ""
	case a.wish.Of != "" && (a.Staged.Signed == nil || a.wish.Of != a.Staged.Signed.Digest()):
		a.refuse(wellFormed, fmt.Sprintf("revision %d is staged by other words than those that were to be activated", revision), "steadycast apply FILE")
		return ""
	}
	if not := a.unready(waive); len(not) > 0 {
		a.refuse(acksGuard, fmt.Sprintf("%d that announce have not said yes to revision %d: %s", len(not), revision, list(not)),
			"--waive SITE, or SITE/NODE, for those that may go without")
		return ""
	}
	t := a.Staged.Table
	if !force && (!a.keepsFloors(t, true) || !a.keepsAnswers()) {
		return ""
	}
	was := *a.state
	a.enforce(t)
	a.sealed(was.Staged.Signed)
	if within > 0 {
		a.beginTrial(&was, within)
	}
	return ""
}

// enforce makes a table the one in force, and remembers the one before.
func (a *applying) enforce(t Table) {
	was := fmt.Sprintf("revision %d", a.Table.Revision)
	if a.Trial != nil {
		was += " on trial"
	}
	reason := a.e.Reason
	if a.e.Force {
		reason += " (forced)"
	}
	a.event(steadycast.Event{Kind: steadycast.EventConfig, Actor: a.e.Actor, Reason: reason, From: was, To: fmt.Sprintf("revision %d", t.Revision)})
	if a.Fleet != "" {
		a.remember(t, reason)
	}
	had := a.rampedShares()
	a.Table, a.Staged, a.Acks, a.Trial, a.Seal = t, nil, nil, nil, nil
	a.refitRamps(had)
	a.settle()
}

// remember keeps what was in force until now, and notes what comes.
func (a *applying) remember(next Table, reason string) {
	rs := slices.Clone(a.Revisions)
	if n := len(rs); n > 0 && rs[n-1].Revision == a.Table.Revision {
		old := a.Table
		rs[n-1].Table = &old
	}
	rs = append(rs, Revision{Revision: next.Revision, Actor: a.e.Actor, Reason: reason, At: a.LT, Fence: a.Fence, Bytes: sizeOf(next)})
	if len(rs) > revisionsKept+1 {
		rs = rs[len(rs)-revisionsKept-1:]
	}
	total := 0
	for i := len(rs) - 2; i >= 0; i-- {
		if total += rs[i].Bytes; total > revisionBytes {
			rs = rs[i+1:]
			break
		}
	}
	a.Revisions = rs
}

// sizeOf is a table's length in the log, in bytes.
func sizeOf(t Table) int {
	b, err := json.Marshal(t)
	if err != nil {
		return 0
	}
	return len(b)
}

// Revision gives the content of a table that was in force, or is.
func (f *Fleet) Revision(n uint64) (Table, bool) {
	if f.s.Table.Revision == n {
		return f.s.Table, f.s.Rules != 0
	}
	for _, r := range f.s.Revisions {
		if r.Revision == n && r.Table != nil {
			return *r.Table, true
		}
	}
	return Table{}, false
}
