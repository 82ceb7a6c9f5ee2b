package dnsfallback

import (
	"encoding/binary"
	"net/netip"

	"github.com/dchest/siphash"
)

// limiter bounds how many like answers go to one network, so that a forged
// source cannot be flooded by us (response rate limiting). Like answers are the
// same prepared one: all names below one wildcard, all absences in one zone.
//
// Each worker has its own, so that there is no lock. Buckets are found by hash,
// and one that is wanted for another key is taken over: memory is fixed, and an
// attacker who fills it lifts the limit for others, never lowers it.
type limiter struct {
	rate, burst uint32 // answers a second, and at once
	slip        uint32
	seed        [2]uint64
	buckets     []bucket
}

type bucket struct {
	tag    uint32
	tokens uint32 // in thousandths of an answer
	at     uint32 // milliseconds
	over   uint32 // refused since it was last empty
}

// verdict of the limiter.
type verdict uint8

const (
	pass verdict = iota
	drop
	slip // an empty answer with TC: a real client asks again over TCP
)

const limiterBuckets = 1 << 14

func newLimiter(rate, slip uint32, seed [2]uint64) *limiter {
	l := &limiter{rate: rate, burst: rate, slip: slip, seed: seed}
	if rate > 0 {
		l.buckets = make([]bucket, limiterBuckets)
	}
	return l
}

// check takes one answer to addr from its bucket. now is in milliseconds, and may wrap.
func (l *limiter) check(addr netip.Addr, answer uint32, now uint32) verdict {
	if l.rate == 0 {
		return pass
	}
	var in [12]byte
	if addr.Is4() {
		a := addr.As4()
		copy(in[:], a[:3]) // /24
	} else {
		a := addr.As16()
		copy(in[:], a[:7]) // /56
		in[7] = 6
	}
	binary.LittleEndian.PutUint32(in[8:], answer)
	h := siphash.Hash(l.seed[0], l.seed[1], in[:])
	b := &l.buckets[h%limiterBuckets]
	full := l.burst * 1000
	if tag := uint32(h>>32) | 1; b.tag != tag {
		*b = bucket{tag: tag, tokens: full, at: now}
	}
	if gone := now - b.at; gone > 0 {
		b.at = now
		b.tokens = uint32(min(uint64(full), uint64(b.tokens)+uint64(gone)*uint64(l.rate)))
	}
	if b.tokens >= 1000 {
		b.tokens -= 1000
		b.over = 0
		return pass
	}
	b.over++
	if l.slip > 0 && b.over%l.slip == 0 {
		return slip
	}
	return drop
}
