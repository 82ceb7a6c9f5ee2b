// Package spin holds a model of the permit protocol, permit.pml, that the model
// checker Spin walks through in every order of events: what the simulator finds
// with luck in a million schedules is found here without, as far as the model
// goes. It knows one ledger that never forgets, and a network that loses,
// doubles and reorders; it knows neither time nor raft nor evidence. For those
// there is internal/sim.
//
// The test checks small instances, and that each rejected rule of the model is
// found to be wrong. `make spin` checks the larger ones, in some minutes.
package spin
