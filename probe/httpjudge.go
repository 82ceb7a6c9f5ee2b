package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/steadycast/steadycast"
)

// httpJudge says whether a response is right. In this order:
//
//	identity header is another's           hard  somebody else answered
//	status not in the list                 soft
//	identity header missing                soft  perhaps an error page of the right one
//	another version of HTTP than asked     soft
//	header does not match                  soft
//	body did not end before the deadline   soft  unless max_body was reached
//	match does not match                   soft
//	not_match matches                      soft
//	json field absent or of another value  soft
//	slower than max_latency                soft
type httpJudge struct {
	set             HTTP
	statuses        []statusRange
	match, notMatch *regexp.Regexp
	headerMatch     *regexp.Regexp
	idName, idValue string
	field           []string
}

type statusRange struct{ from, to int }

// parseStatus reads 200, 2xx, 200-299.
func parseStatus(s string) (statusRange, error) {
	code := func(s string) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && len(s) == 3 && n >= 100 && n <= 599
	}
	if n, ok := code(s); ok {
		return statusRange{n, n}, nil
	}
	if len(s) == 3 && strings.EqualFold(s[1:], "xx") && s[0] >= '1' && s[0] <= '5' {
		n := int(s[0]-'0') * 100
		return statusRange{n, n + 99}, nil
	}
	if a, b, ok := strings.Cut(s, "-"); ok {
		from, ok1 := code(strings.TrimSpace(a))
		to, ok2 := code(strings.TrimSpace(b))
		if ok1 && ok2 && from <= to {
			return statusRange{from, to}, nil
		}
	}
	return statusRange{}, fmt.Errorf("%q is not a status; write 200, 2xx or 200-299 (100 to 599)", s)
}

// parseIdentity reads `X-Site: fra`.
func parseIdentity(s string) (name, value string, err error) {
	name, value, ok := strings.Cut(s, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || name == "" || value == "" || strings.ContainsAny(name, " \t") {
		return "", "", fmt.Errorf("%q is not a header and its value; write X-Site: fra", s)
	}
	return name, value, nil
}

// newHTTPJudge is for settings that httpProblems has passed.
func newHTTPJudge(h HTTP) httpJudge {
	j := httpJudge{set: h, match: compileRegexp(h.Match), notMatch: compileRegexp(h.NotMatch), headerMatch: compileRegexp(h.HeaderMatch)}
	for _, s := range h.Status {
		r, _ := parseStatus(s)
		j.statuses = append(j.statuses, r)
	}
	if h.Identity != "" {
		j.idName, j.idValue, _ = parseIdentity(h.Identity)
	}
	if h.JSONField != "" {
		j.field = strings.Split(h.JSONField, ".")
	}
	return j
}

func (j httpJudge) head(resp *http.Response) steadycast.Result {
	var id string
	if j.idName != "" {
		if id = resp.Header.Get(j.idName); id != "" && id != j.idValue {
			return hard("somebody else answered: %s is %q, not %q", j.idName, clip(id, 80), j.idValue)
		}
	}
	if !slices.ContainsFunc(j.statuses, func(r statusRange) bool { return r.from <= resp.StatusCode && resp.StatusCode <= r.to }) {
		text := fmt.Sprintf("status %d, not %s", resp.StatusCode, strings.Join(j.set.Status, ", "))
		if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
			text += fmt.Sprintf(" (a redirect to %s; follow_redirects allows %d)", clip(to, 80), j.set.FollowRedirects)
		}
		return soft("%s", text)
	}
	if j.idName != "" && id == "" {
		return soft("the answer carries no %s, so it may be another's; %q is wanted", j.idName, j.idValue)
	}
	if want := j.set.Version; want == "2" && resp.ProtoMajor != 2 || want == "1.1" && resp.ProtoMajor != 1 {
		return soft("answered in %s, not HTTP/%s", resp.Proto, want)
	}
	if j.headerMatch != nil {
		got := resp.Header.Values(j.set.Header)
		if len(got) == 0 {
			return soft("no header %s", j.set.Header)
		}
		if !slices.ContainsFunc(got, j.headerMatch.MatchString) {
			return soft("header %s is %q, which does not match %q", j.set.Header, clip(got[0], 80), j.set.HeaderMatch)
		}
	}
	return up("")
}

// body judges what was read of the body: all of it, or one byte more than max_body.
func (j httpJudge) body(text []byte) steadycast.Result {
	more := int64(len(text)) > j.set.MaxBody
	if more {
		text = text[:j.set.MaxBody]
	}
	if j.match != nil && !j.match.Match(text) {
		return soft("the body does not match %q: %q", j.set.Match, clip(string(text), 80))
	}
	if j.notMatch != nil {
		if at := j.notMatch.Find(text); at != nil {
			return soft("the body matches %q: %q", j.set.NotMatch, clip(string(at), 80))
		}
	}
	if j.field == nil {
		return up("")
	}
	if more {
		return soft("the body is over max_body (%d bytes), so its JSON cannot be read", j.set.MaxBody)
	}
	got, err := jsonField(text, j.field)
	switch {
	case err != nil:
		return soft("%v", err)
	case got != j.set.JSONValue:
		return soft("%s is %q, not %q", j.set.JSONField, clip(got, 80), j.set.JSONValue)
	}
	return up("")
}

// jsonField walks to a field by names, and numbers for arrays, and gives its
// value as written: a string without quotes, a number's own digits, true, null.
func jsonField(text []byte, path []string) (string, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", fmt.Errorf("the body is not JSON: %v", err)
	}
	for i, part := range path {
		absent := fmt.Errorf("the body has no field %s", strings.Join(path[:i+1], "."))
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[part]
			if !ok {
				return "", absent
			}
			v = next
		case []any:
			n, err := strconv.Atoi(part)
			if err != nil || n < 0 || n >= len(x) {
				return "", absent
			}
			v = x[n]
		default:
			return "", absent
		}
	}
	switch x := v.(type) {
	case string:
		return x, nil
	case nil:
		return "null", nil
	case map[string]any, []any:
		return "", fmt.Errorf("field %s is not a single value", strings.Join(path, "."))
	default:
		return fmt.Sprint(x), nil
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
