package voter

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/mesh"
	"github.com/steadycast/steadycast/internal/pki"
)

// TestEar: a voter hears first hand what a vantage sees of anybody, and can tell
// by its own nonces what a site shows it as evidence: whose word it is, and how
// old. A word that was changed on the way is told apart.
func TestEar(t *testing.T) {
	dir := t.TempDir()
	ca, err := pki.Init(filepath.Join(dir, "ca"), "edge", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	of := func(site string) *pki.Credentials {
		t.Helper()
		at := filepath.Join(dir, site)
		if _, err := ca.Issue(pki.Identity{Fleet: "edge", Site: site, Node: site + "-1"}, at, time.Hour, time.Now()); err != nil {
			t.Fatal(err)
		}
		c, err := pki.Open(pki.Settings{Dir: at})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })

	opts := Options{Mesh: "127.0.0.1:0", Credentials: of("ams"), Voter: ledger.VoterOptions{Node: "ams-1"}, Logger: slog.New(slog.DiscardHandler)}
	e, err := newEar(&opts)
	if err != nil {
		t.Fatal(err)
	}
	verify := opts.Voter.Verify // what the voter is opened with
	running.Go(func() {
		if err := e.mesh.Run(ctx, e.ln); err != nil {
			t.Error(err)
		}
	})

	var mu sync.Mutex
	var heard []mesh.Heard
	subject, err := mesh.New(mesh.Options{Credentials: of("fra"), OnObservation: func(h mesh.Heard) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, h)
	}})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	vantage, err := mesh.New(mesh.Options{Credentials: of("lon"), Incarnation: 1})
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() { _ = subject.Run(ctx, ln) })
	running.Go(func() { _ = vantage.Run(ctx, nil) })
	port := func(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }
	if err := vantage.SetPeers([]mesh.Peer{
		{Name: "fra-1", Site: "fra", Node: "fra-1", Addr: port(ln)},
		{Name: "ams-1/ledger", Site: "ams", Node: "ams-1", Addr: port(e.ln), Voter: true},
	}); err != nil {
		t.Fatal(err)
	}

	var shown steadycast.Observation
	seq := uint64(0)
	until(t, "evidence that the voter can judge", func() bool {
		seq++
		vantage.Publish(steadycast.Observation{Subject: "fra", Service: "web", Seq: seq, Result: steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard, Reason: "refused"}})
		mu.Lock()
		defer mu.Unlock()
		if len(heard) == 0 {
			return false
		}
		shown = heard[len(heard)-1].Observation
		_, _, err := verify(shown)
		return err == nil // before, the vantage had not heard the voter's nonce
	})
	signed, age, err := verify(shown)
	if err != nil || age > time.Minute || signed.Vantage != "lon" || signed.Result.Reason != "refused" {
		t.Errorf("%+v, %v old: %v", signed, age, err)
	}
	until(t, "the voter to hear it itself", func() bool { return e.mesh.Peers().Heard > 0 })

	other := shown
	other.Vantage = "ams"
	if _, _, err := verify(other); err == nil || !strings.Contains(err.Error(), "signed by lon-1") {
		t.Errorf("another's name under it: %v", err)
	}
	forged := *shown.Signed
	forged.Report = append([]byte(nil), forged.Report...)
	forged.Report[len(forged.Report)/2] ^= 1
	other = shown
	other.Signed = &forged
	if _, _, err := verify(other); err == nil {
		t.Error("a changed report is taken")
	}
}
