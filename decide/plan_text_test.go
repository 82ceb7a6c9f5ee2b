package decide

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// planning plays what scripts say of plans.
//
//	plan NAME [start=propose|run when=SITE:STATE for=10s on_failure=rollback]: STEP | STEP …
//	     of the next table; a step is DO [SITE] [name=N at=SITE for=D timeout=D percent=N canary=N effect=E undo]
//	tell VERB PLAN [force]: reason
//	node SAY NODE STEP [try=N] [run=N] [then=METRIC] [now=METRIC]: evidence
//	plans
func (s *stage) planning(word string, args []string, text string) []string {
	switch word {
	case "plan":
		p := s.planOf(args, text)
		s.plans = append(slices.DeleteFunc(slices.Clone(s.plans), func(x Plan) bool { return x.Name == p.Name }), p)
		return nil
	case "tell":
		e := s.entry(KindPlan)
		e.Actor, e.Reason, e.Plan = "ann", text, &PlanWish{Do: args[0], Plan: args[1], Force: slices.Contains(args, "force")}
		return s.say(s.apply(e))
	case "node":
		e := s.entry(KindStep)
		w := s.wordOf(args, text)
		e.Step, e.Decide = &w, &Decide{Seen: s.seen(), Loads: s.loads}
		return s.say(s.apply(e))
	}
	var out []string
	for _, r := range s.f.View().Plans {
		out = append(out, planLines(&r)...)
	}
	return out
}

func (s *stage) planOf(args []string, text string) Plan {
	p := Plan{Name: args[0]}
	for _, w := range args[1:] {
		switch k, v, _ := strings.Cut(w, "="); k {
		case "on_failure":
			p.OnFailure = v
		case "start":
			p.Start = &PlanStart{Do: v}
		case "when":
			site, state, _ := strings.Cut(v, ":")
			sign := Sign{Site: site, Service: "web"}
			if err := sign.State.UnmarshalText([]byte(state)); err != nil {
				s.t.Fatal(err)
			}
			p.Start.When = append(p.Start.When, sign)
		case "for":
			p.Start.For = s.span(v)
		default:
			s.t.Fatalf("no such key of a plan: %s", w)
		}
	}
	for part := range strings.SplitSeq(text, "|") {
		p.Steps = append(p.Steps, s.stepOf(strings.Fields(part)))
	}
	return p
}

func (s *stage) span(v string) time.Duration {
	d, err := time.ParseDuration(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *stage) stepOf(words []string) Step {
	st := Step{Do: words[0]}
	for _, w := range words[1:] {
		number := func(v string) *int {
			n, err := strconv.Atoi(v)
			if err != nil {
				s.t.Fatal(err)
			}
			return &n
		}
		switch k, v, ok := strings.Cut(w, "="); {
		case w == "undo":
			st.Undoes = true
		case !ok:
			st.Site = w
		case k == "name":
			st.Name = v
		case k == "at":
			st.At = v
		case k == "for":
			st.For = s.span(v)
		case k == "timeout":
			st.Timeout = s.span(v)
		case k == "percent":
			st.Percent = number(v)
		case k == "canary":
			st.Canary = number(v)
		case k == "effect":
			st.Effect = v
		default:
			s.t.Fatalf("no such key of a step: %s", w)
		}
	}
	return st
}

// wordOf reads what a node says; the step is one of the newest run that is live,
// and the try the one at hand, or the next.
func (s *stage) wordOf(args []string, text string) StepWord {
	site, _, _ := strings.Cut(args[1], "-")
	w := StepWord{Say: args[0], Node: args[1], Site: site, Text: text, Effective: 3, Nodes: 3}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		s.t.Fatal(err)
	}
	w.Step = n - 1
	for _, r := range s.f.View().Plans {
		if !r.State.Live() && w.Run != 0 {
			continue
		}
		w.Run, w.Try = r.Number, 0
		if w.Step >= 0 && w.Step < len(r.Steps) {
			w.Try = r.Steps[w.Step].Try
			if w.Say == SayTake {
				w.Try++
			}
		}
	}
	for _, a := range args[3:] {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "try":
			w.Try, _ = strconv.ParseUint(v, 10, 64)
		case "run":
			w.Run, _ = strconv.ParseUint(v, 10, 64)
		case "then":
			w.Then = v
		case "now":
			w.Now = v
		default:
			s.t.Fatalf("no such word of a node: %s", a)
		}
	}
	return w
}

// planLines are a run as a person reads it.
func planLines(r *PlanRun) []string {
	head := fmt.Sprintf("%s by %s: %s, at step %d of %d", r.name(), r.Actor, r.State, r.At+1, len(r.Steps))
	if r.Hold != nil {
		head += "; holds: " + r.Hold.Reason
	}
	out := []string{head}
	for k, s := range r.Steps {
		line := fmt.Sprintf("  %d %s: %s", k+1, r.Plan.Steps[k].Name, s.State)
		if s.Held() {
			line += fmt.Sprintf(", try %d by %s until %s", s.Try, s.Node, wait(s.Until))
		}
		if s.State != StepWaiting {
			line += fmt.Sprintf(", %s to %s, %s: %s", wait(s.Began), wait(s.Ended), s.Who, s.Evidence)
		}
		if s.Nodes > 0 {
			line += fmt.Sprintf(", %d of %d", s.Effective, s.Nodes)
		}
		if s.Then+s.Now != "" {
			line += fmt.Sprintf(", %s then, %s now", s.Then, s.Now)
		}
		out = append(out, strings.TrimRight(line, " :"))
	}
	return out
}
