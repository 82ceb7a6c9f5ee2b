// Package bench measures the product against its targets and against its peers.
//
// It is benchmarks only, run by `make bench`; nothing imports it. What one
// package can measure of itself is measured there (bgp, probe); here is what
// needs the whole: a service that fails, a node that judges, a ledger on disk, a
// router that hears.
//
// Each figure is a number of trials made one after the other, and is reported
// as their median. Where a peer is named (ExaBGP, bare GoBGP, Debian's BIRD as
// the router), both sides run in the same minutes on the same machine and take
// turns trial by trial, so that what else the machine does falls on both; the
// ratio is what to read. "load" beside a figure is the machine's, of one minute.
// A trial that does not come to its end within its time fails the benchmark: no
// figure is made of half the trials.
//
// The moment a service fails is said by the service itself, a process of its
// own; the moment a route leaves is said by the router. Detection is up to the
// answer of the probe that completes `fall`; what comes after it is overhead,
// and so contains reading that answer, the verdict, the ledger's writes to disk,
// the permit, the speaker and the wire.
//
// What needs network namespaces needs root, and is skipped with a word without.
// Everything that is started ends with the benchmark, also on ctrl-C; what a
// killed run left behind is removed by the next one.
package bench
