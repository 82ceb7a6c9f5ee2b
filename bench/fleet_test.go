package bench

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/demo"
)

// BenchmarkFleet is the time from the death of a service until the router has
// heard the withdrawal, in the demo's fleet: three sites that watch each other and
// three voters, all in one process on this host. "judged" is from the death to the
// verdict of a quorum, "permit" from there until the voters have recorded the
// leave, "gone" the whole. In "leader-loss" the voter that leads stops in the same
// moment, and "permitted" is from then to the leave of the next.
func BenchmarkFleet(b *testing.B) {
	quick := func(h *decide.Health) {
		h.Interval, h.FastInterval, h.Fall, h.FallCertain = 200*time.Millisecond, 200*time.Millisecond, 2, 2
		h.DownFor = nil // what follows from the others
	}
	for _, c := range []struct {
		name, fault string
		rounds      int
		change      func(*decide.Health)
	}{
		{"1s", "kill", 10, func(*decide.Health) {}},
		{"200ms", "kill", 10, quick},
		{"leader-loss", demo.LeaderLoss, 6, func(*decide.Health) {}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
				o := demo.Options{Sites: 3, Socket: filepath.Join(b.TempDir(), "d.sock"), Adjust: func(t *decide.Table) { c.change(&t.Services[0].Health) }}
				all, err := demo.Measure(ctx, o, c.fault, c.rounds)
				cancel()
				if err != nil {
					b.Fatal(err)
				}
				var judged, permit, permitted, gone sample
				for _, t := range all {
					judged, permit = append(judged, t.Judged), append(permit, t.Permitted-t.Judged)
					permitted, gone = append(permitted, t.Permitted), append(gone, t.Withdrawn)
				}
				if c.fault == demo.LeaderLoss {
					permitted.report(b, "permitted")
				} else {
					judged.report(b, "judged")
					permit.report(b, "permit")
				}
				gone.report(b, "gone")
			}
			done(b)
		})
	}
}
