package lab

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// manyNames puts 10,000 steered names, all answered from one pool of the three
// sites, in the place of the one in the table.
const manyNames = `
[ -e /run/one.yaml ] || cp /etc/steadycast/fleet.yaml /run/one.yaml
sed '/^      - name: www/,/^        anycast/d' /run/one.yaml | awk '
	{ print }
	/^    names:/ { for (i = 0; i < 10000; i++) printf "      - {name: n%d, service: web, methods: [all], ttl: 1s, members: [{pool: everywhere}]}\n", i }
	END { print "pools:\n  - name: everywhere\n    service: web\n    methods: [all]\n    members:"
		print "      - {site: ams, addresses: [10.1.0.2]}\n      - {site: fra, addresses: [10.2.0.2]}\n      - {site: iad, addresses: [10.3.0.2]}" }
' > /run/many.yaml && mv /run/many.yaml /etc/steadycast/fleet.yaml
exec steadycast ledger init /etc/steadycast/fleet.yaml --operator /etc/steadycast/operator/lab.pub --reason "first start"`

// switched orders a site out and prints how many milliseconds later each of the
// three servers has it in no answer, of the names asked one after another.
const switched = `
for n in 1 2 3; do (
	i=0
	while dig +short +tries=1 @10.$n.0.2 n$((i % 10000)).lab.test | grep -q '^10.2.0.2$'; do i=$((i + 37)); done
	date +%s%3N > /run/gone.$n
) & done
sleep 0.5
from=$(date +%s%3N)
steadycast withdraw fra --service web --reason bench --yes --key /etc/steadycast/operator/lab.key > /dev/null || exit 1
wait
for n in 1 2 3; do echo $(($(cat /run/gone.$n) - from)); done
steadycast undrain fra --reason bench --yes --key /etc/steadycast/operator/lab.key > /dev/null`

// BenchmarkManyNames switches one site off for 10,000 names and measures from the
// operator's keystroke until all three servers of the fleet answer so.
func BenchmarkManyNames(b *testing.B) {
	topo, err := Load("containerlab/names.clab.yml")
	if err != nil {
		b.Fatal(err)
	}
	need(b, topo, "dig")
	p, err := programs()
	if err != nil {
		b.Fatal(err)
	}
	if topo, err = Load("containerlab/names.clab.yml"); err != nil { // with what the programs have made
		b.Fatal(err)
	}
	l, err := Up(b.Context(), topo, p)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Down()
	sh := func(script string) string {
		out, stderr, code, err := l.Exec(context.Background(), "ams", []string{"sh", "-c", script})
		if err != nil || code != 0 {
			b.Fatalf("exit %d, %v: %s%s", code, err, out, stderr)
		}
		return string(out)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) { // until the voters listen
		out, stderr, code, err := l.Exec(b.Context(), "ams", []string{"sh", "-c", manyNames})
		if err == nil && code == 0 {
			break
		}
		if time.Now().After(deadline) {
			b.Fatalf("exit %d, %v: %s%s", code, err, out, stderr)
		}
	}
	everywhere := `for n in 1 2 3; do dig +short @10.$n.0.2 n9999.lab.test; done | sort | uniq -c | tr -s ' \n' ' '`
	var last, worst time.Duration
	for b.Loop() {
		// Where nothing is up a server answers with all there is, so the routes are asked too.
		ready := func() bool {
			paths, err := l.Paths(b.Context(), "wan", netip.MustParsePrefix("192.0.2.53/32"))
			return err == nil && len(paths) == 3 && strings.TrimSpace(sh(everywhere)) == "3 10.1.0.2 3 10.2.0.2 3 10.3.0.2"
		}
		for deadline := time.Now().Add(2 * time.Minute); !ready(); time.Sleep(200 * time.Millisecond) {
			if time.Now().After(deadline) {
				b.Fatalf("not every server answers with every site: %s", sh(everywhere))
			}
		}
		var ms [3]int
		if _, err := fmt.Sscan(sh(switched), &ms[0], &ms[1], &ms[2]); err != nil {
			b.Fatal(err)
		}
		took := time.Duration(max(ms[0], ms[1], ms[2])) * time.Millisecond
		last, worst = last+took, max(worst, took)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(last.Milliseconds())/float64(b.N), "ms/last-server")
	b.ReportMetric(float64(worst.Milliseconds()), "ms/worst")
}
