package mesh

import (
	"slices"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
)

// desk is where a vantage writes: the readers' nonces, and the newest of what it
// published. Any goroutine may use it; mu guards the fields below it.
type desk struct {
	inc uint64

	mu    sync.Mutex
	every time.Duration
	// echoes are the nonces of each reader, by whom they came from: "" is the
	// reader itself, else a voter. They are kept apart, so that a voter that lies
	// about them spoils nothing but its own.
	echoes map[string]map[string]*echo
	newest map[about]*line
	next   time.Time // of the digest
}

// line is the newest observation of one subject's service.
type line struct {
	o     steadycast.Observation
	began time.Time
	// told: the voters have it.
	told bool
}

func newDesk(inc uint64, every time.Duration) *desk {
	return &desk{inc: inc, every: every, echoes: map[string]map[string]*echo{}, newest: map[about]*line{}}
}

// hear records a reader's nonce that came from the reader itself (via "") or
// from a voter.
func (d *desk) hear(reader, via string, nonce uint64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.echoes[reader] == nil {
		d.echoes[reader] = map[string]*echo{}
	}
	e := d.echoes[reader][via]
	if e == nil {
		e = &echo{}
		d.echoes[reader][via] = e
	}
	e.hear(nonce, now)
}

// nonce is the newest that a reader itself sent.
func (d *desk) nonce(reader string, t time.Time) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.echoes[reader][""]; e != nil {
		return e.at(t)
	}
	return 0
}

// forget drops the nonces of all but these readers.
func (d *desk) forget(readers []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.echoes {
		if !slices.Contains(readers, name) {
			delete(d.echoes, name)
		}
	}
}

// write files an observation whose round began at began, and reports whether it
// differs from the one before in what the voters must know at once.
func (d *desk) write(o steadycast.Observation, began time.Time) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := about{o.Subject, o.Service}
	was := d.newest[a]
	changed = was == nil || was.o.Result.Outcome != o.Result.Outcome || was.o.Result.Class != o.Result.Class
	o.Result.Why = nil
	d.newest[a] = &line{o, began, changed}
	return changed
}

// echo is what an observation begun at t says to each of the readers.
func (d *desk) echo(readers []string, t time.Time) map[string][]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.echoLocked(readers, t)
}

func (d *desk) echoLocked(readers []string, t time.Time) map[string][]uint64 {
	out := make(map[string][]uint64, len(readers))
	for _, r := range readers {
		for _, e := range d.echoes[r] {
			if n := e.at(t); n != 0 && !slices.Contains(out[r], n) {
				out[r] = append(out[r], n)
			}
		}
		slices.Sort(out[r])
	}
	return out
}

// pace sets how often a digest is due.
func (d *desk) pace(every time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if every != d.every {
		d.every, d.next = every, time.Time{}
	}
}

// due says that a digest is, and sets the time of the next.
func (d *desk) due(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Before(d.next) {
		return false
	}
	d.next = now.Add(d.every)
	return true
}

// untold are the lines that the voters do not have yet, each with its echo for
// them; afterwards they have. What is older than any nonce is dropped.
func (d *desk) untold(voters []string, now time.Time) []said {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []said
	for a, l := range d.newest {
		if now.Sub(l.began) > keep {
			delete(d.newest, a)
			continue
		}
		if l.told {
			continue
		}
		l.told = true
		x := said{l.o, d.echoLocked(voters, l.began)}
		if len(x.Echo) > 0 {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(x, y said) int {
		return about{x.Observation.Subject, x.Observation.Service}.compare(about{y.Observation.Subject, y.Observation.Service})
	})
	return out
}
