// Package ledger keeps the one record that decides: it holds a [decide.Fleet],
// feeds it entries in order, and answers only what is already on disk.
//
// # What happens to a request
//
//	Ask ──▶ queue ──▶ proposer: Try ──▶ refused, and said before: answer, nothing is written
//	                     │
//	                     └─▶ entry: journal, one fdatasync ──▶ Fleet.Apply ──▶ answer, View, Events
//
// One goroutine owns the machine, the proposer and the journal. Requests that
// wait while it writes are proposed together in one entry, in an order that
// does not depend on who came first.
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
//     after kill -9 at any byte.
//   - A request that is sent again gets the same answer.
//   - A journal that was damaged, or is another node's, or was written by a
//     newer version, is refused with its name, the place and the way out. It is
//     never repaired by throwing records away; only a torn last record, which
//     nobody was answered from, is cut, and said once.
//   - When the disk is full, whatever would have to be written is refused with
//     an error and the state stays as it was: an order too. The agent freezes
//     on that (keeps what it announces). Reading and re-answering go on, and
//     the next request tries the disk again.
//
// # What is not promised
//
// The local ledger ([Local]) is one process on one disk: whoever loses the disk
// starts from an empty ledger, in which no unit was ever announced.
package ledger
