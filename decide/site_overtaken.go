package decide

import "github.com/steadycast/steadycast"

// Overtaken is the start of this node of which the ledger knows requests that this
// one never made; ok is false while there is none. The disk was set back to an
// older copy then, or lost, and this agent counts anew what was counted before: an
// answer to an earlier request would be taken for one to its own. So it asks for
// nothing any more, and whoever runs it starts it again with a higher number.
func (s *Site) Overtaken() (start uint64, ok bool) { return s.ahead, s.ahead > 0 }

// overtake holds the id of a request of this site against what this node has made.
func (s *Site) overtake(id steadycast.RequestID) {
	mine := steadycast.RequestID{Node: s.me, Incarnation: s.o.Incarnation, Seq: s.seq}
	if id.Node == mine.Node && id.Compare(mine) > 0 {
		s.ahead = max(s.ahead, id.Incarnation)
	}
}
