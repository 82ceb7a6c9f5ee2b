// Package speaker is the process that owns the BGP sessions and the service
// addresses, and the client by which an agent tells it what to announce.
//
// It is kept small and changes rarely, because its routes go when it goes. It
// decides nothing: it carries out the newest whole [steadycast.RouteSet] it was
// given and reads back what really left on the wire ([steadycast.Actual]).
//
// What it promises:
//
//   - After a start it announces nothing until an agent gives it a set.
//   - A set with a lower fence, incarnation or version than one it has carried
//     out is refused, also after a restart: the newest intent is on disk.
//   - A withdrawal waits for nothing: no disk, no log, no other peer, no address.
//   - Something new is announced only after the intent to do so is on disk.
//   - The loss of the agent moves no route; with `agent_lost: deprefer` routes are
//     made less attractive after a minute, and never withdrawn.
//   - It stops in this order: drain, wait, withdraw, wait, remove the addresses
//     that it added, close the sessions with a text. A second request skips the waits.
//   - The third start within ten minutes announces nothing and says so.
//
// What it does not promise: that a route is gone at the router when Apply
// returns. Apply returns when the change was handed to the sessions; proof
// comes in Actual.
//
// One goroutine ([engine].run) owns all state. A second one writes the intent to
// disk, so that a stalled disk stalls announcements and nothing else.
package speaker
