// Package sim attacks the protocol. It runs the machines that decide
// ([decide.Site], [decide.Fleet]) and the proposer that feeds the ledger, all as
// they are in production, over real raft nodes, under a clock that does not
// exist and a network that does whatever is worst.
//
//	agenda.go    one heap of events; popping it is the only thing that makes time pass
//	world.go     one schedule, from its seed to its end
//	policy.go    the table that a schedule is decided by: all guards, or one at a time
//	plan.go      the faults of a schedule, drawn before it begins; fault.go does them
//	net.go       links: delay, loss, late duplicates, one-way cuts
//	voter.go     a replica of the ledger on a raft node; desk.go the one that leads
//	place.go     a site as its vantages see it: service, prober, speaker, power
//	nodes.go     sites of several nodes: each a host of its own, what they tell each
//	             other, and what the judge asks of them
//	restore.go   hosts that are set back to an older copy of their disk
//	agent.go     the shell around decide.Site; client.go its way to the ledger;
//	             glass.go what people do at a node that hears none
//	load.go      what sites carry, and who gets it when they leave
//	operator.go  people and what they sign, tables.go how their tables come into
//	             force, forge.go what nobody signed who may
//	invariant.go what must never break
//	judge.go     checks it after everything that could break it: here what sites decide,
//	             judge_wire.go what is on the wire, judge_log.go what is in the log
//	mutation.go  the rules that were considered and rejected, each with the invariant
//	             that it must break; mutation_agent.go those of an agent,
//	             mutation_kin.go those of siblings
//	many.go      many schedules, and the few faults that a violation needs
//
// One schedule is one goroutine and no locks. Nothing in it is random but the
// seed: the same seed gives the same events, bit by bit, on every machine.
//
// A fault is data. When an invariant breaks, faults are left out one after the
// other as long as it still breaks, and what is printed is the seed and the few
// that matter.
//
// What it does not show: DNS answers (I19), signatures of evidence, what
// hashicorp/raft does otherwise than raft as such, a voter set back to an older disk
// (which breaks raft's own promise), and anything below the machines (probes,
// sockets, BGP, disks).
package sim
