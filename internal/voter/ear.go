package voter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/mesh"
)

// ear is the voter's own end of the mesh. What nodes see comes to it first hand,
// so that who leads can hold a request against it, and knows by its own nonces
// how old the evidence of a request is; and it passes on between nodes that have
// no direct way to each other. The agent of the same node has another end: they
// are two processes.
type ear struct {
	mesh  *mesh.Mesh
	ln    net.Listener
	voter atomic.Pointer[ledger.Voter]
}

// newEar opens the listener, and lets the voter verify evidence by it; nil when no
// address is given.
func newEar(o *Options) (*ear, error) {
	if o.Mesh == "" {
		return nil, nil
	}
	e := &ear{}
	var err error
	e.mesh, err = mesh.New(mesh.Options{Credentials: o.Credentials, Name: o.Voter.Node + "/ledger", Voter: true, OnObservation: e.hear, Log: o.Logger})
	if err != nil {
		return nil, err
	}
	if e.ln, err = net.Listen("tcp", o.Mesh); err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	o.Voter.Verify = e.mesh.Verify
	return e, nil
}

// run hears for a voter until ctx ends.
func (e *ear) run(ctx context.Context, v *ledger.Voter) error {
	e.voter.Store(v)
	err := e.mesh.Run(ctx, e.ln)
	if err == nil && ctx.Err() == nil {
		err = errors.New("mesh: it ended without a reason")
	}
	return err
}

func (e *ear) hear(h mesh.Heard) {
	if v := e.voter.Load(); v != nil {
		v.Observe(h.Observation, time.Since(h.Issued))
	}
}
