package main

import (
	"strings"
	"testing"

	"github.com/steadycast/steadycast/internal/ledger"
)

// TestMembersSaySkew: a node that acts on another table is said once, however many
// voters hear it.
func TestMembersSaySkew(t *testing.T) {
	heard := &ledger.State{Role: "follower", Skewed: []ledger.Skewed{{Site: "fra", Node: "fra-1", Revision: 3, Fleet: 4}}}
	deaf := &ledger.State{Role: "leader"}
	text := renderMembers(style{width: 120}, ledger.Survey{Voters: []ledger.SurveyState{{State: heard}, {State: deaf}, {State: heard}, {Error: "silent"}}})
	if want := "Alarm        table_skew: fra-1 acts on revision 3 of the table and the fleet on 4\n"; strings.Count(text, want) != 1 {
		t.Errorf("%s", text)
	}
}
