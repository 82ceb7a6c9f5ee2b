// Package voter is the process of one voter: it keeps a [ledger.Voter] running,
// and lets the person on this host say who votes.
//
// Everything that decides is in package ledger. Here is what a process needs
// around it: waiting until there is room on the disk, readiness, the end in
// order, and a unix socket for `steadycast ledger init|join|leave|members`. Only
// the socket's owner may change the set of voters, on a voter's own host; no
// certificate allows it, and nothing does it by itself.
//
// The end of this process, however it comes, moves no route: agents freeze and
// wait for another leader.
package voter
