package mesh

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSiblingsTell: the nodes of a site tell each other, and are told by nobody else,
// what is as old as the nonce that it echoes; too long a word is not sent.
func TestSiblingsTell(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		var mu sync.Mutex
		heard := map[string][]string{}
		took := func() string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			s := fmt.Sprint(heard)
			clear(heard)
			return s
		}
		var peers []Peer
		for i, id := range [][2]string{{"ams", "ams-1"}, {"ams", "ams-2"}, {"fra", "fra-1"}} {
			n := &node{w: w, host: fmt.Sprintf("192.0.2.%d", i+1), creds: w.credentials(id[0], id[1])}
			w.nodes[id[1]] = n
			n.start(Options{Incarnation: 1, OnTold: func(x Told) {
				mu.Lock()
				defer mu.Unlock()
				if age := time.Since(x.Issued); age < 0 || age > 3*time.Second {
					t.Errorf("%s is told what is %v old", id[1], age)
				}
				heard[id[1]] = append(heard[id[1]], x.Node+": "+string(x.Body))
			}})
			peers = append(peers, Peer{Site: id[0], Node: id[1], Addr: netip.MustParseAddrPort(n.host + ":443")})
		}
		one, two, far := w.nodes["ams-1"], w.nodes["ams-2"], w.nodes["fra-1"]
		if one.Tell("", []byte("early")) {
			t.Error("something was sent to one that was not heard yet")
		}
		for _, n := range w.nodes {
			if err := n.SetPeers(peers); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		if !one.Tell("ams-2", []byte("to one")) || !one.Tell("", []byte("to all")) || one.Tell("fra-1", []byte("to a stranger")) {
			t.Error("what was sent is not what has a way")
		}
		if got, want := took(), "map[ams-2:[ams-1: to one ams-1: to all]]"; got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
		if one.Tell("", []byte(strings.Repeat("x", maxTold+1))) {
			t.Error("a word without a bound was sent")
		}
		// A node of another site calls itself a sibling: its certificate says otherwise.
		far.self.Site = "ams"
		if err := far.SetPeers([]Peer{{Site: "ams", Node: "ams-1", Addr: peers[0].Addr}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		far.Tell("", []byte("trust me"))
		if got := took(); got != "map[]" {
			t.Errorf("heard of a stranger: %s", got)
		}
		if !two.Tell("ams-1", []byte("back")) {
			t.Error("there is no way back")
		}
		if got, want := took(), "map[ams-1:[ams-2: back]]"; got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
	})
}
