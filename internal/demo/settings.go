package demo

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
)

// serviceName and anycast are what the demo keeps reachable (RFC 5737).
const serviceName = "web"

var anycast = netip.MustParsePrefix("192.0.2.53/32")

// breakerWindow and apart: failures further apart than the window are single ones.
const (
	breakerWindow = 3 * time.Second
	apart         = 4 * time.Second
)

// table is the demo's policy: production's, but for what would make it dull to
// watch. [Differences] lists what that is, from the values themselves.
func table(sites []decide.Place) decide.Table {
	t := decide.Table{
		Revision: 1,
		Services: []decide.Service{{
			Name:     serviceName,
			Prefixes: []netip.Prefix{anycast},
			Health: decide.Health{
				Rise:   3,
				HoldUp: 3 * time.Second,
			},
		}},
		Guards: decide.Guards{
			Cooldown:      2 * time.Second,
			BreakerWindow: breakerWindow,
			BreakerClear:  3 * time.Second,
		},
	}
	t.Sites = slices.Clone(sites)
	return t.WithDefaults()
}

// Difference is one setting of the demo that is not production's default.
type Difference struct {
	Setting string `json:"setting"`
	Demo    string `json:"demo"`
	Default string `json:"default"`
}

// differences compares the demo's settings with the defaults, leaf by leaf.
func differences(demo decide.Table) ([]Difference, error) {
	plain := decide.Table{Revision: demo.Revision, Sites: slices.Clone(demo.Sites),
		Services: []decide.Service{{Name: serviceName, Prefixes: demo.Services[0].Prefixes}}}.WithDefaults()
	plain.Plans = demo.Plans
	out, err := compare(nil, "", demo, plain)
	if err != nil || len(demo.Sites) == 1 {
		return out, err
	}
	room := func(what string, here, there int64) Difference {
		return Difference{what, fmt.Sprintf("%d MiB", here>>20), fmt.Sprintf("%d MiB", there>>20)}
	}
	return append(out, room("a voter's free disk, at least", voterLeastFree, ledger.DefaultLeastFree),
		room("and what it sets aside there", voterBallast, ledger.DefaultBallast)), nil
}

// compare walks two values of one type as JSON and lists the leaves that differ.
func compare(out []Difference, path string, a, b any) ([]Difference, error) {
	x, err := generic(a)
	if err != nil {
		return nil, err
	}
	y, err := generic(b)
	if err != nil {
		return nil, err
	}
	return leaves(out, path, x, y), nil
}

func generic(v any) (out any, err error) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

func leaves(out []Difference, path string, x, y any) []Difference {
	switch a := x.(type) {
	case map[string]any:
		b, _ := y.(map[string]any)
		keys := make([]string, 0, len(a))
		for k := range a {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			at := k
			if path != "" {
				at = path + "." + k
			}
			out = leaves(out, at, a[k], b[k])
		}
	case []any:
		b, _ := y.([]any)
		for i := range a {
			var other any
			if i < len(b) {
				other = b[i]
			}
			out = leaves(out, fmt.Sprintf("%s[%d]", path, i), a[i], other)
		}
	default:
		if x != y {
			out = append(out, Difference{Setting: trimUnit(path), Demo: show(path, x), Default: show(path, y)})
		}
	}
	return out
}

// The JSON names of durations end in _ns; people read them without.
func trimUnit(path string) string {
	if n := len(path) - len("_ns"); n > 0 && path[n:] == "_ns" {
		return path[:n]
	}
	return path
}

func show(path string, v any) string {
	if v == nil {
		return "none"
	}
	if f, ok := v.(float64); ok && trimUnit(path) != path {
		return time.Duration(f).String()
	}
	return fmt.Sprint(v)
}
