package lab

import (
	"fmt"
	"regexp"
	"strings"
)

// variable is ${NAME}, ${NAME:=default} or ${NAME:-default}; anything else that
// starts with ${ is refused rather than passed through.
var variable = regexp.MustCompile(`\$\{([^}]*)\}?`)

var named = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)(?::[=-](.*))?$`)

// expand replaces environment variables in the text of a topology, as
// containerlab does before it reads the YAML. A variable that is unset or empty
// takes its default.
func expand(file, text string, getenv func(string) string) (string, error) {
	var failed error
	out := variable.ReplaceAllStringFunc(text, func(s string) string {
		m := named.FindStringSubmatch(variable.FindStringSubmatch(s)[1])
		if m == nil || !strings.HasSuffix(s, "}") {
			if failed == nil {
				at := 1 + strings.Count(text[:strings.Index(text, s)], "\n")
				failed = fmt.Errorf("%s:%d: %q is not a variable; write ${NAME}, ${NAME:=default} or ${NAME:-default}", file, at, s)
			}
			return s
		}
		if v := getenv(m[1]); v != "" {
			return v
		}
		return m[2]
	})
	return out, failed
}

// magic replaces containerlab's own variables, as far as they are used.
func magic(s, node string) string { return strings.ReplaceAll(s, "__clabNodeName__", node) }
