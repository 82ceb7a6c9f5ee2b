package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/steadycast/steadycast/dnsfallback"
)

// leaf is one single value of a settings struct.
type leaf struct {
	// path as in a problem, or with names for numbers: neighbors[tor1].asn.
	path   string
	value  string
	secret bool
}

// leavesOf lists the values of a settings struct in the order of its
// declaration. An absent value has no leaf. With named, entries of a list go by
// their name, so that two lists can be compared entry by entry.
func leavesOf(v any, named bool) []leaf {
	var out []leaf
	gather(reflect.ValueOf(v), "", false, named, &out)
	return out
}

func gather(v reflect.Value, path string, secret, named bool, out *[]leaf) {
	if v.Kind() == reflect.Pointer {
		if !v.IsNil() {
			gather(v.Elem(), path, secret, named, out)
		}
		return
	}
	if text, ok := plain(v); ok {
		*out = append(*out, leaf{path, text, secret})
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			gather(v.FieldByIndex(f.index), join(path, f.name), secret || f.secret, named, out)
		}
	case reflect.Slice:
		for i := range v.Len() {
			id := strconv.Itoa(i)
			if named {
				id = nameOf(v.Index(i), id)
			}
			gather(v.Index(i), path+"["+id+"]", secret, named, out)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			gather(v.MapIndex(k), join(path, k.String()), secret, named, out)
		}
	}
}

// plain gives the text of a single value as it would be written.
func plain(v reflect.Value) (string, bool) {
	if d, ok := v.Interface().(time.Duration); ok {
		return d.String(), true
	}
	if t, ok := v.Interface().(dnsfallback.TTL); ok {
		return t.String(), true
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		b, err := m.MarshalText()
		return string(b), err == nil
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map:
		return "", false
	default:
		return fmt.Sprint(v.Interface()), true
	}
}

// nameOf gives what an entry of a list goes by: its name, its prefix, or itself
// where that is an address or the like. Plain words keep their number, since
// their order may matter.
func nameOf(v reflect.Value, number string) string {
	if v.Kind() == reflect.String {
		return number
	}
	if text, ok := plain(v); ok {
		return text
	}
	for _, key := range []string{"name", "prefix"} {
		if f, ok := fieldsOf(v.Type()).find(key); ok {
			if text, ok := plain(v.FieldByIndex(f.index)); ok && text != "" {
				return text
			}
		}
	}
	return number
}
