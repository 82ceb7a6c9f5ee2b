// Package api is how people and programs speak with a running daemon: wire
// types, server, client and the event stream.
//
// There is one protocol: HTTP/1.1 with JSON bodies under /v1, on a unix socket,
// so that curl is a full client. Who calls is taken from the kernel
// (SO_PEERCRED), never from the request. Whoever can open the socket may read;
// changes need uid 0, the socket's owner or a member of its group.
//
// Everything that is read comes from one immutable [Snapshot], so a page never
// shows two halves of two moments, and a slow reader delays nobody. Everything
// that is changed goes through the [Backend] as one more entry of the ledger,
// and meets the same guards as automation does. The server keeps no state of
// its own besides open connections.
//
// Promises: unknown fields in a request are refused; each error names what to
// do next; field names and codes are stable. Not promised: that a stream shows
// every event. The ring of events is bounded, and a reader that falls behind
// sees a jump in the ids.
package api
