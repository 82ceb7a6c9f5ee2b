package decide

import (
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// A service that hangs is seen only when its check gives up, round after round,
// and what was seen must count until the next word. So it must for every timeout
// that a configuration allows (internal/config, inTime), for a site alone and for
// one that others watch, whose echo may be a second old.
func TestHangingServiceIsJudged(t *testing.T) {
	const slack = 250 * time.Millisecond // between two rounds, and on the way
	for _, interval := range []Now{10 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second, time.Minute} {
		for _, fleet := range []bool{false, true} {
			table, names, echo := Table{Sites: []Place{{Name: "fra"}}}, []string{"fra"}, Now(0)
			if fleet {
				table, names, echo = Table{Sites: []Place{{Name: "ams"}, {Name: "fra"}, {Name: "lhr"}}}, []string{"ams", "fra", "lhr"}, time.Second
			}
			timeout := (FreshFor(interval) - echo - slack) / 2
			if timeout < time.Second {
				t.Errorf("interval %v: not even the default timeout of a check fits", interval)
			}
			j := newJury(table, "fra", !fleet, interval, jury{})
			began := Now(0)
			for seq := range uint64(3) {
				at := began + timeout
				j.expire(at)
				for _, v := range names {
					age := echo
					if v == "fra" {
						age = 0
					}
					j.hear(at, steadycast.Observation{Vantage: v, Subject: "fra", Service: "web", Seq: seq + 1,
						Result: steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Soft}}, max(began-age, 0))
				}
				began = at + slack
			}
			if c := j.count(); !c.enough || c.bad != 3 {
				t.Errorf("interval %v, fleet %v, timeout %v: three rounds timed out, and %d of %d voices failed %d times in a row",
					interval, fleet, timeout, c.failing, c.voices, c.bad)
			}
		}
	}
}
