// Package probe sees: it looks at services, judges what it gets back, and
// tells what it found. It decides nothing.
//
// A [Check] is one thing to look at. [Compile] finds everything that can be
// wrong with it before it runs; [Compiled.Run] makes one attempt and gives one
// [steadycast.Result]. A [Service] is several checks joined by an expression
// ([Expr]); a [Scheduler] runs services in rounds, and each round gives exactly
// one [steadycast.Observation].
//
//	Check ──Compile──▶ Compiled ──Run──▶ Result ─┐
//	Check ──Compile──▶ Compiled ──Run──▶ Result ─┼─ Expr ──▶ Observation
//	Check ──Compile──▶ Compiled ──Run──▶ Result ─┘
//
// Rounds of one interval fall on common ticks. In a calm one, those looks that a
// near service answers at once take turns in one goroutine ([glance]), which is
// most of what a look would cost; what hurries or is being confirmed goes alone.
//
// # Up, down, unknown
//
// A probe that cannot look says unknown, never down: no route, no source
// address, no free descriptor, no permission, a broken resolver, a prober that
// is saturated or was not given the processor in time. Only what the far side
// did, or did not do within its deadline, is down. A down is hard when nothing
// but the service can explain it (refused, reset, address not on this host,
// somebody else's identity), and soft when the path or the load might (timeout,
// slow, wrong content). Expressions keep the third value (Kleene's logic), so
// that a missing answer is decided neither way.
//
// # Others
//
// A service whose subject is another site is looked at from outside: fast while
// its first failures are confirmed, else at its own pace. What is seen of others
// counts only while this vantage can be believed, and its [Controls] say whether
// it can. Each such observation says why it does not count, if so; a failure is
// told only when controls that began after it have come out right.
//
// # Promises
//
//   - A deadline is enforced outside the probe's body. A body that does not stop
//     is abandoned and counted, and is not started again until it has ended.
//   - What a server sends is read up to a bound, whatever it sends.
//   - A probe of a service address never lets another site answer: when the
//     address is not on this host, that itself is the answer.
//   - Rounds keep a fixed grid. A slot that is missed is skipped and counted,
//     never made up for.
//   - Nothing here reads the wall clock to measure time; only the age of a file
//     and the validity of a certificate are dates.
//
// # Not promised
//
// A check that uses a host name depends on this host's resolver and gives
// unknown when that fails: write addresses. A certificate's dates are judged by
// this host's clock. How long a look took may be told too high by a few
// milliseconds, while it takes turns with others; a check with a ceiling on its
// latency never does.
package probe
