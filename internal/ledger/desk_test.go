package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// TestGreatStatements: what one node says in too many words is refused to that
// node with the figures, in every kind of statement, and before anybody works on it.
func TestGreatStatements(t *testing.T) {
	c := newCalls()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody takes it: what is not refused at once ends so
	great := strings.Repeat("x", maxStatement)
	many := make([]steadycast.Observation, decide.MaxEvidence+1)
	few := make([]steadycast.Observation, decide.MaxEvidence)
	for i := range few {
		few[i] = steadycast.Observation{
			Vantage: fmt.Sprint("site", i), Subject: "fra", Service: "web", Result: steadycast.Result{Outcome: steadycast.Down, Reason: strings.Repeat("y", 500)},
			Signed: &steadycast.Signed{Report: []byte(great), Cert: []byte("a certificate")},
		}
	}
	for _, x := range []struct {
		what string
		call func() error
		want string // "" is no refusal
	}{
		{"many verdicts", func() error { return c.Report(ctx, make([]steadycast.Verdict, 10_000)) }, "a node may say 262144"},
		{"a request's condition", func() error {
			_, err := c.Ask(ctx, steadycast.Request{Site: "fra", Conditions: []steadycast.Condition{{Text: great}}})
			return err
		}, "a node may say 262144"},
		{"many verdicts beside a request", func() error {
			_, err := c.Ask(ctx, steadycast.Request{Site: "fra"}, make([]steadycast.Verdict, 10_000)...)
			return err
		}, "a node may say 262144"},
		{"reasons", func() error { // they are cut
			_, err := c.Ask(ctx, steadycast.Request{Site: "fra", Reason: great}, steadycast.Verdict{Site: "fra", Reason: great})
			return err
		}, ""},
		{"much evidence", func() error { _, err := c.Ask(ctx, steadycast.Request{Site: "fra", Evidence: many}); return err }, "65 observations as evidence; at most 64"},
		{"an acknowledgement's refusal", func() error { return c.Ack(ctx, decide.Ack{Site: "fra", Node: "fra-1", Refusal: great}) }, ""}, // it is cut
		{"an acknowledgement's name", func() error { return c.Ack(ctx, decide.Ack{Site: "fra", Node: great}) }, "a node may say 262144"},
		{"as much evidence as may be", func() error { _, err := c.Ask(ctx, steadycast.Request{Site: "fra", Evidence: few}); return err }, ""},
	} {
		err := x.call()
		_, refused := errors.AsType[Invalid](err)
		if refused != (x.want != "") || refused && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", x.what, err, x.want)
		}
	}
}

// TestGreatBatch: statements as great as may be, of as many nodes as wait at
// once, do not fit one entry. Each is answered all the same, and so is the small
// one among them.
func TestGreatBatch(t *testing.T) {
	b := newBench(t, "ams", "fra", "lon")
	b.up("ams", "fra", "lon")
	d := &desk{lead: b.l, now: func() time.Duration { return b.now }, commit: func(e decide.Entry) (decide.Reply, error) {
		text, err := e.Encode()
		if err == nil {
			_, err = decide.DecodeEntry(text)
		}
		if err != nil {
			return decide.Reply{}, Invalid(err.Error())
		}
		return b.apply(e), nil
	}}
	great := strings.Repeat("x", maxStatement-1000)
	var ops []op
	add := func(o op, said any) {
		o.ctx, o.done = t.Context(), make(chan result, 1)
		size, err := statement(said)
		if err != nil {
			t.Fatal(err)
		}
		o.size = size
		ops = append(ops, o)
	}
	for i := range queueBound - 1 {
		if i == queueBound/2 {
			r := (&site{t: t, name: "fra", seq: 1}).request(steadycast.Withdraw)
			add(op{ask: &r}, r)
		}
		r := steadycast.Request{ID: steadycast.RequestID{Incarnation: 9, Seq: uint64(i + 1)}, Site: "ams", Action: steadycast.Withdraw, Reason: great}
		r.Prefixes = append(r.Prefixes, unitOf("ams").Prefix)
		add(op{ask: &r}, r)
	}
	d.serve(ops)
	for _, o := range ops {
		if r := <-o.done; r.err != nil {
			t.Errorf("%s of %s: %v", o.ask.ID, o.ask.Site, r.err)
		} else if o.ask.Site == "fra" && permitted(r.answer) != steadycast.Withdraw {
			t.Errorf("%+v", r.answer)
		}
	}
	ops = nil
	for i := range queueBound {
		v := []steadycast.Verdict{{Site: "lon", Service: "web", State: steadycast.Suspect, Reason: great, Bad: i}}
		add(op{report: v}, v)
	}
	d.serve(ops)
	for _, o := range ops {
		if r := <-o.done; r.err != nil {
			t.Errorf("a report: %v", r.err)
		}
	}
}

// TestReasonsAreCut: the state that every agent reads keeps a reason's beginning.
func TestReasonsAreCut(t *testing.T) {
	said := []steadycast.Verdict{{Reason: strings.Repeat("ü", maxReason)}, {Reason: "refused"}}
	got := briefly(said)
	if n := len(got[0].Reason); n > maxReason+len("…") || !utf8.ValidString(got[0].Reason) || got[1].Reason != "refused" {
		t.Errorf("%d bytes: %q", n, got[0].Reason)
	}
	if len(said[0].Reason) != 2*maxReason {
		t.Error("the caller's own was cut")
	}
}
