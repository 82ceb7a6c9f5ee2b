package answers

import (
	"net/netip"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
)

// world plays entries on a real fleet: fra and ams serve web.
type world struct {
	t *testing.T
	f *decide.Fleet
}

func newWorld(t *testing.T) *world {
	w := &world{t, decide.NewFleet()}
	table := decide.Table{Revision: 1, Sites: []decide.Place{{Name: "fra"}, {Name: "ams"}}, Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{v4}}}}
	w.apply(decide.Entry{Kind: decide.KindGenesis, Table: &table})
	w.health("fra", steadycast.Healthy)
	w.health("ams", steadycast.Healthy)
	return w
}

func (w *world) apply(e decide.Entry) {
	w.t.Helper()
	e.Schema, e.Rules, e.Epoch, e.LT, e.Actor, e.Reason = decide.Schema, decide.RulesLevel, 1, w.f.LT()+1, "ann", "test"
	r, err := w.f.Apply(e)
	if err != nil || r.Invalid != "" || r.Refused != nil {
		w.t.Fatalf("%s: %v %s %v", e.Kind, err, r.Invalid, r.Refused)
	}
}

func (w *world) health(site string, s steadycast.State) {
	w.t.Helper()
	w.apply(decide.Entry{Kind: decide.KindVerdict, Verdicts: []steadycast.Verdict{{Site: site, Service: "web", State: s, Since: 1}}})
}

func (w *world) names(o decide.NamesOrder) {
	w.t.Helper()
	w.apply(decide.Entry{Kind: decide.KindNames, Names: &o})
}

// answer is what www is answered with, by a name that has anycast addresses.
func (w *world) answer() string {
	w.t.Helper()
	p, ps := dnsfallback.NewPolicy(1, dnsfallback.Placement{Zones: []dnsfallback.Zone{{Name: "example.com", NS: []string{"ns.example.net."}, Names: []dnsfallback.Steered{{
		Name: "www", Anycast: []netip.Addr{netip.MustParseAddr("192.0.2.80")},
		Choice: dnsfallback.Choice{Service: "web", Methods: []string{"priority"}, Members: []dnsfallback.Member{
			{Site: "fra", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, {Site: "ams", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2")}},
		}},
	}}}}}, dnsfallback.Known{})
	for _, x := range ps {
		w.t.Fatal(x)
	}
	v := namesAlone(w.f)
	e, err := p.Table(1, nil, State(&v, time.Unix(1_800_000_000, 0))).Explain("www.example.com.", "A", netip.MustParsePrefix("203.0.113.0/24"))
	if err != nil || len(e.Records) != 1 {
		w.t.Fatalf("%v: %v", e.Records, err)
	}
	return e.Records[0][len("www.example.com. 300 IN A "):]
}

// namesAlone is a fleet's view in which every route is there, since none ever was:
// names alone are the matter.
func namesAlone(f *decide.Fleet) decide.View {
	v := f.View()
	for i := range v.Units {
		v.Units[i].Phase = steadycast.In
	}
	if h := v.Names.Held; h != nil {
		c := *h
		c.Units = nil
		v.Names.Held = &c
	}
	return v
}

// TestLadder walks the rungs: what moves answers on each, and what does not.
func TestLadder(t *testing.T) {
	const fra, ams, anycast = "192.0.2.1", "192.0.2.2", "192.0.2.80"
	w := newWorld(t)
	expect := func(what, want string) {
		t.Helper()
		if got := w.answer(); got != want && got != want[1:] { // a shorter TTL has a digit less
			t.Errorf("%s: %s; want %s", what, got, want)
		}
	}
	out := func(to string) { w.names(decide.NamesOrder{Member: "www.example.com/fra", To: to}) }
	mode := func(m string) { w.names(decide.NamesOrder{Mode: m}) }
	expect("normal, all well", fra)
	w.health("fra", steadycast.Unhealthy)
	expect("normal, fra is bad", ams)
	mode("conservative")
	w.health("fra", steadycast.Healthy)
	expect("conservative, fra is well again", ams)
	w.health("ams", steadycast.Unhealthy)
	expect("conservative, ams is bad", ams)
	mode("normal")
	expect("normal again", fra)

	w.health("ams", steadycast.Healthy)
	mode("conservative")
	out("down")
	expect("conservative, a person switched fra", ams)
	mode("frozen")
	out("automatic")
	expect("frozen, a person switched fra back", ams)
	mode("frozen")
	expect("frozen once more", ams)
	mode("conservative")
	expect("conservative, where orders count", fra)

	mode("minimal")
	expect("minimal", anycast)
	mode("normal")
	expect("normal in the end", fra)
	out("down")
	w.health("ams", steadycast.Unhealthy)
	expect("what a person switched out stays out, though nobody is well", ams)
}
