package main

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/steadycast/steadycast/internal/api"
)

// style is what a page may use. It is a value; rendering with it is pure.
type style struct {
	color   bool
	unicode bool
	// width in columns that a page may fill.
	width int
	// command makes a shown command work as it stands.
	command func(string) string
}

// ink is the colour of a piece of text. Nothing is said by colour alone.
type ink string

const (
	plain  ink = ""
	bold   ink = "1"
	dim    ink = "2"
	green  ink = "32"
	yellow ink = "33"
	red    ink = "31"
)

func (s style) paint(i ink, text string) string {
	if !s.color || i == plain || text == "" {
		return text
	}
	return "\x1b[" + string(i) + "m" + text + "\x1b[0m"
}

// symbols of a unit's state: the sign, its ASCII stand-in and its colour.
var symbols = map[api.Showing]struct {
	sign, ascii string
	ink         ink
}{
	api.Announced:   {"●", "*", green},
	api.Announcing:  {"◌", ".", yellow},
	api.Depreferred: {"◒", "-", yellow},
	api.Held:        {"▲", "!", yellow},
	api.Leaving:     {"◇", "o", yellow},
	api.Withdrawing: {"◌", ".", yellow},
	api.Withdrawn:   {"✕", "x", red},
	api.Drained:     {"◇", "o", dim},
	api.Returning:   {"◐", "~", yellow},
	api.OnHold:      {"◫", "=", yellow},
	api.Locked:      {"▣", "#", red},
	api.Lost:        {"✕", "x", red},
	api.Starting:    {"○", "~", dim},
	api.NotHeard:    {"?", "?", yellow},
}

// state writes a symbol and a word, and gives their colour.
func (s style) state(st api.Showing) cell {
	sym, ok := symbols[st]
	if !ok {
		return cell{string(st), plain}
	}
	sign := sym.sign
	if !s.unicode {
		sign = sym.ascii
	}
	return cell{sign + " " + string(st), sym.ink}
}

// pick chooses the sign or its ASCII stand-in.
func (s style) pick(sign, ascii string) string {
	if s.unicode {
		return sign
	}
	return ascii
}

// ascii replaces the few signs that text from the daemon and we ourselves use.
var ascii = strings.NewReplacer("—", "--", "…", "...", "·", "|", "→", "->", "≥", ">=", "≤", "<=", "×", "x", "“", `"`, "”", `"`)

// text makes a string fit to print: no control characters, which could drive
// the terminal, and no signs that it cannot show.
func (s style) text(t string) string {
	t = printable(t)
	if s.unicode {
		return t
	}
	t = ascii.Replace(t)
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, t)
}

// printable replaces what a terminal would act on: control and format characters.
func printable(t string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == utf8.RuneError:
			return '?'
		}
		return r
	}, t)
}

// span is a duration since t, as people say it; "?" if t is not known.
func span(now, t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return api.Span(now.Sub(t))
}

// clock is a moment of a day in UTC.
func clock(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return t.UTC().Format("15:04:05Z")
}
