package decide_test

import (
	"slices"
	"testing"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// TestSpeakersNewestAlarmStands: the speaker has one line for what is wrong with
// it. When it says something else the old words must not go on standing, and
// the new ones are told once.
func TestSpeakersNewestAlarmStands(t *testing.T) {
	s := decide.NewSite(decide.SiteOptions{Name: "fra", Node: "fra-1", Incarnation: 1, Solo: true})
	var told []string
	step := func(in decide.Input) {
		for _, e := range s.Step(0, in) {
			if n, ok := e.(decide.Note); ok && (n.Event.Kind == steadycast.EventAlarm || n.Event.Kind == steadycast.EventRecovery) {
				told = append(told, n.Event.Reason)
			}
		}
	}
	for _, alarm := range []string{"stopping", "stopping", "3 starts", "3 starts", ""} {
		step(decide.Proved{Actual: steadycast.Actual{Started: 1, Alarm: alarm}})
		standing := slices.ContainsFunc(s.Explain().Alarms, func(e steadycast.Event) bool { return e.Reason == "speaker: "+alarm })
		if standing != (alarm != "") || alarm == "" && len(s.Explain().Alarms) > 0 {
			t.Errorf("after %q these stand: %+v", alarm, s.Explain().Alarms)
		}
	}
	if want := []string{"speaker: stopping", "speaker: 3 starts", "the speaker reports no fault any more"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
