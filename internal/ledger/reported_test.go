package ledger

import (
	"path/filepath"
	"testing"

	"github.com/steadycast/steadycast"
)

func (s *site) verdict(service string, state steadycast.State) steadycast.Verdict {
	return steadycast.Verdict{Site: s.name, Service: service, State: state, Class: steadycast.Hard, Reason: "gone"}
}

// state is what the ledger believes of the site's service.
func (s *site) state() steadycast.State {
	for _, v := range s.l.View().Verdicts {
		if v.Site == s.name && v.Service == "web" {
			return v.State
		}
	}
	return steadycast.StateUnknown
}

// TestReportedWithARequest: one entry, and so one wait for the disk, records
// the verdict and answers the request; a restart knows both.
func TestReportedWithARequest(t *testing.T) {
	dir := t.TempDir()
	l, _ := mustOpen(t, dir, policy("ams", "fra", "lon"))
	fra := sites(t, l, "ams", "fra", "lon")[1]
	before := l.View().Fence

	r := fra.request(steadycast.Withdraw)
	a, err := l.Ask(t.Context(), r, fra.verdict("web", steadycast.Unhealthy), fra.verdict("another", steadycast.Unhealthy))
	if err != nil || permitted(a) != steadycast.Withdraw {
		t.Fatal(a, err)
	}
	if got := l.View().Fence; got.Index != before.Index+1 {
		t.Errorf("fence %v, before %v: want one entry", got, before)
	}
	if fra.state() != steadycast.Unhealthy || fra.view().Phase != steadycast.Out {
		t.Errorf("the verdict is %v, the unit %+v", fra.state(), fra.view())
	}

	// The request again needs no entry; a verdict that came with it does.
	before = l.View().Fence
	again, err := l.Ask(t.Context(), r, fra.verdict("web", steadycast.Unhealthy))
	if err != nil || *again.Rulings[0].Permit != *a.Rulings[0].Permit || l.View().Fence != before {
		t.Errorf("nothing is new, but: %+v, %v, fence %v, before %v", again, err, l.View().Fence, before)
	}
	again, err = l.Ask(t.Context(), r, fra.verdict("web", steadycast.Recovering))
	if err != nil || *again.Rulings[0].Permit != *a.Rulings[0].Permit || fra.state() != steadycast.Recovering {
		t.Errorf("%+v, %v; the verdict is %v", again, err, fra.state())
	}

	killed := t.TempDir()
	copyFile(t, filepath.Join(dir, journalName), filepath.Join(killed, journalName))
	k, _ := mustOpen(t, killed, policy("other"))
	after := site{t: t, l: k, name: "fra"}
	if after.state() != steadycast.Recovering || after.view().Phase != steadycast.Out {
		t.Errorf("after kill -9 the verdict is %v, the unit %+v", after.state(), after.view())
	}
}
