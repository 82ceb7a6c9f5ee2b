package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// router asks one kind of router by its own tool. A new kind is one more file
// of this size and a name in routerOf.
type router interface {
	// show is the command that shows the paths to a prefix.
	show(p netip.Prefix) []string
	// paths reads what show printed; none if the router has none. code is its exit code.
	paths(p netip.Prefix, out string, code int) ([]Path, error)
	// sessions is the command that shows the neighbours.
	sessions() []string
	// up reads what sessions printed: each neighbour, and whether it is established.
	up(out string) (map[netip.Addr]bool, error)
}

var routers = map[string]router{"frr": frr{}, "bird": bird{}, "openbgpd": openbgpd{}}

// Paths are the ways to p that a router node has.
func (l *Lab) Paths(ctx context.Context, node string, p netip.Prefix) ([]Path, error) {
	r, err := l.router(node)
	if err != nil {
		return nil, err
	}
	out, stderr, code, err := l.Exec(ctx, node, r.show(p))
	if err != nil {
		return nil, err
	}
	paths, err := r.paths(p, string(out), code)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w: %s", node, strings.Join(r.show(p), " "), err, strings.TrimSpace(string(stderr)))
	}
	return paths, nil
}

// Sessions says which neighbours a router node has, and whether each is established.
func (l *Lab) Sessions(ctx context.Context, node string) (map[netip.Addr]bool, error) {
	r, err := l.router(node)
	if err != nil {
		return nil, err
	}
	out, stderr, code, err := l.Exec(ctx, node, r.sessions())
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, fmt.Errorf("%s: %s: exit %d: %s", node, strings.Join(r.sessions(), " "), code, strings.TrimSpace(string(stderr)))
	}
	return r.up(string(out))
}

func (l *Lab) router(node string) (router, error) {
	m, err := l.member(node)
	if err != nil {
		return nil, err
	}
	r, ok := routers[routerOf(m.node.Image)]
	if !ok {
		return nil, fmt.Errorf("node %s (%s) is no router", node, m.node.Image)
	}
	return r, nil
}

type frr struct{}

func family(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ipv4"
	}
	return "ipv6"
}

func (frr) show(p netip.Prefix) []string {
	return []string{"vtysh", "-c", "show bgp " + family(p) + " unicast " + p.String() + " json"}
}

func (frr) paths(p netip.Prefix, out string, code int) ([]Path, error) {
	if code != 0 {
		return nil, fmt.Errorf("exit %d", code)
	}
	var shown struct {
		Prefix string
		Paths  []struct {
			ASPath         struct{ String string }
			Metric, LocPrf *uint32
			Community      struct{ List []string }
			LargeCommunity struct{ List []string }
			NextHops       []struct{ IP netip.Addr }
		}
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		return nil, err
	}
	if shown.Prefix != "" && shown.Prefix != p.String() {
		return nil, nil // a less specific route; not the one asked for
	}
	var paths []Path
	for _, s := range shown.Paths {
		q := Path{Prefix: p, ASPath: s.ASPath.String, MED: s.Metric, LocalPref: s.LocPrf}
		for _, c := range s.Community.List {
			q.Communities = append(q.Communities, community(c))
		}
		q.Communities = append(q.Communities, s.LargeCommunity.List...)
		if len(s.NextHops) > 0 {
			q.NextHop = s.NextHops[0].IP
		}
		paths = append(paths, q)
	}
	return paths, nil
}

func (frr) sessions() []string { return []string{"vtysh", "-c", "show bgp summary json"} }

func (frr) up(out string) (map[netip.Addr]bool, error) {
	var families map[string]struct {
		Peers map[netip.Addr]struct{ State string }
	}
	if err := json.Unmarshal([]byte(out), &families); err != nil {
		return nil, err
	}
	up := map[netip.Addr]bool{}
	for _, f := range families {
		for a, p := range f.Peers {
			up[a] = p.State == "Established"
		}
	}
	return up, nil
}

type bird struct{}

func (bird) show(p netip.Prefix) []string {
	return []string{"birdc", "show", "route", p.String(), "all"}
}

var (
	birdCommunity = regexp.MustCompile(`\((\d+), ?(\d+)(?:, ?(\d+))?\)`)
	birdPath      = regexp.MustCompile(`^\S*\s+unicast \[`)
)

func (bird) paths(p netip.Prefix, out string, _ int) ([]Path, error) {
	if strings.Contains(out, "Network not found") {
		return nil, nil // which birdc also counts as a failure
	}
	var paths []Path
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if birdPath.MatchString(line) {
			paths = append(paths, Path{Prefix: p})
			continue
		}
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || len(paths) == 0 {
			continue
		}
		q := &paths[len(paths)-1]
		switch key {
		case "BGP.as_path":
			q.ASPath = value
		case "BGP.next_hop":
			q.NextHop, _ = netip.ParseAddr(strings.Fields(value)[0])
		case "BGP.med":
			q.MED = number(value)
		case "BGP.local_pref":
			q.LocalPref = number(value)
		case "BGP.community", "BGP.large_community":
			for _, m := range birdCommunity.FindAllStringSubmatch(value, -1) {
				q.Communities = append(q.Communities, strings.TrimSuffix(strings.Join(m[1:], ":"), ":"))
			}
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("cannot read %q", out)
	}
	return paths, nil
}

func (bird) sessions() []string { return []string{"birdc", "show", "protocols", "all"} }

func (bird) up(out string) (map[netip.Addr]bool, error) {
	up := map[netip.Addr]bool{}
	state := ""
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); key {
		case "BGP state":
			state = value
		case "Neighbor address":
			a, err := netip.ParseAddr(value)
			if err != nil {
				return nil, err
			}
			up[a] = state == "Established"
		}
	}
	return up, nil
}

type openbgpd struct{}

func (openbgpd) show(p netip.Prefix) []string {
	return []string{"bgpctl", "-j", "show", "rib", "detail", p.String()}
}

func (openbgpd) paths(p netip.Prefix, out string, code int) ([]Path, error) {
	if code != 0 {
		return nil, fmt.Errorf("exit %d", code)
	}
	var shown struct {
		RIB []struct {
			Prefix           string
			ASPath           string
			ExitNextHop      netip.Addr `json:"exit_nexthop"`
			Metric           *uint32
			LocalPref        *uint32
			Communities      []string
			LargeCommunities []string `json:"large_communities"`
		}
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		return nil, err
	}
	var paths []Path
	for _, s := range shown.RIB {
		if s.Prefix != p.String() {
			continue
		}
		q := Path{Prefix: p, ASPath: s.ASPath, NextHop: s.ExitNextHop, MED: s.Metric, LocalPref: s.LocalPref}
		for _, c := range s.Communities {
			q.Communities = append(q.Communities, community(c))
		}
		q.Communities = append(q.Communities, s.LargeCommunities...)
		paths = append(paths, q)
	}
	return paths, nil
}

func (openbgpd) sessions() []string { return []string{"bgpctl", "-j", "show", "neighbor"} }

func (openbgpd) up(out string) (map[netip.Addr]bool, error) {
	var shown struct {
		Neighbors []struct {
			RemoteAddr netip.Addr `json:"remote_addr"`
			State      string
		}
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		return nil, err
	}
	up := map[netip.Addr]bool{}
	for _, n := range shown.Neighbors {
		up[n.RemoteAddr] = n.State == "Established"
	}
	return up, nil
}

func number(s string) *uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return nil
	}
	v := uint32(n)
	return &v
}
