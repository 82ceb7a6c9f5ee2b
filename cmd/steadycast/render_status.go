package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// mostRows are shown of a status; beyond it only those with something to say.
const mostRows = 40

// renderStatus is the page of `steadycast status`: the verdict first, then the
// guards, then one row per unit, and last what to do next.
func renderStatus(s style, st *api.Status, all bool) string {
	var b strings.Builder
	label := "Fleet " + st.Fleet
	if st.Mode == "solo" || st.Fleet == "" {
		label = "Node " + st.Node
	}
	mark, i := st.Summary.Mark, levelInk(st.Summary.Level)
	if st.Summary.Level != api.LevelOK {
		mark = strings.ToUpper(mark)
	}
	s.labelled(&b, label, i, st.Summary.Sentence+" — "+mark)
	s.labelled(&b, "Guards", plain, guardsLine(st))
	for _, f := range st.Freezes {
		where := "everything"
		if f.Scope.Site != "" || f.Scope.Prefix.IsValid() {
			where = strings.TrimSpace(f.Scope.Site + " " + prefixText(f.Scope.Prefix))
		}
		who := "by " + f.Actor
		if f.Breaker {
			who = "by the breaker"
		}
		s.labelled(&b, "Frozen", yellow, fmt.Sprintf("%s, %s: %s", where, who, f.Reason))
	}
	for i, l := range st.Levels { // the sites of one level stand together
		if i > 0 && st.Levels[i-1].Level == l.Level {
			continue
		}
		text := l.Do
		for _, at := range st.Levels[i:] {
			if at.Level == l.Level {
				text += "; " + strings.TrimSpace(at.Site+" "+at.Why)
			}
		}
		s.labelled(&b, fmt.Sprintf("Level %d", l.Level), yellow, strings.Replace(text, "; ", ": ", 1))
	}
	for i := range st.Diverts {
		s.labelled(&b, "path", yellow, st.Diverts[i].Order.Site+" "+api.DivertText(&st.Diverts[i]))
	}
	for i := range st.Paths {
		if text := api.PathText(&st.Paths[i]); text != "" {
			s.labelled(&b, "Path", red, st.Paths[i].Site+": "+text)
		}
	}
	for i := range st.PathWishes {
		s.labelled(&b, "Path", yellow, st.PathWishes[i].Site+" "+api.WishText(&st.PathWishes[i]))
	}
	for i := range st.Shares {
		s.labelled(&b, "DNS", yellow, st.Shares[i].Site+" "+api.ShareText(&st.Shares[i]))
	}
	for i := range st.Gone {
		g := &st.Gone[i]
		s.labelled(&b, "Gone", red, fmt.Sprintf("%s of %s: %s; names lead elsewhere", g.Service, g.Site, g))
	}
	if st.LedgerLost != "" {
		s.labelled(&b, "Ledger", red, "lost: "+st.LedgerLost+"; routes stay as they are")
	}
	if st.Config.LastError != "" {
		s.labelled(&b, "Config", red, fmt.Sprintf("reload refused, revision %d keeps running: %s", st.Config.Revision, st.Config.LastError))
	}
	for _, a := range st.Alarms {
		text := a.Text
		if st.Config.LastError != "" && strings.HasSuffix(text, st.Config.LastError) {
			continue // said under Config
		}
		if a.Site != "" {
			text = a.Site + ": " + text
		}
		s.labelled(&b, "Alarm", red, fmt.Sprintf("%s (for %s)", text, span(st.At, a.Since)))
	}
	b.WriteByte('\n')

	rows, hidden := shown(st.Rows, all)
	if len(rows) > 0 {
		b.WriteString(unitTable(s, st, rows).render(s))
		b.WriteByte('\n')
	}
	if hidden > 0 {
		s.labelled(&b, "Also", plain, fmt.Sprintf("%d more are announced and well: %s", hidden, s.command("steadycast status --all")))
	}
	s.labelled(&b, "Seen", dim, fmt.Sprintf("from %s at %s, %s", st.Node, clock(st.At), heard(st)))
	s.labelled(&b, "Next", bold, s.command(st.Summary.Next))
	return b.String()
}

func levelInk(l api.Level) ink {
	switch l {
	case api.LevelOK:
		return green
	case api.LevelCritical:
		return red
	}
	return yellow
}

// shown leaves out well rows when there are too many for a page.
func shown(rows []api.Row, all bool) ([]api.Row, int) {
	if all || len(rows) <= mostRows {
		return rows, 0
	}
	var out []api.Row
	for _, r := range rows {
		if r.State != api.Announced || r.Why != "" {
			out = append(out, r)
		}
	}
	return out, len(rows) - len(out)
}

// guardsLine gives the numbers of the prefix nearest to its floor.
func guardsLine(st *api.Status) string {
	if len(st.Prefixes) == 0 {
		return "no prefix, nothing to guard"
	}
	at := 0
	room := func(i int) int { return st.Tallies[i].Announcing - st.Tallies[i].Floor }
	for i := range st.Prefixes {
		if i < len(st.Tallies) && room(i) < room(at) {
			at = i
		}
	}
	p, t := st.Prefixes[at], st.Tallies[at]
	floor := fmt.Sprintf("floor %d of %d, %d announce", p.Floor, p.Sites, t.Announcing)
	switch {
	case p.Floor == 0:
		floor = "no floor for a site alone"
	case t.Announcing == p.Floor:
		floor += " (at its limit)"
	case t.Announcing < p.Floor:
		floor += " (under it)"
	}
	parts := []string{floor}
	if p.Sites > 1 {
		parts = append(parts, fmt.Sprintf("withdrawals %d of %d used", p.FleetUsed, p.FleetLimit),
			fmt.Sprintf("in trouble %d, breaker %s", p.Troubled, breakerAt(&p)))
	} else {
		parts = append(parts, siteBudget(st, p.Prefix))
	}
	if len(st.Prefixes) > 1 {
		parts[0] = p.Prefix.String() + ": " + parts[0]
	}
	mode := "automatic"
	if len(st.Freezes) > 0 {
		mode = "frozen in part"
		if slices.ContainsFunc(st.Freezes, func(f decideFreeze) bool { return f.Scope.Site == "" && !f.Scope.Prefix.IsValid() }) {
			mode = "frozen"
		}
	}
	return strings.Join(append(parts, mode), " · ")
}

// heard says how fresh the page is.
func heard(st *api.Status) string {
	sites := map[string]bool{}
	late := map[string]bool{}
	var oldest = st.At
	for _, r := range st.Rows {
		sites[r.Unit.Site] = true
		if r.State == api.NotHeard {
			late[r.Unit.Site] = true
			continue
		}
		if r.Heard.Before(oldest) {
			oldest = r.Heard
		}
	}
	fresh := len(sites) - len(late)
	switch {
	case len(sites) == 0:
		return "no site is known"
	case fresh == 0:
		return "no site is heard"
	case len(sites) == 1:
		return fmt.Sprintf("heard %s ago", api.Span(st.At.Sub(oldest)))
	case len(late) > 0:
		return fmt.Sprintf("%d of %d sites heard within %s", fresh, len(sites), api.Span(st.At.Sub(oldest)))
	}
	return fmt.Sprintf("all %d sites heard within %s", len(sites), api.Span(st.At.Sub(oldest)))
}

func unitTable(s style, st *api.Status, rows []api.Row) *table {
	t := &table{columns: []column{{"SITE", false}, {"PREFIX", false}, {"STATE", false}, {"FOR", false}, {"CHECKS", false}, {"BGP", false}, {"WHY", false}}}
	for _, r := range rows {
		checks, peers := fmt.Sprintf("%d/%d", r.ChecksUp, r.Checks), fmt.Sprintf("%d/%d", r.PeersUp, r.Peers)
		for2, peerInk := span(st.At, r.Since), plain
		if r.Since.IsZero() {
			for2 = "-" // it has not changed since the daemon started
		}
		if r.State == api.NotHeard {
			checks, peers, for2 = "?", "?", "?"
		} else if r.Far {
			checks, peers = "-", "-" // known at the site itself
		} else if r.PeersUp < r.Peers {
			peerInk = yellow
		}
		t.add(cell{r.Unit.Site, plain}, cell{r.Unit.Prefix.String(), plain}, s.state(r.State),
			cell{for2, plain}, cell{checks, plain}, cell{peers, peerInk}, cell{r.Why, plain})
	}
	return t
}

// siteBudget is what is left of the budget of a site alone, which no other guard of a
// fleet bounds.
func siteBudget(st *api.Status, p netip.Prefix) string {
	for _, r := range st.Rows {
		if r.Unit.Prefix == p {
			return fmt.Sprintf("withdrawals %d of %d used", r.BudgetUsed, r.BudgetLimit)
		}
	}
	return "automatic withdrawals unknown"
}

// breakerAt is how many sites in trouble trip the breaker of a prefix: "at 3, or at 2
// with one cause".
func breakerAt(p *decide.PrefixView) string {
	at := fmt.Sprintf("at %d", p.BreakerLimit+1)
	if p.BreakerShared > 0 {
		at += fmt.Sprintf(", or at %d with one cause", p.BreakerShared)
	}
	return at
}
