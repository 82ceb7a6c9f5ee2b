package decide

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
)

// Snapshot is the whole state as one line of JSON. The same state gives the
// same bytes.
func (f *Fleet) Snapshot() []byte {
	b, err := json.Marshal(&f.s)
	if err != nil {
		// Everything in the state came through Encode's types or the table's checks.
		panic("decide: the state cannot be written: " + err.Error())
	}
	return b
}

// Restore makes the machine what it was when Snapshot was taken. On an error the
// machine is unchanged; *[StopError] means a snapshot of a newer version.
func (f *Fleet) Restore(b []byte) error {
	var head struct {
		Schema int `json:"schema"`
		Rules  int `json:"rules"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return fmt.Errorf("not a snapshot: %w", err)
	}
	switch {
	case head.Schema > Schema:
		return &StopError{fmt.Sprintf("snapshot of schema %d comes from a newer version; this one knows up to %d", head.Schema, Schema)}
	case head.Rules > RulesLevel:
		return &StopError{fmt.Sprintf("snapshot of rules level %d comes from a newer version; this one knows up to %d", head.Rules, RulesLevel)}
	case head.Schema < 1:
		return fmt.Errorf("not a snapshot: schema %d", head.Schema)
	}
	var s state
	if err := strict(b, &s); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if err := s.sound(); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	s.reindex()
	f.s = s
	return nil
}

// sound checks what the machine relies on, so that a snapshot damaged in
// transit or made by hand is refused rather than decided with.
func (s *state) sound() error {
	if s.Rules == 0 {
		if len(s.Units)+len(s.Prefixes)+len(s.Orders)+len(s.Freezes) > 0 {
			return errors.New("there are units before the genesis")
		}
		return nil
	}
	if ps := s.Table.Problems(); len(ps) > 0 {
		return fmt.Errorf("table: %s", ps[0])
	}
	if s.LT < 0 || s.LT > maxTime {
		return fmt.Errorf("ledger time %d is outside 0…%d", s.LT, maxTime)
	}
	fits := applying{state: &state{LT: s.LT, Table: s.Table}}
	fits.settle()
	if !slices.EqualFunc(fits.Units, s.Units, func(a, b unitState) bool { return a.Unit == b.Unit }) {
		return errors.New("the units are not those of its table")
	}
	if !slices.EqualFunc(fits.Prefixes, s.Prefixes, func(a, b prefixState) bool { return a.Prefix == b.Prefix }) {
		return errors.New("the prefixes are not those of its table")
	}
	if !slices.IsSortedFunc(s.Slots, slot.compare) {
		return errors.New("the slots are out of order")
	}
	if !slices.IsSortedFunc(s.Verdicts, func(a, b verdictState) int {
		return cmp.Or(cmp.Compare(a.Verdict.Site, b.Verdict.Site), cmp.Compare(a.Verdict.Service, b.Verdict.Service))
	}) {
		return errors.New("the verdicts are out of order")
	}
	if err := s.soundOperators(); err != nil {
		return err
	}
	if err := s.soundTrial(); err != nil {
		return err
	}
	if err := s.soundPlans(); err != nil {
		return err
	}
	if s.Staged != nil {
		if ps := s.Staged.Table.Problems(); len(ps) > 0 {
			return fmt.Errorf("staged table: %s", ps[0])
		}
	}
	if err := s.soundMoves(); err != nil {
		return err
	}
	if err := s.soundNodeOrders(); err != nil {
		return err
	}
	if err := s.soundGone(); err != nil {
		return err
	}
	if err := s.soundCuts(); err != nil {
		return err
	}
	if err := s.soundNames(); err != nil {
		return err
	}
	for _, u := range s.Units {
		if u.Lost && u.Phase != steadycast.In || u.Depreferred && u.Phase == steadycast.Out {
			return fmt.Errorf("%s is %s, lost %t, depreferred %t, which cannot be", u.Unit, u.Phase, u.Lost, u.Depreferred)
		}
		if u.Load != nil && *u.Load < 0 {
			return fmt.Errorf("%s left with a load of %d, which cannot be", u.Unit, *u.Load)
		}
	}
	return nil
}
