package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// listing against the plainest comparison there is: each prefix with all before it.
func TestListing(t *testing.T) {
	drawn := rapid.Custom(func(t *rapid.T) netip.Prefix {
		a := netip.AddrFrom4([4]byte{10, 0, byte(rapid.IntRange(0, 3).Draw(t, "third")), byte(rapid.IntRange(0, 7).Draw(t, "fourth"))})
		if rapid.Bool().Draw(t, "IPv6") {
			a = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(rapid.IntRange(0, 7).Draw(t, "last"))})
		}
		p := netip.PrefixFrom(a, a.BitLen()-rapid.IntRange(0, 10).Draw(t, "host bits"))
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
			return rapid.SampledFrom([]netip.Prefix{{}, p, netip.PrefixFrom(a, 0)}).Draw(t, "odd one")
		}
		return p.Masked()
	})
	rapid.Check(t, func(t *rapid.T) {
		var services []Service
		for range rapid.IntRange(1, 4).Draw(t, "services") {
			services = append(services, Service{Prefixes: rapid.SliceOfN(drawn, 0, 8).Draw(t, "prefixes")})
		}
		ps := listPrefixes(services)
		for i, s := range services {
			for j, p := range s.Prefixes {
				if !p.IsValid() {
					continue
				}
				if got, want := ps.twice(p, i, j), slices.Contains(s.Prefixes[:j], p); got != want {
					t.Errorf("services[%d].prefixes[%d] %v stands twice: %t, want %t", i, j, p, got, want)
				}
				got, want := "none", "none"
				if q, ok := ps.overlap(p, i, j); ok {
					got = fmt.Sprint(q.prefix, q.service, q.index)
				}
				for k, o := range services[:i+1] {
					for l, q := range o.Prefixes {
						if want == "none" && (k < i || l < j) && q.IsValid() && p != q && p.Overlaps(q) {
							want = fmt.Sprint(q, k, l)
						}
					}
				}
				if got != want {
					t.Errorf("services[%d].prefixes[%d] %v overlaps %s, want %s", i, j, p, got, want)
				}
			}
		}
	})
}

// BenchmarkProblems judges a table of ten thousand prefixes.
func BenchmarkProblems(b *testing.B) {
	t := Table{Sites: []Place{{Name: "fra"}}}
	s := Service{Name: "web"}
	for i := range 10000 {
		s.Prefixes = append(s.Prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 32))
	}
	t.Services = []Service{s}
	for b.Loop() {
		if ps := t.Problems(); len(ps) > 0 {
			b.Fatal(ps)
		}
	}
}
