// Package bgp announces: it turns a [steadycast.RouteSet] into BGP sessions,
// and reads back what really left on the wire. It is the only door to GoBGP and
// to netlink; no type of theirs is in its API.
//
// # The shape
//
//	RouteSet ─▶ Speaker ─┬▶ neighbor ─▶ pusher ─▶ GoBGP ══ loopback ══╗
//	                     ├▶ neighbor …                                ║ session (the wire)
//	Actual ◀── publish ◀─┴─────────── sentTable ◀─────────────────────╫──▶ router
//	                                                                  ╚══ inbound / outbound checks
//
// Each router has a [Neighbor] in the settings, a GoBGP server of its own, and
// one TCP connection, which belongs to this package and not to GoBGP. GoBGP
// keeps the session: its state machine, its timers, its encoding. The wire
// keeps the connection: it dials or accepts, sets MD5, GTSM, source and device,
// looks at every message both ways, and remembers what went out.
//
// # Why a wire between GoBGP and the router
//
// GoBGP v3.37 dies of at least three messages a configured router can send, in
// a goroutine of its own where nobody can recover it. Its Adj-RIB-Out is worked
// out anew when asked, so it is not what was sent. A full table that is rejected
// still fills memory. So nothing a router wrote is ever read by GoBGP: its OPEN
// is taken apart and written anew, KEEPALIVE, End-of-RIB and ROUTE-REFRESH are
// ours, UPDATEs are counted and dropped, the rest ends the session (inbound.go).
// And what GoBGP says is read once more on its way out (outbound.go): a prefix
// outside the allow-list, or a next hop nobody could use, does not leave.
//
// # Proof
//
// [Speaker.Actual] has one row per router and prefix: the attributes as the
// octets said them, when they were written, and when the router's TCP had
// acknowledged them. Before Acked is set, a change is not proven. Acknowledged
// means that it is in the router's hands; whether the router acts on it only
// another view can tell.
//
// # What is promised
//
//   - A set is applied whole or refused whole. A change of attributes is one
//     UPDATE that replaces the last, never a withdrawal and an announcement.
//   - Everything is said again when a session comes up.
//   - A lost session is opened again at once; GoBGP's first dial takes 1–2 s. A
//     router that refuses is asked less and less often, to every 30 s.
//   - A router that is stuck, sends nonsense, or sends its whole table does not
//     delay another router's withdrawal, and does not grow this process.
//   - Nothing a router announces is kept, used, or said to another.
//
// # What is not
//
//   - Graceful restart, ADD-PATH and families other than IPv4 and IPv6 unicast
//     are not offered.
//   - A router's malformed UPDATE does not end the session, although RFC 4271
//     §6.3 would have it: no route of a router's is needed, so its mistake must
//     not become our outage. It is counted and named.
//   - A speaker that stops leaves its GoBGP servers parked for the next one, one
//     sleeping goroutine each, since GoBGP's Serve never returns. A leak checker
//     has to be told of it.
package bgp
