package decide

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (s *stage) table(args []string) []string {
	t := Table{Revision: s.f.View().Table.Revision + 1, Services: []Service{{Name: "web"}}}
	if t.Revision > 1 {
		t = s.f.View().Table
		t.Revision++
		t.Services = slices.Clone(t.Services)
	}
	dur := func(v string) time.Duration {
		d, err := time.ParseDuration(v)
		if err != nil {
			s.t.Fatal(err)
		}
		return d
	}
	num := func(v string) int {
		n, err := strconv.Atoi(v)
		if err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	for _, w := range args {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "sites":
			t.Sites = nil
			for site := range strings.SplitSeq(v, ",") {
				// NAME[:CAPACITY[:LOAD]]
				parts := strings.Split(site, ":")
				p := Place{Name: parts[0]}
				if len(parts) > 1 {
					p.Capacity = int64(num(parts[1]))
				}
				if len(parts) > 2 {
					p.Load = int64(num(parts[2]))
				}
				t.Sites = append(t.Sites, p)
			}
			t.Services[0].Sites = nil
		case "spill": // FROM>TO:PERCENT
			from, to, _ := strings.Cut(v, ">")
			to, percent, _ := strings.Cut(to, ":")
			i := slices.IndexFunc(t.Sites, func(p Place) bool { return p.Name == from })
			t.Sites = slices.Clone(t.Sites)
			t.Sites[i].Spill = append(slices.Clone(t.Sites[i].Spill), Spill{Site: to, Percent: num(percent)})
		case "paths": // SITE:NAME/…
			site, names, _ := strings.Cut(v, ":")
			i := slices.IndexFunc(t.Sites, func(p Place) bool { return p.Name == site })
			t.Sites = slices.Clone(t.Sites)
			if t.Sites[i].Paths = nil; names != "" {
				t.Sites[i].Paths = strings.Split(names, "/")
			}
		case "tells": // SERVICE:PATH
			name, path, _ := strings.Cut(v, ":")
			t.Services = append(t.Services, Service{Name: name, Path: path})
		case "levels": // DO[:MODE[:RETURN]]/…
			t.Levels = nil
			for word := range strings.SplitSeq(v, "/") {
				parts := append(strings.Split(word, ":"), "", "")
				t.Levels = append(t.Levels, Level{Do: parts[0], Mode: parts[1], Return: parts[2]})
			}
		case "limit": // PATH:SITES, behind levels=
			path, n, _ := strings.Cut(v, ":")
			for i := range t.Levels {
				if l := &t.Levels[i]; l.Do == LevelPath {
					l.Limits = append(slices.Clone(l.Limits), PathLimit{path, num(n)})
				}
			}
		case "group":
			for i := range t.Sites {
				t.Sites[i].Group = v
			}
		case "witness":
			t.Sites = append(t.Sites, Place{Name: v, Witness: true})
		case "prefixes":
			t.Services[0].Prefixes = nil
			for p := range strings.SplitSeq(v, ",") {
				t.Services[0].Prefixes = append(t.Services[0].Prefixes, netip.MustParsePrefix(p))
			}
		case "force":
			defer func() { s.forced = false }()
			s.forced = true
		case "mode":
			t.Services[0].Mode = v
		case "shed":
			t.Shed = &Shed{Services: []string{v}}
		case "ttl":
			t.Services[0].TTL = dur(v)
		case "ramp": // DWELL, or off
			if t.Ramp = nil; v != "off" {
				t.Ramp = &Ramp{Dwell: dur(v), Latency: 200 * time.Millisecond}
			}
		case "ramp_steps": // PERCENT/…, behind ramp=
			for _, p := range strings.Split(v, "/") {
				t.Ramp.Steps = append(t.Ramp.Steps, num(p))
			}
		case "only_new":
			for i := range t.Services {
				t.Services[i].OnlyNew, _ = time.ParseDuration(v)
			}
		case "return":
			t.Services[0].Return = v
		case "require_withdraw":
			t.Services[0].Require.Withdraw = v
		case "require_return":
			t.Services[0].Require.Return = v
		case "floor":
			n := num(v)
			for _, p := range t.Services[0].Prefixes {
				t.Prefixes = append(t.Prefixes, Prefix{Prefix: p, Floor: &n})
			}
		case "cooldown":
			t.Guards.Cooldown = dur(v)
		case "site_budget":
			t.Guards.SiteBudget = num(v)
		case "lock_cycles":
			t.Guards.LockCycles = num(v)
		case "fleet_budget":
			t.Guards.FleetBudget = num(v)
		case "breaker_window":
			t.Guards.BreakerWindow = dur(v)
		default:
			s.t.Fatalf("no such key: %s", w)
		}
	}
	if s.plans != nil {
		t.Plans = s.plans
	}
	e := s.entry(KindTable)
	if t.Revision == 1 {
		e.Kind, e.Charter = KindGenesis, s.fleet
	} else {
		e.Decide = &Decide{Seen: s.seen()}
		if s.kind != "" {
			e.Kind, t.Revision = s.kind, 0
		}
	}
	e.Table, e.Actor, e.Reason, e.Force = &t, "ann", "test", s.forced
	return s.say(s.apply(e))
}
