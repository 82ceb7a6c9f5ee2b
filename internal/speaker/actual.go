package speaker

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/steadycast/steadycast"
)

// alarm sets what is wrong of one subject, or clears it with "".
func (e *engine) alarm(subject, text string) { e.raise(slog.LevelWarn, subject, text) }

// notice is an alarm that is no news: every start and every stop has it.
func (e *engine) notice(subject, text string) { e.raise(slog.LevelInfo, subject, text) }

func (e *engine) raise(level slog.Level, subject, text string) {
	if e.alarms[subject] == text {
		return
	}
	if text == "" {
		e.log.Info("alarm over", "subject", subject, "was", e.alarms[subject])
		delete(e.alarms, subject)
	} else {
		e.log.Log(context.Background(), level, "alarm", "subject", subject, "text", text)
		e.alarms[subject] = text
	}
	e.wake()
}

// publish reads back what is, and tells the subscribers.
func (e *engine) publish() {
	a := e.out.Actual()
	maps.DeleteFunc(e.numbers, func(n uint64, _ mark) bool { return n < a.Version })
	a.Started = e.starts.Total
	done := e.numbers[a.Version]
	a.Incarnation, a.Version = done.Incarnation, done.Version
	a.VIPs = e.vips.Actual()
	e.remark(a)
	var wrong []string
	if a.Alarm != "" { // of the sessions
		wrong = append(wrong, a.Alarm)
	}
	for _, subject := range slices.Sorted(maps.Keys(e.alarms)) {
		wrong = append(wrong, e.alarms[subject])
	}
	a.Alarm = strings.Join(wrong, "; ")
	e.actual.Store(&a)
	e.subs.tell()

	up, announced := 0, len(e.given.Routes)
	for _, p := range a.Peers {
		if p.Up() {
			up++
		}
	}
	if e.stop == nil {
		e.sayStatus(up, len(a.Peers), announced, a.Alarm)
	}
}

// remark has the path kept by which the routes go, once it is another.
func (e *engine) remark(a steadycast.Actual) {
	if len(e.given.Routes) == 0 || e.path != nil && *e.path == a.Path || e.path == nil && a.Path == "" {
		return
	}
	e.path, e.unsaved = new(a.Path), true
	e.keep()
}

type statusLine struct {
	up, peers, routes int
	alarm             string
}

func (e *engine) sayStatus(up, peers, routes int, alarm string) {
	now := statusLine{up, peers, routes, alarm}
	if now == e.said {
		return
	}
	e.said = now
	if alarm != "" {
		alarm = "; ALARM: " + alarm
	}
	e.status("%d of %d sessions up, %d prefixes announced%s", up, peers, routes, alarm)
}

// subscribers are told that Actual changed; each looks when it has time.
type subscribers struct {
	mu  sync.Mutex
	all map[chan struct{}]bool
}

func (s *subscribers) add() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[chan struct{}]bool{}
	}
	c := make(chan struct{}, 1)
	c <- struct{}{} // the first look is at once
	s.all[c] = true
	return c
}

func (s *subscribers) remove(c chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c)
}

func (s *subscribers) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		select {
		case c <- struct{}{}:
		default: // it will look anyway
		}
	}
}
