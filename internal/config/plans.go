package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/probe"
)

// Plan is a plan of the table, with what its nodes look at and run.
type Plan struct {
	Name  string `yaml:"name"`
	About string `yaml:"about"`
	// Metric is read before and after each step that a node takes.
	Metric *probe.Check `yaml:"metric"`
	// Start is when it is proposed or begins by itself; default only by a person.
	Start *decide.PlanStart `yaml:"start"`
	// OnFailure is hold (default) or rollback.
	OnFailure string     `yaml:"on_failure"`
	Steps     []PlanStep `yaml:"steps"`
}

// PlanStep is one step. Do says which keys it takes.
type PlanStep struct {
	decide.Step `yaml:",inline"`
	// Check is what guard looks at, and what must hold meanwhile for warm, shift
	// and verify: exec, http or prometheus.
	Check *probe.Check `yaml:"check"`
	// Run is what a run does, Undo how it is taken back.
	Run  *PlanRun `yaml:"run"`
	Undo *PlanRun `yaml:"undo"`
}

// PlanRun is a program that node.yaml names, or an address that is called; one
// of both.
//
// The program gets STEADYCAST_KEY, the same in every try, STEADYCAST_EPOCH and
// STEADYCAST_NUMBER, which only grow: whoever has seen greater ones must refuse;
// and STEADYCAST_PLAN, _STEP and _DO (do or undo). The address gets them as
// headers Idempotency-Key, Steadycast-Epoch and so on. Exit status 0, or any of
// 200 to 299, is done.
type PlanRun struct {
	// Argv begins with the absolute path of the program; no shell is run.
	Argv []string `yaml:"argv"`
	// Env is the environment besides PATH and the variables above.
	Env map[string]string `yaml:"env" secret:"true"`
	// URL is called with Method (default POST), Headers and Body.
	URL     string            `yaml:"url"`
	Method  string            `yaml:"method"`
	Headers map[string]string `yaml:"headers" secret:"true"`
	Body    string            `yaml:"body"`
}

// plan is the part of it that the ledger needs.
func (p Plan) plan() decide.Plan {
	out := decide.Plan{Name: p.Name, About: p.About, Start: p.Start, OnFailure: p.OnFailure}
	for _, s := range p.Steps {
		step := s.Step
		step.Undoes = s.Undo != nil
		step.Details = details(s.Check, s.Run, s.Undo, p.Metric)
		out.Steps = append(out.Steps, step)
	}
	return out
}

// details stand in the ledger for what only the text says: a change of them is a
// change of the plan, and nobody can read them there.
func details(parts ...any) string {
	var said []byte
	none := true
	for _, p := range parts {
		b, err := json.Marshal(p)
		if err != nil {
			b = []byte(err.Error())
		}
		none = none && string(b) == "null"
		said = append(append(said, b...), '\n')
	}
	if none {
		return ""
	}
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:8])
}

// plans judges what the nodes look at and run in plans; what the ledger needs is
// judged by its owner.
func (j *judge) plans() {
	for i, p := range j.cfg.Fleet.Plans {
		at := fmt.Sprintf("plans[%d]", i)
		j.name(j.table, at+".name", p.Name)
		if p.Metric != nil {
			j.look(at+".metric", *p.Metric, "")
		}
		for k, s := range p.Steps {
			j.planStep(fmt.Sprintf("%s.steps[%d]", at, k), s)
		}
	}
}

func (j *judge) planStep(at string, s PlanStep) {
	looks := slices.Contains([]string{decide.DoGuard, decide.DoVerify, decide.DoShift, decide.DoWarm}, s.Do)
	switch {
	case s.Check != nil && !looks:
		j.say(j.table, at+".check", "means nothing for %s; it is for guard, verify, shift and warm", s.Do)
	case s.Do == decide.DoGuard && s.Check == nil:
		j.say(j.table, at+".check", "is missing; give the guard something to look at: exec, http or prometheus")
	case s.Check != nil:
		j.look(at+".check", *s.Check, s.At)
	}
	for _, x := range []struct {
		key string
		run *PlanRun
	}{{"run", s.Run}, {"undo", s.Undo}} {
		switch {
		case x.run == nil:
		case s.Do != decide.DoRun:
			j.say(j.table, at+"."+x.key, "means nothing for %s; it is for run", s.Do)
		default:
			j.runs(at+"."+x.key, *x.run, s.At)
		}
	}
	if s.Do == decide.DoRun && s.Run == nil {
		j.say(j.table, at+".run", "is missing; give a program (argv:) or an address (url:)")
	}
}

// look judges a check of a plan; where is the site whose node makes it.
func (j *judge) look(at string, c probe.Check, where string) {
	if c.Name == "" {
		c.Name = "look"
	}
	for _, p := range c.Problems() {
		j.say(j.table, join(at, p.Path), "%s", p.Text)
	}
	if len(c.Problems()) == 0 && !slices.Contains([]string{"exec", "http", "prometheus"}, c.Kind) {
		j.say(j.table, at+".kind", "%q cannot be looked at in a plan; allowed: exec, http, prometheus", c.Kind)
	}
	if c.Exec != nil && len(c.Exec.Argv) > 0 {
		if where == "" {
			j.say(j.table, at+".kind", "runs a program at no site in particular; name one at at:, whose node.yaml lets it run, or use http or prometheus")
		}
		j.program(at+".exec.argv[0]", c.Exec.Argv[0], j.node != nil && where == j.cfg.Node.Site)
	}
}

// runs judges what a run does.
func (j *judge) runs(at string, r PlanRun, where string) {
	switch program, call := len(r.Argv) > 0, r.URL != ""; {
	case program == call:
		j.say(j.table, at, "give a program (argv:) or an address (url:), one of both")
	case program:
		if where == "" {
			j.say(j.table, parent(at)+".at", "is missing; name the site whose node.yaml lets the program run")
		}
		j.program(at+".argv[0]", r.Argv[0], j.node != nil && where == j.cfg.Node.Site)
		if r.Method+r.Body != "" || len(r.Headers) > 0 {
			j.say(j.table, at, "has method:, headers: or body:, which belong to url:")
		}
	default:
		switch u, err := url.Parse(r.URL); {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			j.say(j.table, at+".url", "%q is not an address to call; write http://HOST:PORT/PATH or https://…", brief(r.URL))
		case u.User != nil:
			j.say(j.table, at+".url", "carries a name or a password, which every node would show; use headers: with Authorization")
		}
		if len(r.Env) > 0 {
			j.say(j.table, at+".env", "belongs to argv:, and an address is called")
		}
		if r.Method != "" && r.Method != "POST" && r.Method != "PUT" {
			j.say(j.table, at+".method", "%q; allowed: POST, PUT", brief(r.Method))
		}
	}
	for _, k := range sortedNames(r.Env) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.HasPrefix(k, "STEADYCAST_") {
			j.say(j.table, at+".env", "%q cannot be the name of a variable here", brief(k))
		}
	}
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

// withDefaults fills in what was not said; full is what the ledger has of it.
func (p Plan) withDefaults(full decide.Plan) Plan {
	p.Start, p.OnFailure = full.Start, full.OnFailure
	if p.Metric != nil {
		c := lookDefaults(*p.Metric)
		p.Metric = &c
	}
	p.Steps = slices.Clone(p.Steps)
	for k := range p.Steps {
		s := &p.Steps[k]
		s.Step = full.Steps[k]
		if s.Check != nil {
			c := lookDefaults(*s.Check)
			s.Check = &c
		}
		for _, r := range []**PlanRun{&s.Run, &s.Undo} {
			if *r != nil && (*r).URL != "" {
				x := **r
				x.Method = cmp.Or(x.Method, "POST")
				*r = &x
			}
		}
	}
	return p
}

func lookDefaults(c probe.Check) probe.Check {
	c.Name = cmp.Or(c.Name, "look")
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	return c.WithDefaults()
}

// Plan finds a plan of the table.
func (f Fleet) Plan(name string) (Plan, bool) {
	for _, p := range f.Plans {
		if p.Name == name {
			return p, true
		}
	}
	return Plan{}, false
}
