package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
)

// masked stands where a secret is.
const masked = "********"

// Masked returns a deep copy of a settings struct in which every secret that
// was given is replaced by asterisks. Whatever prints settings prints these.
func Masked[T any](v T) T {
	out := reflect.New(reflect.TypeFor[T]()).Elem()
	mask(reflect.ValueOf(&v).Elem(), out, false)
	return out.Interface().(T)
}

var userinfo = regexp.MustCompile(`(://)[^/?#\s]*@`)

func mask(from, to reflect.Value, secret bool) {
	to.Set(from)
	if _, single := plain(from); single && from.Kind() != reflect.String && from.Kind() != reflect.Pointer {
		return
	}
	switch from.Kind() {
	case reflect.String:
		if secret && from.Len() > 0 {
			to.SetString(masked)
		} else {
			to.SetString(userinfo.ReplaceAllString(from.String(), "${1}"+masked+"@"))
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			mask(from.Elem(), to.Elem(), secret)
		}
	case reflect.Struct:
		for _, f := range fieldsOf(from.Type()) {
			mask(from.FieldByIndex(f.index), to.FieldByIndex(f.index), secret || f.secret)
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				mask(from.Index(i), to.Index(i), secret)
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMap(from.Type()))
			for _, k := range from.MapKeys() {
				el := reflect.New(from.Type().Elem()).Elem()
				mask(from.MapIndex(k), el, secret)
				to.SetMapIndex(k, el)
			}
		}
	}
}

// Effective lists every setting with the value that holds, defaults included
// and secrets masked, as path: value.
func (c *Config) Effective() []string {
	var out []string
	for _, l := range leavesOf(Masked(c.Node), false) {
		if c.TableFile == "" || l.path != "drain_wait" && !inside(l.path, "guards") {
			out = append(out, l.path+": "+l.value)
		}
	}
	if c.TableFile != "" {
		for _, l := range leavesOf(Masked(c.Fleet), false) {
			out = append(out, l.path+": "+l.value)
		}
	}
	return out
}

// Hash names what the configuration says, in 12 hexadecimal digits. Secrets are
// left out of it, so that it tells nothing about them to who sees it in metrics.
func (c *Config) Hash() string {
	h := sha256.New()
	for _, l := range c.leaves() {
		if !l.secret {
			fmt.Fprintf(h, "%q=%q\n", l.path, l.value)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// String names the configuration; it never holds a secret, whatever verb prints it.
func (c *Config) String() string {
	return fmt.Sprintf("%s (site %s, %d services, %d neighbours)", c.File, c.Node.Site, len(c.Fleet.Services), len(c.Node.BGP.Neighbors))
}

// GoString is String, so that %#v shows no secret either.
func (c *Config) GoString() string { return c.String() }

// LogValue is String for structured logs.
func (c *Config) LogValue() slog.Value { return slog.StringValue(c.String()) }
