package api

import "time"

// Bounds are the upper bounds of a histogram's buckets, fit for both a probe
// and a whole decision.
var Bounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond,
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
}

// Histogram counts durations. It is a plain value: a copy is a snapshot of it.
type Histogram struct {
	// Counts per bucket of Bounds; the last one is what exceeds all of them.
	Counts [len(Bounds) + 1]uint64 `json:"counts"`
	Sum    time.Duration           `json:"sum_ns"`
}

// Observe adds one duration; a negative one counts as zero.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(Bounds) && d > Bounds[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += d
}

// Count is the number of durations observed.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Add joins what another histogram counted.
func (h *Histogram) Add(o Histogram) {
	for i, n := range o.Counts {
		h.Counts[i] += n
	}
	h.Sum += o.Sum
}
