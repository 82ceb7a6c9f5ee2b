package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// queueBound is how many calls may wait. A caller beyond it waits in its own
// goroutine until its context ends; nothing is dropped.
const queueBound = 64

// calls is the callers' side of a ledger that decides in this process: it hands
// each call to the goroutine that owns the ledger, and reads view without it.
type calls struct {
	ops  chan op
	done chan struct{} // closed when the owner is gone
	view atomic.Pointer[decide.View]
}

func newCalls() calls { return calls{ops: make(chan op, queueBound), done: make(chan struct{})} }

// op is one call on its way to the owner. Exactly one of report, ask, ack, read
// and entry is set, or report beside ask.
type op struct {
	ctx    context.Context
	report []steadycast.Verdict
	ask    *steadycast.Request
	ack    *decide.Ack
	// size is how many bytes it brings to an entry that it shares with others.
	size int
	// read looks at what the owner has.
	read func(l *leader, now time.Duration)
	// entry makes the entry of any other call, at the desk; try only tries it.
	entry func(l *leader, now time.Duration) decide.Entry
	try   bool
	// carried: the entry holds what a person signed.
	carried bool
	// needless, when set, says that the entry would change nothing.
	needless func(*decide.View) bool
	done     chan result
}

type result struct {
	answer decide.Answer
	reply  decide.Reply
	err    error
}

// View returns the newest committed state.
func (c *calls) View() decide.View { return *c.view.Load() }

// call hands an op to the owner and waits for its result. When the context ends first
// the op may still be carried out.
func (c *calls) call(ctx context.Context, o op) result {
	o.ctx, o.done = ctx, make(chan result, 1)
	select {
	case c.ops <- o:
	case <-ctx.Done():
		return result{err: ctx.Err()}
	case <-c.done:
		return result{err: ErrClosed}
	}
	select {
	case r := <-o.done:
		return r
	case <-ctx.Done():
		return result{err: ctx.Err()}
	case <-c.done:
		select {
		case r := <-o.done:
			return r
		default:
			return result{err: ErrClosed}
		}
	}
}

// Report tells that services changed state.
func (c *calls) Report(ctx context.Context, verdicts []steadycast.Verdict) error {
	if len(verdicts) == 0 {
		return nil
	}
	verdicts = briefly(verdicts)
	size, err := statement(verdicts)
	if err != nil {
		return err
	}
	return c.call(ctx, op{report: verdicts, size: size}).err
}

// Ask asks for leave to change routes.
func (c *calls) Ask(ctx context.Context, request steadycast.Request, reported ...steadycast.Verdict) (decide.Answer, error) {
	reported = briefly(reported)
	request.Reason = brief(request.Reason)
	bare := request
	bare.Evidence = slices.Clone(request.Evidence)
	for i := range bare.Evidence {
		bare.Evidence[i].Signed = nil // which is not logged
	}
	if n := len(bare.Evidence); n > decide.MaxEvidence { // before anybody opens so many
		return decide.Answer{}, Invalid(fmt.Sprintf("%d observations as evidence; at most %d", n, decide.MaxEvidence))
	}
	size, err := statement(askCall{bare, reported})
	if err != nil {
		return decide.Answer{}, err
	}
	r := c.call(ctx, op{ask: &request, report: reported, size: size})
	return r.answer, r.err
}

// Ack says what a node makes of the table that is staged.
func (c *calls) Ack(ctx context.Context, ack decide.Ack) error {
	if ack.Site == "" || ack.Node == "" {
		return Invalid("an acknowledgement names its site and its node")
	}
	ack = ack.Sound()
	size, err := statement(ack)
	if err != nil {
		return err
	}
	return c.call(ctx, op{ack: &ack, size: size}).err
}

// maxStatement bounds what one node says at once, in bytes: 64 observations with
// their reasons, or the verdicts of a thousand services. It goes into one entry
// with what others say, and into a state that every agent reads: one node must
// fill neither.
const maxStatement = 256 << 10

// maxReason bounds a reason that a node gives, in bytes: the state keeps the
// newest of each service, and every agent reads it.
const maxReason = 2000

func brief(s string) string {
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	return s
}

// briefly is a copy of verdicts with reasons that the state can keep.
func briefly(verdicts []steadycast.Verdict) []steadycast.Verdict {
	verdicts = slices.Clone(verdicts)
	for i := range verdicts {
		verdicts[i].Reason = brief(verdicts[i].Reason)
	}
	return verdicts
}

// statement is the size of what a node says.
func statement(said any) (int, error) {
	b, err := json.Marshal(said)
	if err == nil && len(b) > maxStatement {
		err = fmt.Errorf("%d bytes at once; a node may say %d", len(b), maxStatement)
	}
	if err != nil {
		return 0, Invalid(err.Error())
	}
	return len(b), nil
}

// Revision gives the content of a table.
func (c *calls) Revision(ctx context.Context, revision uint64) (t decide.Table, err error) {
	found, known := false, []string{}
	r := c.call(ctx, op{read: func(l *leader, _ time.Duration) {
		t, found = l.fleet.Revision(revision)
		for _, x := range l.view.Revisions {
			known = append(known, strconv.FormatUint(x.Revision, 10))
		}
	}})
	if r.err == nil && !found {
		return t, Invalid(fmt.Sprintf("the ledger does not remember revision %d; known: %s", revision, strings.Join(known, ", ")))
	}
	return t, r.err
}

// Seal proves who put the table into force that is.
func (c *calls) Seal(ctx context.Context) (s decide.Seal, err error) {
	var n uint64
	found := false
	r := c.call(ctx, op{read: func(l *leader, _ time.Duration) {
		s, found = l.fleet.Seal()
		n = l.view.Table.Revision
	}})
	if r.err == nil && !found {
		return s, Invalid(fmt.Sprintf("nobody signed revision %d as a whole: it is the first, came back after a trial, or was activated by an older version", n))
	}
	return s, r.err
}

// Local tells what a person did at a node while it had no ledger.
func (c *calls) Local(ctx context.Context, order steadycast.Order) (decide.Reply, error) {
	r := c.call(ctx, op{entry: func(l *leader, now time.Duration) decide.Entry {
		e := l.entry(now, decide.KindLocal)
		e.Actor, e.Reason, e.Order = order.Actor, order.Reason, &order
		l.look(now, &e)
		return e
	}})
	return r.reply, r.err
}

// Guards says what every guard would answer now.
func (c *calls) Guards(ctx context.Context) (g []decide.Ruling, err error) {
	err = c.read(ctx, func(l *leader, now time.Duration) {
		e := decide.Entry{Kind: decide.KindDecide}
		l.look(now, &e)
		e.Decide.Nodes = l.nodes(now, several)
		g = l.fleet.Guards(*e.Decide)
	})
	return g, err
}

// Sites says what was heard of each site.
func (c *calls) Sites(ctx context.Context) (s []decide.SiteNow, err error) {
	err = c.read(ctx, func(l *leader, now time.Duration) {
		loads := l.loads(now)
		for _, h := range l.beats {
			s = append(s, decide.SiteNow{
				Site: h.beat.Site, Node: h.beat.Node, Load: loadOf(loads, h.beat.Site), AgeMS: (now - h.at).Milliseconds(),
				At: h.beat.At, Announcing: h.beat.Announcing, Unproven: h.beat.Unproven, Revision: h.beat.Revision, Cuts: older(h.beat.Cuts, now-h.at),
				Led: h.beat.Led, Met: h.beat.Met,
			})
		}
	})
	return s, err
}

// History is what the ledger remembers.
func (c *calls) History(ctx context.Context) (h []decide.Past, err error) {
	err = c.read(ctx, func(l *leader, _ time.Duration) { h = l.fleet.History() })
	return h, err
}

func (c *calls) read(ctx context.Context, f func(*leader, time.Duration)) error {
	return c.call(ctx, op{read: f}).err
}

// GiveUp voids what will never be carried out.
func (c *calls) GiveUp(ctx context.Context, site string, id steadycast.RequestID, units []steadycast.Unit) error {
	r := c.call(ctx, op{entry: func(l *leader, now time.Duration) decide.Entry {
		e := l.entry(now, decide.KindVoid)
		e.Give = &decide.GiveUpEntry{Site: site, ID: id, Units: slices.Clone(units)}
		return e
	}})
	return r.err
}

// Order records a person's wish.
func (c *calls) Order(ctx context.Context, order steadycast.Order) (decide.Reply, error) {
	r := c.call(ctx, op{entry: orderEntry(order)})
	return r.reply, r.err
}

// Try says what Order would answer now.
func (c *calls) Try(ctx context.Context, order steadycast.Order) (decide.Reply, error) {
	r := c.call(ctx, op{entry: orderEntry(order), try: true})
	return r.reply, r.err
}

// Carry brings a person's signed wish to the log.
func (c *calls) Carry(ctx context.Context, signed decide.Signed) (decide.Reply, error) {
	wish, err := signed.Wish()
	if err != nil {
		return decide.Reply{}, Invalid(err.Error())
	}
	r := c.call(ctx, op{carried: true, entry: func(l *leader, now time.Duration) decide.Entry {
		e := l.entry(now, wish.Kind)
		e.Actor, e.Signed = "", &signed
		l.look(now, &e)
		return e
	}})
	return r.reply, r.err
}

// Enter records a wish that nobody signed.
func (c *calls) Enter(ctx context.Context, wish decide.Wish) (decide.Reply, error) {
	return c.unsigned(ctx, wish, false)
}

// Rehearse says what would come of a wish.
func (c *calls) Rehearse(ctx context.Context, wish decide.Wish) (decide.Reply, error) {
	return c.unsigned(ctx, wish, true)
}

func (c *calls) unsigned(ctx context.Context, wish decide.Wish, try bool) (decide.Reply, error) {
	if wish.Kind.Role() == steadycast.NoRole {
		return decide.Reply{}, Invalid(fmt.Sprintf("an entry of kind %q is nobody's wish", wish.Kind))
	}
	r := c.call(ctx, op{try: try, entry: func(l *leader, now time.Duration) decide.Entry {
		e := l.entry(now, wish.Kind)
		wish.Into(&e)
		l.look(now, &e)
		return e
	}})
	return r.reply, r.err
}

func orderEntry(order steadycast.Order) func(*leader, time.Duration) decide.Entry {
	return func(l *leader, now time.Duration) decide.Entry {
		e := l.entry(now, decide.KindOrder)
		e.Actor, e.Reason, e.Order = order.Actor, order.Reason, &order
		l.look(now, &e)
		return e
	}
}

// Do records one of a person's plain entries.
func (c *calls) Do(ctx context.Context, kind decide.Kind, scope decide.Scope, actor, reason string) (decide.Reply, error) {
	return c.do(ctx, false, kind, scope, actor, reason)
}

// TryDo says what Do would answer now.
func (c *calls) TryDo(ctx context.Context, kind decide.Kind, scope decide.Scope, actor, reason string) (decide.Reply, error) {
	return c.do(ctx, true, kind, scope, actor, reason)
}

func (c *calls) do(ctx context.Context, try bool, kind decide.Kind, scope decide.Scope, actor, reason string) (decide.Reply, error) {
	switch kind {
	case decide.KindFreeze, decide.KindThaw, decide.KindUnlock, decide.KindResume, decide.KindOrderClear:
	default:
		return decide.Reply{}, Invalid(fmt.Sprintf("%s is not an entry that a person makes with a scope; allowed: freeze, thaw, unlock, resume, order_clear", kind))
	}
	r := c.call(ctx, op{try: try, entry: func(l *leader, now time.Duration) decide.Entry {
		e := l.entry(now, kind)
		e.Actor, e.Reason, e.Scope = actor, reason, &scope
		return e
	}})
	return r.reply, r.err
}

// SetTable replaces the policy.
func (c *calls) SetTable(ctx context.Context, table decide.Table, actor, reason string) (decide.Reply, error) {
	table = table.WithDefaults()
	r := c.call(ctx, op{needless: func(v *decide.View) bool { return sameTable(v.Table, table) }, entry: func(l *leader, now time.Duration) decide.Entry {
		e := l.entry(now, decide.KindTable)
		t := table
		if t.Revision == 0 {
			t.Revision = l.view.Table.Revision + 1
		}
		e.Table, e.Actor, e.Reason = &t, actor, reason
		l.look(now, &e)
		return e
	}})
	return r.reply, r.err
}

// sameTable compares what two tables with their defaults say, whatever their revision.
func sameTable(a, b decide.Table) bool {
	a.Revision, b.Revision = 0, 0
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
