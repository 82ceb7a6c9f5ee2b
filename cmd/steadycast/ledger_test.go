package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/steadycast/steadycast/internal/loopback"
	"github.com/steadycast/steadycast/internal/pki"
)

// TestLedgerScripts runs real voters, each a process of the real command, with
// certificates of a real authority, on ports of their own. Each script has three
// node files, ams.yaml, fra.yaml and lon.yaml, and fleet.yaml. Beside testscript's
// own commands there is
//
//	eventually STATUS TEXT ARGS…   runs steadycast until it ends with STATUS and
//	                               says TEXT, for twenty seconds
func TestLedgerScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/ledger",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TERM", "dumb")
			return fleetOfVoters(t, env.WorkDir)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"eventually": eventually},
	})
}

func fleetOfVoters(t *testing.T, dir string) error {
	now := time.Now()
	ca, err := pki.Init(filepath.Join(dir, "ca"), "edge", now)
	if err != nil {
		return err
	}
	peers := ""
	sites := []string{"ams", "fra", "lon"}
	for _, s := range sites {
		peers += fmt.Sprintf("    - {node: %s-1, address: %q, failure_domain: %s}\n", s, loopback.Own(t).String(), s)
		if _, err := ca.Issue(pki.Identity{Fleet: "edge", Site: s, Node: s + "-1"}, filepath.Join(dir, s, "pki"), 24*time.Hour, now); err != nil {
			return err
		}
	}
	for _, s := range sites {
		at := filepath.Join(dir, s)
		text := fmt.Sprintf("mode: fleet\nfleet: edge\nsite: %s\nroles: [ledger]\nstate_dir: %s/state\nrun_dir: %s\ntls: {dir: %s/pki}\nledger:\n  peers:\n%s", s, at, at, at, peers)
		if err := os.WriteFile(filepath.Join(dir, s+".yaml"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "fleet.yaml"), []byte(`sites: [{name: ams, address: [203.0.113.1]}, {name: fra, address: [203.0.113.2]}, {name: lon, address: [203.0.113.3]}]
services:
  - name: web
    prefixes: [192.0.2.53/32]
    checks: [{name: port, kind: tcp, target: "192.0.2.53:80"}]
    remote: {checks: [{name: port, kind: tcp, target: "{address}:80"}]}
`), 0o644)
}

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: eventually STATUS TEXT ARGS…")
	}
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		got := "0"
		if err := ts.Exec("steadycast", args[2:]...); err != nil {
			got = "1"
		}
		out := ts.ReadFile("stdout") + ts.ReadFile("stderr")
		if got == args[0] && strings.Contains(out, args[1]) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("after 20 s: status %s\n%s", got, out)
		}
		<-tick.C
	}
}
