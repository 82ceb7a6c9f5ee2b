package dnsfallback

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Condition is something that members can be bound to, by `when:`.
type Condition struct {
	// Name: [a-z][a-z0-9_-]{0,62}.
	Name string `yaml:"name"`
	// When says in which state of the sites it holds: `not wan@ist and lan@ist or
	// maintenance@ist`. A word before @ is a service of the table, or a dimension of
	// a site's health; one without is another condition. and binds closer than or,
	// not closer than both; there are parentheses. What is not known to be bad is
	// well. Empty: it holds only while a person says so.
	When string `yaml:"when"`
}

// switchedCondition is the choice that people name to switch a condition: condition/drill.
const switchedCondition = "condition"

// condition is one, judged.
type condition struct {
	name, text, path string
	root             *term // nil for one that only people switch
}

// term is a part of a condition.
type term struct {
	op         termOp
	of         []*term // of and, or, not
	what, site string  // of a service at a site
	dimension  dimension
	other      int // another condition's index
}

type termOp uint8

const (
	termAnd termOp = iota
	termOr
	termNot
	termService
	termDimension
	termCondition
)

// holding is what came of a condition in a state.
type holding struct {
	holds bool
	// soon: something that it looks at is suspect.
	soon bool
	// change is when, if it is not soon, it may first hold otherwise.
	change change
	why    string
}

// maxTerms bounds the words of one condition, and with them how deep it nests.
const maxTerms = 200

// readConditions judges the conditions, which may name each other in any order.
func (p *Policy) readConditions(set []Condition, known Known, ps *problems) {
	for i, c := range set {
		path := fmt.Sprintf("conditions[%d]", i)
		if !poolName.MatchString(c.Name) || slices.Contains(termWords, c.Name) {
			ps.add(path+".name", "%q is not a name; allowed: a lower-case letter, then up to 62 of a-z 0-9 _ -, but no %s", c.Name, strings.Join(termWords, ", "))
		}
		if k := p.condition(c.Name); k >= 0 {
			ps.add(path+".name", "%q is %s already", c.Name, p.conditions[k].path)
		}
		p.conditions = append(p.conditions, condition{name: c.Name, text: strings.Join(strings.Fields(c.When), " "), path: path})
	}
	for i := range p.conditions {
		c := &p.conditions[i]
		if c.text == "" {
			continue
		}
		r := termReader{words: words(c.text), policy: p, known: known}
		root, err := r.read()
		if err != nil {
			ps.add(c.path+".when", "%v", err)
			continue
		}
		c.root = root
	}
	for i := range p.conditions {
		p.judgeCondition(i, []int{i}, ps)
	}
}

func (p *Policy) condition(name string) int {
	return slices.IndexFunc(p.conditions, func(c condition) bool { return c.name == name })
}

// judgeCondition finds conditions that rest on themselves.
func (p *Policy) judgeCondition(i int, way []int, ps *problems) {
	var visit func(*term)
	visit = func(t *term) {
		if t == nil {
			return
		}
		for _, k := range t.of {
			visit(k)
		}
		if t.op != termCondition {
			return
		}
		switch {
		case t.other == way[0]:
			var names []string
			for _, w := range append(way, t.other) {
				names = append(names, p.conditions[w].name)
			}
			ps.add(p.conditions[way[0]].path+".when", "leads back to itself: %s", strings.Join(names, " → "))
		case slices.Contains(way, t.other): // told of that one
		case len(way) >= maxChain:
			ps.add(p.conditions[way[0]].path+".when", "conditions rest on each other over %d deep", maxChain)
		default:
			p.judgeCondition(t.other, append(slices.Clone(way), t.other), ps)
		}
	}
	visit(p.conditions[i].root)
}

// termWords mean something by themselves.
var termWords = []string{"and", "or", "not"}

// words splits a condition; parentheses stand for themselves.
func words(s string) []string {
	return strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(s))
}

// termReader reads a condition from its words, by descent.
type termReader struct {
	words  []string
	at     int
	policy *Policy
	known  Known
}

func (r *termReader) read() (*term, error) {
	if len(r.words) > maxTerms {
		return nil, fmt.Errorf("has %d words; at most %d", len(r.words), maxTerms)
	}
	t, err := r.chain(termOr)
	if err == nil && r.at < len(r.words) {
		err = fmt.Errorf("%q is where and, or, or the end must be", r.words[r.at])
	}
	return t, err
}

func (r *termReader) next() string {
	if r.at == len(r.words) {
		return ""
	}
	return r.words[r.at]
}

// chain reads terms that or, or within one of them and, joins.
func (r *termReader) chain(op termOp) (*term, error) {
	word, below := "or", func() (*term, error) { return r.chain(termAnd) }
	if op == termAnd {
		word, below = "and", r.single
	}
	t := &term{op: op}
	for {
		k, err := below()
		if err != nil {
			return nil, err
		}
		t.of = append(t.of, k)
		if !strings.EqualFold(r.next(), word) {
			break
		}
		r.at++
	}
	if len(t.of) == 1 {
		return t.of[0], nil
	}
	return t, nil
}

func (r *termReader) single() (*term, error) {
	w := r.next()
	r.at++
	switch {
	case w == "":
		return nil, fmt.Errorf("ends where SERVICE@SITE, or a condition, must be")
	case strings.EqualFold(w, "not"):
		t, err := r.single()
		return &term{op: termNot, of: []*term{t}}, err
	case w == "(":
		t, err := r.chain(termOr)
		if err == nil && r.next() != ")" {
			err = fmt.Errorf("a parenthesis is not closed")
		}
		r.at++
		return t, err
	case w == ")" || strings.EqualFold(w, "and") || strings.EqualFold(w, "or"):
		return nil, fmt.Errorf("%q is where SERVICE@SITE, or a condition, must be", w)
	}
	what, site, ok := strings.Cut(w, "@")
	if !ok {
		k := r.policy.condition(w)
		if k < 0 {
			return nil, fmt.Errorf("%q is no condition; write SERVICE@SITE for the health of a service", w)
		}
		return &term{op: termCondition, what: w, other: k}, nil
	}
	if r.known.Sites != nil && !slices.Contains(r.known.Sites, site) {
		return nil, fmt.Errorf("%q: %q is not a site of this table; known: %s", w, site, strings.Join(r.known.Sites, ", "))
	}
	if d, ok := dimensionOf(what); ok && (d == maintenance || r.policy.dimensions[d] != "") {
		return &term{op: termDimension, what: what, site: site, dimension: d}, nil
	}
	if what == "" || r.known.Services != nil && !slices.Contains(r.known.Services, what) {
		return nil, fmt.Errorf("%q: %q is not a service of this table, nor a dimension that site_health: tells of; known: %s",
			w, what, strings.Join(append(slices.Clone(r.known.Services), maintenance.String()), ", "))
	}
	return &term{op: termService, what: what, site: site}, nil
}

// hold finds which conditions hold in a state. What a person said of one goes
// before what it says of itself.
func (p *Policy) hold(s *FleetState) []holding {
	out := make([]holding, len(p.conditions))
	done := make([]bool, len(p.conditions))
	var find func(int)
	find = func(i int) {
		if done[i] {
			return
		}
		done[i] = true
		c, h := &p.conditions[i], &out[i]
		switch f := s.Members[switchedCondition+"/"+c.name]; {
		case f.To != Unknown:
			h.holds, h.why = f.To != Down, "switched "+f.To.String()
			if f.Who != "" {
				h.why += " by " + f.Who
			}
			if f.Why != "" {
				h.why += ": " + f.Why
			}
		case c.root == nil:
			h.why = "nobody has switched it"
		default:
			for _, k := range c.root.rests() {
				find(k)
			}
			h.holds = p.so(c.root, s, out, h)
			h.change = p.soonestOf(c.root, s, out)
			h.why = c.text
		}
	}
	for i := range p.conditions {
		find(i)
	}
	return out
}

// rests are the other conditions that a term looks at.
func (t *term) rests() []int {
	var out []int
	for _, k := range t.of {
		out = append(out, k.rests()...)
	}
	if t.op == termCondition {
		out = append(out, t.other)
	}
	return out
}

// so evaluates a term whole, so that h has everything it looks at.
func (p *Policy) so(t *term, s *FleetState, others []holding, h *holding) bool {
	switch t.op {
	case termAnd, termOr:
		is := t.op == termAnd
		for _, k := range t.of {
			if p.so(k, s, others, h) != (t.op == termAnd) {
				is = !(t.op == termAnd)
			}
		}
		return is
	case termNot:
		return !p.so(t.of[0], s, others, h)
	case termCondition:
		h.soon = h.soon || others[t.other].soon
		return others[t.other].holds
	case termDimension:
		if t.dimension == maintenance {
			_, in := s.maintained(t.site)
			return in
		}
		return s.well(p.dimensions[t.dimension], t.site, h)
	}
	return s.well(t.what, t.site, h)
}

// well: a service at a site is not known to be bad, in one family at least; what a
// person said goes first.
func (s *FleetState) well(service, site string, h *holding) bool {
	x := s.Sites[site].Services[service]
	h.soon = h.soon || x.V4 == Suspect || x.V6 == Suspect || x.Returning
	if f := s.saidOf(site, x); f != Unknown {
		return f != Down
	}
	return x.V4 != Down || x.V6 != Down
}

// saidOf is what a person said of a service at a site, or of the site, where that is
// about the service, too.
func (s *FleetState) saidOf(site string, x ServiceState) Health {
	if x.Judged {
		return x.Forced.To
	}
	return cmp.Or(x.Forced.To, s.Sites[site].Forced.To)
}
