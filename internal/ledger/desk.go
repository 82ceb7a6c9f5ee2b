package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// desk does for both ledgers what there is to do with calls: it judges on the
// own state, writes what must be written in as few entries as can be, and
// answers. It belongs to the goroutine that owns the ledger.
type desk struct {
	lead *leader
	now  func() time.Duration
	// commit writes an entry and applies it. What it says is recorded.
	commit func(decide.Entry) (decide.Reply, error)
	// sure says that nobody else has decided since the own state was read, so
	// that an answer may rest on it alone; nil where nobody else can. A commit
	// says so by itself.
	sure func() error
}

// waiting takes one op and whatever waits behind it.
func (c *calls) waiting(first op) []op {
	batch := []op{first}
	for len(batch) < queueBound {
		select {
		case o := <-c.ops:
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

// refuse answers every op with an error.
func refuse(ops []op, err error) {
	for _, o := range ops {
		o.done <- result{err: err}
	}
}

// serve carries out a batch of ops; those that can share an entry do: requests
// with requests, reports with reports. Order is kept, so a report never falls
// behind a request that came after it.
func (d *desk) serve(batch []op) {
	for len(batch) > 0 {
		n, size := 1, batch[0].size
		for n < len(batch) && batch[n].like(batch[0]) && size+batch[n].size <= decide.MaxEntry/4 {
			size += batch[n].size
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
			d.serveAsks(run)
		case run[0].report != nil:
			d.serveReports(run)
		case run[0].ack != nil:
			d.serveAcks(run)
		case run[0].read != nil:
			run[0].read(d.lead, d.now())
			run[0].done <- result{err: d.certain()}
		default:
			run[0].done <- d.serveEntry(run[0])
		}
	}
}

// certain is sure, or nil where there is nobody to ask.
func (d *desk) certain() error {
	if d.sure == nil {
		return nil
	}
	return d.sure()
}

// like: both can go into one entry.
func (o op) like(p op) bool {
	return o.ack != nil && p.ack != nil || o.ask != nil && p.ask != nil || o.report != nil && p.report != nil && o.ask == nil && p.ask == nil
}

// serveAsks answers a batch of requests, and records what is reported with
// them, in one entry, or in none.
func (d *desk) serveAsks(ops []op) {
	requests := make([]steadycast.Request, len(ops))
	var reported []steadycast.Verdict
	for i, o := range ops {
		requests[i] = *o.ask
		for _, v := range o.report { // what the table does not have, the request is refused for
			if serves(d.lead.view.Table, v.Site, v.Service) {
				reported = append(reported, v)
			}
		}
	}
	e, write, answers, err := d.lead.propose(d.now(), requests, d.lead.changed(reported)...)
	switch {
	case err != nil:
	case !write:
		if err = d.certain(); err != nil {
			answers = nil
		}
	default:
		var r decide.Reply
		if r, err = d.commit(e); err == nil {
			d.lead.answered(d.now(), r.Answers)
			answers = append(answers, r.Answers...)
			if r.Invalid != "" {
				err = Invalid(r.Invalid)
			}
		} else if d.sure != nil {
			answers = nil // whoever leads now may know better
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
func (d *desk) serveReports(ops []op) {
	var all []steadycast.Verdict
	for _, o := range ops {
		var err error
		for _, v := range o.report {
			if serves(d.lead.view.Table, v.Site, v.Service) {
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
	if news := d.lead.changed(all); len(news) > 0 {
		e := d.lead.entry(d.now(), decide.KindVerdict)
		e.Verdicts = news
		_, err = d.commit(e)
	} else {
		err = d.certain()
	}
	for _, o := range ops {
		if len(o.done) == 0 {
			o.done <- result{err: err}
		}
	}
}

// serveAcks writes what is news about the staged table, of all nodes at once.
func (d *desk) serveAcks(ops []op) {
	e := d.lead.entry(d.now(), decide.KindAck)
	v := &d.lead.view
	for _, o := range ops {
		if v.Staged == nil || o.ack.Revision != v.Staged.Table.Revision {
			continue
		}
		known := slices.ContainsFunc(v.Acks, func(k decide.Ack) bool { return same(k, o.ack.Sound()) })
		if !known {
			e.Acks = append(e.Acks, *o.ack)
		}
	}
	var err error
	if len(e.Acks) > 0 {
		_, err = d.commit(e)
	} else {
		err = d.certain()
	}
	for _, o := range ops {
		o.done <- result{err: err}
	}
}

// serveEntry tries an entry and writes it only if it changes something: a
// refused order is answered, not logged.
func (d *desk) serveEntry(o op) result {
	if o.needless != nil && o.needless(&d.lead.view) {
		return result{reply: decide.Reply{Fence: d.lead.view.Fence, LT: d.lead.view.LT}, err: d.certain()}
	}
	e := o.entry(d.lead, d.now())
	try := d.lead.fleet.Try
	if o.try {
		try = d.lead.fleet.Rehearse
	}
	r, err := try(e)
	// What a guard refuses of a signed wish is written all the same: so it is
	// spent, and on record.
	spent := o.carried && r.Refused != nil && r.Refused.Guard != decide.AuthorityGuard
	if err == nil && !spent && (o.try || r.Refused != nil || r.Before != nil || r.Invalid != "") {
		r.Fence, r.LT = d.lead.view.Fence, d.lead.view.LT // where it was judged: there is no entry
		err = d.certain()
		if err == nil && !o.try && r.Invalid != "" {
			err = Invalid(r.Invalid)
		}
		return result{reply: r, err: err}
	}
	if err != nil {
		return result{reply: r, err: err}
	}
	r, err = d.commit(e)
	return result{reply: r, err: err}
}

// duties proposes what beats and time call for, until nothing is left. Each
// entry must make the next one unnecessary or different; the bound is there so
// that a mistake in that costs a second, not a disk.
func (d *desk) duties() error {
	const most = 1000
	for range most {
		e, ok := d.lead.duties(d.now())
		if !ok {
			return nil
		}
		if r, err := d.commit(e); err != nil || r.Invalid != "" {
			return err // said by commit; it is tried again later
		}
	}
	return nil
}
