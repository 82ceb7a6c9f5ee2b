package probe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
)

// Expr is a scenario over named checks: and, or, not, at_least(n, …). It is
// immutable.
//
// Only the grammar is borrowed; the meaning is ours, because it has three
// values. Numbers and comparisons do not belong here: thresholds are in checks.
type Expr struct {
	src   string
	root  node
	names []string // as used, each once, in order of appearance
}

type op uint8

const (
	opCheck op = iota
	opAnd
	opOr
	opNot
	opAtLeast
)

type node struct {
	op   op
	name string // opCheck
	need int    // opAtLeast
	kids []node
}

// text names the node in an explanation.
func (n node) text() string {
	switch n.op {
	case opAnd:
		return "and"
	case opOr:
		return "or"
	case opNot:
		return "not"
	case opAtLeast:
		return fmt.Sprintf("at_least(%d)", n.need)
	default:
		return n.name
	}
}

// maxExpr bounds an expression, and with it how deep it can be nested.
const maxExpr = 4096

// ParseExpr reads an expression over the given names. Errors give the column,
// counted in characters from 1, and what was probably meant.
func ParseExpr(src string, names []string) (*Expr, error) {
	if len(src) > maxExpr {
		return nil, fmt.Errorf("the expression has %d characters; at most %d", len(src), maxExpr)
	}
	if strings.TrimSpace(src) == "" {
		return nil, errors.New("the expression is empty")
	}
	tree, err := parser.Parse(src)
	if err != nil {
		if fe, ok := errors.AsType[*file.Error](err); ok {
			return nil, fmt.Errorf("column %d: %s", fe.From+1, fe.Message)
		}
		return nil, err
	}
	e := &Expr{src: src}
	if e.root, err = e.build(tree.Node, names); err != nil {
		return nil, err
	}
	return e, nil
}

// All is the expression that needs every one of names.
func All(names []string) *Expr {
	e := &Expr{src: strings.Join(names, " and "), names: slices.Clone(names)}
	for _, n := range names {
		e.root.kids = append(e.root.kids, node{op: opCheck, name: n})
	}
	if e.root.op = opAnd; len(names) == 1 {
		e.root = e.root.kids[0]
	}
	return e
}

// String returns the source.
func (e *Expr) String() string { return e.src }

// Names returns the checks the expression uses, in order of appearance.
func (e *Expr) Names() []string { return slices.Clone(e.names) }

const allowed = "use check names, and, or, not, at_least(n, …) and parentheses"

func (e *Expr) build(n ast.Node, names []string) (node, error) {
	bad := func(format string, args ...any) (node, error) {
		return node{}, fmt.Errorf("column %d: %s", n.Location().From+1, fmt.Sprintf(format, args...))
	}
	switch x := n.(type) {
	case *ast.IdentifierNode:
		if !slices.Contains(names, x.Value) {
			if len(names) == 0 {
				return bad("no check named %q; there are none", x.Value)
			}
			return bad("no check named %q; there are %s%s", x.Value, strings.Join(names, ", "), didYouMean(x.Value, names))
		}
		if !slices.Contains(e.names, x.Value) {
			e.names = append(e.names, x.Value)
		}
		return node{op: opCheck, name: x.Value}, nil
	case *ast.UnaryNode:
		if x.Operator != "not" && x.Operator != "!" {
			return bad("%q is not allowed here; %s", x.Operator, allowed)
		}
		k, err := e.build(x.Node, names)
		return node{op: opNot, kids: []node{k}}, err
	case *ast.BinaryNode:
		o, ok := map[string]op{"and": opAnd, "&&": opAnd, "or": opOr, "||": opOr}[x.Operator]
		if !ok {
			return bad("%q is not allowed here; %s", x.Operator, allowed)
		}
		l, err := e.build(x.Left, names)
		if err != nil {
			return node{}, err
		}
		r, err := e.build(x.Right, names)
		out := node{op: o}
		for _, k := range []node{l, r} { // a and b and c is one and of three
			if k.op == o {
				out.kids = append(out.kids, k.kids...)
			} else {
				out.kids = append(out.kids, k)
			}
		}
		return out, err
	case *ast.CallNode:
		if id, ok := x.Callee.(*ast.IdentifierNode); !ok || id.Value != "at_least" {
			return bad("only at_least(n, …) can be called")
		}
		return e.buildAtLeast(x, names)
	}
	return bad("%s has no place in a health expression; %s", nodeWord(n), allowed)
}

func (e *Expr) buildAtLeast(x *ast.CallNode, names []string) (node, error) {
	bad := func(n ast.Node, format string, args ...any) (node, error) {
		return node{}, fmt.Errorf("column %d: %s", n.Location().From+1, fmt.Sprintf(format, args...))
	}
	if len(x.Arguments) < 2 {
		return bad(x, "at_least needs a number and then at least one check: at_least(2, a, b, c)")
	}
	need, ok := x.Arguments[0].(*ast.IntegerNode)
	if !ok {
		return bad(x.Arguments[0], "at_least needs a number first: at_least(2, a, b, c)")
	}
	out := node{op: opAtLeast, need: need.Value}
	if out.need < 1 || out.need > len(x.Arguments)-1 {
		return bad(need, "at_least(%d, …) over %d can never be decided by them; 1 to %d",
			out.need, len(x.Arguments)-1, len(x.Arguments)-1)
	}
	for _, a := range x.Arguments[1:] {
		k, err := e.build(a, names)
		if err != nil {
			return node{}, err
		}
		out.kids = append(out.kids, k)
	}
	return out, nil
}

// nodeWord says in plain words what was written.
func nodeWord(n ast.Node) string {
	switch x := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return "a number"
	case *ast.StringNode:
		return "a string"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NilNode:
		return "nil"
	case *ast.BuiltinNode:
		return x.Name + "(…)"
	case *ast.ConditionalNode:
		return "a conditional"
	case *ast.MemberNode:
		return "a member"
	default:
		return "this"
	}
}
