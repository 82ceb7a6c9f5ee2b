package agent

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/mesh"
)

// Whom a site tells follows from the table: the nodes of the sites that it
// watches, and the voters, whose sites the table gives.
func TestReaders(t *testing.T) {
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	table := decide.Table{Sites: []decide.Place{
		{Name: "ams", Nodes: []decide.Node{{Name: "ams-1", Mesh: at("10.0.0.1:7482")}, {Name: "ams-2", Mesh: at("10.0.0.4:7482")}}},
		{Name: "fra", Nodes: []decide.Node{{Name: "fra-1", Mesh: at("10.0.0.2:7482")}}},
		{Name: "eye", Witness: true, Nodes: []decide.Node{{Name: "eye-1", Mesh: at("10.0.0.3:7482")}}},
	}}
	voters := []mesh.Peer{{Name: "ams-1/ledger", Node: "ams-1", Addr: at("10.0.0.1:7483")}, {Name: "par-1/ledger", Node: "par-1", Addr: at("10.0.0.9:7483")}}
	for site, want := range map[string]string{
		"ams": "ams-2@ams fra-1@fra ams-1/ledger@ams! par-1/ledger@!",
		"eye": "ams-1@ams ams-2@ams fra-1@fra ams-1/ledger@ams! par-1/ledger@!",
	} {
		var got []string
		for _, p := range readers(table, site, site+"-1", voters) {
			s := p.Name + "@" + p.Site
			if p.Voter {
				s += "!"
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s tells %v, want %s", site, got, want)
		}
	}
	if voters[0].Site != "" {
		t.Error("it wrote to the list that it was given")
	}
}

// The voters are told as often as a small fleet looks, and seldom in a large one.
func TestDigest(t *testing.T) {
	of := func(sites, services int) time.Duration {
		var table decide.Table
		for i := range sites {
			table.Sites = append(table.Sites, decide.Place{Name: strings.Repeat("s", i+1)})
		}
		for i := range services {
			table.Services = append(table.Services, decide.Service{Name: strings.Repeat("v", i+1)})
		}
		return digestOf(table, "s")
	}
	if got := of(3, 1); got != time.Second {
		t.Errorf("three sites: %v", got)
	}
	if got := of(9, 20); got <= time.Second || got >= 3*time.Second {
		t.Errorf("nine sites with twenty services: %v", got)
	}
	if got := of(100, 20); got != mesh.DefaultDigest {
		t.Errorf("a hundred sites: %v", got)
	}
}

// A link that is down for a moment is no alarm; many that are down are one.
func TestSevered(t *testing.T) {
	link := func(name string, s mesh.LinkState, d time.Duration, err string) mesh.LinkStatus {
		return mesh.LinkStatus{Peer: mesh.Peer{Name: name, Addr: netip.MustParseAddrPort("10.0.0.1:7482")}, State: s, For: d, Error: err}
	}
	for _, x := range []struct {
		links []mesh.LinkStatus
		want  []string
	}{
		{nil, nil},
		{[]mesh.LinkStatus{link("a", mesh.LinkUp, time.Hour, ""), link("b", mesh.LinkDown, 10*time.Second, "refused")}, nil},
		{[]mesh.LinkStatus{link("b", mesh.LinkDown, time.Minute, "refused"), link("c", mesh.LinkUnproven, time.Minute, "")},
			[]string{"no link to b at 10.0.0.1:7482: refused"}},
		{[]mesh.LinkStatus{link("a", mesh.LinkDown, time.Minute, ""), link("b", mesh.LinkDown, time.Minute, ""), link("c", mesh.LinkDown, time.Minute, ""),
			link("d", mesh.LinkDown, time.Minute, ""), link("e", mesh.LinkUp, time.Minute, "")}, []string{"no link to 4 of 5 nodes: a, b, c and others"}},
	} {
		if got := severed(x.links); !slices.Equal(got, x.want) {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}
