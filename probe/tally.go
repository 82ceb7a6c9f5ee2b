package probe

import (
	"fmt"
	"strings"

	"github.com/steadycast/steadycast"
)

// tally counts results towards "at least need of total are up", with the same
// logic as an expression's at_least. It belongs to one goroutine.
type tally struct {
	need, total   int
	plain, strict counter
	seen          int
	reasons       map[steadycast.Outcome][]string
}

func newTally(need, total int) *tally { return &tally{need: need, total: total} }

func (t *tally) add(r steadycast.Result) {
	if t.seen == t.total {
		return
	}
	t.seen++
	v := leaf(r)
	t.plain.add(v.plain)
	t.strict.add(v.strict)
	if r.Outcome == steadycast.Up {
		return
	}
	if t.reasons == nil {
		t.reasons = map[steadycast.Outcome][]string{}
	}
	for _, have := range t.reasons[r.Outcome] {
		if have == r.Reason {
			return
		}
	}
	t.reasons[r.Outcome] = append(t.reasons[r.Outcome], r.Reason)
}

// rest gives all that is missing the result r.
func (t *tally) rest(r steadycast.Result) {
	for t.seen < t.total {
		t.add(r)
	}
}

// decided reports whether what is missing cannot change the outcome.
func (t *tally) decided() bool {
	left := t.total - t.seen
	return left == 0 || t.plain.up >= t.need || t.plain.up+t.plain.unknown+left < t.need
}

// result is the outcome with what is missing taken as unknown.
func (t *tally) result() steadycast.Result {
	left := t.total - t.seen
	plain, strict := t.plain, t.strict
	plain.unknown += left
	strict.unknown += left
	v := value{plain.atLeast(t.need), strict.atLeast(t.need)}
	r := steadycast.Result{Outcome: v.plain, Class: v.class()}
	switch {
	case v.plain == steadycast.Up:
		r.Reason = "answered as it should"
	case t.total == 1:
		r.Reason = strings.Join(t.reasons[v.plain], "; ")
	case t.need == t.total:
		r.Reason = strings.Join(t.reasons[v.plain], "; ")
	default:
		r.Reason = fmt.Sprintf("%d of %d right, %d wanted: %s", t.plain.up, t.total, t.need, strings.Join(t.reasons[v.plain], "; "))
	}
	return r
}
