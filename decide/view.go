package decide

import (
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// View is the committed state, for sites, people and DNS: an immutable copy.
type View struct {
	Fence steadycast.Fence `json:"fence"`
	LT    Time             `json:"lt"`
	Table Table            `json:"table"`
	// Units in order of site, then prefix.
	Units []UnitView `json:"units"`
	// Verdicts in order of site, then service.
	Verdicts []steadycast.Verdict `json:"verdicts"`
	Orders   []StandingOrder      `json:"orders,omitempty"`
	// NodeOrders stand over single nodes of sites of several.
	NodeOrders []StandingOrder  `json:"node_orders,omitempty"`
	Freezes    []StandingFreeze `json:"freezes,omitempty"`
	// Prefixes in order, with the numbers of their guards.
	Prefixes []PrefixView `json:"prefixes"`
	// Staged waits to be activated; Acks are what nodes say of it, in order,
	// and Unready who announces and has not said yes: SITE, or SITE/NODE where there
	// are several, each with why.
	Staged  *Staged  `json:"staged,omitempty"`
	Acks    []Ack    `json:"acks,omitempty"`
	Unready []string `json:"unready,omitempty"`
	// Revisions were in force, oldest first; the last is. Their content is asked for.
	Revisions []Revision `json:"revisions,omitempty"`
	// Trial is set while the table in force waits for somebody to confirm it.
	Trial *Trial `json:"trial,omitempty"`
	// Decisions wait for a person, oldest first.
	Decisions []Decision `json:"decisions,omitempty"`
	// Shares are the sites that take less of a service than all who would come, in
	// order of site, then service.
	Shares []ShareView `json:"shares,omitempty"`
	// Diverts are the sites that announce by another path than their first, in order
	// of site.
	Diverts []Divert `json:"diverts,omitempty"`
	// PathWishes are the changes of path that automation calls for and a guard refuses.
	PathWishes []PathWish `json:"path_wishes,omitempty"`
	// Plans are the runs of plans that are proposed, under way or remembered, oldest first.
	Plans []PlanRun `json:"plans,omitempty"`
	// Names is what people ordered of the answers.
	Names NamesView `json:"names,omitzero"`
	// Gone are services at silent sites that others see down, in order of site, then service.
	Gone []Gone `json:"gone,omitempty"`
	// Cuts are what cuts of the fleet came to, the newest last.
	Cuts []CutKept `json:"cuts,omitempty"`
	// Fleet is whose ledger it is; empty for a node's own.
	Fleet string `json:"fleet,omitempty"`
	// Operators in order of name. Without any, orders need no signature.
	Operators []OperatorView `json:"operators,omitempty"`
}

// OperatorView is one operator, and the serial of the newest entry that he signed.
type OperatorView struct {
	Operator steadycast.Operator `json:"operator"`
	Serial   uint64              `json:"serial"`
}

// UnitView is one unit as committed.
type UnitView struct {
	Unit  steadycast.Unit  `json:"unit"`
	Phase steadycast.Phase `json:"phase"`
	// Ever is false until the unit was In for the first time.
	Ever bool `json:"ever"`
	// Lost: In, but no longer announcing against its will.
	Lost bool `json:"lost,omitempty"`
	// Unheard: the phase is that of the copy from which the ledger was recovered, and
	// nothing that anybody may act on: what is announced stays, and what is not stays
	// so, until the site was heard.
	Unheard bool `json:"unheard,omitempty"`
	// Permit is the latest permit; Return is the id a return must prove.
	Permit steadycast.Permit    `json:"permit"`
	Return steadycast.RequestID `json:"return,omitzero"`
	// Depreferred is set while a deprefer permit stands; Guard is what refused the withdrawal.
	Depreferred bool   `json:"depreferred,omitempty"`
	Guard       string `json:"guard,omitempty"`
	Locked      bool   `json:"locked,omitempty"`
	// OnHold: healthy, but returns wait for a person.
	OnHold bool `json:"on_hold,omitempty"`
	// Order is the kind of order that stands over the unit, if any.
	// Under an announce order it is announced whatever the checks say.
	Order steadycast.OrderKind `json:"order,omitempty"`
	// Frozen gives the cause, when a person froze automation for the unit.
	Frozen string `json:"frozen,omitempty"`
	// Breaker gives the cause, when the breaker froze the unit's prefix. The site
	// goes on asking: certain failures are depreferred meanwhile, and returns are
	// granted while too few announce healthily.
	Breaker string `json:"breaker,omitempty"`
	// Recalled: a person ordered it back. It owes neither cooldown nor budget, is
	// not on hold, and the site asks as soon as it is healthy, in any mode.
	Recalled bool `json:"recalled,omitempty"`
	// Decision is the number of what waits for a person, or was rejected, over the
	// unit; Approved: the site may ask now.
	Decision uint64 `json:"decision,omitempty"`
	Approved bool   `json:"approved,omitempty"`
	// Backup: a service of it only begins to return; it is announced depreferred.
	Backup bool `json:"backup,omitempty"`
	// NamesLeftMS is how long caches may still lead clients to a unit that is drained.
	NamesLeftMS int64 `json:"names_left_ms,omitempty"`
	// Changed is when the phase last changed; CooldownLeft and the budget are at View.LT.
	Changed        Time  `json:"changed"`
	CooldownLeftMS int64 `json:"cooldown_left_ms,omitempty"`
	BudgetUsed     int   `json:"budget_used"`
	BudgetLimit    int   `json:"budget_limit"`
	Cycles         int   `json:"cycles,omitempty"`
}

// StandingOrder is an order with its place in the log and its end.
type StandingOrder struct {
	Order steadycast.Order `json:"order"`
	Fence steadycast.Fence `json:"fence"`
	// Until is the ledger time at which it ends; 0 means not by itself.
	Until Time `json:"until,omitempty"`
	// Recovered: it stands in the copy from which the ledger was recovered, and was not
	// seen carried out since. It binds nobody, until it is given anew or ended.
	Recovered bool `json:"recovered,omitempty"`
	// LeftMS is what is left of it at View.LT.
	LeftMS int64 `json:"left_ms,omitempty"`
}

// StandingFreeze is a freeze with its cause: a person's, or the breaker's.
type StandingFreeze struct {
	Scope  Scope  `json:"scope"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	// Breaker freezes clear by themselves.
	Breaker bool `json:"breaker,omitempty"`
	Since   Time `json:"since"`
}

// PrefixView is one prefix over all sites.
type PrefixView struct {
	Prefix       netip.Prefix `json:"prefix"`
	Sites        int          `json:"sites"`
	Floor        int          `json:"floor"`
	HealthyFloor int          `json:"healthy_floor"`
	// FleetUsed of FleetLimit automatic withdrawals in the window; both 0 for a
	// site alone, which only its own budget bounds.
	FleetUsed  int `json:"fleet_used"`
	FleetLimit int `json:"fleet_limit"`
	// Troubled sites are in trouble within the window: more than BreakerLimit trip the
	// breaker, or BreakerShared of different groups with one cause, where that is not 0.
	Troubled      int `json:"troubled"`
	BreakerLimit  int `json:"breaker_limit"`
	BreakerShared int `json:"breaker_shared,omitempty"`
}

// view builds the committed state anew.
func (s *state) view() View {
	v := View{Fence: s.Fence, LT: s.LT, Table: s.Table, Fleet: s.Fleet, Plans: s.Plans.Runs}
	for _, o := range s.Operators {
		v.Operators = append(v.Operators, OperatorView{o.Operator, o.Serial})
	}
	v.Units = make([]UnitView, 0, len(s.Units))
	for i := range s.Units {
		v.Units = append(v.Units, s.unitView(&s.Units[i]))
	}
	v.Verdicts = make([]steadycast.Verdict, 0, len(s.Verdicts))
	for _, x := range s.Verdicts {
		v.Verdicts = append(v.Verdicts, x.Verdict)
	}
	v.Orders, v.NodeOrders = s.left(s.Orders), s.left(s.NodeOrders)
	v.Freezes = append(v.Freezes, s.Freezes...)
	v.Acks = s.Acks
	if s.Staged != nil {
		w := *s.Staged
		w.Signed = nil
		v.Staged = &w
		v.Unready = s.unready(nil)
	}
	for _, r := range s.Revisions {
		r.Table = nil
		v.Revisions = append(v.Revisions, r)
	}
	if s.Trial != nil {
		t := *s.Trial
		t.Back, t.LeftMS = nil, max(int64(t.Until-s.LT), 0)
		v.Trial = &t
	}
	for _, d := range s.Decisions {
		d.LeftMS = int64(d.Until - s.LT)
		v.Decisions = append(v.Decisions, d)
	}
	v.Shares, v.Diverts, v.PathWishes = s.shares(), s.diverts(), s.pathWishes()
	v.Names, v.Gone, v.Cuts = s.Names, s.Gone, s.Cuts
	v.Prefixes = make([]PrefixView, 0, len(s.Prefixes))
	used, limit := 0, 0
	if len(s.Table.Announcers()) > 1 {
		limit = s.Table.Guards.FleetBudget
		used, _ = s.spent(s.Charges, s.Table.Guards.FleetWindow, limit)
	}
	for _, x := range s.Prefixes {
		of := s.of(x.Prefix)
		sites := len(of.members)
		v.Prefixes = append(v.Prefixes, PrefixView{
			Prefix: x.Prefix, Sites: sites, Floor: of.floor, HealthyFloor: of.healthyFloor,
			FleetUsed: used, FleetLimit: limit,
			Troubled: len(s.troubled(x.Prefix)), BreakerLimit: s.breakerLimit(sites), BreakerShared: s.breakerShared(x.Prefix),
		})
	}
	return v
}

// left are orders with what is left of them; nil if there are none.
func (s *state) left(orders []StandingOrder) (out []StandingOrder) {
	for _, o := range orders {
		if o.Until != 0 {
			o.LeftMS = int64(o.Until - s.LT)
		}
		out = append(out, o)
	}
	return out
}

func (s *state) unitView(u *unitState) UnitView {
	g := s.Table.Guards
	v := UnitView{
		Unit: u.Unit, Phase: u.Phase, Ever: u.Ever, Lost: u.Lost, Unheard: u.Unheard, Permit: u.Permit, Return: u.Return,
		Depreferred: u.Depreferred, Guard: u.Guard, Locked: u.Locked,
		Changed: u.Changed, CooldownLeftMS: int64(u.coolLeft(s)), BudgetLimit: g.SiteBudget, Cycles: s.cycles(u),
	}
	v.BudgetUsed, _ = s.spent(u.Charges, g.SiteWindow, g.SiteBudget)
	if o := s.orderOver(u.Unit); o != nil {
		v.Order = o.Order.Kind
	}
	v.OnHold = v.Order == steadycast.OrderNone && u.Phase == steadycast.Out && u.Auto && !u.Resumed && u.Pardon == noPardon &&
		s.holds(u) != "" && s.health(u.Unit).ok
	v.Recalled = u.Pardon == sparesAll && u.Phase != steadycast.In
	v.Backup, v.NamesLeftMS = s.backup(u.Unit), int64(s.namesLeft(u.Unit))
	for _, d := range s.Decisions {
		if d.Unit == u.Unit {
			v.Decision, v.Approved = d.Number, d.Answer == steadycast.Approved
		}
	}
	for _, f := range s.Freezes {
		switch {
		case !f.Scope.Covers(u.Unit):
		case f.Breaker:
			v.Breaker = f.Reason
		case v.Frozen == "":
			v.Frozen = f.Actor + ": " + f.Reason
		}
	}
	return v
}

// Authority is what a person must know of a ledger to sign something for it.
type Authority struct {
	Fleet     string         `json:"fleet"`
	Epoch     uint64         `json:"epoch"`
	LT        Time           `json:"lt"`
	Operators []OperatorView `json:"operators"`
}

// Authority is the part of the view that signing takes.
func (v *View) Authority() Authority {
	return Authority{v.Fleet, v.Fence.Epoch, v.LT, v.Operators}
}

// Wish begins the next wish of an operator; ok is false if the ledger knows none
// of that name.
func (a Authority) Wish(by string, kind Kind, reason string) (w Wish, ok bool) {
	for _, o := range a.Operators {
		if o.Operator.Name == by {
			return Wish{Fleet: a.Fleet, Epoch: a.Epoch, By: by, Serial: o.Serial + 1, At: a.LT, Kind: kind, Reason: reason}, true
		}
	}
	return w, false
}

// SiteNow is what a site said of itself last, or one node of a site of several.
type SiteNow struct {
	Site  string `json:"site"`
	Node  string `json:"node,omitempty"`
	AgeMS int64  `json:"age_ms"`
	// At is the position of the ledger that it acts on, Announcing what it announces,
	// and Unproven the units of which its newest change is not proven.
	At         steadycast.Fence  `json:"at"`
	Announcing []steadycast.Unit `json:"announcing"`
	Unproven   []steadycast.Unit `json:"unproven"`
	// Revision of the table that it acts on; 0 where it did not say.
	Revision uint64 `json:"revision,omitempty"`
	// Load is what it says that it carries, as the capacity guard counts it; nil where
	// it says nothing.
	Load *Load `json:"load,omitempty"`
	// Cuts are those of its routes that are not done yet, or of which the ledger may
	// not know what they came to.
	Cuts []CutTold `json:"cuts,omitempty"`
	// Led is what its server of names counted; nil where it has none.
	Led *LedTold `json:"led,omitempty"`
	// Met is whom it met at shared addresses whose sites are out.
	Met *MetTold `json:"met,omitempty"`
}

// Together is what the nodes of a site say as one: it acts on what the last of them
// acts on, announces what one of them announces, and has not proven what one of them
// has not. Who was not heard within a while says nothing, unless nobody was; then the
// one that was heard last does. ok is false for a site that was never heard.
func Together(all []SiteNow, site string, within time.Duration) (now SiteNow, ok bool) {
	fresh := func(x *SiteNow) bool { return x.AgeMS <= within.Milliseconds() }
	for i := range all {
		switch x := &all[i]; {
		case x.Site != site:
		case !ok, fresh(x) && !fresh(&now), !fresh(x) && x.AgeMS < now.AgeMS:
			now, ok = *x, true
		case fresh(x):
			if x.At.Compare(now.At) < 0 {
				now.At = x.At
			}
			now.Node = ""
			now.AgeMS, now.Revision = max(now.AgeMS, x.AgeMS), min(now.Revision, x.Revision)
			now.Announcing, now.Unproven = both(now.Announcing, x.Announcing), both(now.Unproven, x.Unproven)
		}
	}
	return now, ok
}

// both are the units of two lists, in order.
func both(a, b []steadycast.Unit) []steadycast.Unit {
	out := slices.Concat(a, b)
	slices.SortFunc(out, steadycast.Unit.Compare)
	return slices.Compact(out)
}
