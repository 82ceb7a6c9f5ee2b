package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// Siblings decides whether one node of a site of several leaves alone, for one
// prefix. A node whose own instance died needs no ledger and no WAN for that: its
// siblings promise that they stay (rule M1 of the protocol).
//
//	own instance down ─▶ ask all ─▶ promises ≥ min_nodes, one agrees, none objects ─▶ leave
//	                        │
//	                        └─ too few announce ─▶ the site must leave: a permit of the ledger (rule M2)
//
// A promise says: I announce, I am well, I have room, and I will not leave by
// myself for promiseFor. It is made to whoever asks, whatever it does with it.
// The one who asked believes in it for requestFor only, counted from its own first
// sending: that is the shorter one whatever the network delays, and both are on
// monotonic clocks. So while a node leaves, min_nodes others are bound to stay,
// and when they are free again each of them needs as many in its turn. Never do
// two leave on each other's word: who has promised does not leave, and who asks
// promises nothing to a sibling of a higher name, while one of a lower name makes
// it give up its own request.
//
// A node that has just started may have promised before: it leaves only after
// promiseFor. At most max(1, a quarter) of the nodes leave within leaveWindow:
// whoever knows of that many objects. That bound is kept among nodes that hear
// each other; it damps, while min_nodes is what holds whatever is lost.
//
// After a restart a node forgets that it had left; whoever starts it brings it
// back as the ledger's phase and its own checks allow.
//
// Silence is no word: a sibling that was heard lately must answer, one that was
// not counts as nobody. Whoever calls Step owns it. It is pure.
type Siblings struct {
	o     SiblingOptions
	begun bool
	now   Now
	start Now

	own     SelfSeen
	peers   []sibling // the others, in order of name
	bound   Now       // it has promised to stay until then
	request *leaveRequest
	seq     uint64
	retryAt Now
	left    bool // by itself, and not back yet
	leftAt  Now
	ever    bool // it left once
	told    string
	out     []Effect
}

// sibling is what is known of another node.
type sibling struct {
	name     string
	heard    bool
	hello    Hello
	left     bool // within leaveWindow, as far as is known
	leftAt   Now
	seen     bool
	look     SiblingSeen
	promised bool // it may leave, on whosever promise
	promise  Now  // when it asked
	asked    steadycast.RequestID
}

// leaveRequest is this node's open one.
type leaveRequest struct {
	id steadycast.RequestID
	// ordered by a person: nobody has to see it fail, and no number of nodes damps it.
	ordered bool
	first   Now
	next    Now
	words   []Word // beside peers
	said    []bool
}

// The times of siblings.
const (
	promiseFor  = 30 * time.Second // who promised stays so long
	requestFor  = 5 * time.Second  // who asked believes it so long, from its first sending
	leaveWindow = 10 * time.Minute // in which at most a quarter leaves
	askEvery    = 250 * time.Millisecond
	helloFor    = 5 * time.Second // a sibling that was heard so lately must answer
)

// NewSiblings makes the machine of a node that knows nothing of the others yet.
func NewSiblings(o SiblingOptions) *Siblings {
	o.MinNodes = max(o.MinNodes, 1)
	setDefault(&o.Most, max(1, len(o.Nodes)/4))
	o.Mode = cmp.Or(o.Mode, ModeAuto)
	s := &Siblings{o: o}
	names := slices.Clone(o.Nodes)
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		if n != o.Node {
			s.peers = append(s.peers, sibling{name: n})
		}
	}
	return s
}

// adopt takes other options, and keeps what is known of the nodes that stay. What
// it asked for is asked again.
func (s *Siblings) adopt(o SiblingOptions) {
	s.drop()
	n := NewSiblings(o)
	for i := range n.peers {
		if p := s.peer(n.peers[i].name); p != nil {
			n.peers[i] = *p
		}
	}
	s.o, s.peers = n.o, n.peers
}

// Step takes one input at an instant and returns what must be done, in order.
func (s *Siblings) Step(now Now, in Input) []Effect {
	if !s.begun {
		s.begun, s.start, s.now = true, now, now
	}
	now = max(now, s.now)
	s.now = now
	switch in := in.(type) {
	case SelfSeen:
		s.own = in
		if in.Announcing { // a person's order, above everything
			s.left = false
		}
	case Hello:
		s.greeted(in)
	case SiblingSeen:
		if p := s.peer(in.Node); p != nil && (!p.seen || in.From >= p.look.From) {
			p.seen, p.look = true, in
		}
	case PromiseAsked:
		s.asked(in)
	case PromiseAnswered:
		s.answered(in)
	case PromiseOver:
		if p := s.peer(in.Node); p != nil && p.asked.Compare(in.ID) <= 0 {
			p.promised, p.asked = false, in.ID
		}
	}
	s.decide()
	out := s.out
	s.out = nil
	return out
}

// Wake is the next instant at which a Tick could have an effect.
func (s *Siblings) Wake() (Now, bool) {
	var d deadline
	if r := s.request; r != nil {
		d.by(min(r.next, r.first+requestFor))
	} else if s.own.Goes != "" || s.own.Announcing && s.own.Outcome == steadycast.Down {
		d.by(s.now + time.Second) // silence counts, and so does the end of every wait
	}
	return d.at, d.ok
}

// Hello is what this node says of itself now.
func (s *Siblings) Hello() Hello {
	h := Hello{Node: s.o.Node, Announcing: s.own.Announcing && !s.left, Alone: s.left}
	if s.ever {
		h.Left, h.LeftAgo = true, s.now-s.leftAt
	}
	return h
}

func (s *Siblings) peer(name string) *sibling {
	i, ok := slices.BinarySearchFunc(s.peers, name, func(p sibling, n string) int { return cmp.Compare(p.name, n) })
	if !ok {
		return nil
	}
	return &s.peers[i]
}

func (s *Siblings) greeted(h Hello) {
	p := s.peer(h.Node)
	if p == nil || p.heard && h.From < p.hello.From {
		return
	}
	p.heard, p.hello = true, h
	if h.Left && h.LeftAgo >= 0 {
		p.left, p.leftAt = true, h.From-h.LeftAgo
	}
	// It asked, was promised, and did not leave: its request is over.
	if p.promised && h.Announcing && h.From > p.promise+2*requestFor {
		p.promised = false
	}
}

// fresh: it was heard lately.
func (s *Siblings) fresh(p *sibling) bool { return p.heard && s.now-p.hello.From <= helloFor }

// leaving counts the nodes, but for one, that left lately or may be about to.
func (s *Siblings) leaving(except string) int {
	n := 0
	for i := range s.peers {
		p := &s.peers[i]
		if p.name != except && (p.left && s.now-p.leftAt < leaveWindow || p.promised && s.now-p.promise < leaveWindow) {
			n++
		}
	}
	if s.o.Node != except && s.ever && s.now-s.leftAt < leaveWindow {
		n++
	}
	return n
}

// asked answers a sibling that wants to leave.
func (s *Siblings) asked(in PromiseAsked) {
	p := s.peer(in.Node)
	if p == nil || p.asked.Compare(in.ID) > 0 {
		return // it came late
	}
	w := Word{Agrees: p.seen && s.now-p.look.From <= helloFor && p.look.Outcome == steadycast.Down}
	switch n := s.leaving(in.Node); {
	case n >= s.o.Most && !in.Ordered:
		w.Objects = fmt.Sprintf("%d of %d nodes left within %s, or are about to; at most %d", n, len(s.peers)+1, leaveWindow, s.o.Most)
	case s.request != nil && s.o.Node < in.Node:
		w.Objects = "it wants to leave itself, and its name comes first"
	case !s.own.Announcing || s.left:
		w.Why = "it does not announce"
	case s.own.Outcome != steadycast.Up:
		w.Why = "its own instance is not well"
	case !s.own.Room:
		w.Why = "it has no room"
	default:
		w.Stays = true
	}
	p.asked = in.ID
	if w.Objects == "" && !in.Ordered {
		p.promised, p.promise = true, s.now
	}
	if !w.Agrees && !in.Ordered {
		s.out = append(s.out, LookAt{Node: in.Node})
	}
	if w.Stays {
		s.bound = s.now + promiseFor
		s.drop()
	} else if w.Objects == "" && s.request != nil {
		s.giveWay(in.Node)
	}
	s.out = append(s.out, AnswerPromise{To: in.Node, ID: in.ID, Word: w})
}

// giveWay ends this node's request for one of a lower name.
func (s *Siblings) giveWay(to string) {
	s.drop()
	s.retryAt = s.now + 2*requestFor
	s.say("waits: " + to + " wants to leave, and its name comes first")
}

func (s *Siblings) answered(in PromiseAnswered) {
	r := s.request
	if r == nil || r.id != in.ID {
		return // of an earlier request
	}
	if i, ok := slices.BinarySearchFunc(s.peers, in.Node, func(p sibling, n string) int { return cmp.Compare(p.name, n) }); ok {
		r.words[i], r.said[i] = in.Word, true
	}
}

// decide does what follows from what is known; doing it twice changes nothing.
func (s *Siblings) decide() {
	if r := s.request; r != nil && r.ordered != (s.own.Goes != "") {
		s.drop() // it asked for another reason
	}
	switch {
	case s.own.Goes != "" && s.own.Forced:
		s.gone("forced")
	case s.own.Goes != "" && s.stay() < s.o.MinNodes:
		s.drop()
		s.out = append(s.out, KeepNode{})
		if s.now >= s.start+helloFor { // else it has not heard the others yet
			s.say(fmt.Sprintf("stays although a person wants it out: %d siblings announce, and %d must; --force takes it out whoever stays", s.stay(), s.o.MinNodes))
		}
	case s.own.Goes != "":
		s.ask()
	case s.left && !s.own.Announcing && s.own.Outcome == steadycast.Up:
		s.left = false
		s.out = append(s.out, ReturnNode{Reason: "its own instance is well again"})
		s.told = ""
	case s.left, !s.own.Announcing, s.own.Outcome != steadycast.Down:
		s.drop()
		if s.own.Outcome == steadycast.Up {
			s.told = ""
		}
	case s.own.Held != "":
		s.drop()
		s.say("would leave, and asks nobody: " + s.own.Held + "; " + s.own.Reason)
	case s.o.Mode != ModeAuto:
		s.say("would leave, and asks nobody: mode " + s.o.Mode + "; " + s.own.Reason)
	case s.now < s.start+helloFor && s.stay() < s.o.MinNodes:
		// it has not heard the others yet
	case s.stay() < s.o.MinNodes:
		s.drop()
		if text := fmt.Sprintf("%d siblings announce, and %d must; %s", s.stay(), s.o.MinNodes, s.own.Reason); s.told != text {
			s.told = text
			s.out = append(s.out, SiteMustLeave{Reason: text})
		}
	default:
		s.ask()
	}
}

// ask presses the open request, or makes one as soon as nothing binds this node.
func (s *Siblings) ask() {
	switch {
	case s.request != nil:
		s.press()
	case s.now < s.start+promiseFor:
		s.say(fmt.Sprintf("waits %s after its start, since it may have promised before to stay", promiseFor))
	case s.now < s.bound, s.now < s.retryAt:
	default:
		s.seq++
		s.request = &leaveRequest{
			id: steadycast.RequestID{Incarnation: s.o.Incarnation, Seq: s.seq}, ordered: s.own.Goes != "", first: s.now, next: s.now,
			words: make([]Word, len(s.peers)), said: make([]bool, len(s.peers)),
		}
		s.press()
	}
}

// gone takes it out by order.
func (s *Siblings) gone(why string) {
	s.drop()
	s.told, s.own.Goes = "", ""
	s.out = append(s.out, GoNode{Reason: why})
}

// stay counts the siblings that announce, by what was heard of them lately.
func (s *Siblings) stay() int {
	n := 0
	for i := range s.peers {
		if p := &s.peers[i]; s.fresh(p) && p.hello.Announcing {
			n++
		}
	}
	return n
}

// normal: a sibling announces as attractively as ever, by what was heard lately.
func (s *Siblings) normal() bool {
	return slices.ContainsFunc(s.peers, func(p sibling) bool { return s.fresh(&p) && p.hello.Announcing && p.hello.Normal })
}

// press carries the open request on: it leaves, waits, asks again, or ends it.
func (s *Siblings) press() {
	r := s.request
	stays, agree, open := 0, 0, 0
	why := ""
	for i := range s.peers {
		w := r.words[i]
		switch {
		case !r.said[i] && s.fresh(&s.peers[i]):
			open++
		case !r.said[i]:
		case w.Objects != "":
			s.end(s.peers[i].name+" objects: "+w.Objects, time.Second)
			return
		case w.Stays:
			stays++
		case why == "":
			why = s.peers[i].name + " does not promise to stay: " + w.Why
		}
		if r.said[i] && w.Agrees {
			agree++
		}
	}
	over := s.now-r.first >= requestFor
	n := s.leaving(s.o.Node)
	switch {
	case r.ordered && !over && open == 0 && stays >= s.o.MinNodes:
		s.request = nil
		s.gone(fmt.Sprintf("%d siblings promise to stay", stays))
	case n >= s.o.Most && !r.ordered:
		s.end(fmt.Sprintf("%d of %d nodes left within %s, or are about to; at most %d", n, len(s.peers)+1, leaveWindow, s.o.Most), requestFor)
	case !over && open == 0 && stays >= s.o.MinNodes && agree > 0 && !r.ordered:
		s.request, s.left, s.ever, s.leftAt, s.told = nil, true, true, s.now, ""
		s.out = append(s.out, LeaveNode{Reason: fmt.Sprintf("%s; %d siblings promise to stay, %d see it fail", s.own.Reason, stays, agree)})
	case over && open > 0:
		s.end(fmt.Sprintf("%d siblings do not answer", open), requestFor)
	case over && agree == 0 && !r.ordered:
		s.end("no sibling sees it fail: its own check is in doubt", requestFor)
	case over:
		s.end(cmp.Or(why, fmt.Sprintf("%d siblings promise to stay, and %d must", stays, s.o.MinNodes)), requestFor)
	case s.now >= r.next:
		r.next = s.now + askEvery
		for i := range s.peers {
			if !r.said[i] || !r.words[i].Stays || !r.words[i].Agrees && !r.ordered { // what it lacks may have come meanwhile
				s.out = append(s.out, AskPromise{To: s.peers[i].name, ID: r.id, Ordered: r.ordered})
			}
		}
	}
}

// end gives a request up; it is made again after a while, which differs from node
// to node so that they do not meet again.
func (s *Siblings) end(why string, wait Now) {
	i, _ := slices.BinarySearchFunc(s.peers, s.o.Node, func(p sibling, n string) int { return cmp.Compare(p.name, n) })
	but := "its instance is dead"
	if s.request.ordered {
		but = "a person wants it out"
		s.out = append(s.out, KeepNode{})
	}
	s.drop()
	s.retryAt = s.now + wait + Now(i)*time.Second
	s.say("stays although " + but + ": " + why)
}

// drop ends an open request, if there is one, and tells the others that nobody
// leaves on it.
func (s *Siblings) drop() {
	if s.request == nil {
		return
	}
	for i := range s.peers {
		s.out = append(s.out, PromiseDone{To: s.peers[i].name, ID: s.request.id})
	}
	s.request = nil
}

// say tells people once.
func (s *Siblings) say(text string) {
	if s.told != text {
		s.told = text
		s.out = append(s.out, Note{Event: steadycast.Event{Kind: steadycast.EventAlarm, Reason: s.o.Node + " " + text}})
	}
}
