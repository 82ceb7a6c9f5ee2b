package decide

import "testing"

// What guards say of the past is whole seconds, and never more than it was: a
// cooldown that still binds does not read as one that is over.
func TestPast(t *testing.T) {
	for ms, want := range map[Time]string{-5: "0s", 0: "0s", 7: "7ms", 999: "999ms", 1000: "1s", 23707: "23s", 299_999: "4m59s", 300_000: "5m0s"} {
		if got := past(ms).String(); got != want {
			t.Errorf("%d ms ago reads %s, not %s", ms, got, want)
		}
	}
}
