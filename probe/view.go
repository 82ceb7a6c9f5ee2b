package probe

import (
	"context"
	"sync/atomic"

	"github.com/steadycast/steadycast"
)

// View is a check that is asked about another thing than its target: a looking
// glass or a router's table, say, which tell whether a route is there. For a
// service it is a failure to be unreachable, and for a view it is only silence.
type View struct {
	check *Compiled
	word  *word // nil where what is looked at is on this host
}

// CompileView is Compile for a view.
func CompileView(c Check, env Env) (*View, error) {
	v := &View{}
	if kinds[c.Kind].remote || c.Kind == "exec" {
		v.word = &word{}
		env.word = v.word
	}
	var err error
	v.check, err = Compile(c, env)
	return v, err
}

// Ask makes one attempt. It is down only by the view's own word that what is asked
// about is not there:
//
//	dns         NOERROR or NXDOMAIN, and not what was wanted of rcode, records or match
//	http        404, 410 (RFC 9110 §15.5.5, §15.5.11), or a whole 2xx with a body that is not what was wanted
//	prometheus  data outside the bounds, or none where `empty: down` says so
//	tcp         an answer that ended and does not match
//	grpc        a status other than SERVING
//	exec        exit status 1
//	file, vip, link, bgp  as for a service
//	tls, icmp   never
//
// Whatever else is a failure of a service (refused, reset, too late, 5xx, no answer
// or an empty one, one that makes no sense or is another's) is unknown. A View may
// be asked once at a time.
func (v *View) Ask(ctx context.Context) steadycast.Result {
	if v.word != nil {
		v.word.said.Store(false)
	}
	r := v.check.Run(ctx)
	if r.Outcome == steadycast.Down && v.word != nil && !v.word.said.Load() {
		r.Outcome, r.Class, r.Reason = steadycast.Unknown, steadycast.NoFailure, "no word: "+r.Reason
	}
	return r
}

// word is whether the target itself said what made an attempt fail. A nil one is
// nobody's business.
type word struct{ said atomic.Bool }

// of notes that the target said it, and gives r back.
func (w *word) of(r steadycast.Result) steadycast.Result {
	if w != nil && r.Outcome == steadycast.Down {
		w.said.Store(true)
	}
	return r
}
