package probe

import (
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// value is what a node comes to. strict is the same with every soft failure
// taken as unknown: a down that stands even then rests on hard failures alone.
type value struct{ plain, strict steadycast.Outcome }

func leaf(r steadycast.Result) value {
	v := value{r.Outcome, r.Outcome}
	if r.Outcome == steadycast.Down && r.Class != steadycast.Hard {
		v.strict = steadycast.Unknown
	}
	return v
}

func (v value) class() steadycast.Class {
	switch {
	case v.plain != steadycast.Down:
		return steadycast.NoFailure
	case v.strict == steadycast.Down:
		return steadycast.Hard
	default:
		return steadycast.Soft
	}
}

// Eval gives the value of the expression (Kleene's strong three-valued logic),
// with an explanation tree. A down is hard when it would be down even if every
// soft failure were unknown.
func (e *Expr) Eval(result func(name string) steadycast.Result) steadycast.Result {
	var r steadycast.Result
	v, tree := e.root.explain(result, &r.Took)
	r.Outcome, r.Class, r.Why = v.plain, v.class(), &tree
	if r.Outcome != steadycast.Up {
		r.Reason = strings.Join(e.root.causes(result, r.Outcome, nil), "; ")
	}
	return r
}

// outcome is Eval without the explanation.
func (e *Expr) outcome(result func(name string) steadycast.Result) steadycast.Outcome {
	return e.root.outcome(result)
}

func (n node) outcome(result func(string) steadycast.Result) steadycast.Outcome {
	if n.op == opCheck {
		return result(n.name).Outcome
	}
	c := counter{total: len(n.kids)}
	for i := range n.kids {
		c.add(n.kids[i].outcome(result))
	}
	return c.combine(n)
}

// counter counts the outcomes of an operator's parts.
type counter struct{ total, up, unknown int }

func (c *counter) add(o steadycast.Outcome) {
	switch o {
	case steadycast.Up:
		c.up++
	case steadycast.Unknown:
		c.unknown++
	}
}

// combine applies n to what was counted. And needs all of its parts, or needs
// one of them; so both are an at_least.
func (c counter) combine(n node) steadycast.Outcome {
	switch n.op {
	case opNot:
		return c.atLeast(1) * -1
	case opAnd:
		return c.atLeast(c.total)
	case opOr:
		return c.atLeast(1)
	default:
		return c.atLeast(n.need)
	}
}

func (c counter) atLeast(need int) steadycast.Outcome {
	switch {
	case c.up >= need:
		return steadycast.Up
	case c.up+c.unknown >= need:
		return steadycast.Unknown
	default:
		return steadycast.Down
	}
}

func (n node) explain(result func(string) steadycast.Result, took *time.Duration) (value, steadycast.Tree) {
	t := steadycast.Tree{Text: n.text()}
	if n.op == opCheck {
		r := result(n.name)
		*took = max(*took, r.Took)
		t.Outcome, t.Class, t.Reason = r.Outcome, r.Class, r.Reason
		return leaf(r), t
	}
	plain, strict := counter{total: len(n.kids)}, counter{total: len(n.kids)}
	for _, k := range n.kids {
		v, kt := k.explain(result, took)
		plain.add(v.plain)
		strict.add(v.strict)
		t.Kids = append(t.Kids, kt)
	}
	v := value{plain.combine(n), strict.combine(n)}
	t.Outcome, t.Class = v.plain, v.class()
	return v, t
}

// causes collects "check: reason" of the parts that made the node come out as
// it did, at most three of them.
func (n node) causes(result func(string) steadycast.Result, want steadycast.Outcome, out []string) []string {
	const most = 3
	if n.op == opCheck {
		r := result(n.name)
		if r.Outcome != want {
			return out
		}
		text := n.name
		switch {
		case r.Outcome == steadycast.Up:
			text += ": is up"
		case r.Reason != "":
			text += ": " + r.Reason
		default:
			text += ": " + r.Outcome.String()
		}
		if len(out) == most || slices.Contains(out, text) {
			return out
		}
		return append(out, text)
	}
	if n.op == opNot {
		return n.kids[0].causes(result, -want, out)
	}
	for _, k := range n.kids {
		if k.outcome(result) == want {
			out = k.causes(result, want, out)
		}
	}
	return out
}
