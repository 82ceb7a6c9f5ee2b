package bgp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestVIPPlanKeepsItsPromises walks random hosts: whatever is there and wanted,
// only ours is removed, and what is wanted is there afterwards, or lost.
func TestVIPPlanKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ips := rapid.SampledFrom([]string{"192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "2001:db8::1/128", "2001:db8::2/128"})
		prefix := rapid.Map(ips, netip.MustParsePrefix)
		marks := rapid.SampledFrom([]uint8{0, 2, 172})
		addr := rapid.Custom(func(t *rapid.T) hostAddr {
			return hostAddr{Prefix: prefix.Draw(t, "ip"), Index: rapid.Int32Range(1, 2).Draw(t, "index"), Proto: marks.Draw(t, "mark")}
		})
		v := vipView{
			Settings: VIPSettings{OnRemoved: rapid.SampledFrom([]string{"fault", "repair"}).Draw(t, "on removed")}.WithDefaults(),
			Want:     normalize(rapid.SliceOf(prefix).Draw(t, "want")),
			Given:    rapid.Bool().Draw(t, "given"),
			Links:    []hostLink{{1, "lo", true}, {2, "eth0", true}},
			Addrs:    rapid.SliceOfDistinct(addr, func(a hostAddr) string { return a.Prefix.String() + string('0'+a.Index) }).Draw(t, "there"),
			Lost:     map[netip.Addr]bool{},
		}
		for _, p := range v.Want {
			v.Lost[p.Addr()] = rapid.Bool().Draw(t, "lost")
		}
		before := slices.Clone(v.Addrs)
		steps := v.plan()
		if !v.Given && len(steps) > 0 {
			t.Fatalf("something is done before anything was wanted: %v", steps)
		}
		for _, s := range steps {
			same := func(a hostAddr) bool { return a.Prefix == s.Prefix && a.Index == s.Index }
			at := slices.IndexFunc(v.Addrs, same)
			switch {
			case s.Add && at >= 0:
				t.Fatalf("adds %v, which is there", s.Prefix)
			case s.Add:
				v.Addrs = append(v.Addrs, hostAddr{Prefix: s.Prefix, Index: s.Index, Proto: 172})
			case at < 0 || v.Addrs[at].Proto != 172:
				t.Fatalf("removes %v, which is not ours, of %v", s.Prefix, before)
			default:
				v.Addrs = slices.Delete(v.Addrs, at, at+1)
			}
		}
		if !v.Given {
			return
		}
		if again := v.plan(); len(again) > 0 {
			t.Fatalf("not settled after one round: %v", again)
		}
		for _, row := range v.vips() {
			wanted := slices.Contains(v.Want, row.Address)
			if mayMiss := v.Lost[row.Address.Addr()] && v.Settings.OnRemoved == "fault"; wanted && !row.Present && !mayMiss {
				t.Fatalf("%v is wanted and not there", row.Address)
			}
			if !wanted && row.Ours {
				t.Fatalf("%v of ours is left over", row.Address)
			}
			if row.Present != (row.Error == "") {
				t.Fatalf("an absent address without a reason, or a present one with: %+v", row)
			}
		}
	})
}

func TestVIPSettingsProblems(t *testing.T) {
	for _, c := range []struct {
		name string
		s    VIPSettings
		want string
	}{
		{"nothing written", VIPSettings{}, ""},
		{"all written", VIPSettings{Manage: "add", Interface: "dummy0", OnRemoved: "repair", Mark: 9, Label: "dummy0:vip"}, ""},
		{"unknown way", VIPSettings{Manage: "yes"}, `manage: "yes" is not a way to manage addresses; allowed: add, require, off`},
		{"unknown reaction", VIPSettings{OnRemoved: "panic"}, `on_removed: "panic" is not a reaction; allowed: fault, repair`},
		{"repair of what is not ours", VIPSettings{Manage: "require", OnRemoved: "repair"}, `on_removed: repair needs manage: add; manage: require never touches an address`},
		{"long interface", VIPSettings{Interface: "averylonginterface"}, `interface: "averylonginterface" cannot be an interface; a name has 1…15 characters without space, slash or colon`},
		{"kernel's mark", VIPSettings{Mark: 3}, `mark: 3 is the kernel's own; allowed: 4…255`},
		{"label of another interface", VIPSettings{Label: "eth0:x"}, `label: "eth0:x" cannot be a label; write lo:WORD, at most 15 characters`},
		{"label without a word", VIPSettings{Label: "lo:"}, `label: "lo:" cannot be a label; write lo:WORD, at most 15 characters`},
		{"hectic", VIPSettings{Reconcile: 1e6}, `reconcile: 1ms is under the 1s minimum`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, p := range c.s.Problems() {
				got = append(got, p.String())
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestAttributesWithoutPadding reads attributes of every length whose last one
// ends the message, padded or not.
func TestAttributesWithoutPadding(t *testing.T) {
	for n := range 9 {
		for _, padded := range []bool{false, true} {
			b := binary.NativeEndian.AppendUint16(nil, uint16(4+n))
			b = binary.NativeEndian.AppendUint16(b, unix.IFA_LABEL)
			b = append(b, bytes.Repeat([]byte{7}, n)...)
			for padded && len(b)%4 != 0 {
				b = append(b, 0)
			}
			got, err := attributes(b)
			if err != nil || len(got) != 1 || len(got[0].Value) != n {
				t.Errorf("%d octets, padded %v: %v, %v", n, padded, got, err)
			}
		}
	}
}

// TestParseAddrSurvivesAnything feeds cut and garbled messages.
func TestParseAddrSurvivesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "message")
		if a, ok := parseAddr(m); ok && !a.Prefix.IsValid() {
			t.Fatalf("accepted %v", a)
		}
		parseLink(m)
	})
}
