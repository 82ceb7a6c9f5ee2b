package bench

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pace is how a service is judged.
type pace struct {
	interval, fast time.Duration
	fall           int
	tripwire       bool
}

// restless are guards that allow a withdrawal in each trial. All of them are
// asked and answer as ever; only their numbers are out of the way.
const restless = `guards: {cooldown: 1ms, site_budget: 1000, site_long_budget: 1000, fleet_budget: 1000, lock_cycles: 1000}
`

// service is one entry of services: that returns as soon as a round passes.
func (p pace) service(name, kind, target string, prefixes []netip.Prefix) string {
	list := make([]string, len(prefixes))
	for i, x := range prefixes {
		list[i] = x.String()
	}
	section := ""
	if kind == "dns" {
		section = "\n        dns: {names: [bench.example.net]}"
	}
	return fmt.Sprintf(`  - name: %s
    prefixes: [%s]
    health: {interval: %v, fast_interval: %v, fall: %d, fall_certain: %[5]d, down_for: 0s, rise: 1, hold_up: 1ms}
    checks:
      - name: it
        kind: %s
        target: %s
        tripwire: %v%s
`, name, strings.Join(list, ", "), p.interval, p.fast, p.fall, kind, target, p.tripwire, section)
}

// node is the product as an operator runs it: a speaker's process and an
// agent's, from one node.yaml.
type node struct{ speaker, agent *process }

// newNode starts a node in a namespace that peers with a router. Its state is
// in a directory of its own under state; "" is where temporary files are.
func newNode(b testing.TB, ns, state string, router netip.AddrPort, own netip.Addr, services string) node {
	b.Helper()
	binary, err := product()
	if err != nil {
		b.Fatalf("building the product: %v", err)
	}
	dir := running.folder(b, state)
	conf := fmt.Sprintf(`site: edge
bgp:
  asn: %d
  router_id: 192.0.2.1
  neighbors:
    - {name: router, address: %v, port: %d, asn: %d, local_address: %v, next_hop4: %[5]v}
vip: {manage: off}
metrics: {listen: off}
state_dir: %[6]s
run_dir: %[6]s
socket: %[6]s/agent.sock
speaker_socket: %[6]s/speaker.sock
stop: {drain: 1ms, after_withdraw: 1ms}
services:
%[7]s%[8]s`, edgeASN, router.Addr(), router.Port(), routerASN, own, dir, services, restless)
	file := filepath.Join(dir, "node.yaml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		b.Fatal(err)
	}
	return node{
		speaker: start(b, ns, nil, binary, "speaker", "-c", file),
		agent:   start(b, ns, nil, binary, "agent", "-c", file),
	}
}

// serviceAddresses are n host routes (RFC 5737 has none so wide: RFC 2544's is).
func serviceAddresses(n int) []netip.Prefix {
	ps := make([]netip.Prefix, n)
	for i := range ps {
		ps[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 32)
	}
	return ps
}
