package demo

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// quietly starts a fleet and does something with it.
func quietly(t *testing.T, sites int, then func(*stage) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	o := Options{Sites: sites, Socket: filepath.Join(t.TempDir(), "d.sock"), JSON: true, Out: io.Discard}
	err := with(ctx, o, func(ctx context.Context, f *fleet) error { return then(f.stage(ctx)) })
	if err != nil {
		t.Fatal(err)
	}
}

// One site decides alone, two with a witness, five with three voters; in each a
// site whose service dies leaves.
func TestFleetsOfAnySize(t *testing.T) {
	for sites, voters := range map[int]string{1: "", 2: "fra-1 ams-1 wit-1", 5: "fra-1 ams-1 lhr-1"} {
		t.Run(strconv.Itoa(sites), func(t *testing.T) {
			t.Parallel()
			quietly(t, sites, func(s *stage) error {
				var who []string
				if s.f.voters != nil {
					for _, p := range s.f.voters.peers {
						who = append(who, p.Node)
					}
				}
				if got := strings.Join(who, " "); got != voters {
					t.Errorf("the voters are %q, want %q", got, voters)
				}
				return s.leaves(s.sites[0], "kill")
			})
		})
	}
}

// A voter that ends by itself is started again, and catches up.
func TestVoterStartsAgain(t *testing.T) {
	t.Parallel()
	quietly(t, 3, func(s *stage) error {
		lead, ok := s.f.voters.leader()
		if !ok {
			return errors.New("nobody leads")
		}
		before := s.f.voters.voter(lead.node)
		s.f.voters.restart(lead, 1)
		if err := s.until(time.Minute, "the voters agree again", func() bool { return votersAgree(s) == nil }); err != nil {
			return err
		}
		if after := s.f.voters.voter(lead.node); after == nil || after == before {
			return errors.New("it was not started again")
		}
		return s.leaves(s.sites[0], "kill")
	})
}

// What the invariants are for is found: a withdrawal without leave, one leave
// used twice, leave that came afterwards, and a floor that was not kept.
func TestInvariantsFind(t *testing.T) {
	at := time.Now()
	permit := func(after time.Duration) steadycast.Event {
		return steadycast.Event{Kind: steadycast.EventPermit, Site: "fra", To: "withdraw", At: at.Add(after)}
	}
	order := permit(0)
	order.Kind = steadycast.EventOrder
	for _, c := range []struct {
		name        string
		leave       []steadycast.Event
		withdrawals int
		permitted   bool
		fewest      int
		kept        bool
	}{
		{"nothing happened", nil, 0, true, 3, true},
		{"no leave", nil, 1, false, 2, true},
		{"with leave", []steadycast.Event{permit(0)}, 1, true, 2, true},
		{"by order", []steadycast.Event{order}, 1, true, 2, true},
		{"one leave, used twice", []steadycast.Event{permit(0)}, 2, false, 2, true},
		{"leave that came afterwards", []steadycast.Event{permit(time.Hour)}, 1, false, 2, true},
		{"below the floor", []steadycast.Event{permit(0), permit(0)}, 2, true, 1, false},
	} {
		f := &fleet{
			o: Options{Sites: 3, Scenario: &Scenarios[0]}, record: &record{events: c.leave},
			watch: &watch{speakers: map[netip.Addr]*node{}, least: c.fewest},
		}
		for i, name := range names[:3] {
			f.sites = append(f.sites, newSite(name, i, 1))
		}
		for i := range c.withdrawals {
			f.watch.updates = append(f.watch.updates, Update{At: at.Add(time.Duration(i+1) * time.Minute), Site: "fra", Last: true})
		}
		s := f.stage(t.Context())
		if err := allPermitted(s); (err == nil) != c.permitted {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := floorKept(s); (err == nil) != c.kept {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
