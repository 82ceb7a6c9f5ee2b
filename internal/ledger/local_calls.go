package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// op is one call on its way to run. Exactly one of report, ask and entry is set,
// or report beside ask.
type op struct {
	ctx    context.Context
	report []steadycast.Verdict
	ask    *steadycast.Request
	// entry makes the entry of any other call, in run; try only tries it.
	entry func() decide.Entry
	try   bool
	done  chan result
}

type result struct {
	answer decide.Answer
	reply  decide.Reply
	err    error
}

// serve carries out one op and whatever waits behind it that can share its
// entry: requests with requests, reports with reports. Order is kept, so a
// report never falls behind a request that came after it.
func (l *Local) serve(first op) {
	batch := []op{first}
	for more := true; more; {
		select {
		case o := <-l.ops:
			batch = append(batch, o)
			more = len(batch) < queueBound
		default:
			more = false
		}
	}
	for _, b := range l.beats.take() {
		l.lead.hear(l.now(), b) // before a request, so that it is judged by the newest
	}
	for len(batch) > 0 {
		n := 1
		for n < len(batch) && batch[n].like(batch[0]) {
			n++
		}
		run := slices.DeleteFunc(slices.Clone(batch[:n]), func(o op) bool {
			err := o.ctx.Err() // nobody waits for it any more
			if err != nil {
				o.done <- result{err: err}
			}
			return err != nil
		})
		batch = batch[n:]
		switch {
		case len(run) == 0:
		case run[0].ask != nil:
			l.serveAsks(run)
		case run[0].report != nil:
			l.serveReports(run)
		default:
			run[0].done <- l.serveEntry(run[0])
		}
	}
}

// like: both can go into one entry.
func (o op) like(p op) bool {
	return o.ask != nil && p.ask != nil || o.report != nil && p.report != nil && o.ask == nil && p.ask == nil
}

// serveAsks answers a batch of requests, and records what is reported with
// them, in one entry, or in none.
func (l *Local) serveAsks(ops []op) {
	requests := make([]steadycast.Request, len(ops))
	var reported []steadycast.Verdict
	for i, o := range ops {
		requests[i] = *o.ask
		for _, v := range o.report { // what the table does not have, the request is refused for
			if serves(l.lead.view.Table, v.Site, v.Service) {
				reported = append(reported, v)
			}
		}
	}
	e, write, answers, err := l.lead.propose(l.now(), requests, l.lead.changed(reported)...)
	if err == nil && write {
		var r decide.Reply
		if r, err = l.commit(e); err == nil {
			l.lead.answered(l.now(), r.Answers)
			answers = append(answers, r.Answers...)
			if r.Invalid != "" {
				err = Invalid(r.Invalid)
			}
		}
	}
	for _, o := range ops {
		i := slices.IndexFunc(answers, func(a decide.Answer) bool { return a.Site == o.ask.Site && a.ID == o.ask.ID })
		switch {
		case i >= 0:
			o.done <- result{answer: answers[i]}
		case err != nil:
			o.done <- result{err: err}
		default:
			o.done <- result{err: fmt.Errorf("%s of %s was not answered", o.ask.ID, o.ask.Site)}
		}
	}
}

// serveReports writes the verdicts that are news.
func (l *Local) serveReports(ops []op) {
	var all []steadycast.Verdict
	for _, o := range ops {
		var err error
		for _, v := range o.report {
			if serves(l.lead.view.Table, v.Site, v.Service) {
				all = append(all, v)
			} else {
				err = Invalid(fmt.Sprintf("the table has no service %s at site %s", v.Service, v.Site))
			}
		}
		if err != nil {
			o.done <- result{err: err}
		}
	}
	var err error
	if news := l.lead.changed(all); len(news) > 0 {
		e := l.lead.entry(l.now(), decide.KindVerdict)
		e.Verdicts = news
		_, err = l.commit(e)
	}
	for _, o := range ops {
		if len(o.done) == 0 {
			o.done <- result{err: err}
		}
	}
}

// serveEntry tries an entry and writes it only if it changes something: a
// refused order is answered, not logged.
func (l *Local) serveEntry(o op) result {
	e := o.entry()
	r, err := l.fleet.Try(e)
	if err != nil || o.try || r.Refused != nil {
		return result{reply: r, err: err}
	}
	if r.Invalid != "" {
		return result{reply: r, err: Invalid(r.Invalid)}
	}
	r, err = l.commit(e)
	return result{reply: r, err: err}
}

// Report tells that services changed state.
func (l *Local) Report(ctx context.Context, verdicts []steadycast.Verdict) error {
	if len(verdicts) == 0 {
		return nil
	}
	return l.call(ctx, op{report: slices.Clone(verdicts)}).err
}

// Ask asks for leave to change routes.
func (l *Local) Ask(ctx context.Context, request steadycast.Request, reported ...steadycast.Verdict) (decide.Answer, error) {
	r := l.call(ctx, op{ask: &request, report: slices.Clone(reported)})
	return r.answer, r.err
}

// GiveUp voids what will never be carried out.
func (l *Local) GiveUp(ctx context.Context, site string, id steadycast.RequestID, units []steadycast.Unit) error {
	r := l.call(ctx, op{entry: func() decide.Entry {
		e := l.lead.entry(l.now(), decide.KindVoid)
		e.Give = &decide.GiveUpEntry{Site: site, ID: id, Units: slices.Clone(units)}
		return e
	}})
	return r.err
}

// Order records a person's wish.
func (l *Local) Order(ctx context.Context, order steadycast.Order) (decide.Reply, error) {
	r := l.call(ctx, op{entry: l.orderEntry(order)})
	return r.reply, r.err
}

// Try says what Order would answer now.
func (l *Local) Try(ctx context.Context, order steadycast.Order) (decide.Reply, error) {
	r := l.call(ctx, op{entry: l.orderEntry(order), try: true})
	return r.reply, r.err
}

func (l *Local) orderEntry(order steadycast.Order) func() decide.Entry {
	return func() decide.Entry {
		now := l.now()
		e := l.lead.entry(now, decide.KindOrder)
		e.Actor, e.Reason, e.Order = order.Actor, order.Reason, &order
		e.Decide = &decide.Decide{Seen: l.lead.seen(now)}
		return e
	}
}

// Do records one of a person's plain entries.
func (l *Local) Do(ctx context.Context, kind decide.Kind, scope decide.Scope, actor, reason string) (decide.Reply, error) {
	return l.do(ctx, false, kind, scope, actor, reason)
}

// TryDo says what Do would answer now.
func (l *Local) TryDo(ctx context.Context, kind decide.Kind, scope decide.Scope, actor, reason string) (decide.Reply, error) {
	return l.do(ctx, true, kind, scope, actor, reason)
}

func (l *Local) do(ctx context.Context, try bool, kind decide.Kind, scope decide.Scope, actor, reason string) (decide.Reply, error) {
	switch kind {
	case decide.KindFreeze, decide.KindThaw, decide.KindUnlock, decide.KindResume, decide.KindOrderClear:
	default:
		return decide.Reply{}, fmt.Errorf("%s is not an entry that a person makes with a scope; allowed: freeze, thaw, unlock, resume, order_clear", kind)
	}
	r := l.call(ctx, op{try: try, entry: func() decide.Entry {
		e := l.lead.entry(l.now(), kind)
		e.Actor, e.Reason, e.Scope = actor, reason, &scope
		return e
	}})
	return r.reply, r.err
}

// SetTable replaces the policy.
func (l *Local) SetTable(ctx context.Context, table decide.Table, actor, reason string) (decide.Reply, error) {
	table = table.WithDefaults()
	if v := l.View(); sameTable(v.Table, table) {
		return decide.Reply{Fence: v.Fence, LT: v.LT}, nil
	}
	r := l.call(ctx, op{entry: func() decide.Entry {
		now := l.now()
		e := l.lead.entry(now, decide.KindTable)
		t := table
		if t.Revision == 0 {
			t.Revision = l.lead.view.Table.Revision + 1
		}
		e.Table, e.Actor, e.Reason = &t, actor, reason
		e.Decide = &decide.Decide{Seen: l.lead.seen(now)}
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
