package dnsfallback

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// maxChain is how many CNAMEs may follow each other; resolvers give up not long after.
const maxChain = 8

// judge finds what no zone may hold. It visits the names in order, so that the
// same settings give the same sentences.
func (p *Policy) judge(ps *problems) {
	names := slices.SortedFunc(maps.Keys(p.nodes), func(a, b name) int {
		return cmp.Or(cmp.Compare(p.nodes[a].zone.index, p.nodes[b].zone.index), strings.Compare(string(a), string(b)))
	})
	for _, n := range names {
		node := p.nodes[n]
		if node.steered != nil {
			p.judgeSteered(node, ps)
		}
		if node.cut != nil {
			p.judgeCut(node, ps)
		} else {
			p.judgeAlias(node, ps)
		}
		for _, s := range node.sets {
			p.judgeTargets(node, s, ps)
		}
	}
}

// judgeCut holds a delegation to what a parent may say of a child: its servers,
// their addresses, and DS (RFC 4035 §2.4).
func (p *Policy) judgeCut(n *node, ps *problems) {
	at := n.name == n.cut.name
	if at && n.name.wildcard() {
		ps.add(n.set(dns.TypeNS).path, "delegates a wildcard, which has no defined meaning (RFC 4592 §4.2)")
	}
	for _, s := range n.sets {
		switch s.typ {
		case dns.TypeA, dns.TypeAAAA:
		case dns.TypeNS, dns.TypeDS:
			if !at {
				ps.add(s.path, "%s is below the delegation of %s (%s), so only that zone can say this", n.name.text(), n.cut.name.text(), n.cut.set(dns.TypeNS).path)
			}
		default:
			ps.add(s.path, "%s of %s is hidden by the delegation of %s (%s); only addresses of its servers can stand here",
				typeName(s.typ), n.name.text(), n.cut.name.text(), n.cut.set(dns.TypeNS).path)
		}
	}
}

// judgeSteered holds a name that is answered by state apart from what stands beside it.
func (p *Policy) judgeSteered(n *node, ps *problems) {
	path := n.steered.pool.path
	if n.cut != nil {
		ps.add(path+".name", "%s is hidden by the delegation of %s (%s)", n.name.text(), n.cut.name.text(), n.cut.set(dns.TypeNS).path)
		return
	}
	if n.steered.pool.alias && n.name == n.zone.apex {
		return // told already
	}
	for _, s := range n.sets {
		switch {
		case s.typ == dns.TypeCNAME:
			ps.add(s.path, "%s has a CNAME beside %s, and an alias has nothing else (RFC 1034 §3.6.2)", n.name.text(), path)
		case n.steered.answers(s.typ):
			ps.add(s.path, "%s of %s is answered by %s; write it there", typeName(s.typ), n.name.text(), path)
		case n.steered.pool.alias:
			ps.add(s.path, "%s has %s beside members of %s that are a CNAME, and an alias has nothing else (RFC 1034 §3.6.2)", n.name.text(), typeName(s.typ), path)
		}
	}
}

// judgeAlias holds a CNAME to its own (RFC 1034 §3.6.2, RFC 2181 §10.1).
func (p *Policy) judgeAlias(n *node, ps *problems) {
	if ds := n.set(dns.TypeDS); ds != nil {
		ps.add(ds.path, "%s is not delegated, and DS is said of a delegation only", n.name.text())
	}
	alias := n.set(dns.TypeCNAME)
	if alias == nil {
		return
	}
	if n.name == n.zone.apex {
		ps.add(alias.path, "is a CNAME at the zone's own name, which has SOA and NS beside it; write addresses there")
		return
	}
	if len(alias.data) > 1 {
		ps.add(alias.path, "%s has %d CNAMEs; a name can be an alias of one", n.name.text(), len(alias.data))
		return
	}
	for _, s := range n.sets {
		if s != alias {
			ps.add(s.path, "%s has %s beside the CNAME %s; an alias has nothing else (RFC 1034 §3.6.2)", n.name.text(), typeName(s.typ), alias.path)
		}
	}
	walked := []string{n.name.text()}
	for at := n; ; {
		alias := at.set(dns.TypeCNAME)
		if alias == nil || at.cut != nil {
			return
		}
		target := alias.targets()[0]
		walked = append(walked, target.text())
		next, _ := p.find(target, n.zone)
		if next == nil || next.zone != n.zone {
			return
		}
		if slices.Contains(walked[:len(walked)-1], target.text()) {
			ps.add(n.set(dns.TypeCNAME).path, "leads back to itself: %s", strings.Join(walked, " → "))
			return
		}
		if len(walked) > maxChain+1 {
			ps.add(n.set(dns.TypeCNAME).path, "begins a chain of over %d CNAMEs: %s", maxChain, strings.Join(walked, " → "))
			return
		}
		at = next
	}
}

// judgeTargets looks at the names that a set names, where they are in the zone.
func (p *Policy) judgeTargets(n *node, s *rrset, ps *problems) {
	if s.typ != dns.TypeNS && s.typ != dns.TypeMX && s.typ != dns.TypeSRV {
		return
	}
	for _, t := range s.targets() {
		if t == root || p.zoneOf(t) != n.zone {
			continue
		}
		found, _ := p.find(t, n.zone)
		if found != nil && found.set(dns.TypeCNAME) != nil {
			ps.add(s.path, "%s is an alias (%s), and %s must name a host by its own name (RFC 2181 §10.3)", t.text(), found.set(dns.TypeCNAME).path, typeName(s.typ))
			continue
		}
		if s.typ != dns.TypeNS || found != nil && found.addresses() {
			continue
		}
		exact := p.nodes[t]
		if found != nil && found.cut != nil && found.cut != n && (exact == nil || !exact.addresses()) {
			continue // below another delegation, which answers for it
		}
		ps.add(s.path, "the server %s has no address; add the record  %s A …  (glue)", t.text(), relative(t, n.zone.apex))
	}
}

// relative is a name as it is written in its zone.
func relative(n, apex name) string {
	if n == apex {
		return "@"
	}
	return strings.TrimSuffix(n.text(), "."+apex.text())
}

func (n *node) addresses() bool { return n.set(dns.TypeA) != nil || n.set(dns.TypeAAAA) != nil }

// find gives the node that answers for n in zone z: itself, the delegation it
// is below, or the wildcard that covers it; nil when it does not exist or is in
// no zone. The second result says that the wildcard covers it.
func (p *Policy) find(n name, z *zone) (*node, bool) {
	if p.zoneOf(n) != z {
		return nil, false
	}
	if found := p.nodes[n]; found != nil {
		return found, false
	}
	at := n
	for p.nodes[at] == nil {
		at = at.parent()
	}
	encloser := p.nodes[at]
	if encloser.cut != nil {
		return encloser, false
	}
	return encloser.wild, encloser.wild != nil
}
