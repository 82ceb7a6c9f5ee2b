package api

import (
	"fmt"
	"slices"

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

// ShareText says why a site takes less: `takes 5% of web: "canary" by maria`.
func ShareText(x *decide.ShareView) string {
	t := fmt.Sprintf("takes %s of %s", decide.Percent(x.Permille), x.Service)
	if x.Actor != "" {
		t += fmt.Sprintf(" by %s: %q", x.Actor, x.Reason)
	}
	return t
}
