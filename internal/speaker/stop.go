package speaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/steadycast/steadycast"
)

// closePatience bounds the last step: a router that does not read keeps nobody.
const closePatience = 3 * time.Second

// stopping is the way out, one step after the other:
//
//	drain     routes carry the drain marks                 StopDrain
//	withdraw  no route any more; packets still come        AfterWithdraw
//	close     our addresses removed, sessions closed with a text
//
// StopNow leaves out the waits. StopTimeout bounds the whole: when it is over,
// what is left is done without waiting.
type stopping struct {
	reason StopReason
	step   string
	timer  <-chan time.Time // when the next step is due
	done   chan error       // the last step is over
	cutoff time.Time
}

// next and over may be asked of a speaker that is not stopping.
func (s *stopping) next() <-chan time.Time {
	if s == nil {
		return nil
	}
	return s.timer
}

func (s *stopping) over() <-chan error {
	if s == nil {
		return nil
	}
	return s.done
}

// beginStop starts the way out, or hurries it.
func (e *engine) beginStop(reason StopReason) {
	due := make(chan time.Time)
	close(due)
	if s := e.stop; s != nil {
		if reason == StopNow && s.reason != StopNow {
			e.log.Warn("stopping at once", "was_in", s.step)
			s.reason = StopNow
			if s.timer != nil {
				s.timer = due
			}
		}
		return
	}
	e.log.Info("stopping", "reason", reason, "routes", len(e.given.Routes))
	e.stop = &stopping{reason: reason, step: "begin", timer: due, done: make(chan error, 1), cutoff: time.Now().Add(e.cfg.StopTimeout)}
	e.extend(e.cfg.StopTimeout + 5*time.Second)
	e.answer(ErrStopping)
	e.notice("stop", "stopping")
}

// wait makes the next step due after d, within the bound of the whole.
func (s *stopping) wait(d time.Duration) {
	if s.reason == StopNow {
		d = 0
	}
	s.timer = time.After(max(0, min(d, time.Until(s.cutoff))))
}

func (e *engine) stepStop() {
	s := e.stop
	s.timer = nil
	routes := len(e.given.Routes)
	switch {
	case s.step == "begin" && s.reason == StopDrain && routes > 0:
		s.step = "drain"
		e.status("draining %d prefixes for %v", routes, e.cfg.StopDrain)
		if err := e.announce(withStance(e.given, steadycast.Draining, "the speaker stops")); err != nil {
			e.log.Error("routes cannot be drained", "err", err)
		}
		s.wait(e.cfg.StopDrain)
	case s.step != "withdraw" && routes > 0:
		s.step = "withdraw"
		e.status("withdrawn %d prefixes; addresses stay for %v", routes, e.cfg.AfterWithdraw)
		none := e.given
		none.Routes = []steadycast.Route{}
		if err := e.announce(none); err != nil {
			e.log.Error("routes cannot be withdrawn one by one; closing the sessions does it", "err", err)
			e.given = none
		}
		s.wait(e.cfg.AfterWithdraw)
	default:
		s.step = "close"
		e.status("removing addresses, closing sessions")
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		go func() { // may take long, and the owner's loop must go round
			defer cancel()
			var errs []error
			if err := e.kept.release(ctx, e.vips); err != nil {
				errs = append(errs, fmt.Errorf("release addresses: %w", err))
			}
			if err := e.out.Stop(ctx, "steadycast: stopped by its operator"); err != nil {
				errs = append(errs, fmt.Errorf("close sessions: %w", err))
			}
			s.done <- errors.Join(errs...)
		}()
	}
}
