package ledger

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// notary is a leader's way to open evidence, in a test: what was signed, and
// how old it is, by vantage.
type notary struct {
	age   map[string]time.Duration
	said  map[string]steadycast.Outcome
	wrong map[string]string
}

func (n *notary) open(o steadycast.Observation) (steadycast.Observation, time.Duration, error) {
	if why := n.wrong[o.Vantage]; why != "" {
		return o, 0, errors.New(why)
	}
	if said, ok := n.said[o.Vantage]; ok {
		o.Result = steadycast.Result{Outcome: said}
	}
	return o, n.age[o.Vantage], nil
}

// TestEvidenceIsOpened: what was signed counts, and not what the request says of
// it; what is forged, old or not signed is absent; and none of the signatures
// gets into the log.
func TestEvidenceIsOpened(t *testing.T) {
	for _, c := range []struct {
		what string
		n    notary
		want string // the refusal; "" is a permit
	}{
		{"all signed and fresh", notary{}, ""},
		{"one as old as may be", notary{age: map[string]time.Duration{"ams": 5 * time.Second}}, ""},
		{"one replayed", notary{age: map[string]time.Duration{"ams": 5*time.Second + time.Millisecond}}, ""}, // two of three suffice: a certain failure and lon
		{"both replayed", notary{age: map[string]time.Duration{"ams": time.Minute, "lon": 9 * time.Second}},
			"1 of 3 voices of web count; 3 are needed to judge; not counted: ams (its observation is 60000 ms old; evidence may be 5000), lon (its observation is 9000 ms old; evidence may be 5000)"},
		{"both forged", notary{wrong: map[string]string{"ams": "its observation is forged", "lon": "its observation is not signed"}},
			"1 of 3 voices of web count; 3 are needed to judge; not counted: ams (its observation is forged), lon (its observation is not signed)"},
		{"both said something else", notary{said: map[string]steadycast.Outcome{"ams": steadycast.Up, "lon": steadycast.Up}}, "1 of 3 voices say down; 2 needed"},
	} {
		b := newBench(t, "ams", "fra", "lon")
		b.up("ams", "fra", "lon")
		b.l.verify = c.n.open
		r := (&site{t: t, name: "fra", seq: 1}).request(steadycast.Withdraw)
		for i := range r.Evidence {
			r.Evidence[i].Signed = &steadycast.Signed{Report: []byte("a seal"), Cert: []byte("a certificate")}
		}
		e, write, _, err := b.l.propose(b.now, []steadycast.Request{r})
		if err != nil || !write {
			t.Fatal(c.what, write, err)
		}
		for _, o := range e.Decide.Requests[0].Evidence {
			if o.Signed != nil {
				t.Errorf("%s: a signature is on its way into the log", c.what)
			}
		}
		if r.Evidence[0].Signed == nil {
			t.Errorf("%s: the caller's request was changed", c.what)
		}
		g, _ := b.apply(e).Answers[0].Rulings[0].Refusal()
		if g.Text != c.want {
			t.Errorf("%s: refused with %q, want %q", c.what, g.Text, c.want)
		}
	}
}

// TestConflict: the leader hears everybody itself, and holds it against a site
// that hears nobody any more but brings what it heard before.
func TestConflict(t *testing.T) {
	b := newBench(t, "ams", "fra", "lon")
	b.up("ams", "fra", "lon")
	up := steadycast.Result{Outcome: steadycast.Up}
	b.now = time.Minute
	for _, n := range []string{"ams", "fra", "lon"} {
		b.beat(n, 1, steadycast.RequestID{}, true)
	}
	for _, v := range []string{"ams", "lon"} {
		b.l.cross.hear(b.now, steadycast.Observation{Vantage: v, Subject: "fra", Service: "web", Seq: 100, Result: up})
	}
	if g, _ := b.ask("fra", 2, steadycast.Withdraw).Rulings[0].Refusal(); !strings.Contains(g.Text, "conflict: 2 voices (ams, lon) pass web") {
		t.Errorf("the evidence is older than what the leader heard, and: %s", g)
	}
	// A voter that heard nothing lately stands in nobody's way.
	b.now += 10 * time.Second
	for _, n := range []string{"ams", "fra", "lon"} {
		b.beat(n, 1, steadycast.RequestID{}, true)
	}
	if a := b.ask("fra", 3, steadycast.Withdraw); permitted(a) != steadycast.Withdraw {
		t.Errorf("%+v", a)
	}
}

// TestIneligibleInTheEntry: who fails half of the world is named in the entry,
// with the reason, and every replica counts without it.
func TestIneligibleInTheEntry(t *testing.T) {
	names := []string{"ams", "fra", "lon", "nyc", "par", "zrh"}
	b := newBench(t, names...)
	b.up(names...)
	for _, subject := range names {
		for seq, v := range names {
			o := steadycast.Observation{Vantage: v, Subject: subject, Service: "web", Seq: uint64(seq) + 1, Result: steadycast.Result{Outcome: steadycast.Up}}
			if v == "ams" {
				o.Result = steadycast.Result{Outcome: steadycast.Down}
			}
			if v != subject && subject != "fra" {
				b.l.cross.hear(b.now, o)
			}
		}
	}
	r := (&site{t: t, name: "fra", seq: 1}).request(steadycast.Withdraw)
	r.Evidence = nil
	for _, v := range []string{"ams", "lon", "nyc"} {
		r.Evidence = append(r.Evidence, steadycast.Observation{Vantage: v, Subject: "fra", Service: "web", Seq: 9, Result: steadycast.Result{Outcome: steadycast.Down}})
	}
	e, _, _, err := b.l.propose(b.now, []steadycast.Request{r})
	if err != nil || len(e.Decide.Ineligible) != 1 || e.Decide.Ineligible[0] != (decide.Ineligible{Vantage: "ams", Subject: "fra", Reason: "fails 4 of 4 others' services that a majority sees up"}) {
		t.Fatalf("%+v %v", e.Decide.Ineligible, err)
	}
	if g, _ := b.apply(e).Answers[0].Rulings[0].Refusal(); !strings.HasPrefix(g.Text, "2 of 5 voices of web count; 3 are needed to judge; not counted: ams") {
		t.Error(g)
	}
}
