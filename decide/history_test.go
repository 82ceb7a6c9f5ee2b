package decide

import (
	"strings"
	"testing"
)

// TestHistory: what people and automation did is remembered, bounded, and no part
// of what replicas must agree on by their hash, which does not grow with it.
func TestHistory(t *testing.T) {
	s := newStage(t)
	for _, line := range []string{
		"charter edge maria=admin joe=operator", "table sites=ams,fra,lon prefixes=192.0.2.0/24", "boot",
		"as joe order withdraw fra: disks", "as joe order withdraw ams: floor says no", "order withdraw lon: nobody signed",
		"as joe freeze: " + strings.Repeat("long ", 1000),
	} {
		s.play(line)
	}
	var got []string
	for _, p := range s.f.History() {
		e := p.Event
		got = append(got, string(e.Kind)+" "+e.Actor+" "+e.Site)
		if len(e.Reason) > pastReason+len("…") {
			t.Errorf("a reason of %d bytes is kept", len(e.Reason))
		}
	}
	want := "config ann ;permit  ams;permit  fra;permit  lon;order joe fra;refused joe ams;freeze joe "
	if text := strings.Join(got, ";"); text != want {
		t.Errorf("remembered %s\nwant       %s", text, want)
	}
	if no := s.f.History()[5].Event; no.From != "withdraw ams" || no.Site != "ams" {
		t.Errorf("a refusal is of %q, and says %q", no.Site, no.From)
	}
	for range 2 * pastKept {
		s.play("as joe freeze: again")
	}
	past := s.f.History()
	if len(past) != pastKept || past[pastKept-1].Fence != s.f.Fence() {
		t.Errorf("%d are remembered, to %s; want %d to %s", len(past), past[len(past)-1].Fence, pastKept, s.f.Fence())
	}
	twin := NewFleet()
	if err := twin.Restore(s.f.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if twin.Hash() != s.f.Hash() || len(twin.History()) != pastKept {
		t.Error("a restored machine is another, or has forgotten")
	}
	twin.s.Past = nil
	if twin.Hash() != s.f.Hash() {
		t.Error("what is only remembered changes the hash")
	}
}

// TestGuardsNow: what is said without asking is what is said to who asks.
func TestGuardsNow(t *testing.T) {
	s := newStage(t)
	for _, line := range []string{"table sites=ams,fra,lon prefixes=192.0.2.0/24 cooldown=1m", "boot", "freeze lon: hands off", "order withdraw fra: disks"} {
		s.play(line)
	}
	before := s.f.Hash()
	var got []string
	for _, r := range s.f.Guards(Decide{Seen: s.seen()}) {
		g, _ := r.Refusal()
		got = append(got, r.Unit.Site+" "+r.Permit.Action.String()+" "+g.Guard)
	}
	if text, want := strings.Join(got, "; "), "ams withdraw floor; fra return order; lon withdraw freeze"; text != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
	if s.f.Hash() != before {
		t.Error("to ask has changed something")
	}
}
