package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// resend says whether a call whose fate is not known may be sent again.
type resend bool

const (
	// again: recorded twice it means the same.
	again resend = true
	// once: a person is asked to look instead of the entry being made twice.
	once resend = false
)

// callPause is the pause after a round over all voters, and its longest.
const (
	callPause     = 50 * time.Millisecond
	callPauseMost = 500 * time.Millisecond
)

// call asks one voter after the other, the leader first, until one answers or
// the context ends.
func (c *Client) call(ctx context.Context, how resend, path string, in, out any) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	at, pause := int(c.lead.Load()), callPause
	for tried := 1; ; tried++ {
		err := c.tryOne(ctx, at, path, in, out)
		if err == nil {
			return nil
		}
		not, misdirected := errors.AsType[*NotLeader](err)
		_, notSent := errors.AsType[*unsent](err)
		switch {
		case c.ctx.Err() != nil:
			return ErrClosed
		case isAnswer(err):
			return err
		case how == once && !misdirected && !notSent:
			return fmt.Errorf("%w (%w)", errUnsure, err)
		}
		next := (at + 1) % len(c.links)
		if misdirected {
			if i := c.index(not.Leader.Node); i >= 0 && i != at && tried == 1 {
				next = i
			}
		}
		at = next
		if tried%len(c.links) == 0 {
			wait := time.NewTimer(pause/2 + rand.N(pause))
			pause = min(2*pause, callPauseMost)
			select {
			case <-ctx.Done():
			case <-wait.C:
			}
			wait.Stop()
		}
		if ctx.Err() != nil {
			return c.unanswered(ctx.Err(), err)
		}
	}
}

// tryOne asks one voter.
func (c *Client) tryOne(ctx context.Context, at int, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	err := c.links[at].call(ctx, path, nil, in, out)
	if err == nil || isAnswer(err) {
		c.hear()
		c.lead.Store(int32(at))
	} else { // the next call begins elsewhere
		c.lead.CompareAndSwap(int32(at), int32((at+1)%len(c.links)))
	}
	return err
}

// isAnswer: the error is what the ledger has to say, so nobody else need be asked.
func isAnswer(err error) bool {
	_, invalid := errors.AsType[Invalid](err)
	_, forbidden := errors.AsType[Forbidden](err)
	return invalid || forbidden
}

func (c *Client) index(node string) int {
	return slices.IndexFunc(c.links, func(l *link) bool { return l.peer.Node == node })
}

// unanswered is the error of a call that nobody answered in its time.
func (c *Client) unanswered(end, last error) error {
	if silent := c.silent(); silent > lostAfterSilence {
		return &LostError{silent, last}
	}
	return fmt.Errorf("no voter of the ledger answered in time (%w): %w", end, last)
}
