package lab

import (
	"slices"
	"strings"
	"testing"
)

// The runner is proven without the product: ExaBGP announces, each router is
// asked, and the wire is counted. When this passes and a scenario fails, the
// product is at fault; when this fails, the runner is.
const exabgpScenario = `
# ExaBGP announces, changes and withdraws; table and wire agree.
on single-frr single-bird single-openbgpd

within 20s  tor has session 10.1.0.2
within 20s  tor has session 2001:db8:1::2
tor lacks 192.0.2.53/32
mark
do edge: sh -c "echo 'announce route 192.0.2.53/32 next-hop self med 7 community [ 65010:100 65535:0 ] large-community [ 65010:1:2 ]' >> /run/feed"
do edge: sh -c "echo 'announce route 2001:db8:53::53/128 next-hop self' >> /run/feed"
within 5s   tor has 192.0.2.53/32 with med 7 with community 65010:100 with community 65535:0 with community 65010:1:2 with local-pref 0
within 5s   tor has 2001:db8:53::53/128 with next-hop 2001:db8:1::2 with as-path 65010 without community 65535:0
tor heard 1 announces 192.0.2.53/32 with med 7 with community 65535:0 with community 65010:1:2 with next-hop 10.1.0.2 with as-path 65010
tor heard 1 announces 2001:db8:53::53/128 with next-hop 2001:db8:1::2
tor heard 2 updates
tor heard 0 withdrawals

mark
do edge: sh -c "echo 'announce route 192.0.2.53/32 next-hop self med 8 as-path [ 65010 65010 65010 ]' >> /run/feed"
within 5s   tor has 192.0.2.53/32 with med 8 with as-path "65010 65010 65010" without community 65010:100
for 500ms   tor heard 1 updates
tor has session 10.1.0.2

always 1 of tor tor keep 192.0.2.53/32
mark
do edge: sh -c "echo 'withdraw route 192.0.2.53/32 next-hop self' >> /run/feed"
do edge: sh -c "echo 'withdraw route 2001:db8:53::53/128 next-hop self' >> /run/feed"
within 5s   tor lacks 192.0.2.53/32
within 5s   tor lacks 2001:db8:53::53/128
tor heard 1 withdrawals 192.0.2.53/32
tor heard 1 withdrawals 2001:db8:53::53/128
tor heard 0 announces
tor heard 0 opens
tor heard only guarded segments

# From here on the kernel may reset what nobody holds any more, and those segments are its own.
mark
kill edge
within 5s   tor lacks session 10.1.0.2
tor heard 0 updates
start edge
within 20s  tor has session 10.1.0.2
tor heard some opens
`

func TestFactsAgainstExaBGP(t *testing.T) {
	s, err := parseScenario("exabgp.txt", exabgpScenario)
	if err != nil {
		t.Fatal(err)
	}
	s.Patience = 4
	for _, file := range topologies(t) {
		topo, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(s.On, topo.Name) {
			continue
		}
		t.Run(topo.Name, func(t *testing.T) {
			t.Parallel()
			need(t, topo, "exabgp")
			var out strings.Builder
			l, err := Up(t.Context(), withExaBGP(topo), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Down()
			if err := Play(t.Context(), l, s, &out); err != nil {
				t.Errorf("%v\n%s", err, &out)
			}
		})
	}
}

// withExaBGP puts ExaBGP in the edge's place.
func withExaBGP(topo *Topology) *Topology {
	edge := topo.node("edge")
	passive := strings.Contains(strings.Join(edge.Binds, " "), "passive")
	edge.Cmd = "env exabgp.api.ack=false exabgp.daemon.user=root exabgp.daemon.drop=false exabgp /etc/exabgp.conf"
	edge.Binds = []string{"../testdata/exabgp.conf:/etc/exabgp.conf"}
	if passive {
		edge.Cmd = `sh -c "sed -i 's/hold-time 9;/hold-time 9; passive true; listen 179;/' /etc/exabgp.conf; exec ` + edge.Cmd + `"`
		// It sets no hop limit on its listener, so all of the node's packets get it.
		edge.Sysctls = map[string]string{"net.ipv4.ip_default_ttl": "255", "net.ipv6.conf.default.hop_limit": "255", "net.ipv6.conf.all.hop_limit": "255"}
	}
	topo.node("service").Cmd = "sleep infinity"
	return topo
}
