package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/whatif"
)

// supposition is what `simulate --fail` asks.
type supposition struct {
	fail       []string
	file, load string
	apart      time.Duration
	soft       bool
}

// suppose says what would happen if sites failed.
func (c *cli) suppose(ctx context.Context, s supposition) error {
	now, err := c.present(ctx, s.file, s.load)
	if err != nil {
		return err
	}
	for _, site := range s.fail {
		if err := mustAnnounce(&now.table, site); err != nil {
			return err
		}
	}
	class := steadycast.Hard
	if s.soft {
		class = steadycast.Soft
	}
	a, err := whatif.Ask(whatif.Question{Table: now.table, Fail: s.fail, Apart: s.apart, Class: class, Loads: now.loads, Out: now.out, Frozen: now.frozen})
	if err != nil {
		return usageError(fmt.Errorf("--fail: %w", err))
	}
	if c.json() {
		return c.printValue(a)
	}
	fmt.Fprint(c.out, renderWhatIf(c.page, a))
	return nil
}

// renderWhatIf is the page of `steadycast simulate --fail`.
func renderWhatIf(s style, a *whatif.Answer) string {
	var b strings.Builder
	var failed []string
	for i, step := range a.Steps {
		failed = append(failed, step.Site)
		fmt.Fprintln(&b, s.paint(bold, s.text(fmt.Sprintf("%d. after %s %s fails", i+1, rough(step.After), step.Site))))
		t := &table{columns: words("PREFIX", "OUTCOME", "WHY")}
		for _, u := range step.Units {
			colour, why := yellow, u.Why
			if u.Guard != "" {
				why = u.Guard + ": " + u.Why
			}
			switch u.Outcome {
			case whatif.Withdrawn, whatif.WasOut:
				colour = plain
			}
			if u.Outcome == whatif.Withdrawn {
				why = passed(u.Guards)
			}
			if u.Movable > 0 {
				why += fmt.Sprintf("; %d%% of its clients could go elsewhere by DNS", u.Movable)
			}
			t.add(cell{u.Unit.Prefix.String(), plain}, cell{u.Outcome, colour}, cell{why, plain})
		}
		b.WriteString(t.render(s))
		b.WriteString(burdenTable(step.Sites, a.Red, failed).render(s))
		b.WriteByte('\n')
	}
	fmt.Fprintln(&b, s.paint(bold, "in the end"))
	t := &table{columns: words("PREFIX", ">ANNOUNCE", ">WELL", ">FLOOR", "WHO")}
	for _, l := range a.Prefixes {
		well := cell{fmt.Sprint(len(l.Healthy)), plain}
		if len(l.Healthy) == 0 {
			well.ink = red
		}
		t.add(cell{l.Prefix.String(), plain}, cell{fmt.Sprint(len(l.Announcing)), plain}, well, cell{fmt.Sprint(l.Floor), plain}, cell{strings.Join(l.Announcing, ", "), plain})
	}
	b.WriteString(t.render(s))
	return b.String()
}

// passed are the answers with numbers that a withdrawal rests on.
func passed(gs []steadycast.GuardAnswer) string {
	var out []string
	for _, g := range gs {
		if g.Guard == "floor" || g.Guard == "capacity" || g.Guard == "fleet budget" {
			out = append(out, g.Text)
		}
	}
	return strings.Join(out, "; ")
}
