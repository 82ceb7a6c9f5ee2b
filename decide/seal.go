package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/steadycast/steadycast"
)

// Seal proves to whoever knows the operators which table is in force, without the
// ledger: the very wishes by which admins staged it, activated it and, where it was
// on trial, confirmed it. It can be kept on a disk or fetched from anywhere.
type Seal struct {
	// Stage holds the content, Activate the revision and the digest of Stage's text.
	Stage    Signed `json:"stage"`
	Activate Signed `json:"activate"`
	// Confirm is there when it was on trial and somebody confirmed it.
	Confirm *Signed `json:"confirm,omitempty"`
}

// MaxSeal bounds a seal in bytes: the largest table and what stands around it,
// escaped once more.
const MaxSeal = 2 * MaxEntry

// Digest is what an activation names of the stage that it is for, as 64 hex digits.
func (s Signed) Digest() string {
	sum := sha256.Sum256([]byte(s.Text))
	return hex.EncodeToString(sum[:])
}

// Sealed is a table with what its seal says of it.
type Sealed struct {
	Table Table
	// Epoch of the ledger that it was signed for; a later one is newer whatever its revision.
	Epoch uint64
	// By are those who signed.
	By []string
}

// Newer reports whether the table came after that of a revision in an epoch.
func (s Sealed) Newer(epoch, revision uint64) bool {
	return s.Epoch > epoch || s.Epoch == epoch && s.Table.Revision > revision
}

// Open reads a seal and checks all of it: each wish is signed by an admin of the
// fleet, they belong together, and the table has no problem. A table on trial is
// refused until it is confirmed: there must be a ledger to end the trial.
func (s Seal) Open(fleet string, operators []OperatorView) (out Sealed, err error) {
	stage, err := s.Stage.by(fleet, operators, KindStage)
	if err != nil {
		return out, fmt.Errorf("stage: %w", err)
	}
	activate, err := s.Activate.by(fleet, operators, KindActivate)
	if err != nil {
		return out, fmt.Errorf("activation: %w", err)
	}
	out = Sealed{Epoch: activate.Epoch, By: []string{stage.By, activate.By}}
	switch {
	case stage.Table == nil:
		return out, fmt.Errorf("stage: there is no table in it")
	case activate.Revision == 0:
		return out, fmt.Errorf("activation: it names no revision")
	case activate.Of != s.Stage.Digest():
		return out, fmt.Errorf("the activation of revision %d is for another table", activate.Revision)
	case activate.Epoch != stage.Epoch:
		return out, fmt.Errorf("staged in epoch %d and activated in %d", stage.Epoch, activate.Epoch)
	}
	if activate.ConfirmWithin != 0 {
		if s.Confirm == nil {
			return out, fmt.Errorf("revision %d is on trial, and without the ledger nobody ends that", activate.Revision)
		}
		confirm, err := s.Confirm.by(fleet, operators, KindConfirm)
		if err != nil {
			return out, fmt.Errorf("confirmation: %w", err)
		}
		if confirm.Revision != activate.Revision || confirm.Epoch != activate.Epoch {
			return out, fmt.Errorf("the confirmation is of revision %d, not of %d", confirm.Revision, activate.Revision)
		}
		out.By = append(out.By, confirm.By)
	}
	if ps := stage.Table.Problems(); len(ps) > 0 {
		return out, fmt.Errorf("%s", unsound(ps))
	}
	out.Table = stage.Table.WithDefaults()
	out.Table.Revision = activate.Revision
	return out, nil
}

// OnTrial reports whether the table was put on trial and nobody has confirmed it: Open
// refuses it, and where the trial ran out, nobody ever will.
func (s Seal) OnTrial() bool {
	w, err := s.Activate.Wish()
	return err == nil && w.ConfirmWithin != 0 && s.Confirm == nil
}

// by reads a wish of a kind that an admin of the fleet signed.
func (s Signed) by(fleet string, operators []OperatorView, kind Kind) (Wish, error) {
	w, err := s.Wish()
	if err != nil {
		return w, err
	}
	i := slices.IndexFunc(operators, func(o OperatorView) bool { return o.Operator.Name == w.By })
	switch {
	case w.Kind != kind:
		return w, fmt.Errorf("it is a wish of kind %s, not %s", w.Kind, kind)
	case w.Fleet != fleet:
		return w, fmt.Errorf("it was signed for fleet %q; this is %q", w.Fleet, fleet)
	case i < 0:
		return w, fmt.Errorf("no operator is named %q", w.By)
	case operators[i].Operator.Role < steadycast.Admin:
		return w, fmt.Errorf("%s is %s; this takes %s", w.By, operators[i].Operator.Role, steadycast.Admin)
	case !operators[i].Operator.Signed(kind.Context(), []byte(s.Text), s.Signature):
		return w, fmt.Errorf("the signature is not that of %s's key", w.By)
	}
	return w, nil
}

// Seal is that of the table in force; ok is false where it was not signed as a
// whole: the first table of a ledger, and one that came back after a trial.
func (f *Fleet) Seal() (s Seal, ok bool) {
	if f.s.Seal == nil {
		return s, false
	}
	return *f.s.Seal, true
}

// sealed notes by which wishes the table just activated came into force.
func (a *applying) sealed(stage *Signed) {
	if stage != nil && a.e.Signed != nil && a.wish.Of != "" {
		a.Seal = &Seal{Stage: *stage, Activate: *a.e.Signed}
	}
}
