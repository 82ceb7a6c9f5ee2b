package bench

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sample is what the trials of one figure took.
type sample []time.Duration

// quantile is the nearest rank: the least value that q of all do not exceed.
func (s sample) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	in := slices.Sorted(slices.Values(s))
	return in[max(0, min(len(in)-1, int(q*float64(len(in))+0.999999)-1))]
}

// median of an even number is the mean of the two in the middle.
func (s sample) median() time.Duration {
	if len(s) == 0 {
		return 0
	}
	in := slices.Sorted(slices.Values(s))
	return (in[(len(in)-1)/2] + in[len(in)/2]) / 2
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// report prints the median and the ninth tenth of s.
func (s sample) report(b *testing.B, what string) {
	b.Helper()
	if len(s) == 0 {
		b.Fatalf("%s: no trial", what)
	}
	b.ReportMetric(ms(s.median()), "ms/"+what)
	b.ReportMetric(ms(s.quantile(0.9)), "ms-p90/"+what)
}

// ratio prints how many times theirs ours is, by medians.
func ratio(b *testing.B, ours, theirs sample, what string) {
	b.Helper()
	b.ReportMetric(float64(ours.median())/float64(theirs.median()), "x/"+what)
}

// done ends the report of a benchmark: one operation is all its trials, so
// its time and allocations say nothing.
func done(b *testing.B) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(load(), "load")
}

// load is the machine's load of one minute; 0 if it cannot be read.
func load() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	x, _ := strconv.ParseFloat(first, 64)
	return x
}

func TestSample(t *testing.T) {
	for _, c := range []struct {
		in          sample
		median, p90 time.Duration
	}{
		{nil, 0, 0},
		{sample{7}, 7, 7},
		{sample{9, 1}, 5, 9},
		{sample{3, 1, 2}, 2, 3},
		{sample{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5, 9},
		{sample{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 6, 10},
	} {
		before := slices.Clone(c.in)
		if m, p := c.in.median(), c.in.quantile(0.9); m != c.median || p != c.p90 {
			t.Errorf("%v: median %d, p90 %d; want %d, %d", c.in, m, p, c.median, c.p90)
		}
		if slices.CompareFunc(before, c.in, cmp.Compare) != 0 {
			t.Errorf("%v was reordered to %v", before, c.in)
		}
	}
}
