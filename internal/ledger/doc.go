// Package ledger keeps the one record that decides: it holds a [decide.Fleet],
// feeds it entries in order, and answers only what is recorded. There are
// two, behind one interface ([Ledger]): [Local] is one process with one disk, for
// a site alone; [Voter] is one of the 3, 5 or 7 processes that share the ledger
// of a fleet, and [Client] is how every other node reaches them.
//
// # What happens to a request
//
//	Ask ──▶ queue ──▶ proposer: Try ──▶ refused, and said before: answer, nothing is written
//	                     │
//	                     └─▶ entry: journal, one fdatasync ──▶ Fleet.Apply ──▶ answer, View, Events
//
// One goroutine owns the machine, the proposer and the journal. Requests that
// wait while it writes are proposed together in one entry, in an order that
// does not depend on who came first. In a [Voter] that goroutine runs while it
// leads, and "journal, one fdatasync" is the same on a majority's disks.
//
// # The proposer
//
// What a replica cannot know travels in the entry, put there by the proposer
// (leader.go): who announces each prefix by beats not older than 5 s, and the
// ledger time. Ledger time is made of durations only. Its offset to the
// monotonic clock is fixed once, when the proposer starts, so it can only lose
// time, never gain: a budget may turn out tighter than written, never wider,
// and an order may end later than said, by the time the ledger was down, never
// earlier. The wall clock is never read; stepping it does nothing.
//
// # What is promised
//
//   - An answer with a permit was on disk before it was given, and is there
//     after kill -9 at any byte. A [Local] answers leave to withdraw, and only
//     that, as soon as it is written, and syncs right after: kill -9 loses
//     nothing, a loss of power at most the last withdrawal, along with its route.
//   - A request that is sent again gets the same answer.
//   - A journal that was damaged, or is another node's, or was written by a
//     newer version, is refused with its name, the place and the way out. It is
//     never repaired by throwing records away; only a torn last record, from
//     which no more than a withdrawal was answered, is cut, and said once.
//   - When the disk is full, whatever would have to be written is refused with
//     an error and the state stays as it was: an order too. The agent freezes
//     on that (keeps what it announces). Reading and re-answering go on, and
//     the next request tries the disk again.
//
// # Voters
//
// The log of voters is hashicorp/raft v1.8.0: complete where etcd/raft leaves
// log files, snapshots, transport and changes of the set to its user, which is
// where such systems had their bugs that lost data. Its store is our own on
// bbolt (raft_store.go), because raft-boltdb does not build with v1.8.0 and
// pinning v1.7.3 for its sake would bring an old bbolt and the archived boltdb.
// What raft is known to do badly is watched from outside it:
//
//   - A leader whose disk hangs goes on sending heartbeats, and nobody else is
//     elected. A store call of more than 2 s ends the process (raft_guard.go), and
//     so does an entry of a leader that is not applied within 5 s, which it tries
//     at least every 10 s.
//   - It panics on a full disk. The voter hands over and ends while 256 MB are
//     free, ends at the first write that fails, and starts only when there is
//     room again (raft_room.go).
//   - Its messages name no cluster. The fleet is in the protocol's name in the TLS
//     handshake and in both certificates (raft_stream.go, identity.go).
//   - Pipelined replication can wedge one follower: it is off.
//   - After a restart the machine stands where its snapshot was, until a leader
//     commits. Until then nothing is read from it.
//
// A voter leads only after a barrier, when everything committed before is
// applied. An answer that needs no entry is given only after a majority has
// confirmed that it still leads; so an old leader answers nothing. Each entry
// carries the term in which it was judged, and is void everywhere if it was
// written in another.
//
// Voters are set up, changed and recovered by people, on a voter's own host
// (voter_members.go, voter_recover.go); nothing does it by itself.
//
// # What is not promised
//
// A fleet's ledger loses nothing that was answered while more than half of its
// voters keep their disks. [Recover] makes one of what a single voter has, which
// may be less; it goes on in a new epoch, frozen, and clients take no position
// that is lower than one they have seen.
//
// The local ledger ([Local]) is one process on one disk: whoever loses the disk
// starts from an empty ledger, in which no unit was ever announced.
package ledger
