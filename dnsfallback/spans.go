package dnsfallback

import (
	"cmp"
	"math/bits"
	"net/netip"
	"slices"
)

// spans divide the addresses of one family into runs of one value each. The
// runs are as long as can be: two that touch never have the same value. So the
// widest block around an address that lies within its run is the true network
// of what follows from the value (RFC 7871 §7.2.1): joined where neighbours are
// alike, and split where a more specific row says otherwise.
//
// A million rows are at most two million runs, in two arrays.
type spans[A address[A]] struct {
	starts []A
	values []uint32 // 0: no row
	// signs are every block's first start, so that a search touches the nearest
	// memory first.
	signs []A
}

// block is how many runs stand behind one sign.
const block = 64

// address is one as a number.
type address[A any] interface {
	comparable
	less(A) bool
	prev() A
	next() A
	// common counts the leading bits that two have in common.
	common(A) int
	ones(after int) A // with all bits set after that many
}

// addr4 is an IPv4 address.
type addr4 uint32

func (a addr4) less(b addr4) bool  { return a < b }
func (a addr4) prev() addr4        { return a - 1 }
func (a addr4) next() addr4        { return a + 1 }
func (a addr4) common(b addr4) int { return bits.LeadingZeros32(uint32(a ^ b)) }
func (a addr4) ones(n int) addr4   { return a | addr4(uint64(1)<<(32-n)-1) }

// addr6 is an IPv6 address.
type addr6 struct{ hi, lo uint64 }

func (a addr6) less(b addr6) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }

func (a addr6) prev() addr6 {
	if a.lo == 0 {
		a.hi--
	}
	a.lo--
	return a
}

func (a addr6) next() addr6 {
	if a.lo++; a.lo == 0 {
		a.hi++
	}
	return a
}

func (a addr6) common(b addr6) int {
	if n := bits.LeadingZeros64(a.hi ^ b.hi); n < 64 {
		return n
	}
	return 64 + bits.LeadingZeros64(a.lo^b.lo)
}

func (a addr6) ones(n int) addr6 {
	if n < 64 {
		a.hi |= 1<<(64-n) - 1
		n = 64
	}
	if n < 128 {
		a.lo |= 1<<(128-n) - 1
	}
	return a
}

func number4(a netip.Addr) addr4 {
	b := a.As4()
	return addr4(b[0])<<24 | addr4(b[1])<<16 | addr4(b[2])<<8 | addr4(b[3])
}

func number6(a netip.Addr) addr6 {
	b := a.As16()
	var n addr6
	for i := range 8 {
		n.hi, n.lo = n.hi<<8|uint64(b[i]), n.lo<<8|uint64(b[8+i])
	}
	return n
}

// row is one line of a map: a network and its value.
type row[A address[A]] struct {
	first, last A
	length      uint8
	value       uint32
}

// divide makes spans of rows, of which the longest that holds an address wins.
// It sorts the rows. Of two with the same network the later one wins.
func divide[A address[A]](rows []row[A]) spans[A] {
	slices.SortStableFunc(rows, func(a, b row[A]) int {
		switch {
		case a.first.less(b.first):
			return -1
		case b.first.less(a.first):
			return 1
		}
		return cmp.Compare(a.length, b.length)
	})
	var zero A
	s := spans[A]{starts: make([]A, 0, len(rows)+1), values: make([]uint32, 0, len(rows)+1)}
	emit := func(start A, value uint32) {
		if n := len(s.starts); n > 0 && s.starts[n-1] == start {
			s.starts, s.values = s.starts[:n-1], s.values[:n-1] // nothing was before it
		}
		if n := len(s.values); n == 0 || s.values[n-1] != value {
			s.starts, s.values = append(s.starts, start), append(s.values, value)
		}
	}
	emit(zero, 0)
	var open []row[A] // rows around the present place, outermost first
	closeUntil := func(next A, all bool) {
		for len(open) > 0 {
			top := open[len(open)-1]
			if !all && !top.last.less(next) {
				return
			}
			open = open[:len(open)-1]
			if top.last == top.last.ones(0) {
				continue // the last address of all
			}
			under := uint32(0)
			if len(open) > 0 {
				under = open[len(open)-1].value
			}
			emit(top.last.next(), under)
		}
	}
	for _, r := range rows {
		closeUntil(r.first, false)
		emit(r.first, r.value)
		open = append(open, r)
	}
	closeUntil(zero, true)
	s.starts, s.values = slices.Clip(s.starts), slices.Clip(s.values)
	for i := 0; i < len(s.starts); i += block {
		s.signs = append(s.signs, s.starts[i])
	}
	return s
}

// find gives the run that holds a.
func (s *spans[A]) find(a A) int {
	at := last(s.signs, a) * block
	return at + last(s.starts[at:min(at+block, len(s.starts))], a)
}

// last is the last of sorted numbers that is not over a; the first never is.
func last[A address[A]](sorted []A, a A) int {
	low, n := 0, len(sorted)
	for n > 1 {
		half := n / 2
		if !a.less(sorted[low+half]) {
			low += half
		}
		n -= half
	}
	return low
}

// scope is the length of the widest block around a that lies within the runs
// from first to last.
func (s *spans[A]) scope(a A, first, last int) uint8 {
	n := 0
	if first > 0 {
		n = a.common(s.starts[first].prev()) + 1
	}
	if last+1 < len(s.starts) {
		n = max(n, a.common(s.starts[last+1])+1)
	}
	return uint8(n)
}
