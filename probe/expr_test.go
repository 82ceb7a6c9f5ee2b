package probe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/steadycast/steadycast"
	"pgregory.net/rapid"
)

var (
	upR   = steadycast.Result{Outcome: steadycast.Up}
	softR = steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Soft, Reason: "slow"}
	hardR = steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard, Reason: "refused"}
	unkR  = steadycast.Result{Reason: "no route"}
)

// up* are up, s* soft down, h* hard down, u* unknown.
var sample4 = map[string]steadycast.Result{
	"up1": upR, "up2": upR, "s1": softR, "s2": softR, "h1": hardR, "h2": hardR, "u1": unkR, "u2": unkR,
}

func names4() []string { return sortedKeys(sample4) }

func TestEval(t *testing.T) {
	for _, row := range strings.Split(strings.TrimSpace(`
up1                          | up      |      | up1=up
s1                           | down    | soft  | s1=down
u1                           | unknown |      | u1=unknown
up1 and up2                  | up      |      | and(up1=up, up2=up)=up
up1 and u1                   | unknown |      | and(up1=up, u1=unknown)=unknown
h1 and u1                    | down    | hard  | and(h1=down, u1=unknown)=down
s1 and u1                    | down    | soft  | and(s1=down, u1=unknown)=down
s1 and h1                    | down    | hard  | and(s1=down, h1=down)=down
up1 or u1                    | up      |      | or(up1=up, u1=unknown)=up
h1 or u1                     | unknown |      | or(h1=down, u1=unknown)=unknown
h1 or s1                     | down    | soft  | or(h1=down, s1=down)=down
h1 or h2                     | down    | hard  | or(h1=down, h2=down)=down
not u1                       | unknown |      | not(u1=unknown)=unknown
not h1                       | up      |      | not(h1=down)=up
not up1                      | down    | hard  | not(up1=up)=down
not not s1                   | down    | soft  | not(not(s1=down)=up)=down
not (up1 and s1)             | up      |      | not(and(up1=up, s1=down)=down)=up
up1 and (s1 or not h1)       | up      |      | and(up1=up, or(s1=down, not(h1=down)=up)=up)=up
up1 && !h1 || s1             | up      |      | or(and(up1=up, not(h1=down)=up)=up, s1=down)=up
up1 and up2 and h1           | down    | hard  | and(up1=up, up2=up, h1=down)=down
at_least(2, up1, h1, u1)     | unknown |      | at_least(2)(up1=up, h1=down, u1=unknown)=unknown
at_least(2, up1, up2, u1)    | up      |      | at_least(2)(up1=up, up2=up, u1=unknown)=up
at_least(2, up1, h1, h2)     | down    | hard  | at_least(2)(up1=up, h1=down, h2=down)=down
at_least(2, up1, h1, s1)     | down    | soft  | at_least(2)(up1=up, h1=down, s1=down)=down
at_least(2, h1, h2, s1)      | down    | hard  | at_least(2)(h1=down, h2=down, s1=down)=down
at_least(1, h1 and u1, up1)  | up      |      | at_least(1)(and(h1=down, u1=unknown)=down, up1=up)=up
`), "\n") {
		f := strings.Split(row, " | ")
		src, outcome, class, tree := strings.TrimSpace(f[0]), strings.TrimSpace(f[1]), strings.TrimSpace(f[2]), strings.TrimSpace(f[3])
		e, err := ParseExpr(src, names4())
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		r := e.Eval(func(n string) steadycast.Result { return sample4[n] })
		if class == "" {
			class = "none"
		}
		if r.Outcome.String() != outcome || r.Class.String() != class || r.Why.String() != tree {
			t.Errorf("%s\n got %v %v %v\nwant %s %s %s", src, r.Outcome, r.Class, r.Why, outcome, class, tree)
		}
	}
}

func TestReasons(t *testing.T) {
	for src, want := range map[string]string{
		"up1 and h1":                   "h1: refused",
		"h1 and s1 and u1":             "h1: refused; s1: slow",
		"up1 and u1":                   "u1: no route",
		"not up1":                      "up1: is up",
		"h1 or (s1 and up1)":           "h1: refused; s1: slow",
		"h1 or h1":                     "h1: refused",
		"at_least(2, up1, h1, s1, u1)": "u1: no route",
		"h1 and h2 and s1 and s2":      "h1: refused; h2: refused; s1: slow",
	} {
		e, err := ParseExpr(src, names4())
		if err != nil {
			t.Fatal(err)
		}
		if r := e.Eval(func(n string) steadycast.Result { return sample4[n] }); r.Reason != want {
			t.Errorf("%s: %q, want %q", src, r.Reason, want)
		}
	}
}

func TestParseExprErrors(t *testing.T) {
	names := []string{"web", "dns", "wan", "maintenance"}
	for src, want := range map[string]string{
		"":                                      "the expression is empty",
		"web and dms":                           `column 9: no check named "dms"; there are web, dns, wan, maintenance; did you mean "dns"?`,
		"web and maintnance":                    `did you mean "maintenance"?`,
		"zzzzzz":                                `column 1: no check named "zzzzzz"; there are web, dns, wan, maintenance`,
		"web and 3":                             "column 9: a number has no place in a health expression",
		"web and true":                          "true or false has no place",
		"len(web)":                              "column 1: len(…) has no place",
		"foo(web)":                              "column 1: only at_least(n, …) can be called",
		"web & dns":                             "column",
		"web and (dns":                          "column",
		"web > dns":                             `">" is not allowed here`,
		"web == dns":                            `"==" is not allowed here`,
		"-web":                                  `"-" is not allowed here`,
		"web.status":                            "has no place",
		"web ? dns : wan":                       "a conditional has no place",
		`"web"`:                                 "a string has no place",
		"at_least(2, web)":                      "column 10: at_least(2, …) over 1 can never be decided by them; 1 to 1",
		"at_least(0, web)":                      "1 to 1",
		"at_least(web, dns)":                    "column 10: at_least needs a number first",
		"at_least(1)":                           "at_least needs a number and then at least one check",
		"at_least(1, dns, dmx)":                 `column 18: no check named "dmx"`,
		strings.Repeat("(", 5000):               "at most 4096",
		strings.Repeat("(", 4000):               "column",
		strings.Repeat("!", 4000):               "column",
		"let x = web; x":                        "column",
		"[web, dns]":                            "has no place",
		"{a: web}":                              "has no place",
		"web; dns":                              "has no place",
		"web in dns":                            `"in" is not allowed`,
		"web |> dns()":                          "column",
		"any([web], # and dns)":                 "has no place",
		"web matches \"x\"":                     `"matches" is not allowed`,
		"web ?? dns":                            `"??" is not allowed`,
		"not in":                                "column",
		"web and wän":                           "column",
		"web\nand\n\n   dnss":                   `column 13: no check named "dnss"`,
		"web and\xff":                           "column",
		"at_least(9999999999999999999999, web)": "column",
	} {
		_, err := ParseExpr(src, names)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q\n got %v\nwant …%s…", src, err, want)
		}
	}
	if _, err := ParseExpr("web", nil); err == nil {
		t.Error("a name was found where there are none")
	}
}

// naive is the definition itself: try every way in which the unknowns could
// turn out; what is the same in all of them is known.
func naive(n node, in map[string]steadycast.Outcome) steadycast.Outcome {
	switch n.op {
	case opCheck:
		return in[n.name]
	case opNot:
		return -naive(n.kids[0], in)
	}
	var all []steadycast.Outcome
	for _, k := range n.kids {
		all = append(all, naive(k, in))
	}
	need := map[op]int{opAnd: len(all), opOr: 1, opAtLeast: n.need}[n.op]
	could := map[bool]bool{}
	var try func(i, ups int)
	try = func(i, ups int) {
		switch {
		case i == len(all):
			could[ups >= need] = true
		case all[i] == steadycast.Unknown:
			try(i+1, ups)
			try(i+1, ups+1)
		case all[i] == steadycast.Up:
			try(i+1, ups+1)
		default:
			try(i+1, ups)
		}
	}
	try(0, 0)
	switch {
	case could[true] && could[false]:
		return steadycast.Unknown
	case could[true]:
		return steadycast.Up
	default:
		return steadycast.Down
	}
}

func drawExpr(t *rapid.T, depth int) string {
	name := rapid.SampledFrom(names4())
	if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
		return name.Draw(t, "name")
	}
	kids := make([]string, rapid.IntRange(1, 4).Draw(t, "kids"))
	for i := range kids {
		kids[i] = drawExpr(t, depth-1)
	}
	switch rapid.IntRange(0, 3).Draw(t, "op") {
	case 0:
		return "(" + strings.Join(kids, " and ") + ")"
	case 1:
		return "(" + strings.Join(kids, " or ") + ")"
	case 2:
		return "not (" + kids[0] + ")"
	default:
		return fmt.Sprintf("at_least(%d, %s)", rapid.IntRange(1, len(kids)).Draw(t, "need"), strings.Join(kids, ", "))
	}
}

func TestEvalAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, err := ParseExpr(drawExpr(t, 3), names4())
		if err != nil {
			t.Fatal(err)
		}
		results := map[string]steadycast.Result{}
		plain, strict := map[string]steadycast.Outcome{}, map[string]steadycast.Outcome{}
		for _, n := range names4() {
			r := rapid.SampledFrom([]steadycast.Result{upR, softR, hardR, unkR}).Draw(t, n)
			results[n] = r
			plain[n], strict[n] = r.Outcome, r.Outcome
			if r.Class == steadycast.Soft {
				strict[n] = steadycast.Unknown
			}
		}
		get := func(n string) steadycast.Result { return results[n] }
		r := e.Eval(get)
		class := steadycast.NoFailure
		if naive(e.root, plain) == steadycast.Down {
			class = steadycast.Soft
			if naive(e.root, strict) == steadycast.Down {
				class = steadycast.Hard
			}
		}
		if r.Outcome != naive(e.root, plain) || r.Class != class || e.outcome(get) != r.Outcome || r.Why.Outcome != r.Outcome {
			t.Fatalf("%s gives %v %v, naively %v %v", e, r.Outcome, r.Class, naive(e.root, plain), class)
		}
		if r.Outcome != steadycast.Up && r.Reason == "" {
			t.Fatalf("%s: %v without a reason", e, r.Outcome)
		}
		// What is known stays known, whatever the unknown turn out to be: this is
		// what lets a round end before all of its checks have.
		for _, n := range names4() {
			if results[n].Outcome == steadycast.Unknown {
				results[n] = rapid.SampledFrom([]steadycast.Result{upR, softR, hardR}).Draw(t, "later "+n)
			}
		}
		if later := e.Eval(get); r.Outcome != steadycast.Unknown && later.Outcome != r.Outcome {
			t.Fatalf("%s was %v and became %v by more knowledge", e, r.Outcome, later.Outcome)
		}
	})
}

// A tally is an at_least that is told one result after the other.
func TestTallyAgainstExpr(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rs := rapid.SliceOfN(rapid.SampledFrom([]steadycast.Result{upR, softR, hardR, unkR}), 1, 6).Draw(t, "results")
		need := rapid.IntRange(1, len(rs)).Draw(t, "need")
		n := node{op: opAtLeast, need: need}
		for i := range rs {
			n.kids = append(n.kids, node{name: itoa(i)})
		}
		e := &Expr{root: n}
		tl := newTally(need, len(rs))
		at := 0
		for ; at < len(rs) && !tl.decided(); at++ {
			tl.add(rs[at])
		}
		got, full := tl.result(), e.Eval(func(name string) steadycast.Result {
			var i int
			fmt.Sscan(name, &i)
			return rs[i]
		})
		if got.Outcome != full.Outcome {
			t.Fatalf("need %d of %v: %v after %d, %v in the end", need, rs, got.Outcome, at, full.Outcome)
		}
		for ; at < len(rs); at++ {
			tl.add(rs[at])
		}
		if got = tl.result(); got.Outcome != full.Outcome || got.Class != full.Class {
			t.Fatalf("need %d of %v: %v %v, want %v %v", need, rs, got.Outcome, got.Class, full.Outcome, full.Class)
		}
	})
}

// Whatever is written, reading it does not panic, and what can be read can be
// judged and says the same when it is read again.
func FuzzExpr(f *testing.F) {
	for _, s := range []string{"up1 and (s1 or not h1)", "at_least(2, up1, h1, u1)", "!up1 || u1 && s1", "up1 and 3", "at_least(1", "up1 in [s1]"} {
		f.Add(s)
	}
	get := func(n string) steadycast.Result { return sample4[n] }
	f.Fuzz(func(t *testing.T, src string) {
		e, err := ParseExpr(src, names4())
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without words")
			}
			return
		}
		r := e.Eval(get)
		if e.outcome(get) != r.Outcome || r.Why.Outcome != r.Outcome || len(e.Names()) == 0 {
			t.Fatalf("%q: %v, %v", src, r, e.Names())
		}
	})
}
