package bgp

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/sink"
)

// A backup is less attractive than an ordinary route and more than one that is
// depreferred or about to leave, and only allow_backup lets it out where allow
// does not.
func TestBackup(t *testing.T) {
	t.Parallel()
	r := listenSink(t, sink.Options{})
	s := towards(r)
	s.Allow = []netip.Prefix{net1}
	s.AllowBackup = []netip.Prefix{net2}
	s.Neighbors[0].Families = []string{"ipv4"}
	sp := speak(t, s)
	as := func(st steadycast.Stance) []steadycast.Route {
		return []steadycast.Route{{Prefix: net1, Stance: st}, {Prefix: net2, Stance: steadycast.Backup}}
	}
	length := func(tb sink.Table, p netip.Prefix) int { return len(tb[home][p].ASPath) }
	apply(t, sp, as(steadycast.Normal)...)
	hears(t, r, "both, the backup by a longer path and without GSHUT", func(tb sink.Table) bool {
		return length(tb, net1) == 1 && length(tb, net2) == 3 && len(tb[home][net2].Communities) == 0
	})
	apply(t, sp, as(steadycast.Depreferred)...)
	hears(t, r, "what is depreferred by a longer one yet", func(tb sink.Table) bool { return length(tb, net1) == 4 && length(tb, net2) == 3 })

	set := steadycast.RouteSet{Incarnation: 1, Version: sp.Actual().Version + 1, Routes: []steadycast.Route{{Prefix: net2}}}
	if err := sp.Apply(set); err == nil || !strings.Contains(err.Error(), "198.51.100.0/24 (normal) is not in the allow-list of node.yaml (bgp.allow; bgp.allow_backup for backup)") {
		t.Errorf("an ordinary route inside allow_backup: %v", err)
	}
	less := s
	less.AllowBackup = nil
	if err := sp.Reconfigure(less); err != nil {
		t.Fatal(err)
	}
	hears(t, r, "the backup withdrawn, no longer allowed", func(tb sink.Table) bool { return len(tb[home]) == 1 })
}
