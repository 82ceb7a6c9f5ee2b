package main

import (
	"context"
	"errors"
	"net/netip"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/api"
)

// breakGlass withdraws or announces this node's own site while it has no ledger,
// or ends that.
func (c *cli) breakGlass(ctx context.Context, f *changeFlags, kind steadycast.OrderKind, site, node string, prefixes []netip.Prefix) error {
	switch {
	case f.dryRun || f.force || f.lasting != 0 || f.wait != 0:
		return usageError(errors.New("--local asks no guard and has no end of its own: it goes with --reason, --prefix and --yes only"))
	case !f.yes:
		return usageError(errors.New("--local asks no guard: nobody counts what is left. Look at the other sites first, then the same with --yes"))
	}
	client := c.client()
	defer client.Close()
	var done api.Done
	if err := client.Post(ctx, "local", api.LocalRequest{Kind: kind, Site: site, Node: node, Prefixes: prefixes, Reason: f.reason}, &done); err != nil {
		return err
	}
	site = steadycast.Order{Site: site, Node: node}.Target()
	if kind == steadycast.OrderNone {
		return c.said(done, "%s: what was done here by --local has ended\n", site)
	}
	return c.said(done, "%s %s: done here, without the ledger, which is told when it is back\n  Next: steadycast status; to end it: steadycast undrain %s --local --reason TEXT\n", kind, site, site)
}
