package sim

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
)

// deskBound is how many calls may wait; more are dropped, and sent again.
const deskBound = 64

// givenUpAfter is how long an entry may be on its way before the next is tried.
const givenUpAfter = 5 * time.Second

// desk is the leader's part of a voter: calls come in, entries go to the log one
// at a time, answers go out when they were applied.
type desk struct {
	v      *voter
	p      *ledger.Proposer
	queue  []call
	flying *flight
	// quiet: the last look at its duties found none, and nothing can change that
	// before wakeAt but a beat or an entry.
	quiet  bool
	wakeAt time.Duration
}

// call is one of a site's calls, or a person's.
type call struct {
	from   *place // nil for a person
	deaths int
	ask    *steadycast.Request
	report []steadycast.Verdict
	give   *decide.GiveUpEntry
	ack    *decide.Ack
	// entry makes any other entry.
	entry func(p *ledger.Proposer, now time.Duration) decide.Entry
	// said is told what became of it, at the place that calls; nil for nobody.
	said func(decide.Reply)
}

// flight is an entry on its way, with those who wait for its answers.
type flight struct {
	id    uint64
	since time.Duration
	asks  []call
	said  func(decide.Reply)
}

// parcel is an entry as it lies in the log, with what only the judge and some
// mutations look at.
type parcel struct {
	id    uint64
	made  time.Duration // when it was proposed, in real time
	delta time.Duration // since its proposer had applied an entry
	entry decide.Entry
}

const parcelHead = 24

// parcelsKept bounds those that are kept as they were read.
const parcelsKept = 64

func pack(p parcel) ([]byte, error) {
	b, err := p.entry.Encode()
	if err != nil {
		return nil, err
	}
	out := make([]byte, parcelHead, parcelHead+len(b))
	binary.BigEndian.PutUint64(out, p.id)
	binary.BigEndian.PutUint64(out[8:], uint64(p.made))
	binary.BigEndian.PutUint64(out[16:], uint64(p.delta))
	return append(out, b...), nil
}

func unpack(b []byte) (parcel, error) {
	if len(b) < parcelHead {
		return parcel{}, errors.New("no parcel")
	}
	p := parcel{
		id: binary.BigEndian.Uint64(b), made: time.Duration(binary.BigEndian.Uint64(b[8:])),
		delta: time.Duration(binary.BigEndian.Uint64(b[16:])),
	}
	var err error
	p.entry, err = decide.DecodeEntry(b[parcelHead:])
	return p, err
}

// unpack reads a parcel once for all voters, whose logs share the bytes. None may write
// into what it says, as none may into what it was sent.
func (w *world) unpack(b []byte) parcel {
	key := &b[0]
	if p, ok := w.parcels[key]; ok {
		return p
	}
	p, err := unpack(b)
	must(err)
	if len(w.parcels) >= parcelsKept {
		clear(w.parcels)
	}
	w.parcels[key] = p
	return p
}

func newDesk(v *voter) *desk {
	d := &desk{v: v, p: ledger.NewProposer(v.fleet, "voter", v.now())}
	for i := range v.beats {
		if b := &v.beats[i]; b.ok {
			d.hear(b.from, b.beat)
		}
	}
	d.looking()
	return d
}

// looking makes the desk look once a second at what time asks for.
func (d *desk) looking() {
	d.v.w.in(time.Second, func() {
		if d.v.up && d.v.desk == d {
			d.v.on(func() {})
			d.looking()
		}
	})
}

func (d *desk) take(c call) {
	if len(d.queue) < deskBound {
		d.queue = append(d.queue, c)
	}
}

// pump proposes what there is to propose, until an entry is on its way.
func (d *desk) pump() {
	w, now := d.v.w, d.v.now()
	if d.flying != nil && w.now-d.flying.since >= givenUpAfter {
		d.flying = nil
	}
	d.bendBeats()
	for (d.flying == nil || w.is(clockDelta)) && len(d.queue) > 0 {
		first := d.queue[0]
		switch {
		case first.ask != nil:
			d.asks(now)
		case first.give != nil:
			e := d.p.Entry(now, decide.KindVoid)
			e.Give = first.give
			d.single(first, e)
		case first.ack != nil:
			d.acks(now)
		case first.report != nil:
			d.queue = d.queue[1:]
			if e, ok := d.p.Report(now, first.report); ok {
				d.submit(e, nil)
			}
		default:
			d.single(first, first.entry(d.p, now))
		}
	}
	if d.flying != nil {
		return
	}
	if d.v.fleet.Fence().Epoch == 0 {
		e := d.p.Entry(now, decide.KindGenesis)
		t := w.bendTable(w.table)
		e.Table, e.Charter, e.Reason = &t, w.people.charter(), "the first policy"
		if w.is(noSignatures) {
			e.Charter.Operators = nil
		}
		d.submit(e, nil)
		return
	}
	if e, ok := d.bendDuties(now); ok {
		d.submit(e, nil)
	} else if d.quiet && now < d.wakeAt {
		return
	} else if e, ok := d.p.Duties(now); ok {
		d.submit(e, nil)
	} else {
		d.quiet, d.wakeAt = true, d.p.Wake()
	}
}

// hear tells the desk's proposer of a beat.
func (d *desk) hear(from time.Duration, b decide.Beat) {
	d.quiet = false
	d.p.Hear(from, b)
}

// asks judges all requests that wait, together.
func (d *desk) asks(now time.Duration) {
	var calls []call
	var requests []steadycast.Request
	var reported []steadycast.Verdict
	for len(d.queue) > 0 && d.queue[0].ask != nil {
		c := d.queue[0]
		d.queue = d.queue[1:]
		if r := d.bendRequest(*c.ask); !d.refusedByMutation(c, r) {
			calls, requests, reported = append(calls, c), append(requests, r), append(reported, c.report...)
		}
	}
	if len(requests) == 0 {
		return
	}
	e, write, answers, err := d.p.Propose(now, requests, reported)
	must(err)
	if write {
		d.submit(e, calls)
	}
	if d.v.w.is(answerFromRead) && write {
		if r, err := d.v.fleet.Try(e); err == nil {
			answers = append(answers, r.Answers...)
		}
	}
	d.answer(calls, answers)
}

// acks proposes what is news about the staged table, of all nodes together.
func (d *desk) acks(now time.Duration) {
	e := d.p.Entry(now, decide.KindAck)
	for len(d.queue) > 0 && d.queue[0].ack != nil {
		k := *d.queue[0].ack
		d.queue = d.queue[1:]
		v := d.v.view
		if v.Staged != nil && v.Staged.Table.Revision == k.Revision && !acked(v, k) {
			e.Acks = append(e.Acks, k)
		}
	}
	if len(e.Acks) > 0 {
		d.submit(e, nil)
	}
}

// acked reports whether the ledger has this word of a node.
func acked(v *decide.View, k decide.Ack) bool {
	return slices.ContainsFunc(v.Acks, func(x decide.Ack) bool { return x.Site == k.Site && x.Node == k.Node && x.Refusal == k.Refusal })
}

// single proposes an entry of its own, unless it would be refused or mean nothing.
func (d *desk) single(c call, e decide.Entry) {
	d.queue = d.queue[1:]
	said := func(r decide.Reply) {
		if c.said != nil {
			d.v.w.send(d.v.place, c.from.i, func() { c.said(r) })
		}
	}
	r, err := d.v.fleet.Try(e)
	// What a guard refuses of what is signed is written all the same, and so spent.
	spent := e.Signed != nil && r.Refused != nil && r.Refused.Guard != decide.AuthorityGuard
	if err != nil || !spent && (r.Refused != nil || r.Before != nil || r.Invalid != "" && e.Actor != nonsense) {
		r.Fence = d.p.View().Fence // where it was judged: there is no entry
		said(r)
		return
	}
	if d.submit(e, nil); d.flying != nil {
		d.flying.said = said
	}
}

func (d *desk) submit(e decide.Entry, asks []call) (id uint64) {
	w := d.v.w
	p := parcel{id: w.agenda.seq, made: w.now, delta: d.v.now() - d.v.appliedA, entry: e}
	w.agenda.seq++
	d.bendEntry(&p)
	b, err := pack(p)
	must(err)
	if d.v.node.Propose(b) != nil {
		return p.id // it leads no longer
	}
	d.flying = &flight{id: p.id, since: w.now, asks: asks}
	return p.id
}

// applied gives the answers of an entry to those who wait.
func (d *desk) applied(p parcel, r decide.Reply) {
	d.quiet = false
	d.p.Applied(d.v.now(), r.Answers)
	if d.flying != nil && d.flying.id == p.id {
		was := d.flying
		d.flying = nil
		d.answer(was.asks, r.Answers)
		if was.said != nil {
			was.said(r)
		}
	}
}

// answer sends each answer to whoever asked.
func (d *desk) answer(calls []call, answers []decide.Answer) {
	for _, c := range calls {
		for _, ans := range answers {
			if ans.Site == c.ask.Site && ans.ID == c.ask.ID {
				p, deaths := c.from, c.deaths
				ans = d.bendAnswer(ans)
				d.v.w.send(d.v.place, p.i, func() {
					if p.agent != nil && p.deaths == deaths {
						p.agent.client.answered(ans)
					}
				})
				break
			}
		}
	}
}
