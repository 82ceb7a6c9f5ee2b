package steadycast_test

import (
	"testing"

	"github.com/steadycast/steadycast"
)

func TestRestarted(t *testing.T) {
	was := steadycast.Actual{Started: 3, Incarnation: 5, Version: 7}
	for _, c := range []struct {
		name string
		is   steadycast.Actual
		want bool
	}{
		{"the same", steadycast.Actual{Started: 3, Incarnation: 5, Version: 7}, false},
		{"a newer set", steadycast.Actual{Started: 3, Incarnation: 5, Version: 8}, false},
		{"a newer agent", steadycast.Actual{Started: 3, Incarnation: 6, Version: 1}, false},
		{"another start", steadycast.Actual{Started: 4, Incarnation: 5, Version: 7}, true},
		{"a start that was not counted, with nothing yet", steadycast.Actual{Started: 3}, true},
		{"a start that was not counted, with an older set", steadycast.Actual{Started: 3, Incarnation: 5, Version: 6}, true},
		{"a count that was lost", steadycast.Actual{Started: 1, Incarnation: 5, Version: 7}, true},
	} {
		if got := c.is.Restarted(&was); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if c.is.Restarted(&steadycast.Actual{}) {
			t.Errorf("%s: the first word of a speaker reads as a restart", c.name)
		}
	}
}
