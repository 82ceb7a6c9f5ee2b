// Package bfd notices within a second that the way to a router, or the router
// itself, is gone, and lets the router notice the same of this node: BFD in
// asynchronous mode (RFC 5880) over a single hop of IPv4 or IPv6 (RFC 5881).
//
// # The shape
//
//	          Packet            wake-ups
//	router ◀─────────▶ Host ─▶ Session ─▶ machine (pure: packets and time in,
//	        UDP, TTL 255       one goroutine         packets and a next time out)
//
// The machine is RFC 5880 §6.8 and nothing else: it has no clock, no socket and
// no goroutine, so that every sentence of the RFC can be tested in virtual time.
// A [Session] owns one machine and lends it a clock, a die and a socket. A
// [Host] owns the receiving sockets and gives each packet to its session.
//
// # What is promised
//
//   - A session that was up and hears nothing for the negotiated detection time
//     says so at once, from its own goroutine. Where this process itself was kept
//     from running for longer than one interval, it first reads for one interval
//     more: its own sleep is no silence of the router's.
//   - What did not come over one hop (TTL 255, RFC 5082), from another address,
//     or is malformed, is counted and changes nothing.
//   - A change of timers takes effect by a Poll Sequence (RFC 5880 §6.5, §6.8.3).
//   - [Session.Stop] tells the router AdminDown. Several routers withdraw on it,
//     so routes must be gone before.
//
// # What is not
//
//   - Authentication, Echo, Demand mode of our own and multihop. A router that
//     asks for Demand mode is given its silence (§6.8.7).
package bfd
