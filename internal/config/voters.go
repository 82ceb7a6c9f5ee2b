package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"
)

// announces reports whether this node speaks to routers. A fleet's node without a
// speaker is a witness's, or does nothing but vote: it needs no routers; where they
// are written all the same, they are judged.
func (j *judge) announces() bool {
	n := j.cfg.Node
	return n.Mode != "fleet" || !j.witness() && (slices.Contains(n.Roles, "speaker") || j.node.wrote("bgp"))
}

// witness reports whether this node's site announces nothing: it only looks at
// others and may vote, so it needs no routers.
func (j *judge) witness() bool {
	p, ok := j.cfg.Fleet.site(j.cfg.Node.Site)
	return ok && p.Witness && j.cfg.Node.Mode == "fleet"
}

// noRouters judges a witness's node.yaml.
func (j *judge) noRouters() {
	n, r := &j.cfg.Node, j.node
	if r.wrote("bgp") {
		j.say(r, "bgp", "is not for %s, a witness in %s, which announces nothing; remove it", n.Site, filepath.Base(j.cfg.TableFile))
	}
	if i := slices.Index(n.Roles, "speaker"); i >= 0 {
		path := fmt.Sprintf("roles[%d]", i)
		if !r.wrote(path) {
			path = "roles"
		}
		j.say(r, path, "speaker is not for %s, a witness in %s, which announces nothing; write roles: [agent], or [agent, ledger]", n.Site, filepath.Base(j.cfg.TableFile))
	}
}

// voters judges what mode fleet needs, and that solo has none of it.
func (j *judge) voters() {
	n, r := &j.cfg.Node, j.node
	if n.Mode == "solo" {
		if len(n.Ledger.Peers) > 0 {
			j.say(r, "ledger.peers", "is for mode: fleet; a solo node has a ledger of its own")
		}
		if r.wrote("mesh.listen") {
			j.say(r, "mesh.listen", "is for mode: fleet; a solo node is told nothing by others")
		}
		if i := slices.Index(n.Roles, "ledger"); i >= 0 {
			j.say(r, fmt.Sprintf("roles[%d]", i), "ledger is for mode: fleet; a solo node keeps its ledger in the agent")
		}
		return
	}
	if n.Mode != "fleet" {
		return
	}
	for _, key := range []string{"services", "prefixes", "guards", "drain_wait"} {
		if r.wrote(key) {
			j.say(r, key, "is for mode: solo; a fleet's table is in its ledger: write fleet.yaml, and give it with steadycast ledger init")
		}
	}
	if slices.Contains(n.Roles, "agent") {
		j.literal("mesh.listen", n.Mesh.Listen, false)
	}
	if !filepath.IsAbs(n.TLS.Dir) {
		j.say(r, "tls.dir", "%q is not an absolute path", brief(n.TLS.Dir))
	}
	if d := n.Ledger.MaxRTT; d < time.Millisecond || d > 2*time.Second {
		j.say(r, "ledger.max_rtt", "%v is out of range; allowed: 1ms to 2s", d)
	}
	if len(n.Ledger.Peers) == 0 {
		j.say(r, "ledger.peers", "is missing; name the voters of the fleet: node, address, failure_domain of each")
	}
	for i := range n.Ledger.Peers {
		j.voter(i)
	}
	j.relays()
	if !slices.Contains(n.Roles, "ledger") {
		return
	}
	if !slices.ContainsFunc(n.Ledger.Peers, func(p LedgerPeer) bool { return p.Node == n.Node }) && n.Node != "" && len(n.Ledger.Peers) > 0 {
		j.say(r, "ledger.peers", "does not name this node, %s, whose role is to vote", n.Node)
	} else if n.Ledger.Listen != "" {
		j.literal("ledger.listen", n.Ledger.Listen, false)
	}
}

// voter judges one of the voters.
func (j *judge) voter(i int) {
	n, r := &j.cfg.Node, j.node
	at, p := fmt.Sprintf("ledger.peers[%d]", i), n.Ledger.Peers[i]
	j.name(r, at+".node", p.Node)
	j.literal(at+".address", p.Address, true)
	if p.FailureDomain == "" {
		j.say(r, at+".failure_domain", "is missing; say what this voter shares its fate with: a power feed, an uplink, a provider")
	}
	for k, q := range n.Ledger.Peers[:i] {
		switch {
		case p.Node != "" && q.Node == p.Node:
			j.say(r, at+".node", "%q stands here twice; name each voter once", brief(p.Node))
		case p.Address != "" && q.Address == p.Address:
			j.say(r, at+".address", "%q is the address of ledger.peers[%d] already", brief(p.Address), k)
		}
	}
}

// relays judges where voters hear the other nodes. A leader that does not hear
// a vantage cannot hold a request against what that saw.
func (j *judge) relays() {
	n, r := &j.cfg.Node, j.node
	with := 0
	for _, p := range n.Ledger.Peers {
		if p.Mesh != "" {
			with++
		}
	}
	if with == 0 {
		if len(n.Ledger.Peers) > 0 {
			j.warn(r, "ledger.peers", "none has mesh:, so no voter hears what the nodes see: requests are believed as they come, and nothing is passed on where a direct way is down")
		}
		return
	}
	for i, p := range n.Ledger.Peers {
		at := fmt.Sprintf("ledger.peers[%d]", i)
		if p.Mesh == "" {
			j.say(r, at, "has no mesh:, and others have; who leads must hear what the nodes see: give each voter one")
			continue
		}
		j.literal(at+".mesh", p.Mesh, true)
		for k, q := range n.Ledger.Peers {
			if p.Mesh == q.Address || k < i && p.Mesh == q.Mesh {
				j.say(r, at+".mesh", "%q is an address of ledger.peers[%d] already", brief(p.Mesh), k)
			}
		}
		if p.Node == n.Node && p.Mesh == n.Mesh.Listen {
			j.say(r, at+".mesh", "%q is where the agent listens (mesh.listen); the voter is a process of its own", brief(p.Mesh))
		}
	}
}

// literal judges an address of the ledger. Names are not allowed: the ledger must
// be found when DNS is what has failed.
func (j *judge) literal(path, value string, reached bool) {
	ap, err := netip.ParseAddrPort(value)
	switch {
	case value == "":
		j.say(j.node, path, "is missing; give an IP address and a port, such as 192.0.2.1:7481")
	case err != nil || ap.Port() == 0:
		j.say(j.node, path, "%q is not an IP address with a port; names are not looked up, because the ledger must be found when DNS fails", brief(value))
	case reached && ap.Addr().IsUnspecified():
		j.say(j.node, path, "%q is no address that others can reach", brief(value))
	}
}
