package decide

import "github.com/steadycast/steadycast"

// Guards says what every guard would answer now, for each unit: to its
// withdrawal by automation while it is in, else to its return. The guards that
// look at the request itself are left out. Permit in a ruling only says which of
// the two is asked about. d is what the proposer sees. Of a site of several nodes it is
// said besides how many of them may leave without the site.
func (f *Fleet) Guards(d Decide) []Ruling {
	s := f.s.clone()
	a := applying{state: &s, e: &Entry{Kind: KindDecide, Decide: &d}}
	out := make([]Ruling, 0, len(s.Units))
	for i := range s.Units {
		u := &s.Units[i]
		r := steadycast.Request{Site: u.Unit.Site, Action: steadycast.Withdraw}
		if u.Phase != steadycast.In {
			r.Action = steadycast.Return
		}
		for _, sv := range s.services(u.Unit) {
			r.Service = s.Table.Services[sv].Name
			break
		}
		q := asking{applying: &a, r: r, u: u, action: r.Action, sight: a.sees(u.Unit.Prefix)}
		ruling := Ruling{Unit: u.Unit, Permit: &steadycast.Permit{Unit: u.Unit, Action: r.Action}}
		for _, g := range q.all() {
			switch g.Guard {
			case wellFormed, seenGuard, evidenceGuard, requireGuard:
				continue
			}
			ruling.Guards = append(ruling.Guards, g)
		}
		if g, ok := a.nodesNow(u); ok {
			ruling.Guards = append(ruling.Guards, g)
		}
		out = append(out, ruling)
	}
	return out
}
