package dns

import (
	"slices"
	"time"

	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/api"
)

// LedBy adds up by site and service what a table's members were given. What belongs
// to no site leads nobody anywhere that could be left.
func LedBy(t *dnsfallback.Table, began time.Time) api.Led {
	out := api.Led{Began: began, Led: []api.LedTo{}}
	if t == nil {
		return out
	}
	for _, g := range t.Given() {
		if g.Site == "" || g.Count == 0 {
			continue
		}
		i := slices.IndexFunc(out.Led, func(l api.LedTo) bool { return l.Site == g.Site && l.Service == g.Service })
		if i < 0 {
			i = len(out.Led)
			out.Led = append(out.Led, api.LedTo{Site: g.Site, Service: g.Service})
		}
		out.Led[i].Count += g.Count
	}
	return out
}

// Led is what this process has given.
func (d *daemon) Led() api.Led {
	sheet, _, _ := d.keeper.show()
	return LedBy(sheet.Table, d.began)
}
