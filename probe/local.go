package probe

import (
	"context"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
)

// The checks of the node itself ask Env and send nothing.

type vipProbe struct {
	address netip.Addr
	env     Env
}

func vipProblems(c Check) []Problem {
	if _, err := netip.ParseAddr(c.Target); err != nil && c.Target != "" {
		return []Problem{problem("target", "%q is not an address", c.Target)}
	}
	return nil
}

func compileVIP(c Check, env Env) (body, error) {
	a, err := netip.ParseAddr(c.Target)
	return &vipProbe{a.Unmap(), env}, err
}

func (p *vipProbe) probe(context.Context) steadycast.Result {
	if p.env.VIPs == nil {
		has, err := kernelHas(p.address)
		switch {
		case err != nil:
			return unknown("cannot list the addresses of this host: %v", err)
		case !has:
			return hard("%v is not on this host", p.address)
		}
		return up("present")
	}
	v, known := p.env.vip(p.address)
	switch {
	case !known:
		return unknown("nothing is known of %v: the speaker has not told of it", p.address)
	case !v.Present && v.Error != "":
		return hard("%v is not on this host: %s", p.address, v.Error)
	case !v.Present:
		return hard("%v is not on this host", p.address)
	case !v.Usable:
		return hard("%v is on %s but cannot be used yet: it is being checked for duplicates, or one was found", p.address, v.Interface)
	}
	return up("present on " + v.Interface)
}

type linkProbe struct {
	name string
	env  Env
}

var linkShape = regexp.MustCompile(`^[^/\s]{1,15}$`)

func linkProblems(c Check) []Problem {
	if c.Target != "" && (!linkShape.MatchString(c.Target) || c.Target == "." || c.Target == "..") {
		return []Problem{problem("target", "%q is not the name of an interface; at most 15 characters", c.Target)}
	}
	return nil
}

func compileLink(c Check, env Env) (body, error) { return &linkProbe{c.Target, env}, nil }

func (p *linkProbe) probe(context.Context) steadycast.Result {
	on, err := p.env.link(p.name)
	switch {
	case err != nil:
		return unknown("%v", err)
	case !on:
		return hard("%s has no carrier", p.name)
	}
	return up("has carrier")
}

type bgpProbe struct {
	which string // a neighbour's name, any, all, or PathTarget and a path
	env   Env
}

// PathTarget begins the target of a bgp check of one path: any of the neighbours
// that belong to it. What stands behind it is the path's name.
const PathTarget = "path:"

func bgpProblems(c Check) []Problem {
	if c.Target == PathTarget {
		return []Problem{problem("target", "names no path; write %sNAME", PathTarget)}
	}
	return nil
}

func compileBGP(c Check, env Env) (body, error) { return &bgpProbe{c.Target, env}, nil }

// probe: a lost session is soft, because the usual loss is made good within seconds.
func (p *bgpProbe) probe(context.Context) steadycast.Result {
	var peers []steadycast.Peer
	if p.env.Peers != nil {
		peers = p.env.Peers()
	}
	if len(peers) == 0 {
		return unknown("nothing is known of BGP sessions: the speaker has not told of any")
	}
	need := len(peers)
	path, onPath := strings.CutPrefix(p.which, PathTarget)
	switch {
	case onPath:
		peers, need = slices.DeleteFunc(slices.Clone(peers), func(x steadycast.Peer) bool { return x.Path != path }), 1
		if len(peers) == 0 {
			return unknown("no neighbour here is of path %s", path)
		}
	case p.which == "all":
	case p.which == "any":
		need = 1
	default:
		var one []steadycast.Peer
		for _, x := range peers {
			if x.Name == p.which {
				one = append(one, x)
			}
		}
		if len(one) == 0 {
			return unknown("there is no neighbour %s", p.which)
		}
		peers, need = one, 1
	}
	have := 0
	var lost []string
	for _, x := range peers {
		if x.Up() {
			have++
			continue
		}
		text := x.Name + " is " + x.State
		if x.LastError != "" {
			text += " (" + clip(x.LastError, 120) + ")"
		}
		lost = append(lost, text)
	}
	if have < need {
		return soft("%s", strings.Join(lost, "; "))
	}
	return up("established")
}
