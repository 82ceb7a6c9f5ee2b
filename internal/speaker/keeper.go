package speaker

import (
	"context"
	"net/netip"
	"sync"

	"github.com/steadycast/steadycast/internal/role"
)

// keeper does what may take long, one task after another and outside the
// owner's loop: the intent on disk, the addresses on the host. It holds one
// task; the owner gives the next only after the result of the last, and it is
// always the newest whole state, so nothing queues up behind a stalled disk.
type keeper struct {
	path, node string
	tasks      chan task
	done       chan result

	mu       sync.Mutex // over setting and releasing addresses
	released bool
}

type task struct {
	intent *intentBody    // nil: nothing to write
	host   addresses      // nil: nothing to set
	vips   []netip.Prefix // the whole wanted state
}

type result struct{ disk, vip error }

func (k *keeper) run() {
	for t := range k.tasks {
		k.done <- k.carryOut(t)
	}
}

func (k *keeper) carryOut(t task) (r result) {
	if t.intent != nil {
		var data []byte
		if data, r.disk = encodeIntent(k.node, *t.intent); r.disk == nil {
			r.disk = role.WriteFile(k.path, data, 0o640)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.host != nil && !k.released {
		r.vip = t.host.Set(t.vips)
	}
	return r
}

// release removes our addresses for good: a task that is still stuck on the
// disk cannot bring them back.
func (k *keeper) release(ctx context.Context, host addresses) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.released = true
	return host.Release(ctx)
}
