package main

import (
	"strings"
	"testing"

	"github.com/steadycast/steadycast"
)

// A guard that acts by itself is named once.
func TestEventNamesAGuardOnce(t *testing.T) {
	_, text := eventText(style{}, &steadycast.Event{Kind: steadycast.EventFreeze, Guard: "breaker", Actor: "breaker", Reason: "too many at once"})
	if strings.Count(text, "breaker") != 1 || !strings.Contains(text, "by breaker: too many at once") {
		t.Errorf("%q", text)
	}
}
