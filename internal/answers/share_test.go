package answers

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
)

// TestSharesReachClients: of 10,000 client networks, each committed share of a site
// is what it gets of its clients within a point, and who is sent there stays there
// while the share grows.
func TestSharesReachClients(t *testing.T) {
	const n = 10_000
	for _, method := range []string{"hash", "priority"} {
		policy := policyOf(t, method)
		at := func(permille int) map[int]bool {
			v := view(func(v *decide.View) {
				if permille < decide.Whole {
					v.Shares = []decide.ShareView{{Site: "fra", Service: "web", Permille: permille}}
				}
			})
			table := policy.Table(1, nil, State(v, time.Unix(1_800_000_000, 0)))
			in := map[int]bool{}
			for i := range n {
				client := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
				e, err := table.Explain("www.example.com.", "A", client)
				if err != nil || len(e.Records) != 1 {
					t.Fatalf("%v: %v", err, e.Records)
				}
				in[i] = strings.HasSuffix(e.Records[0], " 192.0.2.1")
			}
			return in
		}
		whole := at(decide.Whole)
		normal := count(whole)
		before := at(0)
		if c := count(before); c != 0 {
			t.Errorf("%s: with no share fra has %d clients", method, c)
		}
		for _, permille := range []int{50, 200, 500, decide.Whole} {
			now := at(permille)
			want := normal * permille / decide.Whole
			if method == "hash" { // its weight is that much less, and ams has the rest
				want = n * permille / (decide.Whole + permille)
			}
			if d := count(now) - want; d < -n/100 || d > n/100 {
				t.Errorf("%s at %s: %d of %d clients; want %d within a point", method, decide.Percent(permille), count(now), n, want)
			}
			for i := range n {
				if before[i] && !now[i] {
					t.Fatalf("%s at %s: client %d is sent away again", method, decide.Percent(permille), i)
				}
			}
			before = now
		}
	}
}

func count(in map[int]bool) (c int) {
	for _, x := range in {
		if x {
			c++
		}
	}
	return c
}

// policyOf is one name that leads to fra and ams, by a method.
func policyOf(t *testing.T, method string) *dnsfallback.Policy {
	t.Helper()
	member := func(site, address string) dnsfallback.Member {
		return dnsfallback.Member{Site: site, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
	}
	p, problems := dnsfallback.NewPolicy(1, dnsfallback.Placement{Zones: []dnsfallback.Zone{{
		Name: "example.com", NS: []string{"ns.example.net."},
		Names: []dnsfallback.Steered{{Name: "www", Choice: dnsfallback.Choice{
			Service: "web", Methods: []string{method}, Members: []dnsfallback.Member{member("fra", "192.0.2.1"), member("ams", "192.0.2.2")},
		}}},
	}}}, dnsfallback.Known{})
	for _, x := range problems {
		t.Fatal(x)
	}
	return p
}
