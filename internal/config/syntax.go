package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)

// syntax words an error of the YAML parser. The parser names no column, and as
// line often the one where the surrounding block began, so the place is looked
// for: it is the line with which the text stops being YAML.
func syntax(src []byte, err error) (line, col int, text string) {
	text = err.Error()
	if m := yamlError.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = m[2]
	}
	lines := bytes.SplitAfter(src, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 && len(lines) > 1 {
		lines = lines[:len(lines)-1]
	}
	if at, ok := breaksAt(lines); ok {
		line = at
	}
	line = min(max(line, 1), len(lines))
	bad := strings.TrimRight(string(lines[line-1]), "\r\n")
	body := strings.TrimLeft(bad, " \t")
	if tab := strings.IndexByte(bad[:len(bad)-len(body)], '\t'); tab >= 0 {
		return line, tab + 1, "a tab in the indentation; YAML indents with spaces only"
	}
	for _, h := range hints {
		if strings.Contains(text, h.part) {
			text = h.text
			break
		}
	}
	return line, len(bad) - len(body) + 1, "is not YAML from this line on: " + text
}

// hints put the parser's commonest sentences into the words of a writer.
var hints = []struct{ part, text string }{
	{"mapping values are not allowed", "a key is indented too far, or a value with a colon in it needs quotes"},
	{"did not find expected key", "the indentation fits none of the lines above"},
	{"did not find expected '-' indicator", "the indentation does not fit the list above"},
	{"could not find expected ':'", "a key without a colon"},
	{"found unexpected end of stream", "a quote is opened and never closed"},
	{"did not find expected ',' or ']'", "a list opened with [ goes wrong or is never closed"},
	{"did not find expected ',' or '}'", "a mapping opened with { goes wrong or is never closed"},
	{"cannot start any token", "a value begins with a character that has a meaning in YAML; quote it"},
}

const (
	// maxSearch bounds the size of a text in which the place is looked for.
	maxSearch = 256 << 10
	// maxSpan is how many lines a value may span and still be seen as whole.
	maxSpan = 40
)

// breaksAt finds the line with which the lines stop being YAML: those before it
// are, and with it they are not, however many of the next are added. It halves
// the range, and steps over values that only end some lines later.
func breaksAt(lines [][]byte) (int, bool) {
	good, bad := 0, len(lines)
	if len(bytes.Join(lines, nil)) > maxSearch {
		return 0, false
	}
	parses := func(n int) bool { return isYAML(bytes.Join(lines[:n], nil)) }
	for {
		for bad-good > 1 {
			if mid := (good + bad) / 2; parses(mid) {
				good = mid
			} else {
				bad = mid
			}
		}
		next := 0
		for n := bad + 1; n <= min(bad+maxSpan, len(lines)-1); n++ {
			if parses(n) {
				next = n
			}
		}
		if next == 0 {
			return bad, true
		}
		good, bad = next, len(lines)
	}
}

func isYAML(src []byte) bool {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for {
		var n yaml.Node
		if err := dec.Decode(&n); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}
