package dnsfallback

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// Explanation is one answer and how it came about.
type Explanation struct {
	// Version of the table that answered.
	Version uint64 `json:"version"`
	// Rcode as its word, and the records as in a zone file.
	Rcode   string   `json:"rcode"`
	Records []string `json:"records"`
	// Branch are the steps in order: who is out and why, which row a map had, which method gave whom.
	Branch []string `json:"branch"`
	// TTL says why it is not the steady one; empty if it is.
	TTL string `json:"ttl,omitempty"`
	// Network is the one that the answer is for; invalid when it is for all.
	Network netip.Prefix `json:"network,omitzero"`
}

// Explain answers as the server would answer client, and takes down why. Where
// a method draws, it draws anew.
func (t *Table) Explain(name, typ string, client netip.Prefix) (Explanation, error) {
	e := Explanation{Version: t.version, Records: []string{}, Branch: []string{}}
	if t.mute {
		next := *t
		next.mute, t = false, &next
		e.Branch = append(e.Branch, "nothing is answered: the state is older than no_response; else it would be this")
	}
	n, err := parseName(name, root)
	if err != nil {
		return e, fmt.Errorf("%q is no name: %w", name, err)
	}
	number, ok := dns.StringToType[strings.ToUpper(typ)]
	if !ok {
		return e, fmt.Errorf("%q is no type of record", typ)
	}
	if !client.IsValid() {
		return e, fmt.Errorf("no client is given")
	}
	m := new(dns.Msg)
	m.SetQuestion(n.String(), number)
	m.SetEdns0(udpSize, false)
	packet, err := m.Pack()
	if err != nil {
		return e, err
	}
	a := &responder{shared: &shared{udp: udpSize}}
	a.choose.draw = rand64()
	a.choose.turn = rand64()
	a.choose.trace, a.choose.aside = &e.Branch, true
	a.located = client.Masked()
	out := a.respond(nil, packet, t, netip.AddrPortFrom(client.Addr(), 1), moment{}, true)
	if err := m.Unpack(out); err != nil {
		return e, err
	}
	e.Rcode = dns.RcodeToString[m.Rcode]
	for _, rr := range m.Answer {
		e.Records = append(e.Records, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	if s := a.steered; s != nil {
		e.TTL = t.steering.why[s.index]
		if a.choose.scope > 0 {
			e.Network, _ = client.Addr().Prefix(int(a.choose.scope))
		}
	}
	return e, nil
}
