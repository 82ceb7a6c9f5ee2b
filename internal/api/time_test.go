package api

import (
	"testing"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// TestLedgerNow: an age in ledger time grows while nothing is entered, by the
// daemon's clock since the newest entry, and never runs back.
func TestLedgerNow(t *testing.T) {
	at := time.Date(2026, 5, 4, 6, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		viewAt time.Time
		want   decide.Time
	}{
		{"a snapshot that does not say", time.Time{}, 40_000},
		{"just entered", at, 40_000},
		{"nothing entered for a minute", at.Add(-time.Minute), 100_000},
		{"entered while it was taken", at.Add(time.Second), 40_000},
	} {
		s := &Snapshot{At: at, ViewAt: c.viewAt, View: decide.View{LT: 40_000}}
		if got := s.ledgerNow(); got != c.want {
			t.Errorf("%s: %d; want %d", c.name, got, c.want)
		}
	}
}
