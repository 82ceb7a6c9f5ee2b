package mesh

import "time"

// remembered is how many nonces a reader and a vantage remember; at one a second
// also the greatest age, in seconds, that can be told.
const remembered = 64

// Book is a reader's record of the nonces that it issued. It is pure: time is an
// argument. The zero value is empty. Its owner is whoever calls it.
type Book struct {
	ring [remembered]issue
	next int
}

type issue struct {
	nonce uint64
	at    time.Time
}

// Issue records that nonce was issued at now. The caller draws it at random and
// never 0: a number that repeats after a restart would make old words new.
func (b *Book) Issue(nonce uint64, now time.Time) {
	b.ring[b.next%remembered] = issue{nonce, now}
	b.next++
}

// Forget drops all nonces: whatever echoes one of them is of unknown age.
func (b *Book) Forget() { *b = Book{} }

// Newest is the nonce issued last; 0 before the first.
func (b *Book) Newest() uint64 {
	if b.next == 0 {
		return 0
	}
	return b.ring[(b.next-1)%remembered].nonce
}

// Issued is when a nonce was issued. One that never was, or that is forgotten,
// says nothing about age, and what carries it is not believed to be fresh.
func (b *Book) Issued(nonce uint64) (at time.Time, ok bool) {
	if nonce == 0 {
		return time.Time{}, false
	}
	for _, i := range b.ring {
		if i.nonce == nonce {
			return i.at, true
		}
	}
	return time.Time{}, false
}

// echo is a vantage's record of one reader's nonces, with when each arrived
// here. It is pure.
type echo struct {
	ring [remembered]issue
	next int
}

// hear records a nonce. One that came by another way before keeps its place.
func (e *echo) hear(nonce uint64, now time.Time) {
	if nonce == 0 {
		return
	}
	for _, i := range e.ring {
		if i.nonce == nonce {
			return
		}
	}
	e.ring[e.next%remembered] = issue{nonce, now}
	e.next++
}

// at is the newest nonce that had arrived at t: what an observation begun at t
// may claim. 0 if there is none, or if it is forgotten.
func (e *echo) at(t time.Time) uint64 {
	var best issue
	for _, i := range e.ring {
		if i.nonce != 0 && !i.at.After(t) && (best.nonce == 0 || i.at.After(best.at)) {
			best = i
		}
	}
	return best.nonce
}
