package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// renderWhy is the page of `steadycast why`: the pipe from the probes to the
// wire, one paragraph a station.
func renderWhy(s style, w *api.Why) string {
	var b strings.Builder
	now := w.At
	st := s.state(w.Row.State)
	age := ""
	if !w.Row.Since.IsZero() && w.Row.State != api.NotHeard {
		age = " for " + span(now, w.Row.Since)
	}
	why := w.Row.Why
	if why == "" {
		why = "as it should be"
	}
	s.labelled(&b, w.Row.Unit.Site, st.ink, fmt.Sprintf("%s %s%s", w.Row.Unit.Prefix, st.text, age))
	s.labelled(&b, "Because", plain, why)
	if w.Row.State == api.NotHeard && w.Real != nil {
		s.labelled(&b, "Note", yellow, "what follows is as it was when last heard")
	}
	b.WriteByte('\n')

	for _, svc := range w.Services {
		v := svc.Verdict
		if w.Row.Far {
			s.labelled(&b, "Verdict", plain, fmt.Sprintf("%s %s, as its site told the ledger: %s", v.Service, v.State, v.Reason))
			continue
		}
		text := fmt.Sprintf("%s %s for %s", v.Service, v.State, span(now, svc.Since))
		if v.Held {
			text += ", held: too little evidence to judge"
		}
		if v.Bad > 0 {
			text += fmt.Sprintf(", %d bad rounds", v.Bad)
		}
		if v.Good > 0 {
			text += fmt.Sprintf(", %d good rounds", v.Good)
		}
		s.labelled(&b, "Verdict", plain, text)
		if svc.Why != nil {
			s.tree(&b, svc.Why, "  ", "  ")
		}
		if svc.Next != "" && v.State != steadycast.Healthy {
			s.hang(&b, "  ", 4, "next: "+svc.Next)
		}
	}
	if len(w.Services) == 0 {
		s.labelled(&b, "Verdict", plain, "none: nothing was heard from the site")
	}
	if o := w.Row.Order; o != nil {
		s.labelled(&b, "Order", yellow, api.OrderText(o))
	}
	for i := range w.Row.NodeOrders {
		s.labelled(&b, "Order", yellow, api.OrderText(&w.Row.NodeOrders[i]))
	}
	for _, f := range w.Freeze {
		s.labelled(&b, "Frozen", yellow, fmt.Sprintf("by %s: %s", f.Actor, f.Reason))
	}
	s.labelled(&b, "Ledger", plain, committedText(&w.Committed))
	if p := w.Prefix; p.Sites > 1 {
		s.labelled(&b, "Prefix", plain, fmt.Sprintf("floor %d of %d sites, healthy floor %d; withdrawals %d of %d used; %d in trouble, breaker %s",
			p.Floor, p.Sites, p.HealthyFloor, p.FleetUsed, p.FleetLimit, p.Troubled, breakerAt(&p)))
	} else {
		s.labelled(&b, "Prefix", plain, "announced from here alone, as far as this ledger knows: no floor, no breaker")
	}
	for i := range w.Paths {
		p := &w.Paths[i]
		text, ink := p.Path+" "+p.State.String(), plain
		switch {
		case p.Service == "":
			text = p.Path + ": no service tells whether it works"
		case p.State == steadycast.Unhealthy:
			ink = red
		}
		if p.InUse {
			text += ", in use"
		}
		if p.Reason != "" {
			text += ": " + p.Reason
		}
		s.labelled(&b, "Path", ink, text)
	}
	if d := w.Diverted; d != nil {
		s.labelled(&b, "Diverted", yellow, api.DivertText(d))
		s.rulings(&b, []decide.Ruling{{Guards: d.Guards}}, false)
	}
	if p := w.PathWish; p != nil {
		s.labelled(&b, "Wanted", yellow, "path "+p.To+": "+p.Why)
		s.rulings(&b, []decide.Ruling{{Guards: p.Guards}}, false)
	}
	if w.Real != nil && w.Real.Last != nil {
		s.labelled(&b, "Guards", plain, "as last asked")
		s.rulings(&b, []decide.Ruling{*w.Real.Last}, false)
	}
	if w.Real != nil {
		s.labelled(&b, "Wire", plain, wireText(w.Real))
	}
	if w.Real != nil {
		for i := range w.Real.Nodes {
			n := &w.Real.Nodes[i]
			i := plain
			if !n.Announcing {
				i = yellow
			}
			s.labelled(&b, "Node", i, n.Node+" "+api.NodeText(n))
		}
	}
	for i := range w.Sent {
		x := &w.Sent[i]
		what := "withdrawn"
		if x.Announced {
			what = "next hop " + hop(x)
			if a := attributes(x); a != "" {
				what += ", " + a
			}
		}
		s.hang(&b, "  ", 4, fmt.Sprintf("%s: %s, sent %s, %s", x.Peer, what, clock(x.At), proofCell(x).text))
	}
	if len(w.Events) > 0 {
		s.labelled(&b, "Events", plain, fmt.Sprintf("the last %d", len(w.Events)))
		for i := range w.Events {
			head, text := eventText(s, &w.Events[i])
			s.hang(&b, "  "+head, 23, text)
		}
	}
	if w.Next != "" {
		b.WriteByte('\n')
		s.labelled(&b, "Next", bold, s.command(w.Next))
	}
	return b.String()
}

func committedText(v *decide.UnitView) string {
	parts := []string{"phase " + v.Phase.String()}
	if !v.Ever {
		parts = append(parts, "never announced before")
	}
	if v.Unheard {
		parts = append(parts, "by the older copy that the ledger was recovered from, and not heard since")
	}
	if v.Lost {
		parts = append(parts, "lost against its will")
	}
	if v.Permit.Action != steadycast.NoAction {
		parts = append(parts, fmt.Sprintf("permit %s to %s at %s", v.Permit.ID, v.Permit.Action, v.Permit.Fence))
	}
	if v.CooldownLeftMS > 0 {
		parts = append(parts, "cooldown "+api.Span(time.Duration(v.CooldownLeftMS)*time.Millisecond)+" left")
	}
	parts = append(parts, fmt.Sprintf("budget %d of %d used", v.BudgetUsed, v.BudgetLimit))
	if v.Cycles > 0 {
		parts = append(parts, fmt.Sprintf("%d cycles", v.Cycles))
	}
	if v.Locked {
		parts = append(parts, "locked")
	}
	return strings.Join(parts, ", ")
}

func wireText(u *api.Unit) string {
	want := "not to be announced"
	if u.Wanted {
		want = "to be announced, " + u.Stance.String()
	}
	if u.Proven {
		return want + "; proven at every peer that is up"
	}
	return want + "; NOT PROVEN: " + u.Unproven
}

// hang writes a lead and a text that is wrapped with an indent.
func (s style) hang(b *strings.Builder, lead string, indent int, text string) {
	for n, l := range wrap(s.text(text), s.width-indent) {
		if n > 0 {
			lead = strings.Repeat(" ", indent)
		}
		b.WriteString(lead + l + "\n")
	}
}

// tree draws an expression with the value of each part.
func (s style) tree(b *strings.Builder, t *steadycast.Tree, first, rest string) {
	o := outcome(s, t.Outcome)
	line := s.text(t.Text) + " " + s.paint(o.ink, o.text)
	if t.Reason != "" && t.Outcome != steadycast.Up {
		line += "  " + s.text(t.Reason)
	}
	b.WriteString(first + line + "\n")
	for i := range t.Kids {
		fork, down := s.pick("├ ", "|- "), s.pick("│ ", "|  ")
		if i == len(t.Kids)-1 {
			fork, down = s.pick("└ ", "`- "), s.pick("  ", "   ")
		}
		s.tree(b, &t.Kids[i], rest+fork, rest+down)
	}
}

// rulings lists every guard's answer, for one unit or for several with names.
// Guards that stand together and say the same share a line.
func (s style) rulings(b *strings.Builder, rulings []decide.Ruling, named bool) {
	for _, r := range rulings {
		if named {
			b.WriteString(s.text(r.Unit.String()) + "\n")
		}
		for i := 0; i < len(r.Guards); {
			same := i + 1
			for same < len(r.Guards) && r.Guards[same].Pass == r.Guards[i].Pass && r.Guards[same].Text == r.Guards[i].Text {
				same++
			}
			if same-i < 3 {
				same = i + 1
			}
			s.guards(b, r.Guards[i:same])
			i = same
		}
	}
}

// guards writes the answer of one guard, or the one answer of several.
func (s style) guards(b *strings.Builder, same []steadycast.GuardAnswer) {
	g := &same[0]
	sign, i := s.pick("✓", "+"), green
	text := g.Text
	if len(same) > 1 {
		var names []string
		for _, x := range same {
			names = append(names, x.Guard)
		}
		text = strings.Join(names, ", ") + ": " + text
	}
	if !g.Pass {
		sign, i = s.pick("✕", "x"), red
		if g.Override != "" {
			text += "; --force: " + cost(g.Override)
		}
		if g.RetryAfter > 0 {
			text += "; may change in " + api.Span(g.RetryAfter)
		}
	}
	if len(same) > 1 {
		s.hang(b, "  "+s.paint(i, sign)+" ", 4, text)
		return
	}
	s.hang(b, "  "+s.paint(i, sign)+" "+fmt.Sprintf("%-12s", s.text(g.Guard))+"  ", 18, text)
}
