package answers

import (
	"slices"

	"github.com/steadycast/steadycast/decide"
)

// Mode is a rung of the ladder by which answers let go of automation, and then of
// everything but the addresses themselves. Each lets go of more than the one before.
type Mode uint8

// The rungs.
const (
	Normal       Mode = iota // answers follow health, orders and the table
	Conservative             // health moves nothing any more; orders and the table do
	Frozen                   // orders neither; only another table, or another mode
	Minimal                  // the plain anycast addresses, for names that have some
)

var modes = [...]string{"normal", "conservative", "frozen", "minimal"}

func (m Mode) String() string { return modes[m] }

// Ordered is the mode that a person ordered, with who and why.
func Ordered(*decide.View) (Mode, string) { return Normal, "" }

// Modes are the words for all of them, the first the highest.
func Modes() []string { return slices.Clone(modes[:]) }
