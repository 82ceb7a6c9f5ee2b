package agent

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// breaks is what a person at a site does without the ledger.
func (f *together) breaks(a *Agent, kind steadycast.OrderKind, site string) error {
	return a.BreakGlass(f.Context(), steadycast.Order{Kind: kind, Site: site, Actor: "maria (uid 1003)", Reason: "smoke in the rack", Force: true})
}

// While there is no ledger a person at the node can take its own site out and
// bring it back; it survives a restart, and is an order of the ledger when that
// is back, without the route ever moving between.
func TestBreakingTheGlass(t *testing.T) {
	inFleet(t, func(f *together) {
		dir := t.TempDir()
		keep := func(o *Options) { o.StateDir = dir }
		for _, site := range []string{"ams", "lon"} {
			f.serve(site, "up")
			f.start(site)
		}
		f.serve("fra", "up")
		a := f.start("fra", keep)
		f.wires(30*time.Second, "ams=normal", "fra=normal", "lon=normal")

		// Not while the ledger is heard, not for another site.
		var e *api.Error
		if err := f.breaks(a, steadycast.OrderWithdraw, "fra"); !errors.As(err, &e) || e.Code != api.CodeRefused || !strings.Contains(e.Message, "--local is for when it is not") {
			t.Fatal(err)
		}
		if err := f.breaks(a, steadycast.OrderNone, "fra"); !errors.As(err, &e) || e.Code != api.CodeNotFound {
			t.Fatal(err)
		}
		f.led.gone.Store(true)
		f.wires(20 * time.Second)
		if err := f.breaks(a, steadycast.OrderWithdraw, "ams"); !errors.As(err, &e) || e.Code != api.CodeUsage {
			t.Fatal(err)
		}
		f.wires(time.Second, "fra=normal")

		if err := f.breaks(a, steadycast.OrderWithdraw, "fra"); err != nil {
			t.Fatal(err)
		}
		f.wires(2*time.Second, "fra=gone", "ams=normal", "lon=normal")
		found := false
		for _, x := range a.snapshot.Load().Alarms {
			found = found || strings.Contains(x.Text, "by hand and without the ledger: maria (uid 1003) ordered withdraw")
		}
		if !found {
			t.Errorf("alarms: %+v", a.snapshot.Load().Alarms)
		}
		f.ends["fra"]()
		f.start("fra", keep)
		f.wires(time.Minute, "fra=gone")

		f.led.gone.Store(false)
		f.wires(10*time.Second, "fra=gone")
		orders := f.led.View().Orders
		if len(orders) != 1 || orders[0].Order.Kind != steadycast.OrderWithdraw || orders[0].Order.Site != "fra" ||
			orders[0].Order.Actor != "maria (uid 1003)" || !orders[0].Order.Force {
			t.Fatalf("orders of the ledger: %+v", orders)
		}
		if _, err := os.Stat(localFile(dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it stands on here: %v", err)
		}
		if n := f.log.count("at=fra", "withdrawn→announced"); n != 0 {
			t.Errorf("the route came back in between:\n%s", f.log)
		}
		// From now on it ends as any order ends.
		if _, err := f.led.Do(f.Context(), decide.KindOrderClear, decide.Scope{Site: "fra"}, "ann", "no smoke"); err != nil {
			t.Fatal(err)
		}
		f.wires(time.Minute, "fra=normal")
	})
}

// What a person did by hand, that person can end by hand; and where the ledger has
// an order over the site, that one is followed when it is back.
func TestGlassIsMended(t *testing.T) {
	inFleet(t, func(f *together) {
		agents := map[string]*Agent{}
		for _, site := range []string{"ams", "fra", "lon"} {
			f.serve(site, "up")
			agents[site] = f.start(site)
		}
		f.wires(30*time.Second, "ams=normal", "fra=normal", "lon=normal")
		f.led.gone.Store(true)
		f.wires(20 * time.Second)
		a := agents["fra"]
		if err := f.breaks(a, steadycast.OrderWithdraw, "fra"); err != nil {
			t.Fatal(err)
		}
		f.wires(2*time.Second, "fra=gone")
		if err := f.breaks(a, steadycast.OrderNone, "fra"); err != nil {
			t.Fatal(err)
		}
		f.wires(10*time.Second, "fra=normal")
		if err := f.breaks(a, steadycast.OrderAnnounce, "fra"); err != nil {
			t.Fatal(err)
		}
		// Elsewhere somebody reaches the ledger, and orders the site out.
		if r, err := f.led.Order(f.Context(), steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "fra", Actor: "ann", Reason: "smoke", Force: true}); err != nil || r.Refused != nil {
			t.Fatalf("%+v %v", r, err)
		}
		f.wires(10*time.Second, "fra=normal")
		f.led.gone.Store(false)
		f.wires(10*time.Second, "fra=gone")
		if orders := f.led.View().Orders; len(orders) != 1 || orders[0].Order.Actor != "ann" {
			t.Errorf("orders of the ledger: %+v", orders)
		}
	})
}
