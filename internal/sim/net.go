package sim

import (
	"time"
)

// network is what lies between the hosts of places: for each direction of each
// pair a cut, or a delay that keeps messages in flight.
type network struct {
	cut  [][]int // how many faults cut it
	late [][]time.Duration
	// stale keeps what is observed of a place in flight, and nothing else.
	stale []time.Duration
}

func newNetwork(n int) network {
	x := network{cut: make([][]int, n), late: make([][]time.Duration, n), stale: make([]time.Duration, n)}
	for i := range n {
		x.cut[i], x.late[i] = make([]int, n), make([]time.Duration, n)
	}
	return x
}

// open reports whether messages pass from one place to another.
func (x *network) open(from, to int) bool { return x.cut[from][to] == 0 }

// send delivers a message, unless it is cut or lost: 20 to 80 ms later, or as
// much later as the link is late, and now and then a second time, seconds after.
func (w *world) send(from, to int, do func()) {
	if !w.net.open(from, to) {
		return
	}
	if from == to {
		w.in(time.Millisecond, do)
		return
	}
	x := w.dice.Uint64()
	if x%256 == 0 {
		return
	}
	d := 20*time.Millisecond + time.Duration(x>>8%60_000)*time.Microsecond + w.net.late[from][to]
	w.in(d, do)
	if x>>40%256 == 0 {
		w.in(d+time.Duration(x>>48%3000)*time.Millisecond, do)
	}
}

// relayed is send for observations: by way of a third place where the direct
// link is cut.
func (w *world) relayed(from, to int, do func()) {
	if late := w.net.stale[to]; late > 0 {
		deliver := do
		do = func() { w.in(late, deliver) }
	}
	if w.net.open(from, to) {
		w.send(from, to, do)
		return
	}
	by := w.voters[w.dice.IntN(len(w.voters))].place
	if by != from && by != to && w.places[by].up {
		w.send(from, by, func() { w.send(by, to, do) })
	}
}
