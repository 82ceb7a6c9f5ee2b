package config

import (
	"encoding"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/steadycast/steadycast/dnsfallback"
)

// scalar reads one plain value.
func (r *reader) scalar(n *yaml.Node, v reflect.Value, path string, secret bool) {
	if n.Kind != yaml.ScalarNode {
		r.bad(n, path, "is %s; allowed: %s", found(n), one(v.Type()))
		return
	}
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
	default:
		r.bad(n, path, "has the tag %s; write a plain value", brief(n.Tag))
		return
	}
	if text := setText(v, n.Value, n.ShortTag(), secret); text != "" {
		r.bad(n, path, "%s", text)
	}
}

// one says in words what a single value of type t looks like.
func one(t reflect.Type) string {
	switch t {
	case durationType:
		return "a duration such as 500ms, 5s, 2m"
	case ttlType:
		return "auto, or a duration such as 30s, 5m"
	case reflect.TypeFor[netip.Prefix]():
		return "a prefix such as 192.0.2.0/24 or 2001:db8::/48"
	case reflect.TypeFor[netip.Addr]():
		return "an IP address"
	case reflect.TypeFor[netip.AddrPort]():
		return "an IP address and port such as 192.0.2.1:7482 or [2001:db8::1]:7482"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	default:
		return "one value"
	}
}

// setText sets v from the text s of the YAML type tag, or says what is wrong with it.
func setText(v reflect.Value, s, tag string, secret bool) string {
	shown := strconv.Quote(s)
	if secret || len(s) > 200 {
		shown = "the value"
	}
	if s == "" && v.Kind() != reflect.String {
		return "is empty; allowed: " + one(v.Type())
	}
	switch {
	case v.Type() == durationType:
		d, text := duration(s, shown)
		v.SetInt(int64(d))
		return text
	case v.Type() == ttlType:
		if s == dnsfallback.Auto.String() {
			v.SetInt(int64(dnsfallback.Auto))
			return ""
		}
		d, text := duration(s, shown)
		if text != "" {
			text += ", or auto"
		}
		v.SetInt(int64(d))
		return text
	case v.Type() == reflect.TypeFor[netip.Addr]():
		a, text := address(s, shown)
		v.Set(reflect.ValueOf(a))
		return text
	case v.Type() == reflect.TypeFor[netip.Prefix]():
		p, text := prefix(s, shown)
		v.Set(reflect.ValueOf(p))
		return text
	case v.Type() == reflect.TypeFor[netip.AddrPort]():
		ap, err := netip.ParseAddrPort(s)
		if err != nil || ap.Port() == 0 || ap.Addr().Is4In6() {
			return shown + " is not an IP address and port; names are not looked up, write 192.0.2.1:7482 or [2001:db8::1]:7482"
		}
		v.Set(reflect.ValueOf(ap))
		return ""
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(s)); err != nil {
			return err.Error()
		}
		return ""
	}
	switch v.Kind() {
	case reflect.String:
		if tag == "!!bool" {
			return fmt.Sprintf("%s is a truth value, not text; quote it if the word is meant", s)
		}
		if s == "" && secret {
			return "is empty; remove the key for none"
		}
		v.SetString(s)
	case reflect.Bool:
		if s != "true" && s != "false" || tag != "!!bool" {
			return shown + " is neither true nor false"
		}
		v.SetBool(s == "true")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		bits := v.Type().Bits()
		return whole(s, shown, tag, -1<<(bits-1), 1<<(bits-1)-1, func(i int64) { v.SetInt(i) })
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return whole(s, shown, tag, 0, 1<<v.Type().Bits()-1, func(i int64) { v.SetUint(uint64(i)) })
	case reflect.Uint, reflect.Uint64:
		return whole(s, shown, tag, 0, math.MaxInt64, func(i int64) { v.SetUint(uint64(i)) })
	case reflect.Float64:
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || tag == "!!str" || math.IsNaN(f) || math.IsInf(f, 0) {
			return shown + " is not a number"
		}
		v.SetFloat(f)
	default:
		panic("config: a setting of type " + v.Type().String() + " cannot be read") // a programming mistake, met by any test that reads the reference
	}
	return ""
}

var digits = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// whole reads a whole number in plain decimal digits. YAML's other ways to
// write one (0x1f, 0o17, 1_000, 017) differ between its versions, so they are
// refused.
func whole(s, shown, tag string, low, high int64, set func(int64)) string {
	i, err := strconv.ParseInt(s, 10, 64)
	switch {
	case !digits.MatchString(s):
		if tag == "!!int" {
			return shown + " is not written in plain digits"
		}
		return shown + " is not a whole number"
	case tag == "!!str":
		return shown + " is text; remove the quotes"
	case err != nil && s[0] != '-' || i > high:
		return fmt.Sprintf("%s is over the greatest value %d", s, high)
	case err != nil || i < low:
		return fmt.Sprintf("%s is under the least value %d", s, low)
	}
	set(i)
	return ""
}

var bareNumber = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

var withUnits = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`)

// duration reads a length of time with its unit; only 0 may stand alone.
func duration(s, shown string) (time.Duration, string) {
	d, err := time.ParseDuration(s)
	switch {
	case err == nil && d < 0:
		return 0, shown + " is negative"
	case err == nil:
		return d, ""
	case bareNumber.MatchString(s):
		return 0, fmt.Sprintf("%s has no unit; write %[1]sms, %[1]ss or %[1]sm", s)
	}
	if withUnits.MatchString(s) {
		return 0, shown + " is too long"
	}
	if n, ok := strings.CutSuffix(s, "d"); ok && digits.MatchString(n) && len(n) < 6 {
		days, _ := strconv.Atoi(n)
		return 0, fmt.Sprintf("%s: days are not a unit; write %dh", s, days*24)
	}
	return 0, shown + " is not a duration; allowed: a number with ms, s, m or h, such as 500ms, 5s, 2m, 1h30m"
}

func address(s, shown string) (netip.Addr, string) {
	a, err := netip.ParseAddr(s)
	if err == nil && a.Is4In6() {
		return netip.Addr{}, fmt.Sprintf("%s is IPv4 inside IPv6; write %s", shown, a.Unmap())
	}
	if err == nil {
		return a, ""
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		return netip.Addr{}, fmt.Sprintf("%s is a prefix; write the address alone: %s", shown, p.Addr())
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return netip.Addr{}, fmt.Sprintf("%s has a port; write the address alone: %s", shown, ap.Addr())
	}
	return netip.Addr{}, shown + " is not an IP address; names are not looked up, write 192.0.2.1 or 2001:db8::1"
}

func prefix(s, shown string) (netip.Prefix, string) {
	p, err := netip.ParsePrefix(s)
	switch {
	case err == nil && p.Addr().Is4In6():
		return netip.Prefix{}, shown + " is IPv4 inside IPv6; write it as IPv4"
	case err == nil && p != p.Masked():
		return netip.Prefix{}, fmt.Sprintf("%s has bits set after its length; write %s for the network or %s for the one address",
			shown, p.Masked(), netip.PrefixFrom(p.Addr(), p.Addr().BitLen()))
	case err == nil:
		return p, ""
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.Prefix{}, fmt.Sprintf("%s has no length; write %s for the one address", shown, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
	}
	if at, length, ok := strings.Cut(s, "/"); ok {
		if a, err := netip.ParseAddr(at); err == nil && a.Zone() == "" && digits.MatchString(length) {
			return netip.Prefix{}, fmt.Sprintf("%s has a length over %d", shown, a.BitLen())
		}
	}
	return netip.Prefix{}, shown + " is not a prefix; write 192.0.2.0/24 or 2001:db8::/48"
}
