package voter

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/pki"
	"github.com/steadycast/steadycast/internal/role"
)

// roomEvery is how often a voter that found no room on its disk looks again.
const roomEvery = 10 * time.Second

// Options are what a voter's process is made of.
type Options struct {
	Voter ledger.VoterOptions
	// Socket is the unix socket for the person on this host.
	Socket string
	// Mesh is the address and port where nodes tell this voter what they see; "" is
	// nowhere. Credentials are this node's, for it.
	Mesh        string
	Credentials *pki.Credentials
	Logger      *slog.Logger
}

// Run keeps a voter until the process is told to stop. A leader hands over
// first.
func Run(ctx context.Context, p *role.Process, o Options) error {
	// A voter copies a state of some megabytes with each entry, which are few: less
	// of the heap for a little time.
	debug.SetGCPercent(25)
	o.Voter.Log, o.Voter.Alive = o.Logger, p.Alive
	e, err := newEar(&o)
	if err != nil {
		return err
	}
	if e != nil {
		defer e.ln.Close()
	}
	v, err := open(ctx, p, o)
	if v == nil {
		return err
	}
	socket, err := role.Listen(o.Socket, 0o600, "")
	if err != nil {
		return errors.Join(err, v.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	var deaf chan error
	if e != nil {
		deaf = make(chan error, 1)
		helpers.Go(func() { deaf <- e.run(ctx, v) })
	}
	helpers.Go(func() { serveAdmin(ctx, socket, v, o.Logger) })
	helpers.Go(func() { report(ctx, p, v) })
	p.OnDump(func() { o.Logger.Info("state", "voter", v.State()) })
	p.Ready(statusOf(v.State()))
	select {
	case <-p.Stopping():
		err = nil
	case <-ctx.Done():
		err = nil
	case err = <-deaf: // another voter hears better
	}
	cancel()
	helpers.Wait()
	return errors.Join(err, v.Close())
}

// open waits for room. A voter that starts on a full disk would be elected and
// fail, again and again. nil without an error means that it was told to stop.
func open(ctx context.Context, p *role.Process, o Options) (*ledger.Voter, error) {
	said := false
	for {
		v, err := ledger.OpenVoter(o.Voter)
		if !errors.Is(err, ledger.ErrNoRoom) {
			return v, err
		}
		p.Alive()
		p.Status("%v", err)
		if !said {
			o.Logger.Error("this voter waits; the others go on without it", "why", err)
			said = true
		}
		wait := time.NewTimer(min(roomEvery, p.Beat()))
		select {
		case <-wait.C:
		case <-p.Stopping():
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// report keeps the one line of truth for the service manager.
func report(ctx context.Context, p *role.Process, v *ledger.Voter) {
	t := time.NewTicker(5 * time.Second)
	defer t.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if now := statusOf(v.State()); now != last {
			p.Status("%s", now)
			last = now
		}
	}
}

func statusOf(s ledger.State) string {
	switch {
	case s.Empty:
		return "holds nothing: waits for `steadycast ledger init`, here or on another voter, or to be taken in by join"
	case s.Role == "leader":
		return "leads, at " + s.Fence.String()
	case s.Leader.Node == "":
		return "knows no leader: nothing is decided until enough voters hear each other"
	}
	return "follows " + s.Leader.Node
}
