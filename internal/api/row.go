package api

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Stale is the age over which a site's real state is shown as unknown.
const Stale = 10 * time.Second

// Showing is one word for what a unit does, as people say it.
type Showing string

// What a unit may show. The words are stable for machines.
const (
	Announced   Showing = "announced"   // proven at every peer that is up
	Announcing  Showing = "announcing"  // wanted, not proven yet
	Depreferred Showing = "depreferred" // announced, less attractive
	Held        Showing = "held"        // should leave; a guard keeps it
	Leaving     Showing = "draining"    // announced with GSHUT, about to leave
	Withdrawing Showing = "withdrawing" // not wanted, not proven gone
	Withdrawn   Showing = "withdrawn"   // proven gone: failure, or an order to withdraw
	Drained     Showing = "drained"     // proven gone for maintenance
	Returning   Showing = "returning"   // well again, on its way back
	OnHold      Showing = "on hold"     // well again, waits for a person
	Locked      Showing = "locked"      // too many cycles, waits for a person
	Lost        Showing = "lost"        // should announce and cannot
	Starting    Showing = "starting"    // has not announced yet
	NotHeard    Showing = "unknown"     // no fresh word from the site
)

// Showings are all of them, in the order above.
var Showings = []Showing{Announced, Announcing, Depreferred, Held, Leaving, Withdrawing, Withdrawn,
	Drained, Returning, OnHold, Locked, Lost, Starting, NotHeard}

// Announces reports whether routers hold the route.
func (s Showing) Announces() bool {
	return s == Announced || s == Depreferred || s == Held || s == Leaving
}

// Row is one unit with its state in one word and the reason in one line.
type Row struct {
	Unit  steadycast.Unit  `json:"unit"`
	State Showing          `json:"state"`
	Phase steadycast.Phase `json:"phase"`
	// Since is when it began; zero if that is not known.
	Since time.Time `json:"since,omitzero"`
	// Checks that are up of all checks of the unit's services; BGP sessions up of all.
	ChecksUp int `json:"checks_up"`
	Checks   int `json:"checks"`
	PeersUp  int `json:"peers_up"`
	Peers    int `json:"peers"`
	// Nodes of the site where it has several, and how many of them are known not to
	// announce, or not heard; zero of another site of which the ledger cannot be asked.
	Nodes    int  `json:"nodes,omitempty"`
	NodesOut int  `json:"nodes_out,omitempty"`
	amiss    int  // of those, the ones that nobody ordered out
	moving   bool // from one path to another
	// Heard is when the real state was last confirmed; zero if never.
	Heard time.Time `json:"heard,omitzero"`
	// Far: of another node's site, so the ledger's count is all that is known here.
	Far bool `json:"far,omitempty"`
	// Order stands over the unit; Guard refused its withdrawal.
	Order *decide.StandingOrder `json:"order,omitempty"`
	Guard string                `json:"guard,omitempty"`
	// NodeOrders stand over single nodes of its site.
	NodeOrders []decide.StandingOrder `json:"node_orders,omitempty"`
	// BudgetUsed of BudgetLimit automatic withdrawals of this unit.
	BudgetUsed  int `json:"budget_used"`
	BudgetLimit int `json:"budget_limit"`
	// Why is empty for a unit of which there is nothing to say.
	Why string `json:"why,omitempty"`
}

// Rows judges every unit of the snapshot, in order of site, then prefix.
func (s *Snapshot) Rows() []Row {
	x := newIndex(s)
	rows := make([]Row, 0, len(s.View.Units))
	for i := range s.View.Units {
		rows = append(rows, x.row(&s.View.Units[i]))
	}
	return rows
}

// index finds in one step what a row needs; it lives for one rendering.
type index struct {
	s        *Snapshot
	sites    map[string]*Site
	units    map[steadycast.Unit]*Unit
	services map[netip.Prefix][]string
	at       map[serviceAt]*seenAt
	paths    map[string]string                // what is wrong with those in use, by site
	verdicts map[string][]*steadycast.Verdict // of each site, as the ledger has them
}

// serviceAt is a service at a site, and seenAt what is known of it there.
type serviceAt struct{ site, service string }

type seenAt struct {
	*Service       // nil where only checks are known
	checks, up int // the site's own
}

func (x *index) seen(site, service string) *seenAt {
	at := serviceAt{site, service}
	if x.at[at] == nil {
		x.at[at] = &seenAt{}
	}
	return x.at[at]
}

func newIndex(s *Snapshot) *index {
	x := &index{s: s, sites: map[string]*Site{}, units: map[steadycast.Unit]*Unit{}, services: map[netip.Prefix][]string{}, at: map[serviceAt]*seenAt{}, paths: s.pathTexts(), verdicts: map[string][]*steadycast.Verdict{}}
	for i := range s.View.Verdicts {
		v := &s.View.Verdicts[i]
		x.verdicts[v.Site] = append(x.verdicts[v.Site], v)
	}
	for i := range s.Sites {
		site := &s.Sites[i]
		x.sites[site.Name] = site
		for j := range site.Units {
			x.units[site.Units[j].Unit] = &site.Units[j]
		}
		for j := range site.Services {
			x.seen(site.Name, site.Services[j].Verdict.Service).Service = &site.Services[j]
		}
		for j := range site.Checks {
			c := &site.Checks[j]
			if c.Subject != "" {
				continue
			}
			at := x.seen(site.Name, c.Service)
			at.checks++
			if c.Result.Outcome == steadycast.Up {
				at.up++
			}
		}
	}
	for _, svc := range s.View.Table.Services {
		for _, p := range svc.Prefixes {
			x.services[p] = append(x.services[p], svc.Name)
		}
	}
	return x
}

// worst returns the most troubled service of the unit at its site.
func (x *index) worst(u steadycast.Unit) *Service {
	var worst *Service
	for _, name := range x.services[u.Prefix] {
		at := x.at[serviceAt{u.Site, name}]
		if at != nil && at.Service != nil && (worst == nil || badness(at.Service) > badness(worst)) {
			worst = at.Service
		}
	}
	return worst
}

func badness(s *Service) int {
	switch s.Verdict.State {
	case steadycast.Unhealthy:
		return 4
	case steadycast.Recovering:
		return 3
	case steadycast.Suspect:
		return 2
	case steadycast.StateUnknown:
		return 1
	}
	return 0
}

// order returns the newest order that stands over u.
func (x *index) order(u steadycast.Unit) *decide.StandingOrder {
	var newest *decide.StandingOrder
	for i := range x.s.View.Orders {
		o := &x.s.View.Orders[i]
		if o.Order.Site == u.Site && o.Order.Covers(u.Prefix) && (newest == nil || o.Fence.Compare(newest.Fence) > 0) {
			newest = o
		}
	}
	return newest
}

func (x *index) row(v *decide.UnitView) Row {
	r := Row{Unit: v.Unit, Phase: v.Phase, Guard: v.Guard, Order: x.order(v.Unit), NodeOrders: x.nodeOrders(v.Unit), BudgetUsed: v.BudgetUsed, BudgetLimit: v.BudgetLimit}
	site, real := x.sites[v.Unit.Site], x.units[v.Unit]
	if site == nil && x.s.Mode == "fleet" {
		return x.farRow(r, v)
	}
	if site == nil || real == nil {
		r.State, r.Why = NotHeard, "nothing heard from this site yet"
		return r
	}
	r.Heard, r.Since = site.Heard, real.Since
	for _, name := range x.services[v.Unit.Prefix] {
		if at := x.at[serviceAt{site.Name, name}]; at != nil {
			r.Checks, r.ChecksUp = r.Checks+at.checks, r.ChecksUp+at.up
		}
	}
	for _, p := range site.Actual.Peers {
		r.Peers++
		if p.Up() {
			r.PeersUp++
		}
	}
	if age := x.s.At.Sub(site.Heard); age > Stale {
		r.State, r.Why = NotHeard, fmt.Sprintf("last heard %s ago", Span(age))
		return r
	}
	if site.SpeakerLost != "" {
		r.State, r.Why = NotHeard, "speaker lost: "+site.SpeakerLost
		return r
	}
	r.State = showing(v, real, x.worst(v.Unit))
	r.Nodes, r.NodesOut, r.amiss = len(real.Nodes), nodesOut(real.Nodes), nodesAmiss(real.Nodes)
	r.moving = real.Wanted && real.Moving && !real.Proven
	r.Why = x.why(&r, v, real)
	return r
}

// showing turns the committed and the real state into one word.
func showing(v *decide.UnitView, real *Unit, svc *Service) Showing {
	failing := svc != nil && svc.Verdict.State == steadycast.Unhealthy
	if leftAlone(real.Nodes) && v.Phase == steadycast.In && real.Proven && nodesOut(real.Nodes) < len(real.Nodes) {
		return Announced // by the site's other nodes
	}
	if real.Wanted {
		switch {
		case v.Lost:
			return Lost
		case !real.Proven && !real.Moving:
			return Announcing
		case real.Stance == steadycast.Draining, v.Order == steadycast.OrderDrain:
			return Leaving
		case v.Depreferred && v.Guard != "", failing && v.Order != steadycast.OrderAnnounce:
			return Held
		case real.Stance == steadycast.Depreferred:
			return Depreferred
		default:
			return Announced
		}
	}
	switch {
	case !real.Proven:
		return Withdrawing
	case v.Order == steadycast.OrderDrain:
		return Drained
	case v.Order == steadycast.OrderWithdraw:
		return Withdrawn
	case v.Locked:
		return Locked
	case v.OnHold:
		return OnHold
	case v.Phase == steadycast.In && v.Ever:
		return Lost
	case failing:
		return Withdrawn
	case v.Phase == steadycast.Returning:
		return Returning
	case !v.Ever:
		return Starting
	case svc != nil && (svc.Verdict.State == steadycast.Recovering || svc.Verdict.State == steadycast.Healthy):
		return Returning
	default:
		return Withdrawn
	}
}

// why gives the reason in one line; healthy rows say nothing.
func (x *index) why(r *Row, v *decide.UnitView, real *Unit) string {
	var parts []string
	if v.Unheard {
		parts = append(parts, unheardText)
	}
	if o := r.Order; o != nil {
		parts = append(parts, OrderText(o))
	}
	for i := range r.NodeOrders {
		parts = append(parts, OrderText(&r.NodeOrders[i]))
	}
	if r.State == Leaving && len(real.Why) > 0 {
		parts = append(parts, real.Why[0])
	}
	if r.State == Announcing || r.State == Withdrawing || r.moving {
		parts = append(parts, real.Unproven)
	}
	svc := x.worst(v.Unit)
	switch {
	case svc == nil || svc.Verdict.State == steadycast.Healthy:
	case svc.Next != "" && !svc.Verdict.Held && (r.State == Starting || r.State == Returning):
		// Nothing is wrong; what a person asks is how long it takes.
		parts = append(parts, svc.Verdict.Service+" "+svc.Verdict.State.String()+": "+svc.Next)
	default:
		parts = append(parts, verdictText(&svc.Verdict))
	}
	switch {
	case r.State == Held && v.Frozen != "":
		parts = append(parts, "frozen: "+v.Frozen)
	case r.State == Held:
		parts = append(parts, refusalText(v, real))
	case r.State == Locked:
		parts = append(parts, fmt.Sprintf("%d cycles; a person must unlock it", v.Cycles))
	case r.State == OnHold:
		parts = append(parts, "healthy; returns wait for a person")
	case v.Breaker != "" && r.State != Announced && r.Order == nil:
		parts = append(parts, "breaker: "+v.Breaker)
	case v.Frozen != "" && r.State != Announced && r.State != Announcing && r.Order == nil:
		parts = append(parts, "frozen: "+v.Frozen)
	case r.State == Lost:
		parts = append(parts, "should announce and cannot")
	case r.State == Returning && len(parts) == 0:
		parts = append(parts, returnText(v, real))
	}
	if r.NodesOut > 0 && (r.State.Announces() || r.State == Withdrawing) {
		parts = append(parts, NodesText(real.Nodes))
	}
	if d := x.divert(v.Unit.Site); d != nil && r.State.Announces() {
		parts = append(parts, DivertText(d))
	}
	if r.State.Announces() {
		parts = append(parts, x.paths[v.Unit.Site])
	}
	if x := x.share(v.Unit); x != nil && r.State.Announces() {
		parts = append(parts, ShareText(x))
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	if len(parts) == 0 && r.State != Announced && len(real.Why) > 0 {
		parts = real.Why[:1]
	}
	return strings.Join(parts, "; ")
}

func verdictText(v *steadycast.Verdict) string {
	t := v.Service + " " + v.State.String()
	if v.Held {
		t += " (held: too little evidence)"
	}
	if v.Reason != "" {
		t += ": " + v.Reason
	}
	return t
}

// returnText says what a unit that is well again waits for.
func returnText(v *decide.UnitView, real *Unit) string {
	if v.CooldownLeftMS > 0 {
		return "well again; cooldown, " + Span(time.Duration(v.CooldownLeftMS)*time.Millisecond) + " left"
	}
	if real.Last != nil && real.Last.Permit == nil {
		if g, refused := real.Last.Refusal(); refused {
			return "well again; " + g.Guard + " refuses: " + g.Text
		}
	}
	return "well again; asks for its return"
}

func refusalText(v *decide.UnitView, real *Unit) string {
	if real.Last != nil {
		if g, refused := real.Last.Refusal(); refused {
			return g.Guard + " refuses: " + g.Text
		}
	}
	if v.Guard != "" {
		return v.Guard + " refuses the withdrawal"
	}
	return ""
}

// unheardText is said of a unit whose phase is that of an older copy.
const unheardText = "the ledger was recovered and has not heard this site since: it stays as it is, and no floor counts it"

// OrderText says who ordered what, why, and what is left: `drain by maria (uid
// 1003): "rack swap", 29m left`.
func OrderText(o *decide.StandingOrder) string {
	t := fmt.Sprintf("%s by %s: %q", o.Order.Kind, o.Order.Actor, o.Order.Reason)
	if o.Order.Node != "" {
		t = o.Order.Node + ": " + t
	}
	if o.Until > 0 {
		t += ", " + Span(time.Duration(o.LeftMS)*time.Millisecond) + " left"
	} else {
		t += ", until cleared"
	}
	if o.Order.Force {
		t += ", forced"
	}
	if o.Recovered {
		t += "; from before the ledger was recovered, and binds nobody: give it anew or end it"
	}
	return t
}

// Span writes a duration as people say it: 0s, 43s, 6m12s, 3h4m, 6d.
func Span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second && d > 0:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return pair(d/time.Minute, "m", d%time.Minute/time.Second, "s")
	case d < 24*time.Hour:
		return pair(d/time.Hour, "h", d%time.Hour/time.Minute, "m")
	default:
		return pair(d/(24*time.Hour), "d", d%(24*time.Hour)/time.Hour, "h")
	}
}

func pair(a time.Duration, au string, b time.Duration, bu string) string {
	if b == 0 {
		return fmt.Sprintf("%d%s", a, au)
	}
	return fmt.Sprintf("%d%s%d%s", a, au, b, bu)
}
