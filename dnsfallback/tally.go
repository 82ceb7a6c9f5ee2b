package dnsfallback

import (
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// tally counts what a server did. Its counters only grow.
type tally struct {
	answers                          answerTally   // to what is in no zone
	located, scoped                  atomic.Uint64 // with a usable client subnet, and answered for it alone
	dropped                          atomic.Uint64 // deserved no answer
	limited, slipped                 atomic.Uint64 // by the limiter
	cookieNew, cookieGood, cookieBad atomic.Uint64
	accepted, turnedAway, timedOut   atomic.Uint64 // connections
	unsent                           atomic.Uint64 // that the kernel did not take
	udp, tcp                         latencyTally
}

// latencyTally counts questions by how long they took, by latencyBounds; busy is the
// sum in nanoseconds.
type latencyTally struct {
	count [len(latencyBounds) + 1]atomic.Uint64
	busy  atomic.Uint64
}

// The types and rcodes that are counted by themselves; the last is for the rest.
var (
	typesCounted  = [...]uint16{dns.TypeA, dns.TypeAAAA, dns.TypeNS, dns.TypeSOA, dns.TypeCNAME, dns.TypeMX, dns.TypeTXT, dns.TypeSRV, dns.TypeHTTPS, dns.TypeANY}
	rcodesCounted = [...]uint16{dns.RcodeSuccess, dns.RcodeFormatError, dns.RcodeNameError, dns.RcodeNotImplemented, dns.RcodeRefused, dns.RcodeBadVers, dns.RcodeBadCookie}
)

const (
	countedTypes  = len(typesCounted) + 1
	countedRcodes = len(rcodesCounted) + 1
)

// latencyBounds are the upper ones of the buckets.
var latencyBounds = [...]time.Duration{
	10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond,
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 10 * time.Millisecond, 100 * time.Millisecond,
}

// took counts n questions that were answered together.
func (t *latencyTally) took(d time.Duration, n int) {
	i := 0
	for i < len(latencyBounds) && d > latencyBounds[i] {
		i++
	}
	t.count[i].Add(uint64(n))
	t.busy.Add(uint64(d) * uint64(n))
}

// Latency is how long questions took, from when they were read to when the
// kernel had the answer. Counts has one more bucket than Bounds, for what took longer.
type Latency struct {
	Bounds []time.Duration
	Counts []uint64
	Sum    time.Duration
}

// answerTally counts answers by transport, type and rcode.
type answerTally [2][countedTypes][countedRcodes]atomic.Uint64

func (t *answerTally) add(typ, rcode uint16, stream bool) {
	over, i, k := 0, 0, 0
	if stream {
		over = 1
	}
	for i < len(typesCounted) && typesCounted[i] != typ {
		i++
	}
	for k < len(rcodesCounted) && rcodesCounted[k] != rcode {
		k++
	}
	t[over][i][k].Add(1)
}

// Answered is one kind of answer and how often it was given.
type Answered struct {
	Zone        string // without its last dot; empty for what is in none
	Transport   string // udp, tcp
	Type, Rcode string // "other" for those that are not counted by themselves
	Count       uint64
}

// Counters are what a server has done since it began.
type Counters struct {
	Answers []Answered // those that were given at all
	// Dropped deserved no answer; Limited were held back by the limiter, and
	// Slipped answered empty with TC instead.
	Dropped, Limited, Slipped uint64
	// Located came with a usable client subnet; Scoped of them were answered for that network alone.
	Located, Scoped uint64
	// UDP and TCP are how long questions took that came over them.
	UDP, TCP Latency
	// Cookies that came without a server part, with one of ours, and with another.
	CookieNew, CookieGood, CookieBad uint64
	// Connections taken, turned away for their number, and closed for their slowness.
	Accepted, TurnedAway, TimedOut uint64
	// Unsent are answers that the kernel did not take.
	Unsent uint64
}

func (t *tally) read() Counters {
	c := Counters{
		Answers: t.answers.read(nil, ""), Located: t.located.Load(), Scoped: t.scoped.Load(),
		Dropped: t.dropped.Load(), Limited: t.limited.Load(), Slipped: t.slipped.Load(),
		CookieNew: t.cookieNew.Load(), CookieGood: t.cookieGood.Load(), CookieBad: t.cookieBad.Load(),
		Accepted: t.accepted.Load(), TurnedAway: t.turnedAway.Load(), TimedOut: t.timedOut.Load(), Unsent: t.unsent.Load(),
	}
	c.UDP, c.TCP = t.udp.read(), t.tcp.read()
	return c
}

func (t *latencyTally) read() Latency {
	l := Latency{Bounds: latencyBounds[:], Sum: time.Duration(t.busy.Load())}
	for i := range t.count {
		l.Counts = append(l.Counts, t.count[i].Load())
	}
	return l
}

// read appends what was counted at all.
func (t *answerTally) read(out []Answered, zone string) []Answered {
	for over, transport := range []string{"udp", "tcp"} {
		for i := range countedTypes {
			for k := range countedRcodes {
				n := t[over][i][k].Load()
				if n == 0 {
					continue
				}
				typ, rcode := "other", "other"
				if i < len(typesCounted) {
					typ = typeName(typesCounted[i])
				}
				if k < len(rcodesCounted) {
					rcode = dns.RcodeToString[int(rcodesCounted[k])]
				}
				out = append(out, Answered{zone, transport, typ, rcode, n})
			}
		}
	}
	return out
}
