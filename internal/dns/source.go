package dns

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/ledger"
)

// Source is where the committed state comes from: a [ledger.Client], or the
// agent of a node that has a ledger of its own.
type Source interface {
	// View is the newest that was heard; one at position zero says nothing.
	View() decide.View
	// Watch has a signal whenever View has changed.
	Watch() (changed <-chan struct{}, cancel func())
	// Lost is a [*ledger.LostError] while nothing was heard for long.
	Lost() error
	// Revision gives the content of a table that is remembered.
	Revision(ctx context.Context, revision uint64) (decide.Table, error)
	Close() error
}

const (
	// askEvery is how often an agent is asked for what is new.
	askEvery = 200 * time.Millisecond
	// lostAfter is how long it may say nothing before it counts as lost.
	lostAfter = 15 * time.Second
)

// follower is the Source of a node whose ledger is in its agent. Its goroutine
// asks, and alone replaces the view.
type follower struct {
	client *api.Client
	view   atomic.Pointer[decide.View]
	began  time.Time
	heard  atomic.Int64 // since began
	why    atomic.Pointer[error]
	moved  chan struct{}
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// FollowAgent follows the agent behind a socket.
func FollowAgent(socket string) Source {
	f := &follower{client: api.NewClient(socket), began: time.Now(), moved: make(chan struct{}, 1)}
	f.view.Store(&decide.View{})
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	f.done.Go(func() { f.run(ctx) })
	return f
}

func (f *follower) run(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		if err := f.ask(ctx); err != nil {
			f.why.Store(&err)
		} else {
			f.heard.Store(int64(time.Since(f.began)))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (f *follower) ask(ctx context.Context) error {
	var got api.Committed
	if err := f.client.Get(ctx, "view", url.Values{"after": {f.View().Fence.String()}}, &got); err != nil {
		return err
	}
	if got.Lost != "" {
		return errors.New(got.Lost)
	}
	if got.View != nil {
		f.view.Store(got.View)
		select {
		case f.moved <- struct{}{}:
		default:
		}
	}
	return nil
}

func (f *follower) View() decide.View { return *f.view.Load() }

func (f *follower) Watch() (<-chan struct{}, func()) { return f.moved, func() {} }

func (f *follower) Lost() error {
	silent := time.Since(f.began) - time.Duration(f.heard.Load())
	if silent <= lostAfter {
		return nil
	}
	e := &ledger.LostError{For: silent}
	if why := f.why.Load(); why != nil {
		e.Last = *why
	}
	return e
}

func (f *follower) Revision(context.Context, uint64) (decide.Table, error) {
	return decide.Table{}, fmt.Errorf("a node with a ledger of its own has only the zones of its file")
}

func (f *follower) Close() error {
	f.cancel()
	f.done.Wait()
	f.client.Close()
	return nil
}
