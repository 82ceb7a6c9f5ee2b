package decide

import "github.com/steadycast/steadycast"

// epoch begins a new epoch: the voters that knew more are lost for good, and the
// ledger goes on from what one of them had. Whoever acts has seen later entries
// perhaps, so automation stands still until a person has looked and thaws it;
// and every position of the new epoch is above those of the old one, however
// many entries were lost.
func (a *applying) epoch() string {
	if !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	a.Fence.Epoch, a.reply.Fence.Epoch = a.e.Epoch, a.e.Epoch
	a.event(steadycast.Event{Kind: steadycast.EventAlarm, Actor: a.e.Actor, To: a.Fence.String(), Reason: "the ledger was recovered from what one voter had: " + a.e.Reason})
	a.holdPlans("the ledger was recovered from what one voter had: " + a.e.Reason)
	return a.freeze(Scope{})
}
