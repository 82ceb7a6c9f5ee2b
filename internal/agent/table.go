package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
)

// commit makes the ledger's table the one that the configuration says, if it
// is another: a file may have changed while nothing ran.
func commit(ctx context.Context, l ledger.Ledger, t decide.Table, actor, reason string) error {
	now := l.View().Table
	if same(t, now) {
		return nil
	}
	t.Revision = max(t.Revision, now.Revision+1)
	reply, err := l.SetTable(ctx, t, actor, reason)
	switch {
	case err != nil:
		return fmt.Errorf("ledger: %w", err)
	case reply.Refused != nil:
		return fmt.Errorf("ledger: %s", reply.Refused)
	case reply.Invalid != "":
		return fmt.Errorf("ledger: %s", reply.Invalid)
	}
	return nil
}

// same compares two tables but for their revision.
func same(a, b decide.Table) bool {
	a, b = a.WithDefaults(), b.WithDefaults()
	a.Revision, b.Revision = 0, 0
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
