package decide

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// silence plays what the leader says of silent sites:
//
//	silent SITE,… [SPAN] VANTAGE=WORD…   nothing heard for SPAN (6s), and what others say
//	heard SITE…                          a beat came
//	gone                                 who is marked
func (s *stage) silence(word string, args []string) []string {
	e := s.entry(KindGone)
	e.Decide = &Decide{Ineligible: s.barred}
	switch word {
	case "gone":
		var out []string
		for _, g := range s.f.View().Gone {
			out = append(out, fmt.Sprintf("%s %s %s, since %s", g.Site, g.Service, g.String(), wait(g.Since)))
		}
		return out
	case "heard":
		e.Decide.Heard = args
		return s.say(s.apply(e))
	}
	quiet := 6 * time.Second
	for site := range strings.SplitSeq(args[0], ",") {
		x := Silent{Site: site, Service: "web"}
		for _, w := range args[1:] {
			if d, err := time.ParseDuration(w); err == nil {
				quiet = d
				continue
			}
			name, word, _ := strings.Cut(w, "=")
			o := steadycast.Observation{Vantage: name, Subject: site, Service: "web", Seq: 1}
			if err := o.Result.Outcome.UnmarshalText([]byte(word)); err != nil {
				s.t.Fatal(err)
			}
			x.Evidence = append(x.Evidence, o)
		}
		x.QuietMS = quiet.Milliseconds()
		e.Decide.Silent = append(e.Decide.Silent, x)
	}
	return s.say(s.apply(e))
}

// TestGoneIsSound draws fleets, what is heard and what is seen, and holds every mark
// to account: it began with silence and a quorum of enough others that say down, and
// within the breaker's limit; it moved nothing else; the first word of the site
// ended it; and a snapshot carries it.
func TestGoneIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newFleetWorld(t)
		sites := w.t.Announcers()
		t.Repeat(map[string]func(*rapid.T){
			"silence": func(t *rapid.T) {
				e := w.entry(KindGone)
				e.Decide = &Decide{}
				for _, site := range rapid.SliceOfNDistinct(rapid.SampledFrom(sites), 1, len(sites), rapid.ID).Draw(t, "silent") {
					x := Silent{Site: site, Service: "web", QuietMS: rapid.SampledFrom([]int64{0, 4999, 5000, 60_000}).Draw(t, "quiet")}
					for _, v := range sites { // the site's own old word may be among them
						if o := rapid.SampledFrom([]string{"down", "down", "down", "up", "unknown", ""}).Draw(t, v); o != "" {
							ob := steadycast.Observation{Vantage: v, Subject: site, Service: "web", Seq: 1}
							_ = ob.Result.Outcome.UnmarshalText([]byte(o)) // one of its words
							x.Evidence = append(x.Evidence, ob)
						}
					}
					e.Decide.Silent = append(e.Decide.Silent, x)
				}
				if rapid.IntRange(0, 3).Draw(t, "one barred") == 0 {
					e.Decide.Ineligible = []Ineligible{{Vantage: rapid.SampledFrom(sites).Draw(t, "barred"), Reason: "test"}}
				}
				was := w.f.View()
				w.apply(t, e)
				goneAccounts(t, &was, w.f, e.Decide)
			},
			"word": func(t *rapid.T) {
				site := rapid.SampledFrom(sites).Draw(t, "site")
				var e Entry
				switch rapid.IntRange(0, 3).Draw(t, "word") {
				case 0:
					e = w.entry(KindGone)
					e.Decide = &Decide{Heard: []string{site}}
				case 1:
					e = w.entry(KindVerdict)
					e.Verdicts = []steadycast.Verdict{{Site: site, Service: "web", State: steadycast.Healthy}}
				case 2:
					e = w.entry(KindDecide)
					w.seq[site]++
					e.Decide = &Decide{Requests: []steadycast.Request{{ID: steadycast.RequestID{Incarnation: 9, Seq: w.seq[site]}, Site: site, Service: "web",
						Action: steadycast.Return, Prefixes: w.t.PrefixesAt(site)}}}
				case 3:
					e = w.entry(KindFound)
					e.Units = []steadycast.Unit{{Site: site, Prefix: w.t.PrefixesAt(site)[0]}}
				}
				if r := w.apply(t, e); r.Invalid != "" {
					t.Fatal(r.Invalid)
				}
				v := w.f.View() // what was away for long waits for a person instead
				if g := v.GoneOf(site, "web"); g != nil && (g.Back == 0 || w.t.Services[0].OnlyNew == 0) {
					t.Fatalf("%s spoke (%s), and is still %s", site, e.Kind, g)
				}
			},
			"time": func(t *rapid.T) { w.time(t) },
		})
	})
}

// goneAccounts holds what an entry of silence did against its own, plainer count.
func goneAccounts(t *rapid.T, was *View, f *Fleet, d *Decide) {
	is := f.View()
	if text(was.Units) != text(is.Units) || text(was.Verdicts) != text(is.Verdicts) || text(was.Prefixes) != text(is.Prefixes) || len(was.Freezes) != len(is.Freezes) {
		t.Fatalf("an entry of silence moved something:\n%s\n%s", text(was), text(is))
	}
	barred := func(v string) bool {
		return slices.ContainsFunc(d.Ineligible, func(x Ineligible) bool { return x.Vantage == v })
	}
	sites, away := is.Table.Announcers(), map[string]bool{}
	for _, g := range was.Gone {
		away[g.Site] = true
	}
	for _, x := range d.Silent {
		away[x.Site] = true
	}
	limit, added := max(is.Table.Guards.BreakerSites, len(sites)*is.Table.Guards.BreakerPercent/100), 0
	for _, g := range is.Gone {
		if was.GoneOf(g.Site, g.Service) != nil {
			continue
		}
		added++
		i := slices.IndexFunc(d.Silent, func(x Silent) bool { return x.Site == g.Site })
		if i < 0 {
			t.Fatalf("%s was not silent", g.Site)
		}
		voices, down := 0, 0
		for _, o := range d.Silent[i].Evidence {
			if o.Vantage == g.Site || barred(o.Vantage) {
				continue
			}
			voices++
			if o.Result.Outcome == steadycast.Down {
				down++
			}
		}
		if d.Silent[i].QuietMS < 5000 || voices < 3 || 2*down <= voices || len(g.By) != down {
			t.Fatalf("%s by %d of %d voices, named %v, quiet for %d ms", g.Site, down, voices, g.By, d.Silent[i].QuietMS)
		}
	}
	if added > 0 && len(away) > limit {
		t.Fatalf("%d marked with %d of %d away; the breaker lets %d", added, len(away), len(sites), limit)
	}
	for _, g := range was.Gone {
		if is.GoneOf(g.Site, g.Service) == nil && !slices.ContainsFunc(d.Silent, func(x Silent) bool {
			return x.Site == g.Site && slices.ContainsFunc(x.Evidence, func(o steadycast.Observation) bool { return o.Result.Outcome == steadycast.Up })
		}) {
			t.Fatalf("%s ended, and nobody sees it well", g.Site)
		}
	}
	twin := NewFleet()
	if err := twin.Restore(f.Snapshot()); err != nil || !bytes.Equal(twin.Snapshot(), f.Snapshot()) {
		t.Fatalf("the snapshot does not carry it: %v", err)
	}
}

// TestGoneSnapshots: a snapshot with marks that cannot be is refused.
func TestGoneSnapshots(t *testing.T) {
	s := newStage(t)
	s.play("table sites=ams,fra,lon,nyc,par prefixes=192.0.2.0/24")
	s.play("silent fra ams=down lon=down nyc=down par=down")
	for _, bad := range [][2]string{
		{`"service":"web","since"`, `"service":"dns","since"`},
		{`"by":["ams","lon","nyc","par"]`, `"by":[]`},
		{`"quiet_ms":6000`, `"quiet_ms":-1`},
		{`"gone":[{"site":"fra"`, `"gone":[{"site":"zrh"`},
		{`"by":["ams","lon","nyc","par"]`, `"by":["ams","lon","nyc","par"],"back":-1`},
		{`"by":["ams","lon","nyc","par"]`, `"by":["ams","lon","nyc","par"],"back":900000000000`},
	} {
		was := string(s.f.Snapshot())
		now := strings.Replace(was, bad[0], bad[1], 1)
		if now == was {
			t.Fatalf("no %s in %s", bad[0], was)
		}
		if err := NewFleet().Restore([]byte(now)); err == nil {
			t.Errorf("restored with %s", bad[1])
		}
	}
}
