package steadycast

import (
	"net/netip"
	"time"
)

// EventKind names what happened; the words are stable for machines.
type EventKind string

// The kinds of event.
const (
	EventVerdict  EventKind = "verdict"  // a service's state changed
	EventRequest  EventKind = "request"  // a site asked the ledger
	EventPermit   EventKind = "permit"   // the ledger said yes
	EventRefused  EventKind = "refused"  // a guard said no
	EventRoute    EventKind = "route"    // what is announced was changed
	EventProof    EventKind = "proof"    // a change was read back from the world
	EventOrder    EventKind = "order"    // a person's wish began or ended
	EventFreeze   EventKind = "freeze"   // automation stopped or went on
	EventPeer     EventKind = "peer"     // a BGP session changed
	EventVIP      EventKind = "vip"      // a service address appeared or went
	EventConfig   EventKind = "config"   // a configuration was loaded or refused
	EventAlarm    EventKind = "alarm"    // something needs a person
	EventRecovery EventKind = "recovery" // an alarm ended
	EventDecision EventKind = "decision" // what waits for a person's yes began, was answered or ended
	EventPlan     EventKind = "plan"     // a plan or a step of it began, went on or ended
	EventOperator EventKind = "operator" // who may sign orders was changed
	EventNames    EventKind = "names"    // a person set the mode of the answers, or switched a member of a name
	EventShare    EventKind = "share"    // DNS sends a site more or fewer of its clients
	EventPath     EventKind = "path"     // a site's routes go another way
)

// EventKinds are all kinds, in the order in which they stand above.
func EventKinds() []EventKind {
	return []EventKind{
		EventVerdict, EventRequest, EventPermit, EventRefused, EventRoute, EventProof, EventOrder, EventFreeze, EventPeer,
		EventVIP, EventConfig, EventAlarm, EventRecovery, EventDecision, EventPlan, EventOperator, EventNames, EventShare, EventPath,
	}
}

// Event is one transition, with its reason. At is set by the shell.
type Event struct {
	ID   uint64    `json:"id,omitempty"`
	At   time.Time `json:"at,omitzero"`
	Kind EventKind `json:"kind"`
	Site string    `json:"site,omitempty"`
	// Node of a site of several, where it is about that one alone or told by it.
	Node    string       `json:"node,omitempty"`
	Service string       `json:"service,omitempty"`
	Prefix  netip.Prefix `json:"prefix,omitzero"`
	Peer    string       `json:"peer,omitempty"`
	From    string       `json:"from,omitempty"`
	To      string       `json:"to,omitempty"`
	Guard   string       `json:"guard,omitempty"`
	Request RequestID    `json:"request,omitzero"`
	Actor   string       `json:"actor,omitempty"`
	// Reason is one sentence.
	Reason string `json:"reason,omitempty"`
}
