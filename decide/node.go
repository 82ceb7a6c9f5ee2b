package decide

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// One node of a site of several. Each node has a machine of its own and looks at
// its own instance; they share the site's one place in the ledger:
//
//   - The site's own voice is what its nodes see together: well while min_nodes of
//     them are, failing once so many fail that min_nodes cannot be.
//   - A node whose own instance died leaves alone, on its siblings' promises
//     ([Siblings]); the ledger hears of it by its beats and nothing is asked.
//   - The site leaves and returns by a permit. Whichever node announces and sees
//     that it must may ask, each with numbers of its own; one of them is granted,
//     and all act on it, for the ledger counts the site and not its nodes. The one
//     that asked acts within permit_ttl or gives the permit up. The others follow
//     at once if they see the same failure, else when it was not given up meanwhile.
//   - The verdicts that the ledger is told are those of the first node, by name, that
//     its siblings hear.
//
// Nothing here needs the ledger to be within reach.

// Kin is what a node tells its siblings: all of it once a second, and what is new at once.
type Kin struct {
	// Rounds are the newest of its own checks.
	Rounds []KinRound `json:"rounds,omitempty"`
	Units  []KinUnit  `json:"units,omitempty"`
}

// KinRound is one round of a node's own checks, and how old it was when it was told.
type KinRound struct {
	Observation steadycast.Observation `json:"o"`
	Age         Now                    `json:"age_ns"`
}

// KinUnit is what a node says of one prefix; each of the rest may be missing.
type KinUnit struct {
	Prefix  netip.Prefix          `json:"prefix"`
	Hello   *Hello                `json:"hello,omitempty"`
	Asks    *steadycast.RequestID `json:"asks,omitempty"`
	Ordered bool                  `json:"ordered,omitempty"` // a person wants it gone
	Over    *steadycast.RequestID `json:"over,omitempty"`
	Answers *steadycast.RequestID `json:"answers,omitempty"`
	Word    *Word                 `json:"word,omitempty"` // to Answers
}

// Told is what a sibling told. Who it is the caller knows for certain.
type Told struct {
	Node string
	// From is when it was said at the earliest, by this node's clock.
	From Now
	Kin  Kin
}

// Tell tells a sibling; To "" is all of them.
type Tell struct {
	To  string
	Kin Kin
}

// Look hurries this node's look at a sibling's instance.
type Look struct{ Service, Node string }

func (Told) input()  {}
func (Tell) effect() {}
func (Look) effect() {}

// home is the site's own check where it has several nodes: each looks at itself,
// and what they see together is the site's voice.
type home struct {
	nodes []vantage // in order of name
	mine  int       // which of them this node is
	least int       // how many must be well for the site to be
	looks []glance  // beside nodes: this node's own look at each
	away  []bool    // beside nodes: a person took it out, so it serves nobody
}

// glance is one look at a sibling.
type glance struct {
	outcome steadycast.Outcome
	from    Now
	seq     uint64
	ok      bool
}

// newHome keeps what is known of the nodes that stay.
func newHome(p Place, node string, old home) home {
	h := home{least: p.leastNodes()}
	if !p.several() || !p.has(node) || node == "" {
		return h
	}
	for _, n := range p.Nodes {
		h.nodes = append(h.nodes, vantage{name: n.Name, group: p.Name})
	}
	slices.SortFunc(h.nodes, func(a, b vantage) int { return cmp.Compare(a.name, b.name) })
	h.looks, h.away = make([]glance, len(h.nodes)), make([]bool, len(h.nodes))
	for i := range h.nodes {
		if j := old.find(h.nodes[i].name); j >= 0 {
			h.nodes[i], h.looks[i], h.away[i] = old.nodes[j], old.looks[j], old.away[j]
		}
	}
	h.mine = h.find(node)
	return h
}

func (h *home) find(node string) int {
	return slices.IndexFunc(h.nodes, func(v vantage) bool { return v.name == node })
}

// together is the round that the site makes of a round of this node. Nodes that a
// person took out serve nobody: min_nodes of the others must be well, or all of them
// where there are fewer.
func (h *home) together(o steadycast.Observation) steadycast.Observation {
	up, down, serve, class := 0, 0, 0, steadycast.Hard
	var why []string
	for i := range h.nodes {
		v := &h.nodes[i]
		if h.away[i] {
			continue
		}
		serve++
		switch r := v.last.Result; {
		case !v.fresh:
		case r.Outcome == steadycast.Up:
			up++
		case r.Outcome == steadycast.Down:
			down, class = down+1, min(class, r.Class)
			why = append(why, v.name+": "+r.Reason)
		}
	}
	r := steadycast.Result{Took: o.Result.Took, Why: o.Result.Why}
	switch least := min(h.least, serve); {
	case serve == 0:
		r.Reason = "every node is taken out by order"
	case up >= least:
		r.Outcome = steadycast.Up
	case serve-down < least:
		r.Outcome, r.Class, r.Reason = steadycast.Down, class, strings.Join(why, ", ")
	default:
		r.Reason = fmt.Sprintf("%d of %d nodes are well and %d fail; %d must be well", up, serve, down, least)
	}
	o.Result = r
	return o
}

// hearNode takes a round of one node of this site. The site's voice speaks with
// this node's rounds, so that it speaks as often as ever.
func (j *jury) hearNode(now Now, o steadycast.Observation, from Now) bool {
	h := &j.home
	o.Node = cmp.Or(o.Node, h.nodes[h.mine].name)
	i := h.find(o.Node)
	if i < 0 || !h.nodes[i].hear(now, j.window, o, from) || i != h.mine {
		return false
	}
	return j.self().hear(now, j.window, h.together(o), from)
}

// here is this node's own check, which is the site's where it has no siblings.
func (j *jury) here() *vantage {
	if h := &j.home; len(h.nodes) > 0 {
		return &h.nodes[h.mine]
	}
	return j.self()
}

// dead: this node's own instance has failed for as long as makes a verdict.
func (sv *service) dead(now Now) bool {
	v, h := sv.jury.here(), sv.conf.Health
	return v.fresh && (v.raw.bad >= h.Fall || v.raw.hard >= h.FallCertain) && now-v.raw.badAt >= *h.DownFor
}

// fit: this node's own instance has passed for as long as a site must before it returns.
func (sv *service) fit(now Now) bool {
	v, h := sv.jury.here(), sv.conf.Health
	return v.fresh && v.raw.good >= h.Rise && now-sv.failedHere >= h.HoldUp
}

// sawItself takes a round of this site's own checks that was just heard.
func (s *Site) sawItself(now Now, sv *service) {
	if v := sv.jury.here(); v.last.Result.Outcome == steadycast.Down {
		sv.failedHere = v.from
	}
}

// fails: this node's own instance has begun to fail and was not judged for long.
func (sv *service) fails() bool {
	v := sv.jury.here()
	return len(sv.jury.home.nodes) > 0 && v.fresh && v.raw.bad > 0 && v.raw.bad <= 3*sv.conf.Health.Fall
}

// several: this node has siblings.
func (s *Site) several() bool { return s.me != "" }

// befriend gives each unit its part in what the nodes promise each other.
func (s *Site) befriend(p Place) {
	s.me = ""
	if p.several() && p.has(s.o.Node) {
		s.me = s.o.Node
	}
	s.dead.Node = s.me
	var names []string
	if s.several() {
		for _, n := range p.Nodes {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	old := s.siblings
	s.siblings = nil
	for _, n := range names {
		if n == s.me {
			continue
		}
		k := relative{name: n}
		if i := slices.IndexFunc(old, func(r relative) bool { return r.name == n }); i >= 0 {
			k = old[i]
		}
		s.siblings = append(s.siblings, k)
	}
	for i := range s.units {
		u := &s.units[i]
		switch o := (SiblingOptions{Node: s.me, Nodes: names, MinNodes: p.leastNodes(), Incarnation: s.o.Incarnation}); {
		case !s.several():
			u.kin, u.aside = nil, ""
		case u.kin == nil:
			u.kin = NewSiblings(o)
		default:
			u.kin.adopt(o)
		}
	}
}

// relative is a sibling, and when it was heard.
type relative struct {
	name  string
	heard bool
	from  Now
}

// told takes what a sibling said.
func (s *Site) told(now Now, in Told) bool {
	i := slices.IndexFunc(s.siblings, func(r relative) bool { return r.name == in.Node })
	if i < 0 {
		return false
	}
	in.From = min(in.From, now)
	if r := &s.siblings[i]; !r.heard || in.From > r.from {
		r.heard, r.from = true, in.From
	}
	for _, r := range in.Kin.Rounds {
		o := r.Observation
		o.Vantage, o.Subject, o.Node = s.name, s.name, in.Node
		s.observed(now, Observed{Observation: o, From: in.From - max(r.Age, 0)})
	}
	for _, k := range in.Kin.Units {
		j, ok := findUnit(s.units, k.Prefix)
		if !ok || s.units[j].kin == nil {
			continue
		}
		u := &s.units[j]
		if k.Hello != nil {
			h := *k.Hello
			h.Node, h.From = in.Node, in.From
			s.kinDo(now, u, u.kin.Step(now, h))
		}
		if k.Over != nil {
			s.kinDo(now, u, u.kin.Step(now, PromiseOver{Node: in.Node, ID: *k.Over}))
		}
		if k.Asks != nil {
			s.kinDo(now, u, u.kin.Step(now, PromiseAsked{Node: in.Node, ID: *k.Asks, Ordered: k.Ordered}))
		}
		if k.Answers != nil && k.Word != nil {
			s.kinDo(now, u, u.kin.Step(now, PromiseAnswered{Node: in.Node, ID: *k.Answers, Word: *k.Word}))
		}
	}
	return true
}

// glanced takes this node's own look at a sibling's instance.
func (s *Site) glanced(now Now, in Observed, node string) bool {
	o := in.Observation
	i := s.service(o.Service)
	if i < 0 || o.Ineligible != "" {
		return false
	}
	h := &s.services[i].jury.home
	k := h.find(node)
	if k < 0 || h.looks[k].ok && (in.From < h.looks[k].from || o.Seq <= h.looks[k].seq) {
		return false
	}
	h.looks[k] = glance{sane(o.Result).Outcome, min(in.From, now), o.Seq, true}
	for j := range s.units {
		u := &s.units[j]
		if u.kin == nil || !slices.Contains(u.services, i) {
			continue
		}
		seen := SiblingSeen{Node: node, From: h.looks[k].from}
		is := func(o steadycast.Outcome) func(*service) bool {
			return func(sv *service) bool { g := sv.jury.home.looks[k]; return g.ok && g.outcome == o }
		}
		switch {
		case s.well(u, is(steadycast.Up)):
			seen.Outcome = steadycast.Up
		case !s.well(u, func(sv *service) bool { return !is(steadycast.Down)(sv) }):
			seen.Outcome = steadycast.Down
		}
		s.kinDo(now, u, u.kin.Step(now, seen))
	}
	return true
}

// node tells the unit's part in the promises what is so here, and does what follows.
func (s *Site) node(now Now, u *unit, wake *deadline) {
	if u.kin == nil {
		return
	}
	self := SelfSeen{Announcing: u.announced && u.onWire && !u.draining, Room: s.room(now, u)}
	well := (*service).steady
	if u.aside != "" {
		well = func(sv *service) bool { return sv.fit(now) }
	}
	switch {
	case !s.well(u, func(sv *service) bool { return !sv.dead(now) }):
		self.Outcome = steadycast.Down
		for _, i := range u.services {
			if sv := &s.services[i]; sv.dead(now) {
				self.Reason = sv.conf.Name + ": " + sv.jury.here().last.Result.Reason
				break
			}
		}
	case s.well(u, well):
		self.Outcome = steadycast.Up
	}
	switch v, mode := &u.view, s.nodeMode(u); {
	case v.Order != steadycast.OrderNone:
		self.Held = "order " + v.Order.String() + " stands"
	case u.mine.Kind == steadycast.OrderAnnounce:
		self.Held = "order announce stands over it"
	case v.Frozen != "":
		self.Held = "frozen: " + v.Frozen
	case v.Unheard:
		self.Held = unheardText
	case mode == ModeApprove:
		self.Held = "mode approve, and the order to withdraw " + s.name + "/" + s.me + " is the yes"
	case mode != ModeAuto:
		self.Held = "mode " + mode
	}
	if u.goes && u.announced {
		self.Goes, self.Forced = u.mine.Kind.String()+" by order of "+u.mine.Actor, u.mine.Force
	}
	was := u.aside
	s.kinDo(now, u, u.kin.Step(now, self))
	if was != "" && u.aside == "" {
		s.place(now, u)
	}
	if now < u.warm && u.kin.normal() {
		u.warm, u.reason = 0, "announced: a sibling was announced all along"
	}
	if at, ok := u.kin.Wake(); ok {
		wake.by(max(at, now+1))
	}
}

// room: this node can carry its share of what one more sibling leaves. Where
// nothing is said of capacity that is not asked.
func (s *Site) room(now Now, u *unit) bool {
	place, _ := s.table.Place(s.name)
	n := Now(u.kin.stay() + 1)
	switch {
	case place.Capacity == 0 || n < 2:
		return true
	case s.load == nil || now-s.load.From > loadMaxAge*time.Second:
		return false
	}
	return Now(s.load.Load)*n*Now(len(place.Nodes)) <= Now(place.Capacity)*(n-1)
}

// kinDo carries out what the promises come to.
func (s *Site) kinDo(now Now, u *unit, effects []Effect) {
	tell := func(to string, k KinUnit) {
		k.Prefix = u.id.Prefix
		s.out = append(s.out, Tell{To: to, Kin: Kin{Units: []KinUnit{k}}})
	}
	for _, e := range effects {
		switch e := e.(type) {
		case AskPromise:
			tell(e.To, KinUnit{Asks: &e.ID, Ordered: e.Ordered})
		case AnswerPromise:
			tell(e.To, KinUnit{Answers: &e.ID, Word: &e.Word})
		case PromiseDone:
			tell(e.To, KinUnit{Over: &e.ID})
		case LookAt:
			for _, i := range u.services {
				s.out = append(s.out, Look{Service: s.services[i].conf.Name, Node: e.Node})
			}
		case GoNode:
			s.went(now, u, e.Reason)
			tell("", KinUnit{Hello: s.hello(u)})
		case KeepNode:
			s.kept(u)
		case LeaveNode:
			u.aside = "this node alone: " + e.Reason
			s.takeOut(u, u.aside)
			tell("", KinUnit{Hello: s.hello(u)})
		case ReturnNode:
			u.aside = ""
			u.reason = "this node may announce again: " + e.Reason
		case SiteMustLeave:
			s.note(steadycast.Event{Kind: steadycast.EventRefused, Prefix: u.id.Prefix, Guard: minNodesGuard, Reason: e.Reason})
		case Note:
			e.Event.Prefix = u.id.Prefix
			s.note(e.Event)
		}
	}
}

// minNodesGuard is who refuses a node that wants to leave alone.
const minNodesGuard = "min_nodes"

func (s *Site) hello(u *unit) *Hello {
	h := u.kin.Hello()
	h.Announcing = h.Announcing && u.announced && u.onWire
	h.Normal = h.Announcing && u.stance(s.now) == steadycast.Normal
	return &h
}

// Kin is what this node tells all its siblings once a second; ok is false where
// it has none.
func (s *Site) Kin(now Now) (k Kin, ok bool) {
	if !s.several() {
		return k, false
	}
	for i := range s.services {
		if v := s.services[i].jury.here(); v.fresh {
			k.Rounds = append(k.Rounds, kinRound(v.last, max(now, s.now)-v.from))
		}
	}
	for i := range s.units {
		k.Units = append(k.Units, KinUnit{Prefix: s.units[i].id.Prefix, Hello: s.hello(&s.units[i])})
	}
	return k, true
}

// kinRound is a round as siblings are told it: the explanation stays here.
func kinRound(o steadycast.Observation, age Now) KinRound {
	o.Result.Why, o.Signed, o.Result.Reason = nil, nil, cut(o.Result.Reason, ackText)
	return KinRound{o, age}
}

// speaks: this node tells the ledger the site's verdicts, for no sibling whose name
// comes first was heard lately.
func (s *Site) speaks(now Now, wake *deadline) bool {
	if !s.several() {
		return true
	}
	if now < helloFor && len(s.siblings) > 0 && s.siblings[0].name < s.me {
		wake.by(helloFor)
		return false // they may not have been heard yet
	}
	for i := range s.siblings {
		if r := &s.siblings[i]; r.name < s.me && r.heard && now-r.from <= helloFor {
			wake.by(r.from + helloFor + 1)
			return false
		}
	}
	return true
}

// anothers: the permit was asked for by another node of this site.
func (s *Site) anothers(p steadycast.Permit) bool {
	return s.several() && p.ID.Node != s.me && p.ID.Incarnation > 0 && p.Action == steadycast.Withdraw
}

// followOut carries out a withdrawal that another node asked for: at once if this
// one sees the same failure, else when the right to act on it has ended and the
// ledger still counts the site out.
func (s *Site) followOut(now Now, u *unit) {
	p := u.view.Permit
	if s.wantOut(u) || now > u.anotherAt+s.table.Guards.PermitTTL {
		u.permit = p.Fence
		s.takeOut(u, "withdrawn with the site, by permit "+p.ID.String())
		return
	}
	u.reason = "kept for a moment: " + p.ID.String() + " allowed the site to leave, and this node does not see it fail"
}

// fits: this node may announce, as far as its own instance goes.
func (s *Site) fits(u *unit) bool {
	return !s.several() || u.mine.Kind == steadycast.OrderAnnounce ||
		u.aside == "" && !u.sentOut() && !s.sentOutBefore(u) && s.well(u, (*service).steady)
}

// siblingOf is the node in the subject of a look at a sibling.
func (s *Site) siblingOf(subject string) (node string, ok bool) {
	return strings.CutPrefix(subject, s.name+"/")
}

// NodeStatus is one node of a site of several, of one prefix, as this one knows it.
type NodeStatus struct {
	Node string `json:"node"`
	Here bool   `json:"here,omitempty"` // it is this one
	// Heard lately; else what follows is not known.
	Heard      bool `json:"heard"`
	Announcing bool `json:"announcing"`
	// Alone: it took its own route away by itself, that long ago, and is not back.
	Alone   bool          `json:"alone,omitempty"`
	LeftAgo time.Duration `json:"left_ago_ns,omitempty"`
	// Order stands over this node alone.
	Order steadycast.OrderKind `json:"order,omitempty"`
	// Asks: it asks its siblings to stay, so that it may leave.
	Asks bool `json:"asks,omitempty"`
	// Bound is how long this node will not leave by itself, as it promised.
	Bound time.Duration `json:"bound_ns,omitempty"`
	// Outcome of its own instance: as judged here, by the newest round of a sibling.
	Outcome steadycast.Outcome `json:"outcome"`
	Reason  string             `json:"reason,omitempty"`
}

// explainNodes says how the nodes of the site stand, in order of name.
func (s *Site) explainNodes(u *unit) []NodeStatus {
	k := u.kin
	if k == nil {
		return nil
	}
	here := NodeStatus{
		Node: s.me, Here: true, Heard: true, Announcing: u.announced && u.onWire, Alone: k.left,
		Order: u.mine.Kind, Asks: k.request != nil, Bound: max(k.bound-s.now, 0), Outcome: k.own.Outcome, Reason: k.own.Reason,
	}
	if k.left {
		here.LeftAgo = s.now - k.leftAt
	}
	out := []NodeStatus{here}
	for i := range k.peers {
		out = append(out, s.explainSibling(u, &k.peers[i]))
	}
	slices.SortFunc(out, func(a, b NodeStatus) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

func (s *Site) explainSibling(u *unit, p *sibling) NodeStatus {
	st := NodeStatus{Node: p.name, Order: s.nodeOrder(p.name, u.id).Kind, Heard: p.heard && s.now-p.hello.From <= helloFor}
	if !st.Heard {
		return st
	}
	st.Announcing, st.Alone = p.hello.Announcing, p.hello.Alone
	if st.Alone {
		st.LeftAgo = s.now - p.leftAt
	}
	st.Asks = p.promised && st.Announcing && s.now-p.promise <= requestFor
	own := func(sv *service) steadycast.Result {
		h := &sv.jury.home
		if k := h.find(p.name); k >= 0 && h.nodes[k].fresh {
			return h.nodes[k].last.Result
		}
		return steadycast.Result{}
	}
	switch {
	case s.well(u, func(sv *service) bool { return own(sv).Outcome == steadycast.Up }):
		st.Outcome = steadycast.Up
	case !s.well(u, func(sv *service) bool { return own(sv).Outcome != steadycast.Down }):
		st.Outcome = steadycast.Down
		for _, j := range u.services {
			if r := own(&s.services[j]); r.Outcome == steadycast.Down {
				st.Reason = s.services[j].conf.Name + ": " + r.Reason
				break
			}
		}
	}
	return st
}

// nodeMode is the strictest of the unit's services for what a node does alone.
func (s *Site) nodeMode(u *unit) string {
	return s.strictest(u, func(c *Service) string { return cmp.Or(c.NodeMode, c.Mode) })
}
