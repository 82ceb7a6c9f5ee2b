package decide

import (
	"testing"

	"github.com/steadycast/steadycast"
)

// TestOvertaken: a node that was set back to an older disk counts starts and requests
// from there again. What the ledger shows of those that this start never made is all
// that it can know it by, and then it asks for nothing any more.
func TestOvertaken(t *testing.T) {
	id := func(inc, seq uint64) steadycast.RequestID { return steadycast.RequestID{Incarnation: inc, Seq: seq} }
	for _, c := range []struct {
		name   string
		permit steadycast.RequestID // of the unit, in the ledger
		back   steadycast.RequestID // of its return
		stale  steadycast.RequestID // the newest request, in the answer to this start's first
		start  uint64               // that overtook; 0 for none
	}{
		{name: "nothing is known"},
		{name: "an earlier start", permit: id(0, 80), back: id(0, 81), stale: id(0, 90)},
		{name: "a later start was granted a withdrawal", permit: id(5, 1), start: 5},
		{name: "a later start returned", permit: id(1, 1), back: id(5, 2), start: 5},
		{name: "a later start was answered", stale: id(5, 1), start: 5},
		{name: "this very start, granted what it never asked for", permit: id(1, 1), start: 1},
		{name: "this very start, answered beyond what it asked for", stale: id(1, 2), start: 1},
		{name: "its own request", stale: id(1, 1)},
		{name: "an order, which no start made", permit: id(0, 77)},
		{name: "another node of the site", permit: steadycast.RequestID{Node: "fra-2", Incarnation: 9, Seq: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			site, v, _ := startedSite(1)
			v.Fence.Index++
			v.Units[0].Permit.ID, v.Units[0].Return = c.permit, c.back
			site.Step(1, Committed{View: v})
			now, seq, asked := Now(0), uint64(0), uint64(0)
			for range 20 {
				now, seq = now+1e9, seq+1
				for _, e := range observe(site, now, seq, refusal) {
					if a, ok := e.(Ask); ok && asked == 0 {
						asked = a.Request.ID.Seq
						if c.stale != (steadycast.RequestID{}) {
							site.Step(now, Answered{Answer: Answer{ID: a.Request.ID, Site: "fra", Stale: true, Newest: c.stale}})
						}
					}
				}
			}
			start, ok := site.Overtaken()
			if start != c.start || ok != (c.start > 0) {
				t.Errorf("overtaken by start %d (%v), want %d", start, ok, c.start)
			}
			if early := c.start > 0 && c.stale == (steadycast.RequestID{}); early == (asked > 0) {
				t.Errorf("it asked as %d", asked)
			}
		})
	}
}
