package dnsfallback

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"

	"github.com/miekg/dns"
)

// SelfTest asks the server as a client would: at each of its addresses, over UDP
// and TCP, for the SOA of each of its zones; of more than some, for that of the
// next ones at each call. What comes must be whole, of the policy in force, and
// from this server. The error joins everything that was
// not; ctx bounds the whole. It says nothing of the names' members: a dead
// application is no fault of who answers for it.
func (v *Server) SelfTest(ctx context.Context) error {
	t := v.table.Load()
	if t == nil {
		return errors.New("there is no table to answer from")
	}
	if t.mute {
		return errors.New("nothing is answered: the state is too old")
	}
	zones := t.policy.zones
	if len(zones) > testedAtOnce {
		zones = make([]*zone, testedAtOnce)
		from := int(v.tested.Add(testedAtOnce))
		for i := range zones {
			zones[i] = t.policy.zones[(from+i)%len(t.policy.zones)]
		}
	}
	var wrong []error
	for _, at := range v.Addresses() {
		if at.Addr().IsUnspecified() {
			at = netip.AddrPortFrom(loopbackOf(at.Addr()), at.Port())
		}
		for _, network := range []string{"udp", "tcp"} {
			for _, z := range zones {
				if err := v.askSelf(ctx, network, at, z, t); err != nil {
					wrong = append(wrong, fmt.Errorf("%s at %v over %s: %w", z.apex.text(), at, network, err))
				}
			}
		}
	}
	return errors.Join(wrong...)
}

// testedAtOnce is the most zones that one self-test asks for.
const testedAtOnce = 8

func loopbackOf(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

func (v *Server) askSelf(ctx context.Context, network string, at netip.AddrPort, z *zone, t *Table) error {
	q := new(dns.Msg)
	q.SetQuestion(z.apex.String(), dns.TypeSOA)
	q.RecursionDesired = false
	q.SetEdns0(udpSize, false)
	q.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID}}
	m, _, err := (&dns.Client{Net: network}).ExchangeContext(ctx, q, at.String())
	switch {
	case err != nil:
		return err
	case m.Rcode != dns.RcodeSuccess || !m.Authoritative || len(m.Answer) != 1:
		return fmt.Errorf("the answer is %s with %d records", dns.RcodeToString[m.Rcode], len(m.Answer))
	}
	soa, ok := m.Answer[0].(*dns.SOA)
	if !ok {
		return errors.New("the answer is no SOA")
	}
	if now := v.table.Load(); soa.Serial != uint32(t.policy.revision) && soa.Serial != uint32(now.policy.revision) {
		return fmt.Errorf("the serial is %d; revision %d is in force", soa.Serial, now.policy.revision)
	}
	identity := ""
	if o := m.IsEdns0(); o != nil {
		for _, e := range o.Option {
			if n, ok := e.(*dns.EDNS0_NSID); ok {
				identity = n.Nsid
			}
		}
	}
	if identity != hex.EncodeToString([]byte(v.settings.Identity)) {
		return errors.New("another server has answered: its identity is not ours")
	}
	return nil
}
