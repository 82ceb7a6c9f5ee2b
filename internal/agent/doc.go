// Package agent is the shell around [decide.Site]: it feeds one site machine
// with what happened and turns the machine's effects into calls.
//
// One goroutine, [Agent.Run], owns the machine. Around it stand helpers that
// may block, so that the owner never does:
//
//	probe.Scheduler ──observations──▶ ┌───────┐ ──whole RouteSets──▶ announcer ──▶ speaker
//	speaker ─────────────actual─────▶ │ owner │
//	ledger ───────view, answers─────▶ └───────┘ ──reports, requests─▶ courier ───▶ ledger
//
// The announcer keeps only the newest RouteSet: whole states make the older
// ones worthless. The courier keeps order: a verdict reaches the ledger before
// the request that rests on it. Observations that come faster than the owner
// can judge push out the oldest; answers and views are never dropped.
//
// A fault in logging, metrics or the API stops nothing here: events go to a
// bounded ring, and the logger below it drops rather than blocks.
package agent
