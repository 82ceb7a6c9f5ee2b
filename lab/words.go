package lab

import (
	"errors"
	"strings"
)

// words splits a command line the way a shell does, with '…', "…" and \, and
// nothing else: no variables, no globs, no operators.
func words(line string) ([]string, error) {
	var (
		out   []string
		word  strings.Builder
		in    bool // inside a word, perhaps an empty quoted one
		quote rune // the quote that is open, or 0
		esc   bool
	)
	for _, r := range line {
		switch {
		case esc:
			// Between double quotes \ escapes only itself and the quote.
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			esc = false
		case r == '\\' && quote != '\'':
			esc, in = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				out = append(out, word.String())
				word.Reset()
				in = false
			}
		default:
			word.WriteRune(r)
			in = true
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("a quote is open at the end of " + line)
	case esc:
		return nil, errors.New(`nothing follows the last \ of ` + line)
	}
	if in {
		out = append(out, word.String())
	}
	return out, nil
}
