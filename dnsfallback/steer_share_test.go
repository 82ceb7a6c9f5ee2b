package dnsfallback

import (
	"fmt"
	"slices"
	"testing"
)

// near reports whether got is want, give or take five standard deviations of
// that many draws: it fails once in a million runs of what is right.
func near(got, n int, share float64) bool {
	mean, variance := float64(n)*share, float64(n)*share*(1-share)
	d := float64(got) - mean
	return d*d <= 25*variance+1
}

// TestRatio: the shares are the weights', in each family by itself, and a site
// that returns has its part of its share.
func TestRatio(t *testing.T) {
	members := []Member{
		{Site: "fra", Addresses: at(1), Weight: new(1)},
		{Site: "ams", Addresses: at(2), Weight: new(199)},
		{Site: "iad", Addresses: at(3)[:1], Weight: new(800)},
	}
	p := steeredPolicy(t, Choice{Service: "web", Members: members})
	const n = 20000
	for _, c := range []struct {
		typ, state string
		share      map[string]float64
	}{
		{"A", "", map[string]float64{"192.0.2.1": 0.001, "192.0.2.2": 0.199, "192.0.2.3": 0.8}},
		{"A", "iad down", map[string]float64{"192.0.2.1": 1.0 / 200, "192.0.2.2": 199.0 / 200}},
		{"A", "iad ramp 5", map[string]float64{"192.0.2.1": 1.0 / 240, "192.0.2.2": 199.0 / 240, "192.0.2.3": 40.0 / 240}},
		{"AAAA", "", map[string]float64{"2001:db8::1": 1.0 / 200, "2001:db8::2": 199.0 / 200}},
	} {
		got := newAsker(t, p.Table(1, nil, state(c.state))).share(n, "www.example.com", c.typ, "10.0.0.0/24")
		for who, share := range c.share {
			if !near(got[who], n, share) {
				t.Errorf("%s, %q: %s was given %d times of %d; its share is %.4f", c.typ, c.state, who, got[who], n, share)
			}
		}
	}
}

// TestHashMovesLittle: a member that goes or comes moves only its own clients,
// and the shares are the weights'.
func TestHashMovesLittle(t *testing.T) {
	members := sites("fra", "ams", "iad", "sin")
	members[3].Weight = new(3)
	p := steeredPolicy(t, Choice{Service: "web", Methods: []string{"hash"}, Members: members})
	const n = 4000
	chosen := func(words string) []string {
		k := newAsker(t, p.Table(1, nil, state(words)))
		var out []string
		for i := range n {
			got, scope, _ := k.once("www.example.com", "A", fmt.Sprintf("10.%d.%d.128/25", i>>8, i&255))
			if scope != 24 {
				t.Fatalf("the scope is %d; clients are told apart by /24", scope)
			}
			out = append(out, got)
		}
		return out
	}
	before, without := chosen(""), chosen("ams down")
	counts := map[string]int{}
	for i := range before {
		counts[before[i]]++
		if before[i] != "192.0.2.2" && before[i] != without[i] {
			t.Fatalf("client %d was moved from %s to %s, and neither had to do with ams", i, before[i], without[i])
		}
	}
	if !near(counts["192.0.2.4"], n, 0.5) || !near(counts["192.0.2.1"], n, 1.0/6) {
		t.Error(counts)
	}
	if !slices.Equal(before, chosen("")) {
		t.Error("the same state gives other answers")
	}
}

// TestSharesGrow: who is sent to a returning site stays there while its share
// grows, and load that is shed takes the same clients each time.
func TestSharesGrow(t *testing.T) {
	p := steeredPolicy(t, Choice{Service: "web", Methods: []string{"priority"}, Members: sites("fra", "ams")})
	const n = 3000
	inside := map[int]bool{}
	for _, ramp := range []int{5, 20, 50, 100} {
		k := newAsker(t, p.Table(1, nil, state(fmt.Sprintf("fra ramp %d", ramp))))
		count := 0
		for i := range n {
			got, _, _ := k.once("www.example.com", "A", fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255))
			if got == "192.0.2.1" {
				inside[i] = true
				count++
			} else if inside[i] {
				t.Fatalf("at %d %% client %d is sent away again", ramp, i)
			}
		}
		if !near(count, n, float64(ramp)/100) {
			t.Errorf("at %d %% fra has %d of %d", ramp, count, n)
		}
	}
	trickle := steeredPolicy(t, Choice{Service: "web", Methods: []string{"priority"}, Trickle: 2, Members: sites("fra", "ams", "iad")})
	got := newAsker(t, trickle.Table(1, nil, state(""))).share(n, "www.example.com", "A", "")
	if !near(got["192.0.2.2"], n, 0.02) || got["192.0.2.3"] != 0 {
		t.Error(got)
	}
}
