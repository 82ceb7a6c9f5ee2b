package ledger

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// report is one line of a watch stream. Whoever watches holds a view and makes
// the next one of it: of 6,000 units an entry touches a few, and 300 sites watch.
//
// A report with Full begins anew. One with Delta fits only the view at From.
// One with neither says that there is nothing new, once a second: silence then
// means that the link is dead.
type report struct {
	Full   *decide.View       `json:"full,omitempty"`
	From   steadycast.Fence   `json:"from,omitzero"`
	Delta  *viewDelta         `json:"delta,omitempty"`
	Events []steadycast.Event `json:"events,omitempty"`
	// Leader is who leads, so that calls go there first.
	Leader string `json:"leader,omitempty"`
	// Skewed goes with a report without news: the nodes that act on another table.
	Skewed []Skewed `json:"table_skew,omitempty"`
}

// viewDelta is what changed from one view to the next: lists that people make
// are whole, of long ones only the changed elements stand here.
type viewDelta struct {
	Fence    steadycast.Fence         `json:"fence"`
	LT       decide.Time              `json:"lt"`
	Units    []decide.UnitView        `json:"units,omitempty"`
	Verdicts []steadycast.Verdict     `json:"verdicts,omitempty"`
	Prefixes []decide.PrefixView      `json:"prefixes,omitempty"`
	Orders   *[]decide.StandingOrder  `json:"orders,omitempty"`
	Freezes  *[]decide.StandingFreeze `json:"freezes,omitempty"`
	// NodeOrders are those over single nodes.
	NodeOrders *[]decide.StandingOrder `json:"node_orders,omitempty"`
	// Staged replaces the table that waits, and forgets what was said of it; Acks
	// are what was said since.
	Staged    *[]decide.Staged       `json:"staged,omitempty"`
	Acks      []decide.Ack           `json:"acks,omitempty"`
	Unready   *[]string              `json:"unready,omitempty"`
	Trial     *[]decide.Trial        `json:"trial,omitempty"`
	Decisions *[]decide.Decision     `json:"decisions,omitempty"`
	Operators *[]decide.OperatorView `json:"operators,omitempty"`
	Shares    *[]decide.ShareView    `json:"shares,omitempty"`
	Diverts   *[]decide.Divert       `json:"diverts,omitempty"`
	// PathWishes are changes of path that a guard refuses.
	PathWishes *[]decide.PathWish `json:"path_wishes,omitempty"`
	// Plans are the runs that are new or changed, and Runs the numbers of all.
	Plans []decide.PlanRun  `json:"plans,omitempty"`
	Runs  *[]uint64         `json:"runs,omitempty"`
	Names *decide.NamesView `json:"names,omitempty"`
	Gone  *[]decide.Gone    `json:"gone,omitempty"`
	Cuts  *[]decide.CutKept `json:"cuts,omitempty"`
}

// difference is what makes was into is. ok is false when a new table makes that
// more than it is worth.
func difference(was, is *decide.View) (d viewDelta, ok bool) {
	if was.Table.Revision != is.Table.Revision || was.Fence.Epoch != is.Fence.Epoch ||
		len(was.Units) != len(is.Units) || len(was.Prefixes) != len(is.Prefixes) {
		return d, false
	}
	d.Fence, d.LT = is.Fence, is.LT
	for i := range is.Units {
		if was.Units[i].Unit != is.Units[i].Unit {
			return d, false
		}
		if was.Units[i] != is.Units[i] {
			d.Units = append(d.Units, is.Units[i])
		}
	}
	for i := range is.Prefixes {
		if was.Prefixes[i].Prefix != is.Prefixes[i].Prefix {
			return d, false
		}
		if was.Prefixes[i] != is.Prefixes[i] {
			d.Prefixes = append(d.Prefixes, is.Prefixes[i])
		}
	}
	known := 0
	for _, v := range is.Verdicts {
		i, found := verdictAt(was.Verdicts, v)
		if found {
			known++
		}
		if !found || was.Verdicts[i] != v {
			d.Verdicts = append(d.Verdicts, v)
		}
	}
	if known != len(was.Verdicts) {
		return d, false
	}
	if !same(was.Orders, is.Orders) {
		d.Orders = whole(is.Orders)
	}
	if !same(was.NodeOrders, is.NodeOrders) {
		d.NodeOrders = whole(is.NodeOrders)
	}
	if !same(was.Freezes, is.Freezes) {
		d.Freezes = whole(is.Freezes)
	}
	if !slices.Equal(was.Operators, is.Operators) {
		d.Operators = whole(is.Operators)
	}
	if !reflect.DeepEqual(was.Names, is.Names) {
		d.Names = &is.Names
	}
	if !slices.Equal(was.Shares, is.Shares) {
		d.Shares = whole(is.Shares)
	}
	if !same(was.Diverts, is.Diverts) {
		d.Diverts = whole(is.Diverts)
	}
	if !same(was.PathWishes, is.PathWishes) {
		d.PathWishes = whole(is.PathWishes)
	}
	if !same(was.Gone, is.Gone) {
		d.Gone = whole(is.Gone)
	}
	if !same(was.Cuts, is.Cuts) {
		d.Cuts = whole(is.Cuts)
	}
	d.staged(was, is)
	if !same(was.Trial, is.Trial) {
		d.Trial = &[]decide.Trial{}
		if is.Trial != nil {
			d.Trial = &[]decide.Trial{*is.Trial}
		}
	}
	d.plans(was, is)
	if !slices.Equal(was.Decisions, is.Decisions) {
		d.Decisions = whole(is.Decisions)
	}
	return d, true
}

// whole is a list to replace another with; an empty one is said, too.
func whole[T any](list []T) *[]T {
	list = append([]T{}, list...)
	return &list
}

// follow makes the next view of was, which it leaves as it is.
func (d *viewDelta) follow(was *decide.View) (decide.View, error) {
	is := *was
	is.Fence, is.LT = d.Fence, d.LT
	is.Units, is.Prefixes, is.Verdicts = slices.Clone(was.Units), slices.Clone(was.Prefixes), slices.Clone(was.Verdicts)
	for _, u := range d.Units {
		i, ok := slices.BinarySearchFunc(is.Units, u, func(a, b decide.UnitView) int { return a.Unit.Compare(b.Unit) })
		if !ok {
			return is, fmt.Errorf("a change of %s, which the view does not have", u.Unit)
		}
		is.Units[i] = u
	}
	for _, p := range d.Prefixes {
		i := slices.IndexFunc(is.Prefixes, func(q decide.PrefixView) bool { return q.Prefix == p.Prefix })
		if i < 0 {
			return is, fmt.Errorf("a change of %s, which the view does not have", p.Prefix)
		}
		is.Prefixes[i] = p
	}
	for _, v := range d.Verdicts {
		if i, ok := verdictAt(is.Verdicts, v); ok {
			is.Verdicts[i] = v
		} else {
			is.Verdicts = slices.Insert(is.Verdicts, i, v)
		}
	}
	if d.Orders != nil {
		is.Orders = *d.Orders
	}
	if d.NodeOrders != nil {
		is.NodeOrders = *d.NodeOrders
	}
	if d.Freezes != nil {
		is.Freezes = *d.Freezes
	}
	if d.Operators != nil {
		is.Operators = *d.Operators
	}
	if d.Names != nil {
		is.Names = *d.Names
	}
	if d.Shares != nil {
		is.Shares = *d.Shares
	}
	if d.Diverts != nil {
		is.Diverts = *d.Diverts
	}
	if d.PathWishes != nil {
		is.PathWishes = *d.PathWishes
	}
	if d.Gone != nil {
		is.Gone = *d.Gone
	}
	if d.Cuts != nil {
		is.Cuts = *d.Cuts
	}
	if d.Staged != nil {
		is.Staged, is.Acks = nil, nil
		for _, s := range *d.Staged {
			is.Staged = &s
		}
	}
	for _, k := range d.Acks {
		is.Acks = decide.NoteAck(is.Acks, k)
	}
	if d.Unready != nil {
		is.Unready = *d.Unready
	}
	if d.Trial != nil {
		is.Trial = nil
		for _, t := range *d.Trial {
			is.Trial = &t
		}
	}
	if d.Decisions != nil {
		is.Decisions = *d.Decisions
	}
	if d.Runs != nil {
		return is, d.followPlans(was, &is)
	}
	return is, nil
}

// staged is what changed about the table that waits: its content once, and then
// only what is said of it, since 300 nodes say something and 300 watch.
func (d *viewDelta) staged(was, is *decide.View) {
	at := func(v *decide.View) (f steadycast.Fence) {
		if v.Staged != nil {
			f = v.Staged.Fence
		}
		return f
	}
	known := was.Acks
	if at(was) != at(is) {
		known = nil
		d.Staged = &[]decide.Staged{}
		if is.Staged != nil {
			d.Staged = &[]decide.Staged{*is.Staged}
		}
	}
	for _, k := range is.Acks {
		if !slices.ContainsFunc(known, func(x decide.Ack) bool { return same(x, k) }) {
			d.Acks = append(d.Acks, k)
		}
	}
	if !slices.Equal(was.Unready, is.Unready) {
		d.Unready = whole(is.Unready)
	}
}

func verdictAt(list []steadycast.Verdict, v steadycast.Verdict) (int, bool) {
	return slices.BinarySearchFunc(list, v, func(a, b steadycast.Verdict) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Service, b.Service))
	})
}

// same compares values of the wire by what they say there.
func same[T any](a, b T) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
