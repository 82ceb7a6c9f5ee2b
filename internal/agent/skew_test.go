package agent

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
)

// hearsay is a ledger whose voters hear of nodes on another table.
type hearsay struct {
	ledger.Ledger
	skewed []ledger.Skewed
}

func (h hearsay) Skewed() []ledger.Skewed { return h.skewed }

// What the voters hear of other nodes' tables is an alarm at every node, so that one
// that cannot raise it itself is seen; of itself a node says it itself.
func TestSkewElsewhere(t *testing.T) {
	inFleet(t, func(f *together) {
		var a *Agent
		for _, site := range []string{"ams", "fra", "lon"} {
			f.serve(site, "up")
			x := f.start(site, func(o *Options) {
				if site == "lon" {
					o.Ledger = hearsay{o.Ledger, []ledger.Skewed{{Site: "fra", Revision: 1, Fleet: 2}, {Site: "lon", Revision: 1, Fleet: 2}}}
				}
			})
			if site == "lon" {
				a = x
			}
		}
		f.wires(30*time.Second, "ams=normal", "fra=normal", "lon=normal")
		s := a.snapshot.Load()
		if len(s.Alarms) != 1 || s.Alarms[0].Site != "fra" || s.Alarms[0].Text != "table_skew: the node of fra acts on revision 1 of the table and the fleet on 2" || s.Skewed != 1 {
			f.Errorf("%d skewed: %+v", s.Skewed, s.Alarms)
		}
	})
}

// A node that cannot follow the table in force says so at once, depreferences
// itself after half a minute, and is itself again when it can follow.
func TestSkewedNodeStepsBack(t *testing.T) {
	inFleet(t, func(f *together) {
		var bad atomic.Bool
		var a *Agent
		for _, site := range []string{"ams", "fra", "lon"} {
			f.serve(site, "up")
			x := f.start(site, func(o *Options) {
				derive := o.Derive
				o.Derive = func(t decide.Table) (Plan, error) {
					if site == "fra" && bad.Load() {
						return Plan{}, errors.New("no such program")
					}
					return derive(t)
				}
			})
			if site == "fra" {
				a = x
			}
		}
		f.wires(30*time.Second, "ams=normal", "fra=normal", "lon=normal")
		bad.Store(true)
		set := func(wait time.Duration) {
			f.Helper()
			f.table.Revision, f.table.DrainWait = 0, wait
			if _, err := f.led.SetTable(f.Context(), f.table, "test", "another"); err != nil {
				f.Fatal(err)
			}
		}
		set(2 * time.Second)
		f.wires(20*time.Second, "fra=normal")
		f.wires(15*time.Second, "fra=depreferred", "ams=normal", "lon=normal")
		var texts []string
		for _, x := range a.snapshot.Load().Alarms {
			texts = append(texts, x.Text)
		}
		if !slices.ContainsFunc(texts, func(s string) bool {
			return strings.HasPrefix(s, "table_skew: this node acts on revision 1 of the table and the fleet on 2")
		}) {
			f.Errorf("alarms: %q", texts)
		}
		bad.Store(false)
		set(time.Second)
		f.wires(5*time.Second, "fra=normal")
		if n := len(a.snapshot.Load().Alarms); n != 0 {
			f.Errorf("alarms stay: %+v", a.snapshot.Load().Alarms)
		}
	})
}
