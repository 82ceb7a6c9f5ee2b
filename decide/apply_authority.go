package decide

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
)

// Who may. A ledger that knows operators takes a person's wish by an operator's
// signature only; whoever brings it is a carrier and adds nothing. So a stolen
// node certificate, a hostile agent or a voter's HTTP port can withhold an
// order, and can neither make one, alter one, nor play an old one again.

// AuthorityGuard is the guard that asks who wants it. It stands before all others.
const AuthorityGuard = "authority"

// operatorsMost bounds how many people a ledger knows.
const operatorsMost = 256

// unfold takes a signed wish out of its entry; what is wrong with it, "" if nothing.
func (a *applying) unfold() string {
	e := a.e
	if e.Signed == nil {
		return ""
	}
	if e.bodies()&^bodyDecide != 0 {
		return fmt.Sprintf("a signed entry of kind %s has a body that was not signed", e.Kind)
	}
	w, err := e.Signed.Wish()
	switch {
	case err != nil:
		return err.Error()
	case w.Kind != e.Kind:
		return fmt.Sprintf("a wish of kind %s came as an entry of kind %s", w.Kind, e.Kind)
	case e.Kind == KindTable:
		return "a fleet's table is staged and activated, not put into force at once"
	case e.Kind.Role() == nobody:
		return fmt.Sprintf("an entry of kind %s is nobody's wish", e.Kind)
	}
	w.Into(e)
	a.wish = w
	return ""
}

// authorized refuses what nobody signed who may. For who did, it notes the
// serial: whatever the guards say now, this entry is never good again.
func (a *applying) authorized() bool {
	need := a.e.Kind.Role()
	switch {
	case need == nobody, a.rehearsed:
		return true
	case a.e.Signed == nil && len(a.Operators) == 0:
		return true
	case a.e.Signed == nil:
		a.deny("nobody has signed it, and this ledger knows operators: only what one of them signs is entered",
			"sign it: --key FILE, a key made by steadycast pki operator NAME and let in by an admin")
		return false
	}
	w := &a.wish
	i, known := a.operatorAt(w.By)
	if !known {
		a.deny(fmt.Sprintf("no operator is named %q; operators: %s", w.By, list(a.operatorNames())),
			"an admin lets one in: steadycast operator add FILE")
		return false
	}
	o := &a.Operators[i]
	digest := sha256.Sum256([]byte(a.e.Signed.Text))
	text := hex.EncodeToString(digest[:])
	switch again := "sign it again: the same command once more"; {
	case !o.Operator.Signed(w.Kind.Context(), []byte(a.e.Signed.Text), a.e.Signed.Signature):
		a.deny(fmt.Sprintf("the signature is not that of %s's key: what was signed was altered, or signed with another key", w.By), "")
	case w.Fleet != a.Fleet:
		a.deny(fmt.Sprintf("%s signed it for fleet %q; this is %q", w.By, w.Fleet, a.Fleet), "")
	case w.Epoch != a.Fence.Epoch:
		a.deny(fmt.Sprintf("%s signed it for epoch %d of this ledger, which is in epoch %d", w.By, w.Epoch, a.Fence.Epoch), again)
	case w.Serial == o.Serial && text == o.Digest:
		at := o.Fence
		a.reply.Before = &at
	case w.Serial <= o.Serial:
		a.deny(fmt.Sprintf("replayed or late: %s has signed entry %d since; this is %d", w.By, o.Serial, w.Serial), again)
	case w.Serial != o.Serial+1:
		a.deny(fmt.Sprintf("out of order: the next entry that %s signs is %d; this is %d", w.By, o.Serial+1, w.Serial), again)
	case w.At > a.LT:
		a.deny(fmt.Sprintf("%s signed it at ledger time %s, which is %s ahead", w.By, wait(w.At), wait(w.At-a.LT)), again)
	case a.LT-w.At > lt(WishLife):
		a.deny(fmt.Sprintf("%s signed it %s ago; a signature is good for %s", w.By, wait(a.LT-w.At), WishLife), again)
	case o.Operator.Role < need:
		a.deny(fmt.Sprintf("%s is %s; this takes %s", w.By, o.Operator.Role, need), "an admin raises the role: steadycast operator add FILE --role "+need.String())
	default:
		o.Serial, o.Digest, o.Fence = w.Serial, text, a.Fence
		return true
	}
	return false
}

func (a *applying) deny(text, override string) { a.refuse(AuthorityGuard, text, override) }

// operatorAt finds an operator, and where he would stand.
func (s *state) operatorAt(name string) (int, bool) {
	return slices.BinarySearchFunc(s.Operators, name, func(o operatorState, w string) int { return cmp.Compare(o.Operator.Name, w) })
}

func (s *state) operatorNames() []string {
	var names []string
	for _, o := range s.Operators {
		names = append(names, o.Operator.Name+" ("+o.Operator.Role.String()+")")
	}
	return names
}

// admins counts those whose role is admin.
func admins(os []operatorState) int {
	return len(keep(os, func(o operatorState) bool { return o.Operator.Role == steadycast.Admin }))
}

// genesis begins the ledger: the first policy, whose it is, and who may sign.
func (a *applying) genesis(t Table, c *Charter) string {
	next := state{Fence: a.Fence}
	if c != nil {
		if c.Fleet == "" {
			return "the charter does not say which fleet's ledger this is"
		}
		next.Fleet = c.Fleet
		for _, o := range c.Operators {
			if wrong := next.admit(o); wrong != "" {
				return wrong
			}
		}
		if err := next.soundOperators(); err != nil {
			return err.Error()
		}
	}
	if wrong := a.table(t); wrong != "" {
		return wrong
	}
	a.Fleet, a.Operators = next.Fleet, next.Operators
	if a.Fleet != "" {
		a.remember(a.Table, a.e.Reason)
	}
	return ""
}

// admit lets an operator in, or replaces role and key of one; what is wrong, "" if nothing.
func (s *state) admit(o steadycast.Operator) string {
	if err := o.Check(); err != nil {
		return err.Error()
	}
	for _, x := range s.Operators {
		if x.Operator.Key == o.Key && x.Operator.Name != o.Name {
			return fmt.Sprintf("the key of %s is that of %s already", o.Name, x.Operator.Name)
		}
	}
	i, known := s.operatorAt(o.Name)
	switch {
	case known:
		s.Operators = slices.Clone(s.Operators)
		s.Operators[i].Operator = o
	case len(s.Operators) >= operatorsMost:
		return fmt.Sprintf("there are %d operators already, the most there may be", operatorsMost)
	default:
		s.Operators = slices.Insert(slices.Clip(s.Operators), i, operatorState{Operator: o, Serial: s.Fence.Index, Fence: s.Fence})
	}
	return ""
}

// operator lets a person in by an admin's wish.
func (a *applying) operator(o steadycast.Operator) string {
	if !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	if len(a.Operators) == 0 && a.Fleet == "" {
		a.deny("this ledger is one node's own and takes orders from whoever may write to its socket", "")
		return ""
	}
	next := *a.state
	if wrong := next.admit(o); wrong != "" {
		return wrong
	}
	if admins(next.Operators) == 0 {
		a.lastAdmin(o.Name)
		return ""
	}
	from := ""
	if i, ok := a.operatorAt(o.Name); ok {
		from = a.Operators[i].Operator.Role.String()
	}
	a.Operators = next.Operators
	a.event(a.operatorEvent(o.Name, from, o.Role.String()))
	return ""
}

// dismiss ends what a person may.
func (a *applying) dismiss(name string) string {
	i, ok := a.operatorAt(name)
	if !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	if !ok {
		a.refuse(wellFormed, fmt.Sprintf("no operator is named %q; operators: %s", name, list(a.operatorNames())), "")
		return ""
	}
	stay := keep(a.Operators, func(o operatorState) bool { return o.Operator.Name != name })
	if admins(stay) == 0 {
		a.lastAdmin(name)
		return ""
	}
	was := a.Operators[i].Operator.Role.String()
	a.Operators = stay
	a.event(a.operatorEvent(name, was, ""))
	return ""
}

func (a *applying) lastAdmin(name string) {
	a.deny(fmt.Sprintf("%s is the last admin: nobody could change the table or the operators any more", name), "make another admin first: steadycast operator add FILE")
}

func (a *applying) operatorEvent(name, from, to string) steadycast.Event {
	return steadycast.Event{Kind: steadycast.EventOperator, Actor: a.e.Actor, From: from, To: to, Reason: name + ": " + a.e.Reason}
}

// soundOperators checks what authorized relies on.
func (s *state) soundOperators() error {
	if len(s.Operators) == 0 {
		return nil
	}
	if !slices.IsSortedFunc(s.Operators, func(a, b operatorState) int { return cmp.Compare(a.Operator.Name, b.Operator.Name) }) {
		return errors.New("the operators are out of order")
	}
	for i, o := range s.Operators {
		if err := o.Operator.Check(); err != nil {
			return err
		}
		for _, p := range s.Operators[:i] {
			if p.Operator.Name == o.Operator.Name || p.Operator.Key == o.Operator.Key {
				return fmt.Errorf("operators %s and %s are one", p.Operator.Name, o.Operator.Name)
			}
		}
	}
	switch {
	case s.Fleet == "":
		return errors.New("there are operators, and it is nobody's fleet")
	case admins(s.Operators) == 0:
		return errors.New("of the operators none is an admin: the first must be one")
	}
	return nil
}
