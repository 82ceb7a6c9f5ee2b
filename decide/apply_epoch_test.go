package decide

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/steadycast/steadycast"
)

// TestEpoch: a recovery freezes automation and puts every later position above
// all of the old epoch; entries of the old one change nothing any more.
func TestEpoch(t *testing.T) {
	f := NewFleet()
	table := Table{Revision: 1, Sites: []Place{{Name: "fra"}}, Services: []Service{{Name: "web", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}}
	apply := func(k Kind, epoch uint64, change func(*Entry)) Reply {
		t.Helper()
		e := Entry{Kind: k, Schema: Schema, Rules: RulesLevel, Epoch: epoch, LT: f.LT() + 1, Actor: "ann", Reason: "two voters burnt"}
		if change != nil {
			change(&e)
		}
		r, err := f.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := apply(KindEpoch, 2, nil); !strings.Contains(r.Invalid, "genesis") {
		t.Errorf("before the genesis: %q", r.Invalid)
	}
	apply(KindGenesis, 1, func(e *Entry) { e.Table = &table })
	for range 5 {
		apply(KindTick, 1, nil)
	}
	before := f.Fence()
	for _, epoch := range []uint64{0, 1} {
		if r := apply(KindEpoch, epoch, nil); r.Invalid == "" || f.Fence().Epoch != 1 {
			t.Errorf("epoch %d: %+v", epoch, r)
		}
	}
	if r := apply(KindEpoch, 2, func(e *Entry) { e.Reason = "" }); r.Refused == nil || f.Fence().Epoch != 1 {
		t.Errorf("without a reason: %+v", r)
	}
	r := apply(KindEpoch, 2, nil)
	if r.Invalid != "" || r.Refused != nil || r.Fence != f.Fence() || f.Fence().Epoch != 2 || f.Fence().Compare(before) <= 0 {
		t.Errorf("%+v", r)
	}
	if fr := f.View().Freezes; len(fr) != 1 || fr[0].Scope != (Scope{}) || fr[0].Actor != "ann" {
		t.Errorf("%+v", fr)
	}
	if len(r.Events) != 2 || r.Events[0].Kind != steadycast.EventAlarm {
		t.Errorf("%+v", r.Events)
	}
	if r := apply(KindThaw, 1, func(e *Entry) { e.Scope = &Scope{} }); !strings.Contains(r.Invalid, "epoch 1 is not this ledger's 2") || len(f.View().Freezes) != 1 {
		t.Errorf("an entry of the old epoch: %+v", r)
	}
	if r := apply(KindThaw, 2, func(e *Entry) { e.Scope = &Scope{} }); r.Invalid != "" || len(f.View().Freezes) != 0 {
		t.Errorf("%+v", r)
	}
}
