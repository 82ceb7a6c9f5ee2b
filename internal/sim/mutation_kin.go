package sim

import (
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// The rules of promises, each taken away on the way between siblings. Two cannot be
// tested so. That a promise is believed for requestFor only: what is said is at most
// 20 s on its way here, and its maker is bound for 30 s. And that a node leaves only
// promiseFor after its start: it needs a promise that was forgotten and as many
// siblings that stay beside whoever left on it, which is what min_nodes asks for
// anyway. decide holds both by tables of their own (testdata/siblings).

// kinMutations is what they remember.
type kinMutations struct {
	answered []heardWord
}

// heardWord: a sibling has answered.
type heardWord struct {
	node string
	id   steadycast.RequestID
}

// bendKin changes what a node tells its siblings.
func (a *agent) bendKin(k decide.Kin, to *place) decide.Kin {
	switch a.w.mut {
	case promiseUnfit, promiseUnseen:
		k.Units = slices.Clone(k.Units)
		for i := range k.Units {
			if w := k.Units[i].Word; w != nil {
				word := *w
				if a.w.is(promiseUnfit) {
					word.Stays, word.Objects, word.Why = true, "", ""
				} else {
					word.Agrees = true
				}
				k.Units[i].Word = &word
			}
		}
	case silenceStays:
		for _, u := range k.Units {
			if u.Asks != nil {
				a.w.in(time.Second, func() { a.answerFor(to, u.Prefix, *u.Asks) })
			}
		}
	}
	return k
}

// answerFor makes a sibling's answer, unless it gave one.
func (a *agent) answerFor(q *place, prefix netip.Prefix, id steadycast.RequestID) {
	if a.alive() && !slices.Contains(a.kin.answered, heardWord{q.node, id}) {
		a.step(decide.Told{Node: q.node, From: a.now(), Kin: decide.Kin{Units: []decide.KinUnit{
			{Prefix: prefix, Answers: &id, Word: &decide.Word{Stays: true, Agrees: true}},
		}}})
	}
}

// bendTold changes what a node hears of a sibling.
func (a *agent) bendTold(from *place, k decide.Kin) decide.Kin {
	switch a.w.mut {
	case promiseUnbound: // it is answered for, and never hears that it was asked
		k.Units = slices.Clone(k.Units)
		for i := range k.Units {
			u := &k.Units[i]
			if prefix := a.w.prefixAt(u.Prefix); u.Asks != nil && prefix >= 0 && a.p.speaker.out[prefix] {
				a.tellKin(from.node, decide.Kin{Units: []decide.KinUnit{
					{Prefix: u.Prefix, Answers: u.Asks, Word: &decide.Word{Stays: true, Agrees: true}},
				}})
				u.Asks = nil
			}
		}
	case silenceStays:
		for _, u := range k.Units {
			if u.Answers != nil {
				a.kin.answered = append(a.kin.answered, heardWord{from.node, *u.Answers})
			}
		}
	}
	return k
}
