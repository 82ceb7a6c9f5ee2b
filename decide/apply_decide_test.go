package decide

import (
	"net/netip"
	"testing"

	"github.com/steadycast/steadycast"
)

// TestVerdictsBesideRequests: what a batch of requests brings is recorded before
// its requests are answered, and wrong verdicts spoil the whole entry.
func TestVerdictsBesideRequests(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.0/24")
	table := Table{Revision: 1, Services: []Service{{Name: "web", Prefixes: []netip.Prefix{p}}}}
	for _, site := range []string{"ams", "fra", "lon"} {
		table.Sites = append(table.Sites, Place{Name: site})
	}
	table = table.WithDefaults()
	f := NewFleet()
	head := Entry{Kind: KindGenesis, Schema: Schema, Rules: RulesLevel, Epoch: 1, Table: &table}
	if r, err := f.Apply(head); err != nil || r.Invalid != "" {
		t.Fatal(err, r.Invalid)
	}
	head.Kind, head.Table = KindDecide, nil
	for _, c := range []struct {
		service string
		invalid bool
	}{{"nothing", true}, {"web", false}} {
		e := head
		e.Decide = &Decide{Requests: []steadycast.Request{}}
		for _, site := range []string{"ams", "fra", "lon"} {
			e.Verdicts = append(e.Verdicts, steadycast.Verdict{Site: site, Service: c.service, State: steadycast.Unhealthy, Reason: "refused"})
		}
		e.Decide.Requests = append(e.Decide.Requests, steadycast.Request{
			ID: steadycast.RequestID{Incarnation: 1, Seq: 1}, Site: "ams", Prefixes: []netip.Prefix{p}, Action: steadycast.Withdraw, Service: "web"})
		r, err := f.Apply(e)
		if err != nil || (r.Invalid != "") != c.invalid {
			t.Fatalf("%s: %v, invalid %q", c.service, err, r.Invalid)
		}
		v := f.View()
		if c.invalid {
			if len(v.Verdicts) != 0 || len(r.Answers) != 0 {
				t.Errorf("an invalid entry left verdicts %v and answers %v", v.Verdicts, r.Answers)
			}
			continue
		}
		// All three are in trouble before the first is answered: the breaker has tripped.
		if len(v.Verdicts) != 3 || len(v.Freezes) != 1 || len(r.Answers) != 1 || r.Answers[0].Rulings[0].Permit != nil {
			t.Errorf("verdicts %v, freezes %v, answers %+v", v.Verdicts, v.Freezes, r.Answers)
		}
	}
}
