package agent

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
)

// TestEmptied: a table that takes a name's last well member away is told, by the
// state that the ledger has committed; what nobody was well for before is not its fault.
func TestEmptied(t *testing.T) {
	member := func(site, addr string) dnsfallback.Member {
		return dnsfallback.Member{Site: site, Addresses: []netip.Addr{netip.MustParseAddr(addr)}}
	}
	www := func(members ...dnsfallback.Member) dnsfallback.Placement {
		return dnsfallback.Placement{Zones: []dnsfallback.Zone{{
			Name: "example.com", NS: []string{"ns.example.net."},
			Names: []dnsfallback.Steered{{Name: "www", Choice: dnsfallback.Choice{Service: "web", Members: members}}},
		}}}
	}
	ams, fra, par := member("ams", "192.0.2.1"), member("fra", "192.0.2.2"), member("par", "192.0.2.3")
	table := decide.Table{Revision: 1, Sites: []decide.Place{{Name: "ams"}, {Name: "fra"}, {Name: "par"}}, Services: []decide.Service{{Name: "web"}}}
	view := func(down ...string) decide.View {
		v := decide.View{Table: table}
		for _, s := range down {
			v.Verdicts = append(v.Verdicts, steadycast.Verdict{Site: s, Service: "web", State: steadycast.Unhealthy})
		}
		return v
	}
	for _, x := range []struct {
		name string
		down []string
		is   dnsfallback.Placement
		want []string
	}{
		{"a member goes, another stays", nil, www(fra), nil},
		{"the one that stays is down", []string{"fra"}, www(fra), []string{"www.example.com A"}},
		{"one comes in its place", []string{"fra"}, www(fra, par), nil},
		{"both were down", []string{"ams", "fra"}, www(fra), nil},
		{"no zone any more", nil, dnsfallback.Placement{}, []string{"www.example.com A"}},
	} {
		if got := emptied(view(x.down...), time.Unix(0, 0), www(ams, fra), table, x.is); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q; want %q", x.name, got, x.want)
		}
	}
	if got := emptied(view(), time.Unix(0, 0), dnsfallback.Placement{}, table, www(ams)); len(got) > 0 {
		t.Errorf("a fleet without names: %q", got)
	}
}
