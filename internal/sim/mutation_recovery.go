package sim

import (
	"encoding/json"
	"slices"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// The rejected rules about a ledger that is recovered from an older copy.

// bendRecovery is what a person does to the copy before it serves.
func (w *world) bendRecovery(f *decide.Fleet) {
	if w.is(backupSameEpoch) {
		return
	}
	e := decide.Entry{
		Kind: decide.KindEpoch, Schema: decide.Schema, Rules: decide.RulesLevel, Epoch: f.Fence().Epoch + 1,
		LT: f.LT(), Actor: "ada", Reason: "all voters were lost",
	}
	_, err := f.Apply(e)
	must(err)
	if w.is(copyBinds) {
		var state map[string]any
		must(json.Unmarshal(f.Snapshot(), &state))
		for list, mark := range map[string]string{"units": "unheard", "orders": "recovered"} {
			all, _ := state[list].([]any)
			for _, x := range all {
				delete(x.(map[string]any), mark)
			}
		}
		b, err := json.Marshal(state)
		must(err)
		must(f.Restore(b))
	}
}

// seeCopy adds to what a leader sees who is in by the copy and unheard.
func (d *desk) seeCopy(p *parcel) {
	if p.entry.Decide == nil {
		return
	}
	for _, u := range d.v.view.Units {
		for i := range p.entry.Decide.Seen {
			if x := &p.entry.Decide.Seen[i]; u.Unheard && u.Phase == steadycast.In && x.Prefix == u.Unit.Prefix {
				x.Announcing, x.Healthy = append(x.Announcing, u.Unit.Site), append(x.Healthy, u.Unit.Site)
				slices.Sort(x.Announcing)
				slices.Sort(x.Healthy)
			}
		}
	}
}

// trustCopy lets an order count those as well, and doubtCopy doubts them again.
func (v *voter) trustCopy(e decide.Entry) {
	if !v.w.is(unheardCounts) || e.Kind != decide.KindOrder {
		return
	}
	for _, u := range v.view.Units {
		if u.Unheard && u.Phase == steadycast.In {
			v.trusted = append(v.trusted, u.Unit)
		}
	}
	if len(v.trusted) > 0 {
		v.setUnheard(false)
	}
}

func (v *voter) doubtCopy() {
	if len(v.trusted) > 0 {
		v.setUnheard(true)
		v.trusted = nil
	}
}

// setUnheard changes the mark of units that are in.
func (v *voter) setUnheard(on bool) {
	var state map[string]any
	must(json.Unmarshal(v.fleet.Snapshot(), &state))
	for _, x := range state["units"].([]any) {
		u := x.(map[string]any)
		id := u["unit"].(map[string]any)
		if u["phase"] != steadycast.In.String() || !slices.ContainsFunc(v.trusted, func(t steadycast.Unit) bool {
			return t.Site == id["site"] && t.Prefix.String() == id["prefix"]
		}) {
			continue
		}
		if delete(u, "unheard"); on {
			u["unheard"] = true
		}
	}
	b, err := json.Marshal(state)
	must(err)
	must(v.fleet.Restore(b))
}
