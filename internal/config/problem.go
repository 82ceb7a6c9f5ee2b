package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Place is where something was written.
type Place struct {
	// File as it was named, or the name of an environment variable or flag.
	File string
	// Line and Col count from 1, Col in characters. Both are 0 for a variable or flag.
	Line, Col int
}

func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Problem is one thing wrong with a configuration.
type Problem struct {
	Place Place
	// Path is the setting, as services[0].checks[1].timeout; empty for the file as a whole.
	Path string
	// Text says what is wrong, what is allowed, and what may have been meant.
	Text string
	// Warning: the configuration can be used, but probably not as intended.
	Warning bool
}

// longest is the longest line that is still read.
const longest = 800

// String is the problem on one line: file:line:col: path: text. What a file
// brings in cannot break the line, or steer the terminal it is shown on.
func (p Problem) String() string {
	s := p.Place.String() + ": "
	if p.Warning {
		s += "warning: "
	}
	if p.Path != "" {
		s += p.Path + ": "
	}
	s += p.Text
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	if strings.ContainsFunc(s, unprintable) {
		quoted := strconv.Quote(s)
		s = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	}
	return s
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// Problems are everything wrong, in order of place. It is an error when it
// holds at least one that is not a warning; see [Problems.Err].
type Problems []Problem

// Error gives one problem per line.
func (ps Problems) Error() string { return strings.Join(ps.Lines(), "\n") }

// Err is nil when there is nothing but warnings.
func (ps Problems) Err() error {
	if ps.Fatal() == 0 {
		return nil
	}
	return ps
}

// Fatal counts the problems that are not warnings.
func (ps Problems) Fatal() int {
	n := 0
	for _, p := range ps {
		if !p.Warning {
			n++
		}
	}
	return n
}

// Lines gives each problem as one line.
func (ps Problems) Lines() []string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return lines
}

// sorted orders by file (in the order of first mention), line and column, and
// drops what is said twice of one place: a value reached through several
// aliases is wrong once.
func (ps Problems) sorted() Problems {
	files := map[string]int{}
	for _, p := range ps {
		if _, ok := files[p.Place.File]; !ok {
			files[p.Place.File] = len(files)
		}
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(files[a.Place.File], files[b.Place.File]),
			cmp.Compare(a.Place.Line, b.Place.Line), cmp.Compare(a.Place.Col, b.Place.Col))
	})
	type said struct {
		place Place
		text  string
	}
	seen := map[said]bool{}
	return slices.DeleteFunc(ps, func(p Problem) bool {
		k := said{p.Place, p.Text}
		twice := seen[k]
		seen[k] = true
		return twice
	})
}
