package dnsfallback

import (
	"sync/atomic"

	"github.com/miekg/dns"
)

// tally counts what a server did. Its counters only grow.
type tally struct {
	answers                          [2][countedTypes][countedRcodes]atomic.Uint64
	dropped                          atomic.Uint64 // deserved no answer
	limited, slipped                 atomic.Uint64 // by the limiter
	cookieNew, cookieGood, cookieBad atomic.Uint64
	accepted, turnedAway, timedOut   atomic.Uint64 // connections
	unsent                           atomic.Uint64 // that the kernel did not take
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

func (t *tally) answer(typ, rcode uint16, stream bool) {
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
	t.answers[over][i][k].Add(1)
}

// Answered is one kind of answer and how often it was given.
type Answered struct {
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
	// Cookies that came without a server part, with one of ours, and with another.
	CookieNew, CookieGood, CookieBad uint64
	// Connections taken, turned away for their number, and closed for their slowness.
	Accepted, TurnedAway, TimedOut uint64
	// Unsent are answers that the kernel did not take.
	Unsent uint64
}

func (t *tally) read() Counters {
	c := Counters{
		Dropped: t.dropped.Load(), Limited: t.limited.Load(), Slipped: t.slipped.Load(),
		CookieNew: t.cookieNew.Load(), CookieGood: t.cookieGood.Load(), CookieBad: t.cookieBad.Load(),
		Accepted: t.accepted.Load(), TurnedAway: t.turnedAway.Load(), TimedOut: t.timedOut.Load(), Unsent: t.unsent.Load(),
	}
	for over, transport := range []string{"udp", "tcp"} {
		for i := range countedTypes {
			for k := range countedRcodes {
				n := t.answers[over][i][k].Load()
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
				c.Answers = append(c.Answers, Answered{transport, typ, rcode, n})
			}
		}
	}
	return c
}
