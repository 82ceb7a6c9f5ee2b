package lab

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cutAtOnce drops all that comes from both edges, with no link going down, and
// prints that moment and those at which the router's kernel lost each route.
const cutAtOnce = `
ip -ts monitor route > /tmp/moments & monitor=$!
sleep 1
date +%s.%N
nft 'table inet cut { chain in { type filter hook input priority 0; iifname "eth*" drop; }; chain out { type filter hook output priority 0; oifname "eth*" drop; }; }'
sleep 5
kill $monitor
for n in 1 2; do
	at=$(sed 's/\\//g' /tmp/moments | sed -n "s/^\[\(.*\)\] Deleted.* 192.0.2.$n .*/\1/p" | head -1)
	date -d "$at" +%s.%N
done
nft delete table inet cut`

// BenchmarkSilentCut cuts both edges of one FRR router off in one moment and
// measures until the route of each is gone: that of steadycast and that of FRR's
// own bfdd, both at 300 ms × 3 and a hold time of 90 s.
func BenchmarkSilentCut(b *testing.B) {
	topo, err := Load("testdata/cut/cut.clab.yml")
	if err != nil {
		b.Fatal(err)
	}
	need(b, topo, "nft")
	p, err := programs()
	if err != nil {
		b.Fatal(err)
	}
	l, err := Up(b.Context(), topo, p)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Down()
	var ours, theirs time.Duration
	for b.Loop() {
		for deadline := time.Now().Add(2 * time.Minute); !watched(b, l); time.Sleep(200 * time.Millisecond) {
			if time.Now().After(deadline) {
				out, _, _, _ := l.Exec(b.Context(), "tor", []string{"vtysh", "-c", "show bfd peers"})
				b.Fatalf("the router does not watch both edges:\n%s", out)
			}
		}
		out, stderr, code, err := l.Exec(b.Context(), "tor", []string{"sh", "-c", cutAtOnce})
		if err != nil || code != 0 {
			b.Fatalf("exit %d, %v: %s%s", code, err, out, stderr)
		}
		at := strings.Fields(string(out))
		ours += moment(b, at[1]) - moment(b, at[0])
		theirs += moment(b, at[2]) - moment(b, at[0])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ours.Milliseconds())/float64(b.N), "ms/ours")
	b.ReportMetric(float64(theirs.Milliseconds())/float64(b.N), "ms/bfdd")
	b.ReportMetric(float64(ours)/float64(theirs), "x/bfdd")
}

// watched: the router has both routes, and both BFD sessions are up.
func watched(b *testing.B, l *Lab) bool {
	for _, p := range []string{"192.0.2.1/32", "192.0.2.2/32"} {
		if paths, err := l.Paths(b.Context(), "tor", netip.MustParsePrefix(p)); err != nil || len(paths) != 1 {
			return false
		}
	}
	out, _, _, err := l.Exec(context.Background(), "tor", []string{"vtysh", "-c", "show bfd peers brief"})
	return err == nil && strings.Count(string(out), " up ") >= 2
}

func moment(b *testing.B, s string) time.Duration {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(f * float64(time.Second))
}
