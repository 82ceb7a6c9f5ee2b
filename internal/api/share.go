package api

import (
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// followsShare says what a share does, or why it makes no sense.
func (s *Snapshot) followsShare(o *decide.ShareOrder) ([]string, error) {
	if err := s.checkScope(o.Site); err != nil {
		return nil, err
	}
	if o.Service != "" {
		if err := s.checkService(o.Service); err != nil {
			return nil, err
		}
	}
	if o.Permille < 0 || o.Permille > decide.Whole {
		return nil, usage("permille: %d; allowed: 0 to %d", o.Permille, decide.Whole)
	}
	var out []string
	for _, sv := range s.View.Table.Services {
		if o.Service != "" && sv.Name != o.Service || !slices.Contains(sv.Sites, o.Site) {
			continue
		}
		out = append(out, fmt.Sprintf("DNS sends %s %s of the clients of %s that would come to it; now %s",
			o.Site, decide.Percent(o.Permille), sv.Name, decide.Percent(s.View.Share(o.Site, sv.Name))))
	}
	if o.Permille < decide.Whole {
		out = append(out, "who was told before stays until its answer's TTL is over; no route changes",
			"it stands until: "+commandOf("share", o.Site+" 100%", nil, "TEXT"))
	}
	return out, nil
}

// sharesAt says in words what a site takes of its services, "" where it takes all.
func sharesAt(v *decide.View, site string) string {
	text := ""
	for _, x := range v.Shares {
		if x.Site != site {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += x.Service + " " + decide.Percent(x.Permille)
	}
	return text
}

// ShareText says why a site takes less: `takes 5% of web; given 5% by maria: "canary"`.
func ShareText(x *decide.ShareView) string {
	t := fmt.Sprintf("takes %s of %s", decide.Percent(x.Permille), x.Service)
	if x.Ramp.Of > 0 {
		t += "; " + rampText(&x.Ramp)
	}
	if x.Shed < decide.Whole {
		t += "; keeps " + decide.Percent(x.Shed) + " because it carries too much"
	}
	if x.Kept {
		t += "; it carries too much, and no other site has room"
	}
	if x.Given < decide.Whole {
		t += fmt.Sprintf("; given %s by %s: %q", decide.Percent(x.Given), x.Actor, x.Reason)
	}
	return t
}

// rampText says where a return stands: `returning, step 2 of 4 for 3m12s more, back once (timeout)`.
func rampText(r *decide.RampView) string {
	t := "returning as backup"
	if r.Step > 0 {
		t = fmt.Sprintf("returning, step %d of %d", r.Step, r.Of)
	}
	if r.LeftMS > 0 {
		t += ", for " + Span(time.Duration(r.LeftMS)*time.Millisecond) + " more at least"
	} else {
		t += ", until its gates pass"
	}
	switch {
	case r.Backs == 1:
		t += ", sent back once"
	case r.Backs > 1:
		t += fmt.Sprintf(", sent back %d times", r.Backs)
	}
	return t + ": " + r.Why
}

// share is the first of a unit's services that takes less than all, or returns.
func (x *index) share(u steadycast.Unit) *decide.ShareView {
	for _, service := range x.services[u.Prefix] {
		if v, ok := x.s.View.ShareOf(u.Site, service); ok {
			return &v
		}
	}
	return nil
}
