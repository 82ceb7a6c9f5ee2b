package ledger

import (
	"context"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Ledger is what an agent sees of the ledger, whether it is [Local] or spread
// over voters. All methods may be called from any goroutine.
//
// An error means that nothing is known: the call may or may not have reached
// the log, and repeating it is safe; but [Invalid] is the ledger's answer to what
// has no meaning. A refusal is not an error; it is in the answer, with the guard
// that refused and its numbers.
type Ledger interface {
	// Beat tells what a site announces, and how healthy it is. It is kept in
	// memory, never logged, and counts for 5 s; send one a second and on every
	// change. The newest of a site replaces the one before. It never blocks
	// and never fails: a lost beat only makes grants harder.
	Beat(decide.Beat)

	// Report tells that services changed state. Verdicts that change nothing are
	// not logged.
	Report(ctx context.Context, verdicts []steadycast.Verdict) error

	// Ask asks for leave to change routes. The same request may be sent again;
	// its answer stays the same. What is reported with it is recorded first, in
	// the same entry: a withdrawal waits for one write and not for two.
	Ask(ctx context.Context, request steadycast.Request, reported ...steadycast.Verdict) (decide.Answer, error)

	// GiveUp states that every request of the site up to id is dead and that the
	// site is announcing units now. Their permits are void, their budget refunded.
	GiveUp(ctx context.Context, site string, id steadycast.RequestID, units []steadycast.Unit) error

	// Order records a person's wish.
	Order(ctx context.Context, order steadycast.Order) (decide.Reply, error)

	// Try says what Order would answer now, and changes nothing.
	Try(ctx context.Context, order steadycast.Order) (decide.Reply, error)

	// Do records one of a person's plain entries: freeze, thaw, unlock, resume, order_clear.
	Do(ctx context.Context, kind decide.Kind, scope decide.Scope, actor, reason string) (decide.Reply, error)

	// TryDo says what Do would answer now, and changes nothing.
	TryDo(ctx context.Context, kind decide.Kind, scope decide.Scope, actor, reason string) (decide.Reply, error)

	// SetTable replaces the policy. Its revision must be above the one in force;
	// 0 means the next. A table that says what is in force already changes nothing.
	SetTable(ctx context.Context, table decide.Table, actor, reason string) (decide.Reply, error)

	// Carry brings a person's signed wish to the log, as it is. It may be brought
	// again: the second time Reply.Before says where it was entered. What a guard
	// refuses is entered too, so that its signature is spent; but nobody's
	// signature is not.
	Carry(ctx context.Context, signed decide.Signed) (decide.Reply, error)

	// Enter records a wish that nobody signed. A ledger that knows operators
	// refuses it; a node's own takes it from whoever may write to its socket.
	Enter(ctx context.Context, wish decide.Wish) (decide.Reply, error)

	// Rehearse says what would come of a wish if an operator who may signed it,
	// and changes nothing. The wish has no signature: one that had could be carried.
	Rehearse(ctx context.Context, wish decide.Wish) (decide.Reply, error)

	// Ack says what a node makes of the table that is staged. Saying the same again
	// is not logged; what is said of another table is of no use, and no error.
	Ack(ctx context.Context, ack decide.Ack) error

	// Step says what a node has to say of a step of a plan: [Invalid] is the answer
	// to what has come too late, or what another was before it with. Whatever comes
	// of it, View says where the step stands.
	Step(ctx context.Context, word decide.StepWord) (decide.Reply, error)

	// Revision gives the content of a table that is in force, or was and is
	// remembered; [Invalid] if it is not.
	Revision(ctx context.Context, revision uint64) (decide.Table, error)

	// Seal proves who put the table into force that is; [Invalid] where nobody signed
	// it as a whole.
	Seal(ctx context.Context) (decide.Seal, error)

	// Local tells what a person did at a node while it had no ledger, by the node's
	// own word and for its own site only. Where an order stands already, that is a
	// refusal in the reply, and the order stays.
	Local(ctx context.Context, order steadycast.Order) (decide.Reply, error)

	// Guards says what every guard would answer now, for each unit; see
	// [decide.Fleet.Guards].
	Guards(ctx context.Context) ([]decide.Ruling, error)

	// Sites says what was heard last of each site, in order of name.
	Sites(ctx context.Context) ([]decide.SiteNow, error)

	// History is what the ledger remembers of what was done, the oldest first.
	History(ctx context.Context) ([]decide.Past, error)

	// View returns the newest committed state: an immutable copy that costs one
	// atomic load. Its slices are shared by all readers; change nothing.
	View() decide.View

	// Watch returns a channel that holds one signal whenever View has changed
	// since it was last read: signals are merged, so a slow reader misses none
	// of the state, only how often it changed. cancel ends it.
	Watch() (changed <-chan struct{}, cancel func())

	// OnEvents calls f with the events of each entry, in order, from the
	// ledger's own goroutine: f must be quick and must not call the ledger.
	// cancel ends it.
	OnEvents(f func([]steadycast.Event)) (cancel func())
}

// Invalid says why what was asked has no meaning under the policy in force. The
// ledger works.
type Invalid string

func (e Invalid) Error() string { return string(e) }
