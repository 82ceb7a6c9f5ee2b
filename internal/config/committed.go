package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/steadycast/steadycast/decide"
)

// committedFile is how problems call the text of the table in the ledger.
const committedFile = "fleet.yaml"

// With is node.yaml with the table that the fleet's ledger has committed: its
// text read again and judged against this node.
//
// The error says that the table cannot be used as a whole: there is no text, it
// is none for this version, or it does not say what was committed. Problems are
// what does not fit this node: a program that node.yaml does not let a table run,
// a prefix that it may not announce. A service that has one is left out, and the
// rest goes on: one mistake must not blind a node for everything.
func (c *Config) With(t decide.Table) (*Config, Problems, error) {
	if t.Source == "" {
		return nil, nil, errors.New("the ledger has no text for it; give fleet.yaml again")
	}
	fleet, ps := ParseTable(committedFile, []byte(t.Source))
	if err := ps.Err(); err != nil {
		return nil, nil, err
	}
	if said := fleet.Table(); !samePolicy(said, t) {
		return nil, nil, fmt.Errorf("its text does not say what the ledger committed: %s; this version may read it otherwise than the voters' did", differs(said, t))
	}
	l := c.origin.loading
	l.committed = &t.Source
	next, ps := l.judged(c.File, c.origin.src)
	next.Fleet.Revision, next.Fleet.Source = t.Revision, t.Source
	next.left = map[string]bool{}
	var found Problems
	for _, p := range ps {
		i, of := serviceOf(p)
		if of && i < len(next.Fleet.Services) {
			s := next.Fleet.Services[i]
			if !next.Fleet.serves(next.Node.Site, s.Service) {
				continue // it does not run here
			}
			next.left[s.Name] = next.left[s.Name] || !p.Warning
		}
		found = append(found, p)
	}
	return next, found, nil
}

// Own is what node.yaml says by itself. In a fleet the table is not its to say,
// even where it names a file to be judged with.
func (c *Config) Own() *Config {
	own := *c
	own.Fleet, own.TableFile = Fleet{}, ""
	return &own
}

var inService = regexp.MustCompile(`^services\[(\d+)\]`)

// serviceOf is the service of a committed table that a problem is about.
func serviceOf(p Problem) (int, bool) {
	m := inService.FindStringSubmatch(p.Path)
	if p.Place.File != committedFile || m == nil {
		return 0, false
	}
	i, err := strconv.Atoi(m[1])
	return i, err == nil
}

// parts of a table, each as it goes over the wire.
func parts(t decide.Table) map[string]json.RawMessage {
	t = t.WithDefaults() // also of what a newer version added
	t.Revision, t.Source = 0, ""
	b, err := json.Marshal(t)
	if err != nil {
		return nil
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(b, &m) != nil {
		return nil
	}
	return m
}

// samePolicy: two tables say the same, whatever their revision.
func samePolicy(a, b decide.Table) bool { return differs(a, b) == "" }

// differs names a part in which two tables differ.
func differs(a, b decide.Table) string {
	x, y := parts(a), parts(b)
	for _, key := range []string{"sites", "services", "prefixes", "guards", "drain_wait_ns"} {
		if !bytes.Equal(x[key], y[key]) {
			return key
		}
	}
	for key := range x {
		if !bytes.Equal(x[key], y[key]) {
			return key
		}
	}
	return ""
}
