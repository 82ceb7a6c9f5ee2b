package decide

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/steadycast/steadycast"
)

// MaxEntry bounds one encoded entry in bytes. A batch of requests with all their
// evidence is a few kilobytes; a table of 300 sites about 200.
const MaxEntry = 4 << 20

// Encode writes the entry as one line of JSON without a line end.
func (e Entry) Encode() ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("entry of kind %s: %w", e.Kind, err)
	}
	if len(b) > MaxEntry {
		return nil, fmt.Errorf("entry of kind %s has %d bytes; at most %d are kept", e.Kind, len(b), MaxEntry)
	}
	return b, nil
}

// DecodeEntry reads one entry strictly: an unknown field, a word outside its
// set or anything after it is an error, so that two versions never read the
// same line differently. An entry of a later schema, or of a kind that this
// code does not know, is a *[StopError].
func DecodeEntry(b []byte) (Entry, error) {
	if len(b) > MaxEntry {
		return Entry{}, fmt.Errorf("entry has %d bytes; at most %d are kept", len(b), MaxEntry)
	}
	// The head first, leniently: a later schema may have fields unknown here, and
	// "from the future" is the truer complaint.
	var head Entry
	var ahead struct {
		Kind   *Kind `json:"kind"`
		Schema *int  `json:"schema"`
		Rules  *int  `json:"rules"`
	}
	if err := json.Unmarshal(b, &ahead); err != nil {
		return Entry{}, fmt.Errorf("not an entry: %w", err)
	}
	if ahead.Kind == nil || ahead.Schema == nil || ahead.Rules == nil {
		return Entry{}, errors.New("not an entry: kind, schema and rules must be given")
	}
	head.Kind, head.Schema, head.Rules = *ahead.Kind, *ahead.Schema, *ahead.Rules
	if err := understood(head); err != nil {
		return Entry{}, err
	}
	var e Entry
	if err := strict(b, &e); err != nil {
		return Entry{}, fmt.Errorf("entry of kind %s: %w", head.Kind, err)
	}
	return e, nil
}

// strict decodes exactly one JSON value without unknown fields.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}

// kinds are all that this code knows: the bodies each must and may have, and who
// may wish it.
var kinds = []kindBodies{
	{KindGenesis, bodyTable, bodyCharter, nobody},
	{KindTick, 0, 0, nobody},
	{KindTable, bodyTable, bodyDecide, steadycast.Admin},
	{KindVerdict, bodyVerdicts, 0, nobody},
	{KindDecide, bodyDecide, bodyVerdicts, nobody},
	{KindVoid, bodyGive, 0, nobody},
	{KindIn, bodyReturn, 0, nobody},
	{KindLost, bodyUnits, 0, nobody},
	{KindFound, bodyUnits, 0, nobody},
	{KindOrder, bodyOrder, bodyDecide, steadycast.Mover},
	{KindOrderClear, bodyScope, 0, steadycast.Mover},
	{KindFreeze, bodyScope, 0, steadycast.Mover},
	{KindThaw, bodyScope, 0, steadycast.Mover},
	{KindUnlock, bodyScope, 0, steadycast.Mover},
	{KindResume, bodyScope, 0, steadycast.Mover},
	{KindApprove, bodyDecision, bodyDecide, steadycast.Mover},
	{KindReject, bodyDecision, 0, steadycast.Mover},
	{KindStage, bodyTable, bodyDecide | bodyForce, steadycast.Admin},
	{KindAck, bodyAcks, 0, nobody},
	{KindActivate, bodyRevision, bodyDecide | bodyWaive | bodyForce | bodyWithin, steadycast.Admin},
	{KindConfirm, bodyRevision, 0, steadycast.Admin},
	{KindRevert, bodyRevision, bodyDecide, nobody},
	{KindLocal, bodyOrder, bodyDecide, nobody},
	{KindOperator, bodyOperator, 0, steadycast.Admin},
	{KindDismiss, bodyName, 0, steadycast.Admin},
	{KindShare, bodyShare, bodyForce, steadycast.Mover},
	{KindDivert, bodyDivert, 0, steadycast.Mover},
	{KindNames, bodyNames, 0, steadycast.Mover},
	{KindRamp, bodyDecide, 0, nobody},
	{KindPlan, bodyPlan, 0, steadycast.Mover},
	{KindStep, bodyStep, bodyDecide, nobody},
	{KindShed, bodyDecide, 0, nobody},
	{KindGone, bodyDecide, 0, nobody},
	{KindCut, bodyCuts, 0, nobody},
	{KindEpoch, 0, 0, nobody},
	{KindReconcile, bodyTruth, 0, nobody},
}

// nobody: the ledger makes it by itself, of what it was told or saw.
const nobody = steadycast.NoRole

// kindBodies are the bodies of a kind, and the least role of a person who wishes it.
type kindBodies struct {
	kind      Kind
	need, may body
	role      steadycast.Role
}

// bodiesOf finds a kind among those known.
func bodiesOf(k Kind) (kindBodies, bool) {
	for _, kb := range kinds {
		if kb.kind == k {
			return kb, true
		}
	}
	return kindBodies{}, false
}

// body is a set of an entry's body fields.
type body uint32

const (
	bodyTable body = 1 << iota
	bodyVerdicts
	bodyDecide
	bodyGive
	bodyUnits
	bodyReturn
	bodyOrder
	bodyScope
	bodyOperator
	bodyCharter
	bodyName
	bodyDecision
	bodyAcks
	bodyRevision
	bodyWaive
	bodyForce
	bodyShare
	bodyNames
	bodyWithin
	bodyPlan
	bodyStep
	bodyCuts
	bodyDivert
	bodyTruth
)

// bodies is the set of fields that are there.
func (e Entry) bodies() body {
	var b body
	for _, f := range []struct {
		there bool
		bit   body
	}{
		{e.Table != nil, bodyTable},
		{len(e.Verdicts) > 0, bodyVerdicts},
		{e.Decide != nil, bodyDecide},
		{e.Give != nil, bodyGive},
		{len(e.Units) > 0, bodyUnits},
		{e.Return != nil, bodyReturn},
		{e.Order != nil, bodyOrder},
		{e.Scope != nil, bodyScope},
		{e.Operator != nil, bodyOperator},
		{e.Charter != nil, bodyCharter},
		{e.Name != "", bodyName},
		{e.Decision != 0, bodyDecision},
		{len(e.Acks) > 0, bodyAcks},
		{e.Revision != 0, bodyRevision},
		{len(e.Waive) > 0, bodyWaive},
		{e.Force, bodyForce},
		{e.Share != nil, bodyShare},
		{e.Divert != nil, bodyDivert},
		{e.Names != nil, bodyNames},
		{e.ConfirmWithin != 0, bodyWithin},
		{e.Plan != nil, bodyPlan},
		{e.Step != nil, bodyStep},
		{len(e.Cuts) > 0, bodyCuts},
		{len(e.Truth) > 0, bodyTruth},
	} {
		if f.there {
			b |= f.bit
		}
	}
	return b
}

// understood returns a *StopError for what this code must not skip.
func understood(e Entry) error {
	if e.Schema > Schema {
		return &StopError{fmt.Sprintf("entry of schema %d comes from a newer version; this one knows up to %d", e.Schema, Schema)}
	}
	if e.Rules > RulesLevel {
		return &StopError{fmt.Sprintf("entry of rules level %d comes from a newer version; this one knows up to %d", e.Rules, RulesLevel)}
	}
	if _, ok := bodiesOf(e.Kind); !ok {
		return &StopError{fmt.Sprintf("entry of unknown kind %q", e.Kind)}
	}
	return nil
}
