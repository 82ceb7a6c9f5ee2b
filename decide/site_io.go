package decide

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/steadycast/steadycast"
)

// Now is the node's monotonic time since its agent started. Machines take it
// as an argument and never read a clock.
type Now = time.Duration

// Input is one thing that happened to a site. The closed set is in this file.
type Input interface{ input() }

// Tick says that time has passed; see [Site.Wake].
type Tick struct{}

// Observed is one round of a service's probes, here or elsewhere.
type Observed struct {
	Observation steadycast.Observation
	// From is the time from which the observation's age counts: for a local one
	// the start of its round, for a remote one when the nonce it echoes was issued.
	From Now
}

// Answered is the ledger's answer to one request.
type Answered struct{ Answer Answer }

// Committed is what the ledger holds, whenever that changes.
type Committed struct{ View View }

// Proved is what the speaker really did, whenever that changes.
type Proved struct{ Actual steadycast.Actual }

// SpeakerLost says that the speaker cannot be reached; it ends with the next Proved.
type SpeakerLost struct{ Reason string }

// LedgerLost says that a call to the ledger failed, while the newest committed
// position was At. It ends with a view of a later one: what was committed
// before, or needed no commit, does not show that it works.
type LedgerLost struct {
	Reason string
	At     steadycast.Fence
	// For is how long it has been lost already.
	For Now
}

// LedgerFound says that a ledger in other processes is heard again, from one that
// follows its leader: it can be asked, although nothing new was committed.
type LedgerFound struct{}

// Elsewhere is one look, from here, for whoever else serves a prefix: Up means
// that somebody answers for it or shows it, Down that nobody does.
type Elsewhere struct {
	Name    string
	Prefix  netip.Prefix
	Outcome steadycast.Outcome
	// From is when the look began.
	From Now
}

// Loaded is what the site carries, in the unit of its capacity in the table.
type Loaded struct {
	Load int64
	// From is when it was so.
	From Now
}

// Equipped replaces, after a reload, the addresses that go into every RouteSet,
// and the names of the outside views that count.
type Equipped struct {
	VIPs  []netip.Prefix
	Views []string
}

// Viewed is one look at a prefix from outside: a router's table, a looking glass.
// Up means that our route is there, Down that it is not.
type Viewed struct {
	Name    string
	Prefix  netip.Prefix
	Outcome steadycast.Outcome
	Reason  string
	// From is when the look began.
	From Now
}

// Outdated says that the node acts on another table than the fleet's, and cannot
// follow; an empty reason ends it. What it announces is depreferred meanwhile. With
// a service, only that does: what answers for it here goes by old state.
type Outdated struct{ Reason, Service string }

// Local is what a person at this node ordered while there is no ledger; nil ends
// it. It stands above what the ledger said last.
type Local struct{ Order *steadycast.Order }

// Unfenced is a person's word that the ledger was restored from an older copy:
// its next view is believed, whatever its position, and the whole set is given again.
type Unfenced struct{}

func (Tick) input()        {}
func (Unfenced) input()    {}
func (Local) input()       {}
func (Outdated) input()    {}
func (Viewed) input()      {}
func (Equipped) input()    {}
func (Loaded) input()      {}
func (Elsewhere) input()   {}
func (Observed) input()    {}
func (Answered) input()    {}
func (Committed) input()   {}
func (Proved) input()      {}
func (SpeakerLost) input() {}
func (LedgerLost) input()  {}
func (LedgerFound) input() {}

// Effect is one thing the shell must do, in the order given.
type Effect interface{ effect() }

// Report sends changed verdicts to the ledger.
type Report struct{ Verdicts []steadycast.Verdict }

// Ask sends a request to the ledger. The same ID may be sent again: it is idempotent.
type Ask struct{ Request steadycast.Request }

// GiveUp tells the ledger that every request up to ID is dead and the site is
// still announcing these units (Void in the protocol, rule P3).
type GiveUp struct {
	ID    steadycast.RequestID
	Units []steadycast.Unit
}

// Announce gives the speaker the whole wanted state.
type Announce struct{ Set steadycast.RouteSet }

// Pace sets how fast a service is probed.
type Pace struct {
	Service string
	Fast    bool
}

// Note is a transition for people: log, events, metrics.
type Note struct{ Event steadycast.Event }

func (Report) effect()   {}
func (Ask) effect()      {}
func (GiveUp) effect()   {}
func (Announce) effect() {}
func (Pace) effect()     {}
func (Note) effect()     {}

// Beat is what a site says of itself once a second, so that the ledger counts
// truthfully: a unit counts as announcing only while its phase is In and a
// fresh beat names it. See [Site.Beat].
type Beat struct {
	Site string `json:"site"`
	// Node that says so, where the site has several: each says what it does itself.
	Node        string `json:"node,omitempty"`
	Incarnation uint64 `json:"inc"`
	// Seq counts the beats of one incarnation, so that one that was long on its way
	// never replaces a newer one. Who sends counts.
	Seq uint64 `json:"seq,omitempty"`
	// Announcing are the units that are wanted and that at least one established
	// peer was sent, in order of prefix.
	Announcing []steadycast.Unit `json:"announcing,omitempty"`
	// After a recovery, of units that are not announced: Wanted are those that would be,
	// but for a peer that has them; Left those that a permit or an order took out, by what
	// the node knew before.
	Wanted []steadycast.Unit `json:"wanted,omitempty"`
	Left   []steadycast.Unit `json:"left,omitempty"`
	// Returned proves returns: the peer's TCP has acknowledged the route (rule P4).
	Returned []ReturnProof `json:"returned,omitempty"`
	// DeadThrough: every request up to it will never be carried out (any more).
	DeadThrough steadycast.RequestID `json:"dead_through,omitzero"`
	// At is the newest position of the ledger that the site acts on, and Unproven the
	// units of which that is not proven yet.
	At       steadycast.Fence  `json:"at,omitzero"`
	Unproven []steadycast.Unit `json:"unproven,omitempty"`
	// Revision is that of the table which the node acts on; 0 where it is not said.
	Revision uint64 `json:"revision,omitempty"`
	// Load is what the site carries, and how old the figure is; nil where it is not known.
	Load *Load `json:"load,omitempty"`
	// Ramps are what was counted of services that return.
	Ramps []Ramped `json:"ramps,omitempty"`
	// Cuts are those of its routes that are not done yet, or of which the ledger may
	// not know what they came to; [CutsTold] at most.
	Cuts []CutTold `json:"cuts,omitempty"`
	// Led is what the node's server of names counted; nil where it has none.
	Led *LedTold `json:"led,omitempty"`
	// Met is whom it met at shared addresses whose sites are out; nil where it did not ask.
	Met *MetTold `json:"met,omitempty"`
}

// Speaker orders beats by who says them: site, then node.
func (b Beat) Speaker(a Beat) int {
	return cmp.Or(cmp.Compare(b.Site, a.Site), cmp.Compare(b.Node, a.Node))
}

// BeatFresh is how old a beat may be, by the nonce that it echoes, to say anything.
const BeatFresh = 5 * time.Second

// Late reports whether a beat counts for nothing beside the one of the same speaker
// that is held, because it was said before it. later is by how much the nonce that
// b echoes was issued after that of a, by the clock of the one who issued both.
//
// Starts and numbers say what came first, and whoever replays an old beat cannot
// raise them. But a node that was set back to an older disk counts from there
// again, and would not be heard until it had caught up. So between beats whose
// nonces are further apart than BeatFresh the nonces decide: what echoes a nonce
// was said after it was issued, and a nonce cannot be guessed. A replay gains
// nothing by that, for its nonce is as old as ever; and what is replaced, against
// the numbers, is silent for so long that it says nothing any more. Of two nodes
// that run with one name, copies of one disk, the one with the higher numbers is
// heard as long as it speaks.
func (b Beat) Late(a Beat, later time.Duration) bool {
	if later > BeatFresh || later < -BeatFresh {
		return later < 0
	}
	return b.Incarnation < a.Incarnation || b.Incarnation == a.Incarnation && b.Seq < a.Seq
}
