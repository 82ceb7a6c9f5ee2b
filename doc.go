// Package steadycast keeps shared anycast prefixes announced from the sites
// that can serve them, and only from those.
//
// This package holds values and nothing else: the words the other packages
// speak to each other in. It imports only the standard library, starts nothing
// and touches nothing.
//
//	 vantages                  the subject site                     the ledger
//	┌──────────────┐ observ. ┌──────────────────────┐  request +  ┌──────────────────────┐
//	│ probe        │ ──────▶ │ quorum → verdict     │  evidence   │ evidence re-check    │
//	│ Observation  │         │ decide.Site          │ ──────────▶ │ → guards             │
//	└──────────────┘         └──────────────────────┘ ◀────────── │ decide.Fleet         │
//	        ▲                       │         permit              └──────────────────────┘
//	        │ proof             bgp │ change
//	        └───────────────────────┘
//
// One straight pipe, no side doors: an [Observation] becomes a [Verdict], a
// verdict becomes a [Request], a request meets the guards and comes back as a
// [Permit] or a refusal with numbers, a permit becomes a [RouteSet], and what
// really left on the wire comes back as [Actual], the proof. An operator's
// [Order] is one more ledger entry and walks the same pipe.
//
// The packages, and who may import whom, are in floorplan_test.go:
//
//	decide       judges: two pure machines, Site and Fleet
//	probe        sees: semantic probes and their schedule
//	bgp          announces: the only door to GoBGP and netlink
//	dnsfallback  answers: zones, and where a client is sent
//	internal/…   the shell: processes, sockets, files, metrics
//	cmd          one binary
//
// The order of importance, when two goals pull apart: never make an outage
// that was not there; never leave traffic on a dead site; explain; be fast; be
// small. Missing data is never failure.
package steadycast
