package dnsfallback

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"pgregory.net/rapid"
)

// drawPrefix draws networks that hold and touch each other.
func drawPrefix(t *rapid.T, six bool) netip.Prefix {
	var a [16]byte
	for i := range 4 {
		a[i] = byte(rapid.SampledFrom([]int{0, 1, 2, 127, 128, 254, 255}).Draw(t, "octet"))
	}
	bits := rapid.IntRange(0, 32).Draw(t, "length")
	if !six {
		p, _ := netip.AddrFrom4([4]byte(a[:4])).Prefix(bits)
		return p
	}
	copy(a[12:], a[:4])
	if rapid.Bool().Draw(t, "long") {
		bits += 96
	}
	p, _ := netip.AddrFrom16(a).Prefix(bits)
	return p
}

// TestSpansAgainstRows compares a map with a look at every row: the longest that
// holds an address wins, and the scope is the widest block in which every
// address has the same value.
func TestSpansAgainstRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		six := rapid.Bool().Draw(t, "six")
		rows := map[netip.Prefix]string{}
		for range rapid.IntRange(0, 12).Draw(t, "rows") {
			rows[drawPrefix(t, six)] = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "region")
		}
		d := newDrawing()
		for p, region := range rows {
			d.add(p, d.place(place{labels: [4]label{labelOf("region:" + region)}}))
		}
		m := d.done()
		naive := func(a netip.Addr) string {
			best, value := -1, ""
			for p, region := range rows {
				if p.Contains(a) && p.Bits() > best {
					best, value = p.Bits(), "region:"+region
				}
			}
			return value
		}
		var all []netip.Addr // the ends of all rows, and their neighbours
		for p := range rows {
			first := p.Addr()
			last := lastOf(p)
			all = append(all, first, first.Prev(), last, last.Next())
		}
		all = append(all, drawPrefix(t, six).Addr())
		for _, a := range all {
			if !a.IsValid() {
				continue
			}
			l := location{maps: &Maps{all: []*Map{m}}, client: netip.PrefixFrom(a, a.BitLen())}
			if got := l.at(0).labels[0].String(); got != naive(a) {
				t.Fatalf("%v is in %q, not %q", a, got, naive(a))
			}
			scope := int(l.scope(0, nil))
			block, _ := a.Prefix(scope)
			wider := block
			if scope > 0 {
				wider, _ = a.Prefix(scope - 1)
			}
			alike, differs := true, scope == 0
			for _, b := range all {
				if !b.IsValid() {
					continue
				}
				if block.Contains(b) && naive(b) != naive(a) {
					alike = false
				}
				if wider.Contains(b) && naive(b) != naive(a) {
					differs = true
				}
			}
			if !alike || !differs {
				t.Fatalf("%v: the scope %v has one value: %v; and a wider one has not: %v", a, block, alike, differs)
			}
		}
	})
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// TestNetworksFile: a line for each network, and each mistake with its line.
func TestNetworksFile(t *testing.T) {
	good := "# resolvers\n192.0.2.0/24 lvs   # a comment\n\n192.0.2.128/25\tslc\n2001:db8::/32 phx\n"
	m, err := readNetworks([]byte(good))
	if err != nil || m.Rows != 3 {
		t.Fatal(m, err)
	}
	for bad, want := range map[string]string{
		"":                           ": has no networks; an empty file is taken for an accident",
		"192.0.2.0/24":               ":1: has 1 words; write a network and its region, as: 192.0.2.0/24 lvs",
		"192.0.2.0/24 a b":           ":1: has 3 words; write a network and its region, as: 192.0.2.0/24 lvs",
		"\n192.0.2.0 a":              `:2: "192.0.2.0" is no network; write it as 192.0.2.0/24 or 2001:db8::/32`,
		"192.0.2.1/24 a":             ":1: 192.0.2.1/24 has bits set after its length; 192.0.2.0/24 is the network",
		"::ffff:192.0.2.0/120 a":     ":1: ::ffff:192.0.2.0/120 is IPv4 inside IPv6; write it as IPv4",
		"10.0.0.0/8 a\n10.0.0.0/8 b": ":2: 10.0.0.0/8 stands on line 1 already",
		"10.0.0.0/8 a/b":             `:1: "a/b" is no region; allowed are up to 63 of a-z A-Z 0-9 . _ -`,
	} {
		if _, err := readNetworks([]byte(bad)); err == nil || err.Error() != want {
			t.Errorf("%q\ngot:  %v\nwant: %s", bad, err, want)
		}
	}
}

// testDatabase makes a MaxMind database of its own.
func testDatabase(t testing.TB, rows map[string]mmdbtype.Map) []byte {
	t.Helper()
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test-City", IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	for p, v := range rows {
		_, n, err := net.ParseCIDR(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Insert(n, v); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func country(code, continent string, lat, lon float64) mmdbtype.Map {
	return mmdbtype.Map{
		"country":   mmdbtype.Map{"iso_code": mmdbtype.String(code)},
		"continent": mmdbtype.Map{"code": mmdbtype.String(continent)},
		"location":  mmdbtype.Map{"latitude": mmdbtype.Float64(lat), "longitude": mmdbtype.Float64(lon)},
	}
}

func TestDatabase(t *testing.T) {
	src := testDatabase(t, map[string]mmdbtype.Map{
		"203.0.112.0/23": country("DE", "EU", 50.1, 8.7),
		"203.0.114.0/24": country("DE", "EU", 50.1, 8.7),
		"198.51.0.0/16":  {"autonomous_system_number": mmdbtype.Uint32(64500)},
		"2001:db8::/32":  country("US", "NA", 39, -77.5),
	})
	m, err := readDatabase(src)
	if err != nil {
		t.Fatal(err)
	}
	for a, want := range map[string]struct {
		what  string
		scope uint8
	}{
		"203.0.113.7":  {"country:DE continent:EU at 50.10,8.70", 23},
		"203.0.114.7":  {"country:DE continent:EU at 50.10,8.70", 24},
		"203.0.115.7":  {"nothing", 24},
		"198.51.100.1": {"asn:64500", 16},
		"2001:db8::1":  {"country:US continent:NA at 39.00,-77.50", 32},
	} {
		l := location{maps: &Maps{all: []*Map{m}}, client: netip.PrefixFrom(netip.MustParseAddr(a), netip.MustParseAddr(a).BitLen())}
		if got := m.describe(l.at(0)); got != want.what {
			t.Errorf("%s is %s, not %s", a, got, want.what)
		}
		if got := l.scope(0, nil); got != want.scope {
			t.Errorf("the scope of %s is %d, not %d", a, got, want.scope)
		}
	}
	// Damage of any kind is an error, and nothing worse.
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 300 {
		bad := bytes.Clone(src)
		switch r.IntN(3) {
		case 0:
			bad = bad[:r.IntN(len(bad))]
		case 1:
			for range 1 + r.IntN(8) {
				bad[r.IntN(len(bad))] ^= byte(1 + r.IntN(255))
			}
		case 2:
			k := r.IntN(len(bad))
			bad = append(bad[:k], bad[k+r.IntN(len(bad)-k):]...)
		}
		if m, err := readDatabase(bad); err != nil {
			refused++
		} else if m == nil {
			t.Fatal("no map and no error")
		}
	}
	if refused < 100 {
		t.Errorf("only %d of 300 damaged databases are refused", refused)
	}
	if _, err := readDatabase([]byte("text")); err == nil || !strings.HasPrefix(err.Error(), ": is no MaxMind database") {
		t.Error(err)
	}
}

// TestReload: what is read again replaces what was; what is damaged changes nothing.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	text, db := filepath.Join(dir, "sites.txt"), filepath.Join(dir, "geo.mmdb")
	files := []MapFile{{"sites", text}, {"geo", db}}
	replace := func(file string, content []byte) {
		t.Helper()
		if err := os.WriteFile(file+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	where := func(m *Maps, i int) string {
		l := location{maps: m, client: netip.MustParsePrefix("192.0.2.7/32")}
		return m.all[i].describe(l.at(i))
	}
	replace(text, []byte("192.0.2.0/24 lvs\n"))
	replace(db, testDatabase(t, map[string]mmdbtype.Map{"192.0.2.0/24": country("US", "NA", 1, 2)}))
	m, ps := LoadMaps(nil, files)
	if len(ps) > 0 || where(m, 0) != "region:lvs" || where(m, 1) != "country:US continent:NA at 1.00,2.00" {
		t.Fatal(ps, where(m, 0), where(m, 1))
	}
	again, ps := LoadMaps(m, files)
	if len(ps) > 0 || again.all[0] != m.all[0] || again.all[1] != m.all[1] {
		t.Error("files that did not change are read again")
	}
	replace(text, []byte("192.0.2.0/24 slc, or so\n"))
	replace(db, []byte("no database, and of another size"))
	kept, ps := LoadMaps(m, files)
	want := []string{
		"maps[0].file: " + text + ":1: has 4 words; write a network and its region, as: 192.0.2.0/24 lvs",
		"maps[1].file: " + db + ": is no MaxMind database: error opening database: invalid MaxMind DB file",
	}
	if got := texts(ps); strings.Join(got, "\n") != strings.Join(want, "\n") || where(kept, 0) != "region:lvs" || where(kept, 1) != where(m, 1) {
		t.Errorf("%q\n%s %s", got, where(kept, 0), where(kept, 1))
	}
	os.Remove(text)
	replace(db, testDatabase(t, map[string]mmdbtype.Map{"192.0.0.0/16": country("DE", "EU", 1, 2)}))
	next, ps := LoadMaps(kept, files)
	if len(ps) != 1 || where(next, 0) != "region:lvs" || where(next, 1) != "country:DE continent:EU at 1.00,2.00" {
		t.Error(ps, where(next, 0), where(next, 1))
	}
	if _, ps := LoadMaps(nil, files[:1]); len(ps) != 1 || !strings.Contains(ps[0].Text, "no such file") {
		t.Error(ps)
	}
}

// millionRows are networks of all lengths, in both families.
func millionRows(n int) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	var b bytes.Buffer
	seen := map[netip.Prefix]bool{}
	for len(seen) < n {
		var p netip.Prefix
		if len(seen)%4 == 3 {
			var a [16]byte
			binary.BigEndian.PutUint64(a[:], r.Uint64())
			a[0], a[1] = 0x20, 0x01
			p, _ = netip.AddrFrom16(a).Prefix(24 + r.IntN(40))
		} else {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], r.Uint32())
			p, _ = netip.AddrFrom4(a).Prefix(12 + r.IntN(20))
		}
		if !seen[p] {
			seen[p] = true
			fmt.Fprintf(&b, "%v r%d\n", p, r.IntN(300))
		}
	}
	return b.Bytes()
}

// TestMillionRows holds what a map of a million rows keeps in memory to its bound.
func TestMillionRows(t *testing.T) {
	src := millionRows(1_000_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m, err := readNetworks(src)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); m.Rows != 1_000_000 || kept > 200<<20 {
		t.Errorf("%d rows keep %d MB", m.Rows, kept>>20)
	} else {
		t.Logf("%d rows keep %d MB", m.Rows, kept>>20)
	}
	runtime.KeepAlive(src)
	runtime.KeepAlive(m)
}

// BenchmarkMap looks addresses up in a million rows, with their scope.
func BenchmarkMap(b *testing.B) {
	m, err := readNetworks(millionRows(1_000_000))
	if err != nil {
		b.Fatal(err)
	}
	maps := &Maps{all: []*Map{m}}
	r := rand.New(rand.NewPCG(5, 6))
	clients := map[string][]netip.Prefix{}
	for range 1 << 16 {
		var a [16]byte
		binary.BigEndian.PutUint64(a[:], r.Uint64())
		clients["IPv4"] = append(clients["IPv4"], netip.PrefixFrom(netip.AddrFrom4([4]byte(a[4:8])), 32))
		a[0], a[1] = 0x20, 0x01
		clients["IPv6"] = append(clients["IPv6"], netip.PrefixFrom(netip.AddrFrom16(a), 128))
	}
	for _, family := range []string{"IPv4", "IPv6"} {
		b.Run(family, func(b *testing.B) {
			i := 0
			defer processorTime(b)()
			for b.Loop() {
				l := location{maps: maps, client: clients[family][i&(1<<16-1)]}
				l.at(0)
				l.scope(0, nil)
				i++
			}
		})
	}
}
