package agent

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/answers"
	"github.com/steadycast/steadycast/probe"
)

// try says of a table that is staged what it would change here, or why it cannot
// be carried out here, until the ledger has noted it. It changes nothing.
func (a *Agent) try(v decide.View) {
	if v.Staged == nil {
		return
	}
	if v.Staged.Fence != a.tried.at {
		a.tried.at = v.Staged.Fence
		a.tried.ack = a.rehearse(v.Staged.Table).Sound()
	}
	ack := a.tried.ack
	for _, k := range v.Acks {
		if k.Site == ack.Site && k.Node == ack.Node && k.Refusal == ack.Refusal && slices.Equal(k.Changes, ack.Changes) && slices.Equal(k.Emptied, ack.Emptied) {
			return
		}
	}
	a.errand.send(func(ctx context.Context) { a.ledgerAnswered("ack", a.o.Ledger.Ack(ctx, ack)) })
}

// rehearse makes the plan of a table, and does not use it. What would be left out
// with an alarm, were the table in force, refuses it now.
func (a *Agent) rehearse(t decide.Table) decide.Ack {
	ack := decide.Ack{Revision: t.Revision, Site: a.o.Site, Node: a.o.Node}
	next, err := a.derive(t)
	if err != nil {
		ack.Refusal = err.Error()
		return ack
	}
	next, left := a.fits(next)
	if left = append(slices.Clone(next.Alarms), left...); len(left) > 0 {
		ack.Refusal = strings.Join(left, "; ")
		return ack
	}
	ack.Changes = differences(a.o.Site, *a.plan.Load(), next)
	ack.Emptied = emptied(a.o.Ledger.View(), time.Now(), a.plan.Load().Placement, t, next.Placement)
	return ack
}

// emptied are the names that somebody is well to answer with, and nobody by the next
// table, as the committed state is now.
func emptied(v decide.View, now time.Time, was dnsfallback.Placement, next decide.Table, is dnsfallback.Placement) (out []string) {
	side := func(p dnsfallback.Placement) dnsfallback.Side {
		policy, _ := dnsfallback.NewPolicy(v.Table.Revision, p, dnsfallback.Known{}) // nil where there is no zone; the rest was judged
		return dnsfallback.Side{Policy: policy, State: answers.State(&v, now)}
	}
	a := side(was)
	v.Table = next
	for _, d := range dnsfallback.Compare(a, side(is), nil) {
		if d.Emptied {
			out = append(out, d.Name+" "+d.Type)
		}
	}
	return out
}

// differences are what another plan changes at a site, in sentences.
func differences(site string, old, next Plan) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	was, is := old.Table.PrefixesAt(site), next.Table.PrefixesAt(site)
	for _, p := range is {
		if !slices.Contains(was, p) {
			say("%v is announced here, once its checks pass and a permit is given", p)
		}
	}
	for _, p := range was {
		if !slices.Contains(is, p) {
			say("%v is not announced here any more", p)
		}
	}
	for _, p := range is {
		if slices.Contains(was, p) && !reflect.DeepEqual(old.Table.PrefixPolicy(p), next.Table.PrefixPolicy(p)) {
			say("%v is announced here in another way", p)
		}
	}
	hosts := func(a, b []netip.Prefix, what string) {
		for _, p := range a {
			if !slices.Contains(b, p) {
				say("%v %s this host", p.Addr(), what)
			}
		}
	}
	hosts(next.VIPs, old.VIPs, "belongs on")
	hosts(old.VIPs, next.VIPs, "does not belong any more on")
	find := func(ss []probe.Service, s probe.Service) *probe.Service {
		i := slices.IndexFunc(ss, func(x probe.Service) bool { return x.Name == s.Name && x.Subject == s.Subject })
		if i < 0 {
			return nil
		}
		return &ss[i]
	}
	of := func(s probe.Service) string {
		if s.Controls {
			return "the controls"
		}
		return s.Name + " of " + s.Subject
	}
	for _, s := range next.Probes {
		switch x := find(old.Probes, s); {
		case x == nil:
			say("%s: looked at from here", of(s))
		case !reflect.DeepEqual(*x, s):
			say("%s: looked at otherwise", of(s))
		}
	}
	for _, s := range old.Probes {
		if find(next.Probes, s) == nil {
			say("%s: not looked at from here any more", of(s))
		}
	}
	return out
}
