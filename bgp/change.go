package bgp

// ChangeKind says what a reconfiguration does to one neighbour.
type ChangeKind string

// The kinds of change, mildest first.
const (
	// ChangeNone: nothing that can be seen outside.
	ChangeNone ChangeKind = "none"
	// ChangeAttributes: each announced prefix whose attributes differ is sent
	// once more, as one implicit replace; the session stays.
	ChangeAttributes ChangeKind = "attributes"
	// ChangeReset: the session is closed and opened again.
	ChangeReset ChangeKind = "reset"
	// ChangeAdd: a new neighbour.
	ChangeAdd ChangeKind = "add"
	// ChangeRemove: the neighbour goes; its session is closed.
	ChangeRemove ChangeKind = "remove"
)

// Change is what a reconfiguration does to one neighbour, and why.
type Change struct {
	Neighbor string     `json:"neighbor"`
	Kind     ChangeKind `json:"kind"`
	// Reason is one sentence: "password changed: session tor1 will be reset".
	Reason string `json:"reason"`
}
