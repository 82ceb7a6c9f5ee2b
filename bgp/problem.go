package bgp

// Problem is one thing that is wrong with settings: where, and what to do.
type Problem struct {
	// Path is the key within the section, as it is written: neighbors[0].hold_time.
	Path string
	// Text gives the value, what is allowed and the next step.
	Text string
}

func (p Problem) String() string { return p.Path + ": " + p.Text }
