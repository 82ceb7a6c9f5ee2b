// Package decide judges: whether a site can serve, and whether a route may be
// changed. It is pure. There is no clock, no goroutine, no lock, no I/O, no
// randomness and no floating point in it, and nothing whose order is not fixed
// (purity_test.go walks the syntax). Time is an argument; what happened goes in,
// what must be done comes out, in order. So the same inputs give the same
// outputs on every machine, a recorded day can be replayed, and a thousand sites
// can be simulated under a clock that does not exist.
//
// There are two machines and a small third, and one table of policy ([Table]).
//
// [Site] is one site's: volatile, one per node. Observations of the site's own
// services go in; verdicts, requests and route sets come out.
//
//	observations ─▶ voices ─▶ bad, good ─▶ verdict ─▶ request ─▶ permit ─▶ route set ─▶ proof
//	  [Observed]     count.go               verdict.go  site_ask.go          site_settle.go  site_proof.go
//
// [Siblings] is that of one node of a site of several, for one prefix: whether it
// leaves alone, on its siblings' promises. The site machine of each node has one for
// each prefix; see node.go for what nodes of one site share.
//
// [Fleet] is the ledger's: replicated, so time travels inside its entries. It
// counts who announces, asks the guards in a fixed order, and permits or refuses.
//
// What the site machine promises, whatever the order and loss of its inputs:
//
//   - It gives the speaker nothing before it knows the ledger and the speaker.
//   - It announces only what the phase allows or a person ordered, and after a
//     restart only after passing local rounds, but for what is announced already;
//     and as a last resort what is found to be served by nobody, when nobody can
//     be asked (site_resort.go).
//   - It withdraws only on a permit of its own newest request, within permit_ttl
//     of first asking, while a quorum still sees the failure; or by a person's
//     order. A request once declared dead is never carried out.
//   - Silence and inconclusive checks move no route: they are Held, not failure.
//     Where most of the others fall silent at once, everything is (site_deaf.go).
//   - Losing the ledger moves no route; at most it makes one less attractive,
//     where `isolated: deprefer` and a certain local failure say so.
//   - A change of attributes is one set with the route still in it.
//
// What it does not promise: that a withdrawal comes at all. Guards may refuse,
// evidence may be missing, and a dead site that is needed for the floor stays
// announced, depreferred. It also believes the speaker about the wire, and the
// table about who is independent of whom.
//
// In mode `approve` this version asks for nothing by itself: like `observe` it
// says what it would do, and names the command with which a person does it.
package decide
