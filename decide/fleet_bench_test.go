package decide

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/steadycast/steadycast"
)

// BenchmarkFleet measures one request and one view in a large fleet: what every
// entry costs besides its journal.
func BenchmarkFleet(b *testing.B) {
	for _, sites := range []int{3, 300} {
		t := Table{Revision: 1, Services: []Service{{Name: "web"}, {Name: "dns"}}}
		for i := range sites {
			t.Sites = append(t.Sites, Place{Name: fmt.Sprintf("s%03d", i)})
		}
		for i := range 4 {
			t.Services[i%2].Prefixes = append(t.Services[i%2].Prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, byte(i), 0}), 24))
		}
		f := NewFleet()
		e := Entry{Kind: KindGenesis, Schema: Schema, Rules: RulesLevel, Epoch: 1, Table: &t}
		if _, err := f.Apply(e); err != nil {
			b.Fatal(err)
		}
		e = Entry{Kind: KindDecide, Schema: Schema, Rules: RulesLevel, Epoch: 1, Decide: &Decide{Requests: []steadycast.Request{{
			ID: steadycast.RequestID{Incarnation: 1, Seq: 1}, Site: "s001", Prefixes: t.Services[0].Prefixes, Action: steadycast.Withdraw, Service: "web",
		}}}}
		b.Run(fmt.Sprintf("try/%d", sites), func(b *testing.B) {
			for b.Loop() {
				if _, err := f.Try(e); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("view/%d", sites), func(b *testing.B) {
			for b.Loop() {
				f.View()
			}
		})
	}
}
