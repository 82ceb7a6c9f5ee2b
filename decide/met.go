package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
)

// That every router has acknowledged a withdrawal says nothing of where packets go:
// one further away may keep the route, or somebody else may hold it. So nodes that do
// not have a shared address themselves, most of all witnesses, ask it who they are,
// over and over while a site is out (`who_answers` in node.yaml), and tell with
// their beats whom they met. A site that should be out and answers keeps its cut in
// progress. Whoever asks and meets other sites, or nobody, says nothing.

// MetMost bounds the units of one beat.
const MetMost = 128

// MetTold is what a node that asks says of the sites that are out, also while none is.
type MetTold struct {
	// Asked are the units that are out whose address was asked of late; Met are those of
	// them whose own site answered.
	Asked []steadycast.Unit `json:"asked,omitempty"`
	Met   []steadycast.Unit `json:"met,omitempty"`
}

// Sound bounds what a node says.
func (m *MetTold) Sound() *MetTold {
	if m == nil {
		return nil
	}
	return &MetTold{m.Asked[:min(len(m.Asked), MetMost)], m.Met[:min(len(m.Met), MetMost)]}
}

// MetBy is who has met a unit's site at its shared address, how many have asked, and
// how many nodes ask at all, by what was told last.
func MetBy(told []SiteNow, u steadycast.Unit) (met []string, asked, askers int) {
	for _, x := range told {
		if x.Met == nil || x.AgeMS > BeatFresh.Milliseconds() {
			continue
		}
		askers++
		switch {
		case slices.Contains(x.Met.Met, u):
			met = append(met, cmp.Or(x.Node, x.Site))
			fallthrough
		case slices.Contains(x.Met.Asked, u):
			asked++
		}
	}
	return met, asked, askers
}

// met says that the site still answers where its route was cut, "" if nobody saw it.
func (f *CutFacts) met() string {
	if len(f.Met) == 0 {
		return ""
	}
	return fmt.Sprintf("identity: %s still answers at %s, as %s sees it", f.Unit.Site, f.Unit.Prefix, strings.Join(f.Met, ", "))
}

// unmeasured says what is known, and what is not, where nobody counts packets.
func (f *CutFacts) unmeasured() string {
	s := "nothing counts what still comes here"
	if f.Named > 0 {
		s += "; by their own counts, no server of names leads anybody here"
	}
	if f.Asked > 0 {
		s += "; who asked for it did not meet it"
	}
	return s
}
