package api

import (
	"context"
	"errors"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Backend is the daemon behind the socket: the agent of one site, or the demo
// with several sites. Its methods are called from many goroutines at once and
// heed their context. An error that is an [*Error] reaches the caller as it is;
// any other is wrapped as internal.
type Backend interface {
	// Snapshot returns the newest one, never nil, without blocking.
	Snapshot() *Snapshot
	// Order enters a withdraw, drain or announce. A dry run asks the guards and
	// changes nothing. A refusal is not an error: it is in the reply.
	Order(ctx context.Context, who Caller, o steadycast.Order, dryRun bool) (decide.Reply, error)
	// Do enters one of order_clear, freeze, thaw, unlock, resume for a scope.
	Do(ctx context.Context, who Caller, kind decide.Kind, scope decide.Scope, reason string, dryRun bool) (decide.Reply, error)
	// Carry brings what a person signed to the ledger, as it is. The caller is
	// only who brought it.
	Carry(ctx context.Context, who Caller, signed decide.Signed) (decide.Reply, error)
	// Enter enters a wish that nobody signed, in the caller's name.
	Enter(ctx context.Context, who Caller, wish decide.Wish) (decide.Reply, error)
	// Rehearse asks what would come of a wish, and changes nothing.
	Rehearse(ctx context.Context, wish decide.Wish) (decide.Reply, error)
	// Revision gives a table that is in force, or was and is remembered; 0 is the
	// one in force.
	Revision(ctx context.Context, revision uint64) (decide.Table, error)
	// BreakGlass orders this node's own site out or in while there is no ledger; an
	// order of kind none ends that.
	BreakGlass(ctx context.Context, who Caller, o steadycast.Order) error
	// Guards says what every guard would answer now, for each unit.
	Guards(ctx context.Context) ([]decide.Ruling, error)
	// SitesNow says what the ledger heard last of each site.
	SitesNow(ctx context.Context) ([]decide.SiteNow, error)
	// History is what the ledger remembers, the oldest first.
	History(ctx context.Context) ([]decide.Past, error)
	// Reload reads the configuration again; a bad one changes nothing and is in
	// the result as problems.
	Reload(ctx context.Context, who Caller, dryRun bool) (Reload, error)
	// Clear ends a state of the speaker that only a person may end: crash_loop, fence.
	Clear(ctx context.Context, who Caller, what string) error
	// ProbeNow hurries the checks of a service; an empty service means all of the site.
	ProbeNow(ctx context.Context, who Caller, site, service string) error
	// Fault makes a fault at a site of the demo (kill, heal, slow, fast); all
	// others answer ErrNotDemo.
	Fault(ctx context.Context, who Caller, site, what string) error
	// Events returns the events after an id, oldest first, and a channel that
	// closes when there are more. See [Ring].
	Events(after uint64) ([]steadycast.Event, <-chan struct{})
}

// ErrNotDemo answers Fault on a daemon that is not the demo.
var ErrNotDemo = &Error{
	Code:    CodeUsage,
	Message: "this daemon is not a demo: faults are made only there",
	Next:    "steadycast demo",
}

// Reload is the outcome of reading the configuration again.
type Reload struct {
	// Applied is false when nothing was changed: a dry run, a refusal, or no difference.
	Applied bool   `json:"applied"`
	DryRun  bool   `json:"dry_run,omitempty"`
	Hash    string `json:"hash,omitempty"`
	// Problems as `file:line:col: path: what; allowed`; the old configuration goes on.
	Problems []string `json:"problems,omitempty"`
	// Changes in words, with what each costs: "neighbor tor1: password changed; its session restarts".
	Changes []string `json:"changes,omitempty"`
}

// Caller is who sent a request, as the kernel says.
type Caller struct {
	// Name of the user, empty if the uid has none.
	Name string
	UID  uint32
	// Write: may change things.
	Write bool
}

// Code is the kind of an error; the words are stable, and each has one HTTP
// status and one exit code.
type Code string

// The codes.
const (
	CodeFailed    Code = "failed"    // something went wrong here: 500
	CodeUsage     Code = "usage"     // the request makes no sense: 400
	CodeConfig    Code = "config"    // a configuration was refused: 422
	CodeForbidden Code = "forbidden" // this caller may not: 403
	CodeRefused   Code = "refused"   // a guard said no: 409
	CodeNotFound  Code = "not_found" // no such site, prefix, peer: 404
	CodeBusy      Code = "busy"      // too many at once, or took too long: 503
)

// Error is the body of every answer that is not a success.
type Error struct {
	Message string `json:"error"`
	Code    Code   `json:"code"`
	// Guard names the guard that refused, Override how a person gets past it.
	Guard    string `json:"guard,omitempty"`
	Override string `json:"override,omitempty"`
	// Next is what to do now, a command where there is one.
	Next string `json:"next,omitempty"`
	// Reply has every guard's answer when a guard refused.
	Reply *decide.Reply `json:"reply,omitempty"`
}

// Error returns the message without the next step.
func (e *Error) Error() string { return e.Message }

// AsError finds the Error in err, or makes one of it.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	code := CodeFailed
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		code = CodeBusy
	}
	return &Error{Message: err.Error(), Code: code}
}
