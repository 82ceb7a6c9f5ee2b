// Package dnsfallback answers: it is an authoritative DNS server that sends each
// client to a site, by the same decision that moves the routes.
//
//	settings ──NewPolicy──▶ Policy ──Table(state)──▶ Table ◀── atomic pointer ── server's workers
//	 zones:      all problems        wire form           immutable, versioned
//
// The answer is a pure function of the table, the question and the client's
// network. A policy is judged whole and refused whole; a table is made from a
// policy and never changed afterwards, so a worker that holds one needs no lock
// and a query sees one version from beginning to end.
//
// # Promises
//
//   - It never recurses, and refuses what is not below one of its zones.
//   - A name that exists is never denied: a type it lacks, and a name that only
//     has names below it, are NODATA (RFC 2308 §2.2, RFC 8020).
//   - An answer is never longer than was asked for; what does not fit is an
//     empty answer with TC.
//   - A packet can make it answer or stay silent, and nothing else.
//
// # Not promised
//
// It signs nothing, transfers no zones and takes no updates. DNS is a
// preference: resolvers keep an answer for its TTL, and some for longer.
package dnsfallback
