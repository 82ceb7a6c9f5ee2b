package dnsfallback

import (
	"cmp"
	"slices"

	"github.com/miekg/dns"
)

// prepare writes the answers of one node.
func (p *Policy) prepare(n *node, ps *problems) {
	if n.name == n.zone.apex {
		n.zone.nodata = p.number(negative(n.zone, dns.RcodeSuccess))
		n.zone.nxdomain = p.number(negative(n.zone, dns.RcodeNameError))
	}
	if n.cut != nil {
		if n.cut == n {
			n.referral = p.number(p.refer(n))
			if ds := n.set(dns.TypeDS); ds != nil {
				n.add(dns.TypeDS, p.number(p.follow(n, dns.TypeDS)))
			}
			p.fits(n.referral, n.set(dns.TypeNS), ps)
		}
		return
	}
	if alias := n.set(dns.TypeCNAME); alias != nil {
		n.add(dns.TypeCNAME, p.number(p.follow(n, dns.TypeCNAME)))
		for _, t := range p.typesBehind(n) {
			n.add(t, p.number(p.follow(n, t)))
		}
		n.other = p.number(p.follow(n, dns.TypeNone))
		n.any = n.replies[0].reply
	} else {
		for _, s := range n.sets {
			n.add(s.typ, p.number(p.follow(n, s.typ)))
		}
		if n.steered != nil {
			for _, t := range n.steered.types() {
				n.add(t, p.number(p.follow(n, t)))
			}
			if n.steered.answers(dns.TypeNone) {
				n.other = p.number(p.follow(n, dns.TypeNone))
			}
		}
		if len(n.sets) > 0 || n.steered != nil {
			n.any = refuseAny
		}
	}
	for _, r := range n.replies {
		if len(n.sets) > 0 {
			p.fits(r.reply, n.sets[0], ps)
		}
	}
	slices.SortFunc(n.replies, func(a, b typedReply) int { return cmp.Compare(a.typ, b.typ) })
}

func (n *node) add(typ uint16, r *reply) { n.replies = append(n.replies, typedReply{typ, r}) }

// room is what a message needs around the body at most: header, question, OPT.
const room = headerLen + maxNameLen + 4 + 512

func (p *Policy) fits(r *reply, s *rrset, ps *problems) {
	if len(r.body) > dns.MaxMsgSize-room {
		ps.add(s.path, "%s has more records than fit a message (%d octets of %d)", s.owner.text(), len(r.body), dns.MaxMsgSize-room)
	}
}

// negative is the answer for what is absent: the zone's SOA with the TTL that
// the absence may be kept (RFC 2308 §2.1, §2.2, §5).
func negative(z *zone, rcode uint16) *reply {
	b := newShiftingBuilder(z.apex, "")
	b.r.rcode = rcode
	b.authority(z.apex, z.absent)
	return b.done()
}

// refuseAny is the small answer to ANY (RFC 8482 §4.2): HINFO "RFC8482" "".
var refuseAny = func() *reply {
	b := newShiftingBuilder(root, root)
	b.answer(root, &rrset{typ: dns.TypeHINFO, ttl: 3600, data: [][]byte{[]byte("\x07RFC8482\x00")}})
	b.r.id = 2
	return b.done()
}()

// refer is the answer at and below a delegation (RFC 1034 §4.3.2 step 3b). The
// addresses of servers below it must come along (RFC 9471).
func (p *Policy) refer(n *node) *reply {
	b := newShiftingBuilder(n.name, "")
	b.r.aa = false
	ns := n.set(dns.TypeNS)
	b.authority(n.name, ns)
	p.servers(b, n, ns)
	return b.done()
}

func (p *Policy) servers(b *builder, cut *node, ns *rrset) {
	for _, inside := range []bool{true, false} {
		for _, t := range ns.targets() {
			if t.under(cut.name) != inside {
				continue
			}
			for _, a := range p.addressesOf(t, cut.zone) {
				if inside {
					b.glue(t, a)
				} else {
					b.helpful(t, a)
				}
			}
		}
	}
}

// addressesOf are the sets of addresses that the zone has for a name, be it as
// glue or by a wildcard.
func (p *Policy) addressesOf(n name, z *zone) []*rrset {
	at, _ := p.find(n, z)
	if at == nil || at.cut != nil && at.name != n {
		return nil
	}
	var out []*rrset
	for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA} {
		if s := at.set(typ); s != nil {
			out = append(out, s)
		}
	}
	return out
}

// follow writes the answer of node n to a question of type typ, along its
// CNAMEs as far as the zone goes (RFC 1034 §4.3.2 step 3a).
func (p *Policy) follow(n *node, typ uint16) *reply {
	var b *builder
	if n.name.wildcard() {
		b = newShiftingBuilder(n.name.parent(), n.name)
	} else {
		b = newBuilder(n.name)
	}
	owner := n.name
	for {
		if n.steered != nil && n.steered.answers(typ) {
			b.steered(owner, n.steered)
			return b.done()
		}
		if s := n.set(typ); s != nil {
			b.answer(owner, s)
			p.help(b, n, s)
			return b.done()
		}
		alias := n.set(dns.TypeCNAME)
		if alias == nil {
			b.authority(n.zone.apex, n.zone.absent)
			return b.done()
		}
		b.answer(owner, alias)
		owner = alias.targets()[0]
		if p.zoneOf(owner) != n.zone {
			return b.done()
		}
		next, _ := p.find(owner, n.zone)
		switch {
		case next == nil:
			b.r.rcode = dns.RcodeNameError // of the last name (RFC 2308 §2.1)
			b.authority(n.zone.apex, n.zone.absent)
			return b.done()
		case next.cut != nil && typ == dns.TypeDS && next.cut.name == owner:
			n = next.cut // DS is the parent's to say (RFC 4035 §3.1.4.1)
			continue
		case next.cut != nil:
			ns := next.cut.set(dns.TypeNS)
			b.authority(next.cut.name, ns)
			p.servers(b, next.cut, ns)
			return b.done()
		}
		n = next
	}
}

// typesBehind are the types that the name at the end of n's CNAMEs has.
func (p *Policy) typesBehind(n *node) []uint16 {
	zone := n.zone
	for n != nil && n.zone == zone {
		if n.cut != nil {
			return []uint16{dns.TypeDS}
		}
		alias := n.set(dns.TypeCNAME)
		if alias == nil {
			var out []uint16
			for _, s := range n.sets {
				out = append(out, s.typ)
			}
			if n.steered != nil {
				out = append(out, n.steered.types()...)
			}
			return out
		}
		n, _ = p.find(alias.targets()[0], zone)
	}
	return nil
}

// help adds the addresses of the names that an answer names (RFC 1035 §3.3.9,
// §3.3.11, RFC 2782, RFC 9460 §4.1), where the zone has them.
func (p *Policy) help(b *builder, n *node, s *rrset) {
	if s.typ == dns.TypeCNAME || s.typ == dns.TypePTR {
		return
	}
	for _, t := range s.targets() {
		for _, a := range p.addressesOf(t, n.zone) {
			b.helpful(t, a)
		}
	}
}
