package probe

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/steadycast/steadycast"
)

// dnsProbe asks each of its names over each of its protocols, all at once, and
// is done as soon as enough have come out right, or too many wrong.
type dnsProbe struct {
	dialer
	target    string
	set       DNS
	judge     dnsJudge
	udp, tcp  bool
	questions []question
}

const (
	maxNames   = 16
	ednsSize   = 1232 // the largest that is never fragmented
	randomMark = "{random}"
	randomLen  = 12
)

func (d *DNS) withDefaults() *DNS {
	if d.Type == "" {
		d.Type = "A"
	}
	if d.Protocol == "" {
		d.Protocol = "udp"
	}
	if d.Rcode == "" {
		d.Rcode = "NOERROR"
	}
	if d.Need == 0 {
		d.Need = len(d.Names)
	}
	if d.MinAnswers == nil {
		d.MinAnswers = new(int)
		if strings.EqualFold(d.Rcode, "NOERROR") {
			*d.MinAnswers = 1
		}
	}
	if d.Recursion == nil {
		d.Recursion = new(true)
	}
	return d
}

func dnsProblems(c Check) []Problem {
	d := c.DNS
	ps := hostPortProblems(c)
	add := func(path, format string, args ...any) { ps = append(ps, problem(path, format, args...)) }
	if n := len(d.Names); n == 0 {
		add("dns.names", "empty; give at least one name to ask for")
	} else if n > maxNames {
		add("dns.names", "%d of them; at most %d", n, maxNames)
	}
	for i, name := range d.Names {
		full := strings.ReplaceAll(name, randomMark, strings.Repeat("x", randomLen))
		if strings.ContainsAny(full, "{} \t") {
			add("dns.names["+itoa(i)+"]", "%q: the only thing in braces can be {random}", name)
		} else if full != name && strings.Contains(name, `\`) {
			add("dns.names["+itoa(i)+"]", "%q: {random} and escapes do not go together", name)
		} else if _, ok := dns.IsDomainName(full); !ok || full == "" {
			add("dns.names["+itoa(i)+"]", "%q is not a domain name", name)
		}
	}
	if d.Need < 0 || d.Need > len(d.Names) {
		add("dns.need", "%d of %d names can never be right; 1 to %d", d.Need, len(d.Names), len(d.Names))
	}
	if t, ok := dns.StringToType[strings.ToUpper(d.Type)]; !ok {
		add("dns.type", "%q is not a type of record%s", d.Type, didYouMean(d.Type, sortedKeys(dns.StringToType)))
	} else if slices.Contains([]uint16{dns.TypeAXFR, dns.TypeIXFR, dns.TypeOPT, dns.TypeTSIG, dns.TypeNone}, t) {
		add("dns.type", "%s cannot be asked for by a probe", d.Type)
	}
	if !slices.Contains([]string{"udp", "tcp", "both"}, d.Protocol) {
		add("dns.protocol", "%q is not a protocol; udp, tcp or both", d.Protocol)
	}
	if _, ok := dns.StringToRcode[strings.ToUpper(d.Rcode)]; !ok {
		add("dns.rcode", "%q is not a response code%s", d.Rcode, didYouMean(d.Rcode, sortedKeys(dns.StringToRcode)))
	}
	for i, p := range d.Answers {
		if !p.IsValid() {
			add("dns.answers["+itoa(i)+"]", "not a prefix; write 192.0.2.0/24")
		}
	}
	if t := strings.ToUpper(d.Type); len(d.Answers) > 0 && t != "A" && t != "AAAA" && t != "ANY" {
		add("dns.answers", "records of type %s have no address; use match", d.Type)
	}
	ps = append(ps, regexpProblems("dns.match", d.Match)...)
	if *d.MinAnswers < 0 || *d.MinAnswers > 1000 {
		add("dns.min_answers", "%d is out of range; 0 to 1000", *d.MinAnswers)
	}
	for _, x := range []struct {
		path string
		d    time.Duration
	}{{"dns.min_ttl", d.MinTTL}, {"dns.max_ttl", d.MaxTTL}} {
		if x.d < 0 || x.d%time.Second != 0 || x.d > (1<<31-1)*time.Second {
			add(x.path, "%v is not a TTL; whole seconds up to 2147483647s (RFC 2181 §8)", x.d)
		}
	}
	if d.MaxTTL > 0 && d.MinTTL > d.MaxTTL {
		add("dns.min_ttl", "%v is over max_ttl, %v", d.MinTTL, d.MaxTTL)
	}
	if len(d.Identity) > 128 {
		add("dns.identity", "%d bytes; at most 128", len(d.Identity))
	}
	return append(ps, latencyProblems("dns.max_latency", d.MaxLatency, c.Timeout)...)
}

func compileDNS(c Check, env Env) (body, error) {
	d := *c.DNS
	p := &dnsProbe{dialer: newDialer(c, env), target: c.Target, set: d, judge: newDNSJudge(d)}
	p.judge.word = env.word
	p.udp = d.Protocol == "udp" || d.Protocol == "both"
	p.tcp = d.Protocol == "tcp" || d.Protocol == "both"
	for _, n := range d.Names {
		q, err := p.template(n)
		if err != nil {
			return nil, err
		}
		p.questions = append(p.questions, q)
	}
	return p, nil
}

// question is a query in wire form, to be copied and given an id and, where it
// has any, fresh random labels.
type question struct {
	name   string
	wire   []byte
	random []int // offsets of runs of randomLen letters
}

func (p *dnsProbe) template(name string) (question, error) {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(strings.ReplaceAll(name, randomMark, strings.Repeat("x", randomLen))), p.judge.qtype)
	m.Id = 0
	m.RecursionDesired = *p.set.Recursion
	m.CheckingDisabled = p.set.CheckingDisabled
	if p.set.Authenticated || p.set.Identity != "" {
		m.SetEdns0(ednsSize, p.set.Authenticated)
		if p.set.Identity != "" {
			opt := m.IsEdns0()
			opt.Option = append(opt.Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID})
		}
	}
	wire, err := m.Pack()
	if err != nil {
		return question{}, err
	}
	q := question{name: m.Question[0].Name, wire: wire}
	// A name without escapes lies in the wire as it is written, dots being the
	// lengths of labels, after the header and the first length (RFC 1035 §3.1).
	for at, rest := 13, name; ; {
		i := strings.Index(rest, randomMark)
		if i < 0 {
			return q, nil
		}
		q.random = append(q.random, at+i)
		at, rest = at+i+randomLen, rest[i+len(randomMark):]
	}
}

// fresh makes the query of one attempt, and the name that it asks for.
func (q question) fresh(id uint16) (wire []byte, name string) {
	wire = slices.Clone(q.wire)
	binary.BigEndian.PutUint16(wire, id)
	if len(q.random) == 0 {
		return wire, q.name
	}
	for _, at := range q.random {
		for i := range randomLen {
			wire[at+i] = "abcdefghijklmnopqrstuvwxyz234567"[rand.N(32)]
		}
	}
	name, _, err := dns.UnpackDomainName(wire, 12)
	if err != nil {
		return wire, q.name
	}
	return wire, name
}

func (p *dnsProbe) probe(ctx context.Context) steadycast.Result {
	began := time.Now()
	if !p.tcp {
		return p.latency(p.over(ctx, p.overUDP), began)
	}
	if !p.udp {
		return p.latency(p.over(ctx, p.overTCP), began)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what is not needed any more stops
	results := make(chan steadycast.Result, 2)
	go func() { results <- prefix("udp: ", p.over(ctx, p.overUDP)) }()
	go func() { results <- prefix("tcp: ", p.over(ctx, p.overTCP)) }()
	both := newTally(2, 2)
	for !both.decided() {
		both.add(<-results)
	}
	return p.latency(both.result(), began)
}

// over asks all names over one protocol.
func (p *dnsProbe) over(ctx context.Context, ask func(context.Context, *tally)) steadycast.Result {
	t := newTally(p.set.Need, len(p.questions))
	ask(ctx, t)
	return t.result()
}

func prefix(s string, r steadycast.Result) steadycast.Result {
	if r.Outcome != steadycast.Up {
		r.Reason = s + r.Reason
	}
	return r
}

func (p *dnsProbe) latency(r steadycast.Result, began time.Time) steadycast.Result {
	if r.Outcome == steadycast.Up {
		if s, slow := tooSlow(time.Since(began), p.set.MaxLatency); slow {
			return s
		}
	}
	return r
}

// overUDP asks all names from one socket. The socket is connected, so that the
// kernel passes only what comes from the address and port that was asked
// (RFC 5452 §9.1), and tells of a closed port.
func (p *dnsProbe) overUDP(ctx context.Context, t *tally) {
	conn, err := p.dial(ctx, "udp", p.target)
	if err != nil {
		t.rest(failed(err, p.target, "connecting"))
		return
	}
	defer conn.Close()
	defer until(ctx, conn)()
	open := make([]asked, len(p.questions))
	first := uint16(rand.Uint32())
	for i, q := range p.questions {
		open[i].id = first + uint16(i)
		open[i].wire, open[i].name = q.fresh(open[i].id)
		if _, err := conn.Write(open[i].wire); err != nil {
			t.rest(failed(err, p.target, "sending"))
			return
		}
	}
	p.collect(ctx, conn, open, t)
}

// asked is one question that is out.
type asked struct {
	id   uint16
	name string
	wire []byte
	done bool
}

// collect reads until enough is known. What has no answer after a third of the
// time is asked once more, as every client does: one lost datagram is not a
// dead server.
func (p *dnsProbe) collect(ctx context.Context, conn net.Conn, open []asked, t *tally) {
	end, _ := ctx.Deadline()
	again := time.Now().Add(time.Until(end) / 3)
	setReadDeadline(ctx, conn, again)
	buf := make([]byte, 4096)
	strays := 0
	for !t.decided() {
		n, err := conn.Read(buf)
		if err != nil && isTimeout(err) && !again.IsZero() && ctx.Err() == nil {
			again = time.Time{}
			setReadDeadline(ctx, conn, end)
			for _, q := range open {
				if !q.done {
					conn.Write(q.wire) // an error shows in the next read
				}
			}
			continue
		}
		if err != nil {
			r := failed(err, p.target, "waiting for an answer")
			if strays > 0 {
				r.Reason += "; " + itoa(strays) + " replies came with a wrong id or question"
			}
			t.rest(r)
			return
		}
		stray := true
		for i := range open {
			q := &open[i]
			if q.done {
				continue
			}
			if r, ours := p.judge.reply(buf[:n], q.id, q.name, true); ours {
				q.done, stray = true, false
				t.add(r)
				break
			}
		}
		if stray {
			strays++
		}
	}
}

// overTCP asks each name on a connection of its own: a name that hangs must not
// hold up the others, and servers differ in what they make of several queries
// on one connection.
func (p *dnsProbe) overTCP(ctx context.Context, t *tally) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan steadycast.Result, len(p.questions))
	for _, q := range p.questions {
		go func() { results <- p.askTCP(ctx, q) }()
	}
	for !t.decided() {
		t.add(<-results)
	}
}

func (p *dnsProbe) askTCP(ctx context.Context, q question) steadycast.Result {
	conn, err := p.dial(ctx, "tcp", p.target)
	if err != nil {
		return failed(err, p.target, "connecting")
	}
	defer conn.Close()
	defer until(ctx, conn)()
	id := uint16(rand.Uint32())
	wire, name := q.fresh(id)
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)); err != nil { // RFC 1035 §4.2.2
		return failed(err, p.target, "sending")
	}
	raw, err := readTCPMessage(conn)
	if err != nil {
		return failed(err, p.target, "waiting for an answer")
	}
	r, ours := p.judge.reply(raw, id, name, false)
	if !ours {
		return soft("the reply over TCP is to another question, or has a wrong id")
	}
	return r
}

func readTCPMessage(conn net.Conn) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	raw := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, raw)
	return raw, err
}

func itoa(n int) string { return strconv.Itoa(n) }
