package decide

import "fmt"

// shareStep moves clients by DNS: a few first, where the step names a canary.
// What refuses it, "" if nothing.
func (a *applying) shareStep(r *PlanRun, k int) string {
	s, p := &r.Steps[k], r.Plan.Steps[k]
	services := a.servicesAt(p.Site)
	if p.Service != "" {
		services = []string{p.Service}
	}
	var was []ShareOrder
	far := 0
	for _, name := range services {
		if !a.serves(p.Site, name) {
			return fmt.Sprintf("%s does not serve %s any more", p.Site, name)
		}
		now := a.given(p.Site, name)
		switch to := p.permille(); {
		case p.Do == DoWarm && now > to:
			return fmt.Sprintf("%s takes %s of %s already, which is more than a trickle", p.Site, Percent(now), name)
		case a.nobodyElse(name, p.Site, to) != "":
			return a.nobodyElse(name, p.Site, to)
		default:
			far = max(far, to-now, now-to)
		}
		was = append(was, ShareOrder{Site: p.Site, Service: name, Permille: now})
	}
	if s.Was = was; p.Canary != nil && *p.Canary > 0 && far > *p.Canary*10 {
		s.Stage = 1
	}
	a.setShares(r, k)
	s.Ordered = a.Fence
	return ""
}

// nobodyElse says that a site cannot be given so little, "" if it can: nothing at all
// is for where another takes its clients.
func (s *state) nobodyElse(service, site string, permille int) string {
	if permille > 0 || s.given(site, service) == 0 || len(s.takers(service, site)) > 0 {
		return ""
	}
	return fmt.Sprintf("%s: no other site takes clients of %s", floorGuard, service)
}

// permille is the share that the step ends with.
func (s Step) permille() int {
	if s.Percent == nil {
		return Whole
	}
	return *s.Percent * 10
}

// stagedShare is what a site is given that had was: all of it, or while only the
// canary is moved that much of the way.
func (s Step) stagedShare(was, stage int) int {
	to := s.permille()
	if stage != 1 || s.Canary == nil {
		return to
	}
	first := *s.Canary * 10
	if to < was {
		return max(to, was-first)
	}
	return min(to, was+first)
}

// setShares gives what the stage of the step says.
func (a *applying) setShares(r *PlanRun, k int) {
	for _, was := range r.Steps[k].Was {
		o := was
		o.Permille = r.Plan.Steps[k].stagedShare(was.Permille, r.Steps[k].Stage)
		a.setShare(o, r.Actor, r.because(k))
	}
}

// because is the reason that stands beside what a step gives.
func (r *PlanRun) because(k int) string {
	return fmt.Sprintf("%s, step %d, %s: %s", r.name(), k+1, r.Plan.Steps[k].Name, r.Reason)
}

// shareBack gives back what the run took of the step's site, all of it at once,
// where nobody else has given another share since. What refuses it, "" if nothing.
func (a *applying) shareBack(r *PlanRun, k int) string {
	var back []ShareOrder
	for _, w := range r.Steps[k].Was {
		first, last := r.shareSpan(w.Site, w.Service)
		if !a.serves(w.Site, w.Service) || a.given(w.Site, w.Service) != last {
			continue
		}
		if no := a.nobodyElse(w.Service, w.Site, first); no != "" {
			return no
		}
		w.Permille = first
		back = append(back, w)
	}
	for _, w := range back {
		a.setShare(w, r.Actor, r.name()+" rolls back")
	}
	return ""
}

// shareSpan is what a site was given before the run, and what the run gave it last.
func (r *PlanRun) shareSpan(site, service string) (first, last int) {
	first = -1
	for k, s := range r.Steps {
		for _, w := range s.Was {
			if w.Site != site || w.Service != service {
				continue
			}
			if first < 0 {
				first = w.Permille
			}
			last = r.Plan.Steps[k].stagedShare(w.Permille, s.Stage)
		}
	}
	return first, last
}

// canary: the first few are well, and the rest is moved.
func (a *applying) canary(r *PlanRun, k int) {
	s := &r.Steps[k]
	if r.State != PlanRunning || s.Stage != 1 {
		return
	}
	var rest []ShareOrder
	for _, o := range s.Was { // where somebody has given another share since, that stays
		if !a.serves(o.Site, o.Service) || a.given(o.Site, o.Service) != r.Plan.Steps[k].stagedShare(o.Permille, 1) {
			continue
		}
		o.Permille = r.Plan.Steps[k].permille()
		if no := a.nobodyElse(o.Service, o.Site, o.Permille); no != "" { // as there was when it began
			a.failed(r, k, no)
			return
		}
		rest = append(rest, o)
	}
	for _, o := range rest {
		a.setShare(o, r.Actor, r.because(k))
	}
	s.Stage, s.Ordered = 0, a.Fence
	a.stepEvent(r, k, "canary is well", s.Who, s.Evidence)
}
