package speaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp"
)

// Interface is what an agent needs of a speaker, in another process ([Client],
// made by [Dial]) or in this one ([InProcess], made by [Local]). All methods are safe for
// concurrent use.
type Interface interface {
	// Apply gives the whole wanted state and returns when the speaker has taken it
	// up, or refused it ([*Refused]). The same set may be given again.
	Apply(ctx context.Context, set steadycast.RouteSet) error
	// Actual is the newest snapshot; false while there is none because the
	// speaker cannot be reached.
	Actual() (steadycast.Actual, bool)
	// Intent is what the speaker holds as its newest intent: after a start, what
	// it was last told before. An agent continues from its numbers.
	Intent(ctx context.Context) (Intent, error)
	// Plan says what Reload would do, and does nothing.
	Plan(ctx context.Context) (Plan, error)
	// Reload reads the settings again and carries them out. On a bad file it
	// returns the problems and the old settings stay.
	Reload(ctx context.Context) (Plan, error)
	// Clear ends a state that only a person may end.
	Clear(ctx context.Context, what Clearance) error
	// Stop asks the speaker's process to stop and returns once it has begun to.
	Stop(ctx context.Context, reason StopReason) error
	// Close ends the connection. It moves no route.
	Close() error
}

// Options are what the agent wants to hear. Both functions are called from one
// goroutine, one after the other, and must return soon.
type Options struct {
	// OnActual hears every new snapshot, also the first after each connect, at
	// most one in 5 ms; snapshots in between are skipped.
	OnActual func(steadycast.Actual)
	// OnLost hears that the speaker can no longer be reached, once, until the next OnActual.
	OnLost func(error)
	// Watch makes a read-only connection, which leaves the agent's alone.
	Watch bool
}

// Intent is the newest set a speaker took up, as it is kept on disk.
type Intent struct {
	Set steadycast.RouteSet `json:"set"`
	// At is when it was taken up.
	At time.Time `json:"at,omitzero"`
	// Fence is the highest ledger position ever carried out, zero after a person cleared it.
	Fence steadycast.Fence `json:"fence,omitzero"`
	// Remembered is true while the set is only remembered from before the
	// speaker's start: it says what was announced, and nothing is.
	Remembered bool `json:"remembered,omitempty"`
}

// Plan is what new settings change.
type Plan struct {
	// Neighbors has one row per neighbour that changes.
	Neighbors []bgp.Change `json:"neighbors,omitempty"`
	// Notes say what else changes, one sentence each.
	Notes []string `json:"notes,omitempty"`
}

// Resets names the neighbours whose session is closed and opened again.
func (p Plan) Resets() (names []string) {
	for _, c := range p.Neighbors {
		if c.Kind == bgp.ChangeReset {
			names = append(names, c.Neighbor)
		}
	}
	return names
}

// Clearance is what Clear ends.
type Clearance string

const (
	// ClearCrashLoop lets a speaker announce again that stays out after three
	// starts in ten minutes.
	ClearCrashLoop Clearance = "crash_loop"
	// ClearFence forgets the highest fence, incarnation and version, for a ledger that was restored
	// from an older copy without a new epoch.
	ClearFence Clearance = "fence"
)

// StopReason says why a speaker stops, and so how.
type StopReason string

const (
	// StopDrain: drain, withdraw, remove addresses, close. What SIGTERM does.
	StopDrain StopReason = "drain"
	// StopNow: the same without waiting. What a second SIGTERM does.
	StopNow StopReason = "now"
)

// Refused is the speaker's no, with its reason in words.
type Refused struct {
	// Code is stable for machines: fence, stale, allow, crash_loop, disk, stopping, settings, replaced, invalid.
	Code string `json:"code"`
	// Text says what was refused and what to do.
	Text string `json:"text"`
}

func (r *Refused) Error() string { return r.Text }

// Is makes errors.Is compare by code.
func (r *Refused) Is(target error) bool {
	var t *Refused
	return errors.As(target, &t) && t.Code == r.Code && t.Text == ""
}

func refuse(code, format string, args ...any) *Refused {
	return &Refused{Code: code, Text: fmt.Sprintf(format, args...)}
}

// The refusals that callers tell apart, for errors.Is.
var (
	// ErrFence: the set rests on an older ledger position than one already carried out.
	ErrFence = &Refused{Code: "fence"}
	// ErrStale: an older incarnation or version of the agent than one already carried out.
	ErrStale = &Refused{Code: "stale"}
	// ErrCrashLoop: the speaker stays out after too many starts.
	ErrCrashLoop = &Refused{Code: "crash_loop"}
	// ErrDisk: the intent could not be written; withdrawals were carried out, new prefixes were not.
	ErrDisk = &Refused{Code: "disk"}
	// ErrStopping: the speaker is on its way out.
	ErrStopping = &Refused{Code: "stopping"}
	// ErrReplaced: a newer agent took this one's place.
	ErrReplaced = &Refused{Code: "replaced"}
)

// ErrLost is wrapped by errors that mean the speaker cannot be reached.
var ErrLost = errors.New("the speaker cannot be reached")
