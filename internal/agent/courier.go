package agent

import (
	"context"
	"sync"
	"time"
)

// courierBound is how many errands may wait. One site has at most one request
// outstanding and resends it each second, so more than a few means that the
// ledger does not answer; then the oldest are dropped, and resent by their owner.
const courierBound = 64

// errandTimeout bounds one call to the ledger.
const errandTimeout = 2 * time.Second

// courier carries calls to the ledger in order, outside the owner's loop.
type courier struct {
	mu      sync.Mutex
	queue   []func(context.Context)
	dropped uint64
	wake    chan struct{}
}

func newCourier() *courier { return &courier{wake: make(chan struct{}, 1)} }

// send queues an errand. It never blocks; over the bound the oldest is dropped.
func (c *courier) send(errand func(context.Context)) {
	c.mu.Lock()
	if len(c.queue) == courierBound {
		c.queue = c.queue[1:]
		c.dropped++
	}
	c.queue = append(c.queue, errand)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// lost is how many errands were dropped.
func (c *courier) lost() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}

func (c *courier) run(ctx context.Context) {
	for {
		c.mu.Lock()
		var next func(context.Context)
		if len(c.queue) > 0 {
			next = c.queue[0]
			c.queue = c.queue[1:]
		}
		c.mu.Unlock()
		if next != nil {
			call, cancel := context.WithTimeout(ctx, errandTimeout)
			next(call)
			cancel()
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
	}
}
