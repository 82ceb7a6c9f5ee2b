package decide

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// plans checks the plans of a table.
func (c *critic) plans() {
	if n := len(c.t.Plans); n > plansMost {
		c.say("plans", "%d plans; at most %d", n, plansMost)
		return
	}
	for i, p := range c.t.Plans {
		at := "plans[" + strconv.Itoa(i) + "]"
		c.name(at+".name", p.Name, "plan")
		for j, q := range c.t.Plans[:i] {
			if q.Name == p.Name {
				c.say(at+".name", "%q is the name of plans[%d] already; each plan has its own", p.Name, j)
				break
			}
		}
		c.word(at+".on_failure", p.OnFailure, OnFailureHold, OnFailureRollback)
		c.planStart(at+".start", p.Start)
		switch n := len(p.Steps); {
		case n == 0:
			c.say(at+".steps", "is missing; name at least one step")
		case n > stepsMost:
			c.say(at+".steps", "%d steps; at most %d", n, stepsMost)
			continue
		}
		for k := range p.Steps {
			c.step(at+".steps["+strconv.Itoa(k)+"]", p.Steps, k)
		}
		c.stepOrder(at, p.Steps)
	}
}

func (c *critic) planStart(at string, s *PlanStart) {
	if s == nil {
		return
	}
	c.word(at+".do", s.Do, StartPropose, StartRun)
	c.span(at+".for", s.For, 24*time.Hour)
	if len(s.When) == 0 {
		c.say(at+".when", "is missing; name what calls for the plan, or leave start: out")
	}
	for k, w := range s.When {
		path := at + ".when[" + strconv.Itoa(k) + "]"
		switch sv, ok := c.d.Service(w.Service); {
		case !ok:
			c.say(path+".service", "no service %q; services: %s", w.Service, list(c.serviceNames()))
		case !slices.Contains(sv.Sites, w.Site):
			c.say(path+".site", "%q does not serve %s; its sites: %s", w.Site, w.Service, list(sv.Sites))
		}
		if w.State == steadycast.StateUnknown {
			c.say(path+".state", "is missing; allowed: healthy, suspect, unhealthy, recovering")
		}
	}
}

func (c *critic) serviceNames() []string {
	var names []string
	for _, s := range c.t.Services {
		names = append(names, s.Name)
	}
	return names
}

// step checks one step for what its word takes.
func (c *critic) step(at string, steps []Step, k int) {
	s := steps[k]
	if !slices.Contains(stepWords, s.Do) {
		c.say(at+".do", "%q is no step; allowed: %s", s.Do, strings.Join(stepWords, ", "))
		return
	}
	full := s.withDefaults()
	c.name(at+".name", full.Name, "step")
	for j, q := range steps[:k] {
		if q.withDefaults().Name == full.Name {
			path := at + ".name"
			if s.Name == "" {
				path = at + ".do"
			}
			c.say(path, "%q is the name of steps[%d] already; give each its own name:", full.Name, j)
			break
		}
	}
	c.stepSite(at, s)
	c.stepKeys(at, s)
	most := 24 * time.Hour
	if s.Do == DoRun {
		most = time.Hour
	}
	c.span(at+".timeout", s.Timeout, most)
	c.span(at+".for", s.For, 24*time.Hour)
	if full.Timeout > 0 && full.For >= full.Timeout {
		c.say(at+".for", "%s is not less than the step's timeout of %s, so it could never be done; give a longer timeout:", full.For, full.Timeout)
	}
	if s.Percent != nil && (*s.Percent < 0 || *s.Percent > 100) {
		c.say(at+".percent", "%d; allowed: 0 to 100", *s.Percent)
	}
	if s.Canary != nil && (*s.Canary < 0 || *s.Canary > 50) {
		c.say(at+".canary", "%d points; allowed: 0 to 50", *s.Canary)
	}
	switch {
	case s.Do == DoShift && s.Percent == nil:
		c.say(at+".percent", "is missing; say how many of its clients %s takes afterwards", s.Site)
	case s.Do == DoRun:
		c.word(at+".effect", s.Effect, EffectFence, EffectPromote)
		if s.Effect != "" && !s.Undoes {
			c.say(at+".undo", "is missing; what fences or promotes says how it is taken back, or a rollback would send clients to where nobody may write")
		}
	}
}

// stepSite checks where a step is about, and where it is carried out.
func (c *critic) stepSite(at string, s Step) {
	announcers := c.t.Announcers()
	switch {
	case !s.moves() && s.Site != "" && s.Do != DoVerify:
		c.say(at+".site", "means nothing for %s; where it is carried out is at:", s.Do)
	case s.moves() && s.Site == "":
		c.say(at+".site", "is missing; name the site that is moved: %s", list(announcers))
	case s.Site != "" && !slices.Contains(announcers, s.Site):
		c.say(at+".site", "no site named %s announces anything; sites: %s", s.Site, list(announcers))
	case s.Site != "":
		for k, p := range s.Prefixes {
			if !slices.Contains(c.d.PrefixesAt(s.Site), p) {
				c.say(fmt.Sprintf("%s.prefixes[%d]", at, k), "%s does not announce %s; its prefixes: %s", s.Site, p, list(c.d.PrefixesAt(s.Site)))
			}
		}
		if sv, ok := c.d.Service(s.Service); s.Service != "" && (!ok || !slices.Contains(sv.Sites, s.Site)) {
			c.say(at+".service", "%s does not serve %q", s.Site, s.Service)
		}
	}
	if _, ok := c.t.Place(s.At); s.At != "" && !ok {
		c.say(at+".at", "no site %q; sites: %s", s.At, list(c.siteNames()))
	}
}

func (c *critic) siteNames() []string {
	var names []string
	for _, p := range c.t.Sites {
		names = append(names, p.Name)
	}
	return names
}

// stepKeys finds keys that mean nothing for the step's word.
func (c *critic) stepKeys(at string, s Step) {
	for _, k := range []struct {
		key  string
		set  bool
		does []string
	}{
		{"percent", s.Percent != nil, []string{DoShift, DoWarm}},
		{"canary", s.Canary != nil, []string{DoShift}},
		{"service", s.Service != "", []string{DoShift, DoWarm}},
		{"prefixes", len(s.Prefixes) > 0, []string{DoDrain, DoWithdraw, DoAnnounce}},
		{"effect", s.Effect != "", []string{DoRun}},
		{"undo", s.Undoes, []string{DoRun}},
		{"for", s.For != 0, []string{DoWait, DoVerify, DoShift, DoWarm}},
		{"timeout", s.Timeout != 0, []string{DoCheck, DoGuard, DoWarm, DoShift, DoDrain, DoWithdraw, DoAnnounce, DoVerify, DoRun}},
		{"at", s.At != "", []string{DoGuard, DoVerify, DoRun}},
	} {
		if k.set && !slices.Contains(k.does, s.Do) {
			c.say(at+"."+k.key, "means nothing for %s; it is for %s", s.Do, strings.Join(k.does, ", "))
		}
	}
}

// stepOrder holds a plan to the order that loses no writes: the old one is
// fenced, then the new one is promoted, and only then clients are sent to it.
func (c *critic) stepOrder(at string, steps []Step) {
	promote := slices.IndexFunc(steps, func(s Step) bool { return s.Effect == EffectPromote })
	if promote < 0 {
		return
	}
	fence := slices.IndexFunc(steps, func(s Step) bool { return s.Effect == EffectFence })
	if fence < 0 || fence > promote {
		c.say(fmt.Sprintf("%s.steps[%d].effect", at, promote), "promotes before anything is fenced: two could be written to at once; put the run with effect: fence before it")
	}
	for k, s := range steps[:promote] {
		if s.moves() {
			c.say(fmt.Sprintf("%s.steps[%d].do", at, k), "%s moves clients before steps[%d] promotes: they would come to where nobody may write; put it after", s.Do, promote)
		}
	}
	for k, s := range steps[promote+1:] {
		if s.Effect == EffectFence {
			c.say(fmt.Sprintf("%s.steps[%d].effect", at, promote+1+k), "fences after steps[%d] promotes: two could be written to at once; put it before", promote)
		}
	}
}
