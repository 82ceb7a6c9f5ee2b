package mesh

import (
	"cmp"
	"time"
)

// subjects bounds what one vantage may be heard about: more (subject, service)
// pairs than any fleet assigns to it.
const subjects = 8192

// seen drops what was heard before, by sequence number. It is pure: time is an
// argument. The zero value has seen nothing.
type seen struct {
	last map[string]map[about]mark // by node
}

// about is what an observation is about.
type about struct{ subject, service string }

func (a about) compare(b about) int {
	return cmp.Or(cmp.Compare(a.subject, b.subject), cmp.Compare(a.service, b.service))
}

// mark is the newest that was heard of one pair from one node.
type mark struct {
	inc, seq uint64
	at       time.Time
}

// sight is what an observation is to a reader.
type sight uint8

const (
	fresh  sight = iota // newer than all before
	repeat              // heard before, or older than what was
	tooMany
)

// take says what an observation is and, if it is fresh, remembers it. A node
// that restarts has a higher incarnation and counts from one again. A mark older
// than keep is forgotten, so that a node that lost its count of starts is heard
// again: what is replayed from before then is too old by its nonce.
func (s *seen) take(node string, a about, inc, seq uint64, now time.Time, keep time.Duration) sight {
	marks := s.last[node]
	old, ok := marks[a]
	if ok && now.Sub(old.at) <= keep && (inc < old.inc || inc == old.inc && seq <= old.seq) {
		return repeat
	}
	if !ok && len(marks) >= subjects {
		for k, m := range marks {
			if now.Sub(m.at) > keep {
				delete(marks, k)
			}
		}
		if len(marks) >= subjects {
			return tooMany
		}
	}
	if marks == nil {
		if s.last == nil {
			s.last = map[string]map[about]mark{}
		}
		marks = map[about]mark{}
		s.last[node] = marks
	}
	marks[a] = mark{inc, seq, now}
	return fresh
}

// forget drops the nodes of which nothing was heard for keep.
func (s *seen) forget(now time.Time, keep time.Duration) {
	for node, marks := range s.last {
		live := false
		for _, m := range marks {
			live = live || now.Sub(m.at) <= keep
		}
		if !live {
			delete(s.last, node)
		}
	}
}
