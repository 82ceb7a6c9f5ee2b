// Package demo runs a whole fleet in one unprivileged process, to be watched,
// broken and measured.
//
// Everything but the world around it is the production code: every site has a
// real agent, real probes and a real embedded speaker with a BGP session of its
// own to one router on 127.0.0.1. The world is small: the router only listens
// (package sink), the services are web servers on 127.0.0.11, .12, …, and a
// client sends requests to whichever sites the router's table names, as ECMP
// would, and counts what it loses.
//
// The sites watch each other: each has an end of the mesh and tells the others
// what it sees of them, signed, over mutual TLS with certificates of an authority
// that the demo makes. Three of them have a voter of the ledger each, on a folder
// of its own. Two sites have a witness; a site alone decides by its own checks.
// Every part has an address of its own, and between them there is a switch, so
// that any can be cut off ([network]).
//
// It answers for the zone demo.test, whose name www has the addresses of the
// sites that the ledger's state lets clients be sent to.
//
// A site has one node or several ([Options].Nodes). Where it has several, and where a
// scenario is about them, each site has an address of its own beside the anycast
// prefix, to which the names lead and which the others cover as backup.
//
// A scenario is a fault, what should follow, and a verdict taken from the
// router's table and the invariants: [Scenarios]. Every UPDATE the router heard and every request
// the client lost is emitted with its time, so that an outside reader can judge
// again.
package demo
