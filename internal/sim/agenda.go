package sim

import "time"

// agenda is what will happen, in order of time, and of entry where times are
// equal. It is the only thing that makes time pass.
type agenda struct {
	heap []event
	seq  uint64
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

func (a *agenda) push(at time.Duration, do func()) {
	a.seq++
	a.heap = append(a.heap, event{at, a.seq, do})
	h := a.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (a *agenda) pop() (event, bool) {
	h := a.heap
	if len(h) == 0 {
		return event{}, false
	}
	top, n := h[0], len(h)-1
	h[0], h[n] = h[n], event{}
	h = h[:n]
	for i := 0; ; {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < n; k++ {
			if h[k].before(&h[least]) {
				least = k
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	a.heap = h
	return top, true
}

// clock is one host's monotonic clock: it starts at some real instant and runs a
// little fast or slow, by parts of a million.
type clock struct {
	zero time.Duration
	ppm  int64
}

// at is what the clock shows at a real instant.
func (c clock) at(real time.Duration) time.Duration {
	d := real - c.zero
	return d + d/1000*time.Duration(c.ppm)/1000
}

// when is a real instant, never more than a few microseconds late, at which the
// clock shows t or a little less.
func (c clock) when(t time.Duration) time.Duration {
	return c.zero + t - t/1000*time.Duration(c.ppm)/1000 + time.Microsecond
}
