package agent

import (
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/probe"
)

// pair makes ams a site of two nodes, whose services are the files ams and ams-2, and
// starts everybody. The second node goes by its own name.
func (f *together) pair() map[string]*Agent {
	f.Helper()
	agents := map[string]*Agent{}
	f.table.Sites[0].Nodes = append(f.table.Sites[0].Nodes, decide.Node{Name: "ams-2", Mesh: netip.MustParseAddrPort("10.0.0.9:7482")})
	f.table.Revision = 2
	if err := commit(f.Context(), f.led, f.table, "ann", "a second node"); err != nil {
		f.Fatal(err)
	}
	look := func(name, file string) probe.Check {
		return probe.Check{Name: name, Kind: "file", Target: filepath.Join(f.dir, file), File: &probe.File{MaxAge: time.Hour}}
	}
	files := map[string]string{"ams-1": "ams", "ams-2": "ams-2"}
	second := func(o *Options) { o.Site, o.Node = "ams", "ams-2" }
	several := func(o *Options) {
		site, node := o.Site, o.Node
		derive := f.derive(site)
		o.Derive = func(t decide.Table) (Plan, error) {
			p, err := derive(t)
			p.LooksBut = func(out func(site, node, service string) bool) []probe.Service {
				probes := slices.Clone(p.Probes)
				for i := range probes {
					if s := &probes[i]; s.Subject == "ams" && site != "ams" {
						for name, word := range map[string]string{"ams-1": "word_2", "ams-2": "word_1"} {
							if out("ams", name, s.Name) {
								s.Up = word
							}
						}
					}
				}
				return probes
			}
			for i := range p.Probes {
				switch s := &p.Probes[i]; {
				case s.Subject == "ams" && site == "ams":
					s.Checks = []probe.Check{look("word", files[node])}
				case s.Subject == "ams":
					s.Checks, s.Up = []probe.Check{look("word_1", "ams"), look("word_2", "ams-2")}, "at_least(1, word_1, word_2)"
				}
			}
			for name, file := range files {
				if site == "ams" && name != node {
					p.Probes = append(p.Probes, probe.Service{Name: "web", Subject: "ams/" + name, Vantage: "ams/" + name,
						Interval: time.Second, FastInterval: 200 * time.Millisecond, Checks: []probe.Check{look("word", file)}})
				}
			}
			return p, err
		}
	}
	for _, key := range []string{"ams", "ams-2", "fra", "lon"} {
		f.serve(key, "up")
		if key == "ams-2" {
			agents[key] = f.start(key, second, several)
		} else {
			agents[key] = f.start(key, several)
		}
	}
	f.wires(2*time.Minute, "ams=normal", "ams-2=normal", "fra=normal", "lon=normal")
	return agents
}

// The service of one node dies: only that node's route goes, with no leave of the
// ledger; and it comes back by itself.
func TestOneNodeLeaves(t *testing.T) {
	inFleet(t, func(f *together) {
		f.pair()
		at := f.led.View().Units[0]
		f.serve("ams-2", "down")
		f.wires(5*time.Second, "ams=normal", "ams-2=gone", "fra=normal", "lon=normal")
		if u := f.led.View().Units[0]; u.Phase != at.Phase || u.Permit != at.Permit {
			t.Errorf("the ledger was asked: %+v", u)
		}
		f.serve("ams-2", "up")
		f.wires(10*time.Second, "ams=normal", "ams-2=normal")
	})
}

// Both die: the site leaves on one permit, and both nodes act on it. The first to be
// well brings it back.
func TestBothNodesLeave(t *testing.T) {
	inFleet(t, func(f *together) {
		f.pair()
		f.serve("ams", "down")
		f.serve("ams-2", "down")
		f.wires(10*time.Second, "ams=gone", "ams-2=gone", "fra=normal", "lon=normal")
		if u := f.led.View().Units[0]; u.Phase.String() != "out" || u.Permit.ID.Node == "" || u.BudgetUsed != 1 {
			t.Errorf("the ledger has %+v", u)
		}
		f.serve("ams-2", "up")
		f.wires(30*time.Second, "ams=gone", "ams-2=normal")
		f.serve("ams", "up")
		f.wires(30*time.Second, "ams=normal", "ams-2=normal")
	})
}

// What a node does alone needs no ledger; and a node that starts again announces
// nothing before its own checks pass.
func TestNodeLeavesWithoutLedger(t *testing.T) {
	inFleet(t, func(f *together) {
		f.pair()
		f.led.gone.Store(true)
		f.wires(30*time.Second, "ams=normal", "ams-2=normal")
		f.serve("ams", "down")
		f.wires(5*time.Second, "ams=gone", "ams-2=normal")
		f.led.gone.Store(false)
		f.wires(30*time.Second, "ams=gone", "ams-2=normal", "fra=normal", "lon=normal")
	})
}
