package config

import (
	"os"

	"github.com/steadycast/steadycast/bgp"
)

// Either reads a file of either kind for commands that need no daemon: a
// node.yaml with the table it names or contains, or a fleet.yaml, to which the
// node is then one with every default and one neighbour. The Config is of use
// only when Problems.Err is nil.
func Either(file string) (*Config, Problems) {
	src, ps := read(file)
	if ps != nil {
		return nil, ps
	}
	if !isTable(file, src) {
		return loading{env: os.Environ(), open: read}.node(file, src)
	}
	fleet, ps := alone(file, src)
	return Around(fleet, file), ps
}

// Around is a table with a node that has every default and one neighbour.
func Around(fleet Fleet, file string) *Config {
	n := newNode()
	n.BGP.Neighbors = make([]bgp.Neighbor, 1)
	n.BGP = n.BGP.WithDefaults()
	n.settle()
	if len(fleet.Sites) > 1 {
		n.Mode = "fleet"
	}
	return &Config{TableFile: file, Node: n, Fleet: fleet}
}
