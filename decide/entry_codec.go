package decide

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// kinds are all that this code knows, each with the bodies it must have.
var kinds = []kindBodies{
	{KindGenesis, bodyTable, 0},
	{KindTick, 0, 0},
	{KindTable, bodyTable, bodyDecide},
	{KindVerdict, bodyVerdicts, 0},
	{KindDecide, bodyDecide, bodyVerdicts},
	{KindVoid, bodyGive, 0},
	{KindIn, bodyReturn, 0},
	{KindLost, bodyUnits, 0},
	{KindFound, bodyUnits, 0},
	{KindOrder, bodyOrder, bodyDecide},
	{KindOrderClear, bodyScope, 0},
	{KindFreeze, bodyScope, 0},
	{KindThaw, bodyScope, 0},
	{KindUnlock, bodyScope, 0},
	{KindResume, bodyScope, 0},
	{KindEpoch, 0, 0},
}

type kindBodies struct {
	kind      Kind
	need, may body
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
type body uint8

const (
	bodyTable body = 1 << iota
	bodyVerdicts
	bodyDecide
	bodyGive
	bodyUnits
	bodyReturn
	bodyOrder
	bodyScope
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
