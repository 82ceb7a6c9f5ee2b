package decide

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/steadycast/steadycast"
)

// TestMetBy: who has met a site that should be out, by the beats that are fresh.
func TestMetBy(t *testing.T) {
	web := netip.MustParsePrefix("192.0.2.0/24")
	fra, ams := steadycast.Unit{Site: "fra", Prefix: web}, steadycast.Unit{Site: "ams", Prefix: web}
	told := []SiteNow{
		{Site: "eye", Node: "eye-1", Met: &MetTold{Asked: []steadycast.Unit{ams, fra}, Met: []steadycast.Unit{fra}}},
		{Site: "eye", Node: "eye-2", Met: &MetTold{Asked: []steadycast.Unit{fra}}},
		{Site: "fra", Node: "fra-1"},
		{Site: "owl", Met: &MetTold{Met: []steadycast.Unit{fra}}},
		{Site: "old", AgeMS: BeatFresh.Milliseconds() + 1, Met: &MetTold{Asked: []steadycast.Unit{fra}, Met: []steadycast.Unit{fra}}},
	}
	if met, asked, askers := MetBy(told, fra); fmt.Sprint(met, asked, askers) != "[eye-1 owl] 3 3" {
		t.Error(met, asked, askers)
	}
	if met, asked, askers := MetBy(told, ams); fmt.Sprint(met, asked, askers) != "[] 1 3" {
		t.Error(met, asked, askers)
	}
	var none *MetTold
	if m := (&MetTold{Asked: make([]steadycast.Unit, 2*MetMost), Met: make([]steadycast.Unit, 2*MetMost)}).Sound(); none.Sound() != nil || len(m.Asked) != MetMost || len(m.Met) != MetMost {
		t.Errorf("%v; %d, %d", none.Sound(), len(m.Asked), len(m.Met))
	}
}
