package main

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/api"
)

func prefixOf(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 32)
}

func sampleEvents() []steadycast.Event {
	at := time.Date(2026, 5, 4, 14, 30, 40, 0, time.UTC)
	p := netip.MustParsePrefix("192.0.2.0/24")
	return []steadycast.Event{
		{ID: 101, At: at, Kind: steadycast.EventVerdict, Site: "fra", Service: "web", From: "healthy", To: "suspect", Reason: "connection refused by 192.0.2.1:443"},
		{ID: 102, At: at.Add(time.Second), Kind: steadycast.EventVerdict, Site: "fra", Service: "web", From: "suspect", To: "unhealthy", Reason: "3 failing rounds"},
		{ID: 103, At: at.Add(time.Second), Kind: steadycast.EventRefused, Site: "fra", Prefix: p, Guard: "floor", Reason: "1 of 4 would announce; floor 2"},
		{ID: 104, At: at.Add(time.Second), Kind: steadycast.EventRoute, Site: "fra", Prefix: p, From: "normal", To: "depreferred"},
		{ID: 105, At: at.Add(time.Second), Kind: steadycast.EventProof, Site: "fra", Prefix: p, Peer: "tor1", Reason: "acknowledged after 0.4ms"},
		{ID: 106, At: at.Add(2 * time.Second), Kind: steadycast.EventOrder, Site: "gru", Actor: "maria (uid 1003)", To: "drain", Reason: "rack swap, CHG-4411"},
		{ID: 107, At: at.Add(2 * time.Second), Kind: steadycast.EventFreeze, Actor: "maria (uid 1003)", To: "frozen", Reason: "maintenance of the backbone"},
	}
}

// live is the snapshot moved to the present, every moment in it by as much.
func live(s *api.Snapshot) *api.Snapshot {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	moved := new(api.Snapshot)
	if err := json.Unmarshal(b, moved); err != nil {
		panic(err)
	}
	shift(reflect.ValueOf(moved).Elem(), time.Since(s.At))
	return moved
}

func shift(v reflect.Value, by time.Duration) {
	switch v.Kind() {
	case reflect.Struct:
		if t, ok := v.Interface().(time.Time); ok {
			if !t.IsZero() {
				v.Set(reflect.ValueOf(t.Add(by)))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				shift(v.Field(i), by)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			shift(v.Index(i), by)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			shift(v.Elem(), by)
		}
	}
}
