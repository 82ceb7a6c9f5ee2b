package agent

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/steadycast/steadycast/probe"
)

func TestRequireVIPs(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("192.0.2.53/32"), netip.MustParsePrefix("2001:db8::53/128")
	for _, c := range []struct {
		name  string
		in    probe.Service
		names string
		up    string
	}{
		{"none said", probe.Service{Checks: []probe.Check{{Name: "web", Kind: "http"}}}, "web vip_1 vip_2", ""},
		{"an expression", probe.Service{Checks: []probe.Check{{Name: "a"}, {Name: "b"}}, Up: "a or b"}, "a b vip_1 vip_2", "(a or b) and vip_1 and vip_2"},
		{"one is said already", probe.Service{Checks: []probe.Check{{Name: "here", Kind: "vip", Target: "192.0.2.53"}}, Up: "here"}, "here vip_2", "(here) and vip_2"},
		{"a name is taken", probe.Service{Checks: []probe.Check{{Name: "vip_1", Kind: "tcp"}}}, "vip_1 vip_1_ vip_2", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(c.in.Checks)
			s := requireVIPs(c.in, []netip.Prefix{v4, v6})
			var names []string
			for _, k := range s.Checks {
				names = append(names, k.Name)
			}
			if got := strings.Join(names, " "); got != c.names || s.Up != c.up {
				t.Errorf("checks %q, up %q; want %q, %q", got, s.Up, c.names, c.up)
			}
			if len(c.in.Checks) != before {
				t.Error("the configuration's own list was changed")
			}
		})
	}
}
