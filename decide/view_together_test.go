package decide

import (
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

// TestTogether: a site of several nodes has done what the last of them has done, and
// announces while one of them does.
func TestTogether(t *testing.T) {
	at := func(n uint64) steadycast.Fence { return steadycast.Fence{Epoch: 1, Index: n} }
	unit := steadycast.Unit{Site: "fra", Prefix: prefixes("192.0.2.0/24")[0]}
	node := func(name string, age int64, n uint64, announces bool) SiteNow {
		x := SiteNow{Site: "fra", Node: name, AgeMS: age, At: at(n)}
		if announces {
			x.Announcing = []steadycast.Unit{unit}
		}
		return x
	}
	for _, c := range []struct {
		name      string
		all       []SiteNow
		at        uint64
		announces bool
		age       int64
	}{
		{"one", []SiteNow{node("fra-1", 10, 7, true)}, 7, true, 10},
		{"the second lags and announces still", []SiteNow{node("fra-1", 10, 9, false), node("fra-2", 20, 7, true)}, 7, true, 20},
		{"the first lags", []SiteNow{node("fra-1", 10, 7, true), node("fra-2", 20, 9, false)}, 7, true, 20},
		{"one that is gone says nothing", []SiteNow{node("fra-1", 9000, 3, true), node("fra-2", 20, 9, false), node("fra-3", 8000, 2, true)}, 9, false, 20},
		{"all are gone: the last heard", []SiteNow{node("fra-1", 9000, 3, true), node("fra-2", 8000, 9, false), node("fra-3", 8500, 2, true)}, 9, false, 8000},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := append([]SiteNow{{Site: "ams", At: at(1)}}, c.all...)
			x, ok := Together(all, "fra", 5*time.Second)
			if !ok || x.At != at(c.at) || (len(x.Announcing) == 1) != c.announces || x.AgeMS != c.age {
				t.Errorf("%t %+v", ok, x)
			}
		})
	}
	if _, ok := Together([]SiteNow{{Site: "ams"}}, "fra", time.Second); ok {
		t.Error("a site that was never heard says something")
	}
}
