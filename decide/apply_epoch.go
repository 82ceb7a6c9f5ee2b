package decide

import "github.com/steadycast/steadycast"

// epoch begins a new epoch: the voters that knew more are lost for good, and the
// ledger goes on from what one of them had. Whoever acts has seen later entries
// perhaps, so automation stands still until a person has looked and thaws it;
// and every position of the new epoch is above those of the old one, however
// many entries were lost.
//
// By itself that moves no route, whatever the copy says and how old it is:
//
//   - Every unit is Unheard. Its phase is what the copy says, and nobody acts on it: the
//     site goes on as it is, floors neither count the unit nor take it for gone, and
//     guards refuse automation.
//   - Every order is Recovered: it stands in the list, and binds nobody.
//   - What waited for a person's yes, or had it, is asked for anew.
//
// The first word of a site that knows of the recovery ends that for its units
// (reconcile). A permit of the old epoch is carried out by nobody who knows of the
// new one, so what such a site announces it goes on to announce. What a person orders
// since is in force at once, heard or not.
func (a *applying) epoch() string {
	if !a.explained(a.e.Actor, a.e.Reason) {
		return ""
	}
	a.Fence.Epoch, a.reply.Fence.Epoch = a.e.Epoch, a.e.Epoch
	a.event(steadycast.Event{Kind: steadycast.EventAlarm, Actor: a.e.Actor, To: a.Fence.String(), Reason: "the ledger was recovered from what one voter had: " + a.e.Reason})
	a.holdPlans("the ledger was recovered from what one voter had: " + a.e.Reason)
	for i := range a.Units {
		a.Units[i].Unheard = true
	}
	for i := range a.Orders {
		a.Orders[i].Recovered = true
	}
	for i := range a.NodeOrders {
		a.NodeOrders[i].Recovered = true
	}
	a.Decisions = nil
	return a.freeze(Scope{})
}
