// Package dns is the process that answers for the fleet's zones on one node: it
// follows what the ledger has committed, makes a table of it, and lets a
// [dnsfallback.Server] answer from the newest.
//
//	ledger ──view──▶ source ─▶ keeper ──Table──▶ server ◀── clients
//	node.yaml, maps ─────────────▲  │
//	                                ├─▶ dns-view.json   what it knew, for its next start
//	                                ├─▶ dns.health      what the agent's check reads
//	                                └─▶ dns.sock        resolve, status
//
// One goroutine, the keeper's, makes tables; the server's workers only read them.
//
// # Promises
//
//   - It answers only after the fleet's table and state are known, or remembered
//     and younger than a limit; until then nobody listens.
//   - What it cannot read changes nothing: the table before goes on answering.
//   - Without a ledger it answers on from what it knew last, and says that it is stale.
//   - Its health is that of its own answers. No application, and no loss of the
//     ledger, makes it say that it is down.
//   - Replaced by a process of another version under a service manager, or under
//     steadycast run, which keep its sockets, it loses no question.
package dns
