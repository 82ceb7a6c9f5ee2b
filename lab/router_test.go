package lab

import (
	"fmt"
	"net/netip"
	"testing"
)

// What the daemons of Debian 12 print, shortened by what is not read.
var shown = map[string]struct{ route, absent, sessions string }{
	"frr": {
		route: `{"prefix":"192.0.2.53/32","version":1,"paths":[{"aspath":{"string":"65010","length":1},"origin":"IGP",
			"metric":7,"locPrf":0,"valid":true,"community":{"string":"65010:100 graceful-shutdown","list":["65010:100","gracefulShutdown"]},
			"largeCommunity":{"string":"65010:1:2","list":["65010:1:2"]},
			"nexthops":[{"ip":"10.1.0.2","afi":"ipv4"}],"peer":{"peerId":"10.1.0.2"}}]}`,
		absent: "{\n}\n",
		sessions: `{"ipv4Unicast":{"routerId":"10.1.0.1","peers":{"10.1.0.2":{"remoteAs":65010,"state":"Established"}}},
			"ipv6Unicast":{"peers":{"2001:db8:1::2":{"state":"Active"}}}}`,
	},
	"bird": {
		route: `BIRD 2.0.12 ready.
Table master4:
192.0.2.53/32        unicast [edge4 07:35:50.201] * (100) [AS65010i]
	via 10.1.0.2 on eth1
	Type: BGP univ
	BGP.origin: IGP
	BGP.as_path: 65010
	BGP.next_hop: 10.1.0.2
	BGP.med: 7
	BGP.local_pref: 0
	BGP.community: (65010,100) (65535,0)
	BGP.large_community: (65010, 1, 2)
`,
		absent: "BIRD 2.0.12 ready.\nNetwork not found\n",
		sessions: `BIRD 2.0.12 ready.
Name       Proto      Table      State  Since         Info
device1    Device     ---        up     07:35:12.087

edge4      BGP        ---        up     07:35:12.087  Established
  BGP state:          Established
    Neighbor address: 10.1.0.2
    Neighbor AS:      65010

edge6      BGP        ---        start  07:35:12.087  Active
  BGP state:          Active
    Neighbor address: 2001:db8:1::2
`,
	},
	"openbgpd": {
		route: `{"rib":[{"prefix":"192.0.2.53/32","aspath":"65010","exit_nexthop":"10.1.0.2","true_nexthop":"10.1.0.1",
			"metric":7,"localpref":0,"communities":["65010:100","GRACEFUL_SHUTDOWN"],"large_communities":["65010:1:2"]}]}`,
		absent:   "{\n\n}\n",
		sessions: `{"neighbors":[{"remote_addr":"10.1.0.2","state":"Established"},{"remote_addr":"2001:db8:1::2","state":"Connect"}]}`,
	},
}

func TestRoutersSayTheSame(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.53/32")
	const want = `192.0.2.53/32 via 10.1.0.2 as-path "65010" med 7 local-pref 0 community 65010:100 community 65535:0 community 65010:1:2`
	for kind, r := range routers {
		got, err := r.paths(p, shown[kind].route, 0)
		if err != nil || len(got) != 1 || got[0].String() != want {
			t.Errorf("%s: got %v, %v, want %s", kind, got, err, want)
		}
		if got, err := r.paths(p, shown[kind].absent, 0); err != nil || len(got) != 0 {
			t.Errorf("%s: got %v, %v where nothing was shown", kind, got, err)
		}
		if got, err := r.paths(p, "cannot connect\n", 1); err == nil {
			t.Errorf("%s: took a failure for %v", kind, got)
		}
		up, err := r.up(shown[kind].sessions)
		if want := "map[10.1.0.2:true 2001:db8:1::2:false]"; err != nil || fmt.Sprint(up) != want {
			t.Errorf("%s: got %v, %v, want %s", kind, up, err, want)
		}
	}
}

// A quality of a path is what the scenario means, and never passes by default.
func TestQualities(t *testing.T) {
	seven, none := uint32(7), uint32(0)
	p := Path{NextHop: netip.MustParseAddr("10.1.0.2"), ASPath: "1 2", MED: &seven, LocalPref: &none, Communities: []string{"1:2"}}
	for _, c := range []struct {
		words string
		want  bool
	}{
		{"with community 1:2", true}, {"with community 1:20", false}, {"without community 1:2", false}, {"without community 2:1", true},
		{"with med 7", true}, {"with med 70", false}, {"with local-pref 0", true}, {"with next-hop 10.1.0.2", true},
		{"with next-hop 10.1.0.3", false}, {"with as-path 1 2", false}, {"with community 1:2 with med 8", false},
	} {
		f := []string{}
		w, _ := words(c.words)
		f = append(f, w...)
		qs, err := parseQualities(f)
		if c.words == "with as-path 1 2" {
			if err == nil {
				t.Errorf("%s: a path of two numbers needs quotes", c.words)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := all(qs, p); got != c.want {
			t.Errorf("%s: got %v", c.words, got)
		}
	}
	if all([]quality{{key: "med", value: "0"}}, Path{}) {
		t.Error("a path without a MED has MED 0")
	}
}
