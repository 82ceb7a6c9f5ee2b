package decide

import (
	"fmt"
	"net/netip"

	"github.com/steadycast/steadycast"
)

// applying is one entry on its way through the state. What it learns goes into
// the reply; a body that turns out wrong is refused before it changes anything.
type applying struct {
	*state
	e     *Entry
	reply Reply
	// rehearsed: a person asks what would come of a wish, and has not signed it.
	rehearsed bool
	wish      Wish // what e.Signed says, if it is set
}

// apply carries out an entry that was understood.
func (s *state) apply(e Entry, rehearsed bool) Reply {
	a := applying{state: s, e: &e, rehearsed: rehearsed}
	s.Fence.Index++
	invalid := a.unfold()
	if invalid == "" {
		invalid = a.header()
	}
	if e.LT > s.LT && e.LT <= maxTime {
		s.LT = e.LT
	}
	a.reply.Fence, a.reply.LT = s.Fence, s.LT
	a.pass()
	if invalid == "" && a.authorized() {
		if invalid = a.body(); invalid == "" {
			a.heard()
		}
	}
	a.countAway()
	a.takeRung()
	a.endDecisions()
	a.endRamps()
	a.endDrains()
	a.switchPaths()
	a.callPlans()
	a.goPlans()
	if r := a.reply.Refused; r != nil && e.Signed != nil && r.Guard != AuthorityGuard {
		of := a.wish.of()
		a.event(steadycast.Event{
			Kind: steadycast.EventRefused, Site: of.Site, Node: of.Node, Prefix: of.Prefix,
			Actor: e.Actor, Guard: r.Guard, From: a.wish.String(), Reason: r.Text,
		})
	}
	a.note()
	a.reply.Fence, a.reply.Invalid = s.Fence, invalid
	return a.reply
}

// header says what is wrong with the head of the entry, "" if nothing.
func (a *applying) header() string {
	e, born := a.e, a.Rules != 0
	kind, _ := bodiesOf(e.Kind)
	switch has := e.bodies(); {
	case e.Schema < 1 || e.Rules < 1:
		return fmt.Sprintf("schema %d, rules %d: both start at 1", e.Schema, e.Rules)
	case e.LT < 0 || e.LT > maxTime:
		return fmt.Sprintf("ledger time %d is outside 0…%d", e.LT, maxTime)
	case has&kind.need != kind.need || has&^(kind.need|kind.may) != 0:
		return fmt.Sprintf("an entry of kind %s has the wrong body", e.Kind)
	case e.Kind != KindDecide && e.Decide != nil && len(e.Decide.Requests) > 0:
		return fmt.Sprintf("an entry of kind %s carries requests", e.Kind)
	case born && e.Kind == KindGenesis:
		return "this ledger has its genesis already"
	case !born && e.Kind != KindGenesis:
		return "the first entry must be the genesis"
	case e.Kind == KindEpoch && e.Epoch <= a.Fence.Epoch:
		return fmt.Sprintf("epoch %d is not above this ledger's %d", e.Epoch, a.Fence.Epoch)
	case born && e.Kind != KindEpoch && e.Epoch != a.Fence.Epoch:
		return fmt.Sprintf("epoch %d is not this ledger's %d", e.Epoch, a.Fence.Epoch)
	}
	return ""
}

// pass lets ledger time pass: what ends by itself ends here, whatever the entry is.
func (a *applying) pass() {
	a.endOrders()
	a.endNodeOrders()
	a.endDiverts()
	a.clearBreakers()
	a.lapseTries()
}

// body dispatches on the kind and says what is wrong with the content, "" if nothing.
func (a *applying) body() string {
	e := a.e
	switch e.Kind {
	case KindGenesis:
		return a.genesis(*e.Table, e.Charter)
	case KindTable:
		return a.table(*e.Table)
	case KindVerdict:
		return a.verdicts(e.Verdicts)
	case KindDecide:
		if len(e.Verdicts) > 0 {
			if wrong := a.verdicts(e.Verdicts); wrong != "" {
				return wrong
			}
		}
		return a.decide(*e.Decide)
	case KindVoid:
		return a.void(*e.Give)
	case KindIn:
		return a.in(*e.Return)
	case KindLost:
		return a.lost(e.Units)
	case KindFound:
		return a.found(e.Units)
	case KindOrder:
		return a.order(*e.Order)
	case KindOrderClear:
		return a.orderClear(*e.Scope)
	case KindFreeze:
		return a.freeze(*e.Scope)
	case KindThaw:
		return a.thaw(*e.Scope)
	case KindUnlock:
		return a.unlock(*e.Scope)
	case KindResume:
		return a.resume(*e.Scope)
	case KindApprove, KindReject:
		return a.answer(e.Decision, e.Kind == KindApprove)
	case KindStage:
		return a.stage(*e.Table, e.Force)
	case KindAck:
		return a.acks(e.Acks)
	case KindActivate:
		return a.activate(e.Revision, e.Waive, e.Force, e.ConfirmWithin)
	case KindConfirm:
		return a.confirm(e.Revision)
	case KindRevert:
		return a.revert(e.Revision)
	case KindLocal:
		return a.local(*e.Order)
	case KindOperator:
		return a.operator(*e.Operator)
	case KindDismiss:
		return a.dismiss(e.Name)
	case KindDivert:
		return a.divert(*e.Divert)
	case KindShare:
		return a.share(*e.Share, e.Force)
	case KindNames:
		return a.names(*e.Names)
	case KindRamp:
		a.judgeRamps()
		return ""
	case KindPlan:
		return a.plan(*e.Plan)
	case KindStep:
		return a.step(*e.Step)
	case KindShed:
		a.judgeSheds()
		return ""
	case KindGone:
		return a.gone(*e.Decide)
	case KindCut:
		return a.cuts(e.Cuts)
	case KindEpoch:
		return a.epoch()
	case KindReconcile:
		return a.reconcile(e.Truth)
	}
	return "" // a tick
}

// event records a transition.
func (a *applying) event(ev steadycast.Event) { a.reply.Events = append(a.reply.Events, ev) }

// refuse answers a person's entry with the guard that refused it whole.
func (a *applying) refuse(guard, text, override string) {
	a.reply.Refused = &steadycast.GuardAnswer{Guard: guard, Text: text, Override: override}
}

// known refuses a person's entry that names what the table does not have.
func (a *applying) known(site string, prefixes ...netip.Prefix) bool {
	if site != "" {
		if p, ok := a.Table.Place(site); !ok || p.Witness {
			a.refuse(wellFormed, fmt.Sprintf("no site named %s announces anything; sites: %s", site, list(a.Table.Announcers())), "")
			return false
		}
	}
	for _, p := range prefixes {
		switch {
		case site == "" && a.prefix(p) == nil:
			a.refuse(wellFormed, fmt.Sprintf("no prefix %s; prefixes: %s", p, list(a.Table.AllPrefixes())), "")
			return false
		case site != "" && a.unit(site, p) == nil:
			a.refuse(wellFormed, fmt.Sprintf("%s does not announce %s; its prefixes: %s", site, p, list(a.Table.PrefixesAt(site))), "")
			return false
		}
	}
	return true
}

// scope is known for a Scope.
func (a *applying) scope(s Scope) bool {
	if s.Node != "" && (s.Site == "" || a.e.Kind != KindOrderClear) {
		a.refuse(wellFormed, fmt.Sprintf("%s is one node; only withdraw, drain, announce and undrain are about one", s.Target()), "")
		return false
	}
	if s.Prefix.IsValid() {
		return a.known(s.Site, s.Prefix)
	}
	return a.known(s.Site)
}

// explained refuses a person's entry without a who and a why.
func (a *applying) explained(actor, reason string) bool {
	switch {
	case actor == "":
		a.refuse(wellFormed, "who wants this is missing", "")
	case reason == "":
		a.refuse(wellFormed, "the reason is missing; it is kept and shown to whoever asks why", "")
	default:
		return true
	}
	return false
}
