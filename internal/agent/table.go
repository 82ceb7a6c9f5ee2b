package agent

import (
	"context"
	"fmt"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
)

// commit makes the ledger's table the one that the configuration says: a file
// may have changed while nothing ran. The ledger sees itself if nothing differs.
func commit(ctx context.Context, l ledger.Ledger, t decide.Table, actor, reason string) error {
	if t.Revision <= l.View().Table.Revision {
		t.Revision = 0 // the ledger counts on
	}
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
