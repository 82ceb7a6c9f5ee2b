package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

type decideFreeze = decide.StandingFreeze

func prefixText(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}

func words(names ...string) []column {
	out := make([]column, len(names))
	for i, n := range names {
		out[i].name, out[i].right = strings.TrimPrefix(n, ">"), strings.HasPrefix(n, ">")
	}
	return out
}

// renderSites is the page of `steadycast sites`.
func renderSites(s style, page *api.Page[api.SiteRow]) string {
	now, rows := page.At, page.Items
	t := &table{columns: words("SITE", "SPEAKER", "ANNOUNCES", "HEALTHY", "BGP", "HEARD", "ORDER")}
	for _, r := range rows {
		of := func(n, m int) cell {
			switch {
			case r.Heard.IsZero():
				return cell{"?", plain}
			case r.Far && m == 0:
				return cell{"-", dim}
			case m == 0:
				return cell{"none", dim}
			case n < m:
				return cell{fmt.Sprintf("%d/%d", n, m), yellow}
			}
			return cell{fmt.Sprintf("%d/%d", n, m), plain}
		}
		speaker := cell{r.Speaker, plain}
		if r.Speaker == "lost" {
			speaker.ink = red
		}
		name := r.Site
		if r.Witness {
			name += " (witness)"
		}
		heard := "never"
		if !r.Heard.IsZero() {
			heard = span(now, r.Heard) + " ago"
		}
		if r.Far {
			speaker, heard = cell{"-", dim}, "by the ledger"
		}
		note, ink := r.Order, plain
		if len(r.Gone) > 0 {
			note, ink = strings.TrimSuffix("gone ("+strings.Join(r.Gone, ", ")+"); "+note, "; "), red
		}
		if r.Nodes > 0 {
			said := fmt.Sprintf("%d nodes", r.Nodes)
			if r.NodesTold {
				said = fmt.Sprintf("%d of %d nodes announce", r.Nodes-r.NodesOut, r.Nodes)
			}
			note = strings.TrimPrefix(note+"; "+said, "; ")
		}
		for _, o := range r.Ordered {
			note = strings.TrimPrefix(note+"; "+o, "; ")
		}
		if r.Path != "" {
			note = strings.TrimPrefix(note+"; path "+r.Path, "; ")
		}
		for i := range r.Paths {
			if p := &r.Paths[i]; api.PathText(p) != "" {
				note = strings.TrimPrefix(note+"; path "+p.Path+" "+p.State.String(), "; ")
			}
		}
		if r.Way != "" {
			note = strings.TrimPrefix(note+"; "+r.Way, "; ")
		}
		if r.Share != "" {
			note = strings.TrimPrefix(note+"; takes "+r.Share, "; ")
		}
		t.add(cell{name, plain}, speaker, of(r.Announcing, r.Units), of(r.Healthy, r.Services), of(r.PeersUp, r.Peers), cell{heard, plain}, cell{note, ink})
	}
	return t.render(s)
}

// renderPeers is the page of `steadycast peers`, in the shape that routers use.
func renderPeers(s style, page *api.Page[api.PeerRow]) string {
	now, rows := page.At, page.Items
	if len(rows) == 0 {
		return "no BGP session is configured\n"
	}
	t := &table{columns: words("SITE", "NEIGHBOR", "ADDRESS", ">AS", ">RCVD", ">SENT", "UP/DOWN", "STATE", ">PFX", ">FLAPS", "NOTE")}
	for _, r := range rows {
		p := r.Peer
		state := cell{p.State, green}
		if !p.Up() {
			state.ink = red
		}
		var notes []string
		if p.LastError != "" && !p.Up() {
			notes = append(notes, p.LastError)
		}
		if r.Unacknowledged > 0 {
			notes = append(notes, fmt.Sprintf("%d not acknowledged", r.Unacknowledged))
		}
		if p.Malformed > 0 {
			notes = append(notes, fmt.Sprintf("%d malformed messages refused", p.Malformed))
		}
		if b := p.BFD; b.Up() {
			notes = append(notes, "BFD up, "+b.Detection.String())
		} else if b != nil {
			notes = append(notes, fmt.Sprintf("BFD %s: %s", b.State, b.Why))
		}
		switch {
		case p.OffPath:
			notes = append(notes, "path "+p.Path+", which is not in use")
		case p.Path != "":
			notes = append(notes, "path "+p.Path)
		}
		if p.Up() && p.Announced == 0 && !p.OffPath {
			notes = append(notes, "holds no route of ours")
		}
		t.add(cell{r.Site, plain}, cell{p.Name, plain}, cell{p.Address.String(), plain}, number(uint64(p.ASN)),
			number(p.MessagesIn), number(p.MessagesOut), cell{span(now, p.Since), plain}, state,
			number(uint64(p.Announced)), number(p.Flaps), cell{strings.Join(notes, "; "), plain})
	}
	return t.render(s)
}

func number(n uint64) cell { return cell{strconv.FormatUint(n, 10), plain} }

// renderRoutes is the page of `steadycast routes`: what left on the wire.
func renderRoutes(s style, page *api.Page[api.RouteRow]) string {
	now, rows := page.At, page.Items
	if len(rows) == 0 {
		return "nothing was sent to any peer in its present session\n"
	}
	t := &table{columns: words("SITE", "NEIGHBOR", "PREFIX", "NEXT HOP", "SENT", "PROOF", "ATTRIBUTES")}
	for _, r := range rows {
		t.add(cell{r.Site, plain}, cell{r.Sent.Peer, plain}, cell{r.Sent.Prefix.String(), plain}, cell{hop(&r.Sent), plain},
			cell{span(now, r.Sent.At) + " ago", plain}, proofCell(&r.Sent), cell{attributes(&r.Sent), plain})
	}
	return t.render(s)
}

func hop(x *steadycast.Sent) string {
	if !x.Announced {
		return "withdrawn"
	}
	if !x.Attributes.NextHop.IsValid() {
		return "?"
	}
	return x.Attributes.NextHop.String()
}

func proofCell(x *steadycast.Sent) cell {
	if x.Acked.IsZero() {
		return cell{"unacknowledged", red}
	}
	return cell{"acked " + latency(x.Acked.Sub(x.At)), plain}
}

// latency is a short duration with three digits: 0.4ms, 13ms, 1.25s.
func latency(d time.Duration) string {
	switch {
	case d < 100*time.Microsecond:
		return fmt.Sprintf("%.2fms", float64(d)/float64(time.Millisecond))
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}

func attributes(x *steadycast.Sent) string {
	if !x.Announced {
		return ""
	}
	a := x.Attributes
	var out []string
	if len(a.ASPath) > 0 {
		out = append(out, "path "+join(a.ASPath))
	}
	if a.MED != nil {
		out = append(out, fmt.Sprintf("med %d", *a.MED))
	}
	if a.LocalPref != nil {
		out = append(out, fmt.Sprintf("pref %d", *a.LocalPref))
	}
	if len(a.Communities) > 0 {
		out = append(out, "comm "+join(a.Communities))
	}
	if len(a.LargeCommunities) > 0 {
		out = append(out, "large "+join(a.LargeCommunities))
	}
	return strings.Join(out, ", ")
}

func join[T any](list []T) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, " ")
}

// renderChecks is the page of `steadycast checks`.
func renderChecks(s style, page *api.Page[api.CheckRow]) string {
	now, rows := page.At, page.Items
	if len(rows) == 0 {
		return "no check is configured\n"
	}
	of := slices.ContainsFunc(rows, func(r api.CheckRow) bool { return r.Check.Subject != "" })
	columns := words("SITE", "SERVICE", "CHECK", "KIND", "RESULT", "AGE", "LAST UP", ">TOOK", ">LATE", "WHY")
	if of { // a node of a fleet looks at others, too
		columns = slices.Insert(columns, 1, words("OF")...)
	}
	t := &table{columns: columns}
	for _, r := range rows {
		c := r.Check
		result := outcome(s, c.Result.Outcome)
		if c.At.IsZero() {
			result = cell{"? not yet", yellow}
		} else if c.Result.Class != steadycast.NoFailure {
			result.text += " (" + c.Result.Class.String() + ")"
		}
		why := c.Result.Reason
		if c.Result.Outcome == steadycast.Up {
			why = ""
		}
		cells := []cell{{r.Site, plain}, {c.Service, plain}, {c.Name, plain}, {c.Kind, plain}, result,
			{span(now, c.At), plain}, {span(now, c.LastSuccess), plain}, {latency(c.Result.Took), plain},
			{latency(c.Lag), plain}, {why, plain}}
		if of {
			cells = slices.Insert(cells, 1, cell{c.Subject, plain})
		}
		t.add(cells...)
	}
	return t.render(s)
}

func outcome(s style, o steadycast.Outcome) cell {
	switch o {
	case steadycast.Up:
		return cell{s.pick("✓", "+") + " up", green}
	case steadycast.Down:
		return cell{s.pick("✕", "x") + " down", red}
	}
	return cell{"? unknown", yellow}
}

// renderEvent is one line of `steadycast events`.
func renderEvent(s style, e *steadycast.Event) string {
	head, text := eventText(s, e)
	return head + text + "\n"
}

// eventText is the time and the kind, and the rest.
func eventText(s style, e *steadycast.Event) (head, text string) {
	where := strings.Join(nonEmpty(decide.Scope{Site: e.Site, Node: e.Node}.Target(), prefixText(e.Prefix), e.Service, e.Peer), " ")
	if where == "" && e.Kind == steadycast.EventFreeze {
		where = "everything"
	}
	var what []string
	if e.From != "" || e.To != "" {
		what = append(what, strings.TrimSpace(e.From+" → "+e.To))
	}
	if e.Guard != "" {
		what = append(what, "by "+e.Guard)
	}
	if e.Actor != "" && e.Actor != e.Guard { // a guard that acts is both
		what = append(what, "by "+e.Actor)
	}
	told := strings.Join(what, " ")
	if e.Reason != "" {
		told = strings.TrimPrefix(told+": "+e.Reason, ": ")
	}
	head = clock(e.At) + "  " + s.paint(eventInk(e.Kind), fmt.Sprintf("%-8s", s.text(string(e.Kind)))) + "  "
	return head, s.text(strings.Join(nonEmpty(where, told), "  "))
}

func eventInk(k steadycast.EventKind) ink {
	switch k {
	case steadycast.EventAlarm, steadycast.EventRefused, api.KindGap:
		return red
	case steadycast.EventRoute, steadycast.EventOrder, steadycast.EventFreeze:
		return yellow
	case steadycast.EventProof, steadycast.EventRecovery:
		return green
	}
	return plain
}

func nonEmpty(in ...string) []string {
	var out []string
	for _, v := range in {
		if v != "" {
			out = append(out, v)
		}
	}
	return out
}
