package probe

import (
	"encoding/hex"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/steadycast/steadycast"
)

// dnsJudge says whether a reply is right. First, whether it is a reply to what
// was asked at all; what is not is dropped and the wait goes on, since anyone
// may send a datagram (RFC 5452 §4, §9.1):
//
//	shorter than a header, other id, QR clear             dropped
//	other opcode, other question                          dropped
//	no question, with rcode NOERROR                       dropped
//	too late: the socket is gone, the next has another port and id
//
// Then the reply is judged, and the first line that fails is the result:
//
//	not parseable, with our id             soft  malformed
//	NSID is another's (RFC 5001)           hard  somebody else answered
//	rcode is not the one expected          soft  SERVFAIL and REFUSED included
//	TC over UDP                            soft  unless TCP is asked as well
//	an address outside `answers`           hard  tampered
//	fewer records than `min_answers`       soft  NOERROR without an answer included
//	no record matches `match`              soft
//	TTL under min_ttl or over max_ttl      soft
//	AA not as `authoritative` says         soft
//	AD clear with `authenticated`          soft  (RFC 4035 §3.2.3)
//	no NSID                                soft
//	slower than `max_latency`              soft
//
// Records count when their owner is the name that was asked for, or at the end
// of a chain of aliases from it (RFC 1034 §3.6.2): an answer about another name
// is no answer.
type dnsJudge struct {
	set   DNS
	qtype uint16
	rcode int
	match *regexp.Regexp
	nsid  string // hex, as the codec has it
	both  bool
	word  *word
}

// newDNSJudge is for settings that dnsProblems has passed.
func newDNSJudge(d DNS) dnsJudge {
	return dnsJudge{
		set:   d,
		qtype: dns.StringToType[strings.ToUpper(d.Type)],
		rcode: dns.StringToRcode[strings.ToUpper(d.Rcode)],
		match: compileRegexp(d.Match),
		nsid:  hex.EncodeToString([]byte(d.Identity)),
		both:  d.Protocol == "both",
	}
}

// reply judges raw as the answer to a question for name (fully qualified) under
// id. ours is false when it is not an answer to it, and the wait should go on.
func (j dnsJudge) reply(raw []byte, id uint16, name string, udp bool) (r steadycast.Result, ours bool) {
	const header = 12 // RFC 1035 §4.1.1
	if len(raw) < header || uint16(raw[0])<<8|uint16(raw[1]) != id || raw[2]&0x80 == 0 {
		return r, false
	}
	// This may run beside the attempt, where nobody else catches a panic.
	defer func() {
		if recover() != nil {
			r, ours = soft("malformed reply (it breaks the parser)"), true
		}
	}()
	var m dns.Msg
	if err := m.Unpack(raw); err != nil {
		// A truncated message may end in the middle of a record (RFC 1035 §4.1.1).
		if m.Truncated && udp {
			return j.truncated(), true
		}
		return soft("malformed reply (%s)", clip(err.Error(), 80)), true
	}
	if m.Opcode != dns.OpcodeQuery || !j.sameQuestion(&m, name) {
		return r, false
	}
	return j.message(&m, name, udp), true
}

func (j dnsJudge) sameQuestion(m *dns.Msg, name string) bool {
	if len(m.Question) == 0 {
		return m.Rcode != dns.RcodeSuccess // an error may leave it out
	}
	q := m.Question[0]
	return len(m.Question) == 1 && q.Qtype == j.qtype && q.Qclass == dns.ClassINET && strings.EqualFold(q.Name, name)
}

func (j dnsJudge) truncated() steadycast.Result {
	if j.both {
		return up("truncated; TCP tells") // RFC 7766 §5
	}
	return soft("truncated over UDP; if the answer is meant to be long use protocol: tcp or both")
}

func (j dnsJudge) message(m *dns.Msg, name string, udp bool) steadycast.Result {
	nsid := nsidOf(m)
	if j.nsid != "" && nsid != "" && nsid != j.nsid {
		return hard("somebody else answered: NSID is %q, not %q", showNSID(nsid), j.set.Identity)
	}
	if m.Rcode != j.rcode {
		r := soft("%s for %s, not %s", rcodeName(m.Rcode), name, rcodeName(j.rcode))
		if m.Rcode == dns.RcodeSuccess || m.Rcode == dns.RcodeNameError {
			r = j.word.of(r)
		}
		return r
	}
	if m.Truncated && udp {
		return j.truncated()
	}
	records := chase(m.Answer, name, j.qtype)
	if r := j.records(records, name); r.Outcome != steadycast.Up {
		return r
	}
	if want := j.set.Authoritative; want != nil && *want != m.Authoritative {
		if *want {
			return soft("the answer for %s is not authoritative (AA)", name)
		}
		return soft("the answer for %s is authoritative (AA), which it should not be", name)
	}
	if j.set.Authenticated && !m.AuthenticatedData {
		return soft("the answer for %s is not authenticated (AD)", name)
	}
	if j.nsid != "" && nsid == "" {
		return soft("the answer carries no NSID (RFC 5001), so it may be another's; %q is wanted", j.set.Identity)
	}
	return up("answered as it should")
}

func (j dnsJudge) records(records []dns.RR, name string) steadycast.Result {
	if len(j.set.Answers) > 0 {
		for _, rr := range records {
			if a, ok := addressOf(rr); ok && !within(a, j.set.Answers) {
				return hard("tampered: %s has the address %v, which is in none of the allowed", name, a)
			}
		}
	}
	if least := *j.set.MinAnswers; len(records) < least {
		return j.word.of(soft("%d records of type %s for %s; at least %d are wanted", len(records), dns.TypeToString[j.qtype], name, least))
	}
	if j.match != nil && !anyMatches(j.match, records) {
		return j.word.of(soft("no record of %s matches %q", name, j.set.Match))
	}
	for _, rr := range records {
		ttl := time.Duration(rr.Header().Ttl) * time.Second
		if ttl < j.set.MinTTL {
			return soft("TTL of %s is %v, under %v", name, ttl, j.set.MinTTL)
		}
		if j.set.MaxTTL > 0 && ttl > j.set.MaxTTL {
			return soft("TTL of %s is %v, over %v", name, ttl, j.set.MaxTTL)
		}
	}
	return up("")
}

// chase gives the records of qtype at the end of the aliases that start at name.
func chase(answer []dns.RR, name string, qtype uint16) []dns.RR {
	var out []dns.RR
	const longest = 16 // aliases; a loop ends here too
	for range longest {
		next := ""
		for _, rr := range answer {
			h := rr.Header()
			if h.Class != dns.ClassINET || !strings.EqualFold(h.Name, name) {
				continue
			}
			if h.Rrtype == qtype || qtype == dns.TypeANY {
				out = append(out, rr)
			} else if c, ok := rr.(*dns.CNAME); ok {
				next = c.Target
			}
		}
		if len(out) > 0 || next == "" {
			break
		}
		name = next
	}
	return out
}

func addressOf(rr dns.RR) (netip.Addr, bool) {
	var ip []byte
	switch x := rr.(type) {
	case *dns.A:
		ip = x.A
	case *dns.AAAA:
		ip = x.AAAA
	}
	a, ok := netip.AddrFromSlice(ip)
	if _, v6 := rr.(*dns.AAAA); v6 {
		return a, ok // ::ffff:192.0.2.1 as AAAA is not 192.0.2.1
	}
	return a.Unmap(), ok
}

func within(a netip.Addr, nets []netip.Prefix) bool {
	for _, n := range nets {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

func anyMatches(re *regexp.Regexp, records []dns.RR) bool {
	for _, rr := range records {
		// The text of a record is header, tab, data; the data is what is judged.
		if re.MatchString(strings.TrimPrefix(rr.String(), rr.Header().String())) {
			return true
		}
	}
	return false
}

func nsidOf(m *dns.Msg) string {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if n, ok := o.(*dns.EDNS0_NSID); ok {
				return strings.ToLower(n.Nsid)
			}
		}
	}
	return ""
}

func showNSID(h string) string {
	b, err := hex.DecodeString(h)
	if err != nil {
		return clip(h, 80)
	}
	return clip(string(b), 80)
}

func rcodeName(n int) string {
	if s, ok := dns.RcodeToString[n]; ok {
		return s
	}
	return "rcode " + itoa(n)
}
