package ledger

import (
	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// The calls of a voter: each is JSON by POST to its path, and answered with JSON.
const (
	pathAsk      = "/v1/ask"      // askCall → decide.Answer
	pathReport   = "/v1/report"   // reportCall → {}
	pathGiveUp   = "/v1/giveup"   // giveUpCall → {}
	pathOrder    = "/v1/order"    // orderCall → decide.Reply
	pathDo       = "/v1/do"       // doCall → decide.Reply
	pathTable    = "/v1/table"    // tableCall → decide.Reply
	pathCarry    = "/v1/carry"    // decide.Signed → decide.Reply
	pathAck      = "/v1/ack"      // decide.Ack → {}
	pathRevision = "/v1/revision" // revisionCall → decide.Table
	pathSeal     = "/v1/seal"     // {} → decide.Seal
	pathGuards   = "/v1/guards"   // {} → []decide.Ruling
	pathSites    = "/v1/sites"    // {} → []decide.SiteNow
	pathHistory  = "/v1/history"  // {} → []decide.Past
	pathLocal    = "/v1/local"    // steadycast.Order → decide.Reply
	pathEnter    = "/v1/enter"    // decide.Wish → decide.Reply
	pathTry      = "/v1/try"      // decide.Wish → decide.Reply
	pathBeat     = "/v1/beat"     // beatCall → beatReply
	pathState    = "/v1/state"    // {} → State
	pathWatch    = "/v1/watch"    // steadycast.Fence → reports, one a line, without end
)

type askCall struct {
	Request  steadycast.Request   `json:"request"`
	Reported []steadycast.Verdict `json:"reported,omitempty"`
}

type reportCall struct {
	Verdicts []steadycast.Verdict `json:"verdicts"`
}

type giveUpCall struct {
	Site  string               `json:"site"`
	ID    steadycast.RequestID `json:"id"`
	Units []steadycast.Unit    `json:"units"`
}

type orderCall struct {
	Order steadycast.Order `json:"order"`
	Try   bool             `json:"try,omitempty"`
}

// doCall is one of a person's plain entries.
type doCall struct {
	Kind   decide.Kind  `json:"kind"`
	Scope  decide.Scope `json:"scope"`
	Actor  string       `json:"actor"`
	Reason string       `json:"reason"`
	Try    bool         `json:"try,omitempty"`
}

type revisionCall struct {
	Revision uint64 `json:"revision"`
}

type tableCall struct {
	Table  decide.Table `json:"table"`
	Actor  string       `json:"actor"`
	Reason string       `json:"reason"`
}

// beatCall echoes the newest nonce that this voter gave to the sender: a beat
// is as old as that, however long it was on the way.
type beatCall struct {
	Beat  decide.Beat `json:"beat"`
	Nonce string      `json:"nonce,omitempty"`
}

type beatReply struct {
	Nonce string `json:"nonce"`
	// Counted is false for a beat without a nonce of this voter's process.
	Counted bool `json:"counted"`
}

// State is what one voter says of itself.
type State struct {
	Fleet string `json:"fleet"`
	Node  string `json:"node"`
	// Empty: it holds nothing of any ledger, so it may be taken into one.
	Empty bool `json:"empty"`
	// Role is leader, follower, candidate, or shutdown after it was taken out.
	Role   string `json:"role"`
	Term   uint64 `json:"term"`
	Leader Peer   `json:"leader,omitzero"`
	// LastIndex, Commit and Applied are positions in raft's log.
	LastIndex uint64 `json:"last_index"`
	Commit    uint64 `json:"commit"`
	Applied   uint64 `json:"applied"`
	// Fence is the position of the fleet's own entries, Hash the state there.
	Fence   steadycast.Fence `json:"fence"`
	Hash    string           `json:"hash"`
	Members []Member         `json:"members,omitempty"`
	// Rules is the newest level of rules that this binary knows.
	Rules int `json:"rules"`
	// Free is the room on its disk in bytes.
	Free int64 `json:"free"`
	// Skewed are the nodes that it hears act on another table than the one in force.
	Skewed []Skewed `json:"table_skew,omitempty"`
}

// Member is one voter of the ledger as its log has it, or one on its way in.
type Member struct {
	Peer
	Voter bool `json:"voter"`
}
