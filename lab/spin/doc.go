// Package spin holds two models: of the permit protocol, permit.pml, and of what the
// nodes of one site promise each other, siblings.pml. The model checker Spin walks
// through them in every order of events: what the simulator finds with luck in a
// million schedules is found here without, as far as the models go. They know a
// ledger that never forgets, and a network that loses, doubles and reorders; they know
// neither time nor raft nor evidence. For those there is internal/sim.
//
// The test checks small instances, and that each rejected rule of the models is
// found to be wrong. `make spin` checks larger ones, in some minutes.
package spin
