package api

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Outcome turns a reply into an answer: a refusal becomes an Error that names
// the guard, its override and what to do; anything else says what follows.
// command is the change as a person would type it, without --force.
func (s *Snapshot) outcome(reply decide.Reply, dryRun bool, command string, follows []string) (*Changed, error) {
	if reply.Invalid != "" {
		return nil, usage("%s", reply.Invalid)
	}
	g := reply.Refused
	if g == nil {
		g = allRefused(reply.Rulings)
	}
	if g != nil {
		next := ""
		switch {
		case g.Guard == decide.AuthorityGuard:
			next = g.Override
		case g.RetryAfter > 0:
			next = "wait " + Span(g.RetryAfter) + " and try again"
		case strings.HasPrefix(g.Override, "steadycast undrain "):
			next = g.Override // nothing to force: another order stands
		case g.Override != "":
			next = command + " --force"
		}
		override := g.Override
		if g.Guard == decide.AuthorityGuard { // no --force gets past it
			override = ""
		}
		return nil, &Error{
			Code: CodeRefused, Message: "refused by " + g.Guard + ": " + g.Text,
			Guard: g.Guard, Override: override, Next: next, Reply: &reply,
		}
	}
	for _, r := range reply.Rulings {
		if refusal, refused := r.Refusal(); refused {
			follows = append(follows, fmt.Sprintf("not %s: refused by %s: %s", r.Unit, refusal.Guard, refusal.Text))
		}
	}
	return &Changed{DryRun: dryRun, Reply: reply, Follows: follows}, nil
}

// allRefused returns the refusal of the first ruling when none was granted.
func allRefused(rulings []decide.Ruling) *steadycast.GuardAnswer {
	var first *steadycast.GuardAnswer
	for _, r := range rulings {
		g, refused := r.Refusal()
		if !refused {
			return nil
		}
		if first == nil {
			first = &g
		}
	}
	return first
}

// followsOrder says what an order does, from what is announced now.
func (s *Snapshot) followsOrder(o *steadycast.Order) []string {
	if o.Node != "" {
		return s.followsNodeOrder(o)
	}
	var out []string
	rows := s.Rows()
	for _, r := range rows {
		if r.Unit.Site != o.Site || !o.Covers(r.Unit.Prefix) {
			continue
		}
		switch {
		case o.Kind == steadycast.OrderAnnounce:
			out = append(out, followsAnnounce(o, &r))
		case r.State == NotHeard:
			out = append(out, fmt.Sprintf("%s is not heard: it stops announcing %s when it hears of the order", o.Site, r.Unit.Prefix))
		case !r.State.Announces() && r.State != Announcing:
			out = append(out, fmt.Sprintf("%s does not announce %s now, and stays out", o.Site, r.Unit.Prefix))
		case o.Kind == steadycast.OrderDrain:
			if ttl := names(&s.View.Table, r.Unit); ttl > 0 {
				out = append(out, fmt.Sprintf("no name leads to %s any more, and %s stays as it is for %s, until no cache leads there either", o.Site, r.Unit.Prefix, Span(ttl)))
			}
			out = append(out, fmt.Sprintf("%s marks %s with GSHUT, waits %s, then withdraws it; %s", o.Site, r.Unit.Prefix, Span(s.View.Table.DrainWait), others(rows, r.Unit.Prefix, o.Site)))
		default:
			out = append(out, fmt.Sprintf("%s withdraws %s; %s", o.Site, r.Unit.Prefix, others(rows, r.Unit.Prefix, o.Site)))
		}
	}
	out = append(out, s.nodesStand(o.Site, o.Covers)...)
	if o.Kind == steadycast.OrderAnnounce && !o.Force {
		return append(out, "no order stands over it then: its checks decide")
	}
	if o.For > 0 {
		out = append(out, "the order ends by itself after "+Span(o.For))
	} else {
		out = append(out, fmt.Sprintf("the order stands until: steadycast undrain %s --reason TEXT", o.Site))
	}
	return out
}

// followsAnnounce says what an order to announce does to one unit: forced, it
// pins the route; else it only takes away what people and guards hold against it.
func followsAnnounce(o *steadycast.Order, r *Row) string {
	verb, when := "announces", "as soon as its checks are well"
	if r.State.Announces() {
		verb, when = "keeps announcing", "while its checks are well"
	}
	if o.Force {
		return fmt.Sprintf("%s %s %s, whatever its checks say", o.Site, verb, r.Unit.Prefix)
	}
	text := fmt.Sprintf("%s %s %s %s", o.Site, verb, r.Unit.Prefix, when)
	if verb == "announces" && r.ChecksUp == r.Checks && r.Why != "" {
		text += ": " + r.Why
	}
	return text
}

// names is how long caches may lead clients to a unit.
func names(t *decide.Table, u steadycast.Unit) (most time.Duration) {
	for _, sv := range t.ServicesAt(u.Site, u.Prefix) {
		most = max(most, sv.TTL)
	}
	return most
}

// others says which sites still announce p without site.
func others(rows []Row, p netip.Prefix, site string) string {
	var names []string
	for _, r := range rows {
		if r.Unit.Prefix == p && r.Unit.Site != site && r.State.Announces() {
			names = append(names, r.Unit.Site)
		}
	}
	switch len(names) {
	case 0:
		return "no other site announces it"
	case 1:
		return "1 other site announces it: " + names[0]
	default:
		return fmt.Sprintf("%d other sites announce it: %s", len(names), orNone(names))
	}
}

// followsScope says what a clear, freeze, thaw, unlock or resume does.
func (s *Snapshot) followsScope(kind decide.Kind, sc decide.Scope) []string {
	where := "every site"
	if sc.Site != "" {
		where = sc.Target()
	}
	if sc.Prefix.IsValid() {
		where += " " + sc.Prefix.String()
	}
	switch kind {
	case decide.KindOrderClear:
		var out []string
		if sc.Node != "" {
			return s.followsNodeClear(sc)
		}
		for i := range s.View.Orders {
			if o := &s.View.Orders[i]; (sc.Site == "" || o.Order.Site == sc.Site) && (!sc.Prefix.IsValid() || o.Order.Covers(sc.Prefix)) {
				out = append(out, "ends: "+o.Order.Site+" "+OrderText(o))
			}
		}
		var nodes []string
		if sc.Site != "" {
			nodes = s.nodesStand(sc.Site, func(p netip.Prefix) bool { return !sc.Prefix.IsValid() || sc.Prefix == p })
		}
		if out == nil {
			return append([]string{"no order stands over " + where + ": nothing changes"}, nodes...)
		}
		out = append(out, nodes...)
		return append(out, "the checks decide again; a site that is out returns when they are well")
	case decide.KindFreeze:
		return []string{"automation changes nothing at " + where + " until: steadycast thaw" + scopeArgs(sc) + " --reason TEXT", "a person's orders still work"}
	case decide.KindThaw:
		return []string{"automation goes on at " + where}
	case decide.KindUnlock:
		return []string{"the lock of " + where + " is cleared and its cycles count from zero; it returns when its checks are well"}
	case decide.KindResume:
		return []string{where + " may return when its checks are well"}
	}
	return nil
}

// commandOf is a change as a person would type it.
func commandOf(verb, site string, prefixes []netip.Prefix, reason string) string {
	var b strings.Builder
	b.WriteString("steadycast " + verb)
	if site != "" {
		b.WriteString(" " + site)
	}
	for _, p := range prefixes {
		if p.IsValid() {
			b.WriteString(" --prefix " + p.String())
		}
	}
	b.WriteString(" --reason " + shellQuote(reason))
	return b.String()
}

// shellQuote gives s as one word of a shell.
func shellQuote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:%+-]+$`)
