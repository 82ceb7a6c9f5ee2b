package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
)

// The rungs of the ladder by which answers let go of what moves them. No mode at
// all is normal.
const (
	NamesNormal       = "normal"       // answers follow health, orders and the table
	NamesConservative = "conservative" // health moves nothing any more; orders and the table do
	NamesFrozen       = "frozen"       // orders neither: only another table, or another mode
	NamesMinimal      = "minimal"      // the plain anycast addresses, for names that have some
)

// namesModes are all of them, the highest first.
var namesModes = []string{NamesNormal, NamesConservative, NamesFrozen, NamesMinimal}

const (
	// maxMember bounds the name of a member, and maxMembers how many are switched.
	maxMember  = 400
	maxMembers = 1000
)

// NamesOrder is what a person wants of the answers: another mode, or one member
// of a choice switched by itself. One of the two is set.
type NamesOrder struct {
	Mode string `json:"mode,omitempty"`
	// Member is choice/member, as www.example.com/fra. The ledger does not know which
	// there are; one that the table does not have is switched for nobody.
	Member string `json:"member,omitempty"`
	// To is down or up, whatever its site's state; automatic ends that.
	To string `json:"to,omitempty"`
}

// The ways in which a member is switched.
const (
	MemberDown      = "down"
	MemberUp        = "up"
	MemberAutomatic = "automatic"
)

// NamesView is what people ordered of the answers.
type NamesView struct {
	// Mode is empty for normal; then nobody said anything, or somebody said that.
	Mode   string `json:"mode,omitempty"`
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
	Since  Time   `json:"since,omitempty"`
	// Auto is the rung that the fleet took by itself; the lower of the two counts.
	Auto NamesAuto `json:"auto,omitzero"`
	// Held is the state that the answers keep to, in modes conservative and frozen.
	Held *Held `json:"held,omitempty"`
	// Members that are switched, in order of name.
	Members []MemberView `json:"members,omitempty"`
}

// Held is the state at the moment from which it moves no answers: what was not
// well then. All else was, or was not known.
type Held struct {
	Verdicts []steadycast.Verdict `json:"verdicts,omitempty"`
	Units    []HeldUnit           `json:"units,omitempty"`
	// Gone is what silent sites had that others saw down.
	Gone []Gone `json:"gone,omitempty"`
	// Shares are what sites took of their clients.
	Shares []ShareView `json:"shares,omitempty"`
	// Orders and Members are those that stood when the mode became frozen, and are
	// none in mode conservative.
	Orders  []StandingOrder `json:"orders,omitempty"`
	Members []MemberView    `json:"members,omitempty"`
}

// HeldUnit is a unit that was out, returning or depreferred.
type HeldUnit struct {
	Unit        steadycast.Unit  `json:"unit"`
	Phase       steadycast.Phase `json:"phase"`
	Depreferred bool             `json:"depreferred,omitempty"`
}

// MemberView is a member that is switched by itself.
type MemberView struct {
	Member string           `json:"member"`
	To     string           `json:"to"`
	Actor  string           `json:"actor"`
	Reason string           `json:"reason"`
	Since  Time             `json:"since"`
	Fence  steadycast.Fence `json:"fence"`
}

// Problem says what of the order has no meaning; "" if it has one.
func (o NamesOrder) Problem() string {
	switch {
	case (o.Mode == "") == (o.Member == ""):
		return "it names a mode, or a member, and not both"
	case o.Mode != "" && o.To != "":
		return "a mode is not switched to anything"
	case o.Mode != "" && !slices.Contains(namesModes, o.Mode):
		return fmt.Sprintf("mode %q; allowed: %s", cut(o.Mode, 40), strings.Join(namesModes, ", "))
	case o.Member != "" && o.To != MemberDown && o.To != MemberUp && o.To != MemberAutomatic:
		return fmt.Sprintf("to %q; allowed: down, up, automatic", cut(o.To, 40))
	case len(o.Member) > maxMember:
		return fmt.Sprintf("the name of the member has %d bytes; at most %d", len(o.Member), maxMember)
	case o.Member != "" && !memberShape(o.Member):
		return fmt.Sprintf("member %q; write CHOICE/MEMBER, as www.example.com/fra", cut(o.Member, 40))
	}
	return ""
}

// memberShape: printable ASCII without spaces, with a slash inside.
func memberShape(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	i := strings.IndexByte(s, '/')
	return i > 0 && i < len(s)-1
}

// String is the order in a few words.
func (o NamesOrder) String() string {
	if o.Mode != "" {
		return "dns mode " + o.Mode
	}
	return "dns switch " + o.Member + " " + o.To
}

// names carries out a person's wish.
func (a *applying) names(o NamesOrder) string {
	if wrong := o.Problem(); wrong != "" {
		return wrong
	}
	if !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	if o.Mode != "" {
		a.namesMode(o.Mode)
	} else {
		a.switchMember(o)
	}
	return ""
}

// namesMode goes to a rung. The state that answers keep to is that of the moment
// when health ceased to move them; orders, that of when orders did.
func (a *applying) namesMode(mode string) {
	n := &a.Names
	was, _ := n.Rung()
	n.Actor, n.Reason = a.e.Actor, a.e.Reason
	if n.Mode = mode; mode == NamesNormal {
		n.Mode = ""
		n.waive()
	}
	now, _ := n.Rung()
	if was != now {
		n.Since = a.LT
		a.event(steadycast.Event{Kind: steadycast.EventNames, From: was, To: now, Actor: a.e.Actor, Reason: a.e.Reason})
	}
	a.hold(was, now)
}

// hold keeps the state that the answers keep to on a rung.
func (a *applying) hold(was, mode string) {
	n := &a.Names
	switch mode {
	case NamesNormal:
		n.Held = nil
	case NamesConservative:
		h := a.held()
		h.Orders, h.Members = nil, nil
		n.Held = &h
	case NamesFrozen:
		h := a.held()
		if was != NamesFrozen {
			h.Orders = append([]StandingOrder(nil), a.Orders...)
			h.Members = append([]MemberView(nil), n.Members...)
		}
		n.Held = &h
	}
}

// held is what is held already, or the present state.
func (a *applying) held() Held {
	if a.Names.Held != nil {
		return *a.Names.Held
	}
	var h Held
	for _, v := range a.Verdicts {
		if v.Verdict.State != steadycast.Healthy {
			h.Verdicts = append(h.Verdicts, v.Verdict)
		}
	}
	for i := range a.Units {
		if u := &a.Units[i]; u.Phase != steadycast.In || u.Depreferred {
			h.Units = append(h.Units, HeldUnit{u.Unit, u.Phase, u.Depreferred})
		}
	}
	h.Gone = a.Gone
	h.Shares = a.shares()
	return h
}

// switchMember switches one member, or ends that.
func (a *applying) switchMember(o NamesOrder) {
	i, ok := slices.BinarySearchFunc(a.Names.Members, o.Member, func(m MemberView, w string) int { return cmp.Compare(m.Member, w) })
	list, was := slices.Clone(a.Names.Members), MemberAutomatic
	if ok {
		was = list[i].To
	}
	m := MemberView{o.Member, o.To, a.e.Actor, a.e.Reason, a.LT, a.Fence}
	switch {
	case o.To == MemberAutomatic && !ok:
		a.refuse(orderGuard, fmt.Sprintf("nobody switched %s", o.Member), "")
		return
	case o.To == MemberAutomatic:
		list = slices.Delete(list, i, i+1)
	case ok:
		if m.To == was {
			m.Since = list[i].Since
		}
		list[i] = m
	case len(list) >= maxMembers:
		a.refuse(wellFormed, fmt.Sprintf("%d members are switched, and the ledger keeps no more", maxMembers), "")
		return
	default:
		list = slices.Insert(list, i, m)
	}
	if len(list) == 0 {
		list = nil // as it is read back from a snapshot
	}
	a.Names.Members = list
	if was != o.To {
		a.event(steadycast.Event{Kind: steadycast.EventNames, From: o.Member + " " + was, To: o.To, Actor: a.e.Actor, Reason: a.e.Reason})
	}
}

// soundNames checks of a snapshot what this code relies on.
func (s *state) soundNames() error {
	n := &s.Names
	rung, _ := n.Rung()
	holds := rung == NamesConservative || rung == NamesFrozen
	if n.Mode != "" && !slices.Contains(namesModes[1:], n.Mode) || holds && n.Held == nil || rung == NamesNormal && n.Held != nil {
		return fmt.Errorf("answers in mode %q, held %t, which cannot be", cut(n.Mode, 40), n.Held != nil)
	}
	if err := n.soundRung(s.LT); err != nil {
		return err
	}
	for i, m := range n.Members {
		o := NamesOrder{Member: m.Member, To: m.To}
		if o.Problem() != "" || m.To == MemberAutomatic || i > 0 && n.Members[i-1].Member >= m.Member {
			return fmt.Errorf("the switched member %q cannot be", cut(m.Member, 40))
		}
	}
	return nil
}
