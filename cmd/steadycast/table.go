package main

import (
	"strings"
	"unicode/utf8"
)

// cell is one field of a table with its colour.
type cell struct {
	text string
	ink  ink
}

// column is a heading; right columns hold numbers.
type column struct {
	name  string
	right bool
}

// table aligns rows under headings. The last column takes what is left of the
// width and is wrapped into it; where too little is left it goes on a line of
// its own below.
type table struct {
	columns []column
	rows    [][]cell
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// least is the narrowest that the last column is squeezed to.
const least = 24

func (t *table) render(s style) string {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.name)
	}
	for _, row := range t.rows {
		for i := range row {
			row[i].text = s.text(row[i].text)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	last := len(t.columns) - 1
	indent := 0
	for _, w := range widths[:last] {
		indent += w + 2
	}
	room := s.width - indent
	below := room < least && widths[last] > room
	if below {
		indent, room = 4, max(s.width-4, least)
	}

	var b strings.Builder
	head := make([]cell, len(t.columns))
	for i, c := range t.columns {
		head[i] = cell{c.name, bold}
	}
	if below {
		head[last].text = ""
	}
	t.line(&b, s, widths, head)
	for _, row := range t.rows {
		long := wrap(row[last].text, room)
		if below {
			fit := row[last]
			row[last].text = ""
			t.line(&b, s, widths, row)
			if fit.text != "" {
				for _, l := range long {
					b.WriteString(strings.Repeat(" ", indent) + s.paint(fit.ink, l) + "\n")
				}
			}
			continue
		}
		row[last].text = long[0]
		t.line(&b, s, widths, row)
		for _, l := range long[1:] {
			b.WriteString(strings.Repeat(" ", indent) + s.paint(row[last].ink, l) + "\n")
		}
	}
	return b.String()
}

// line writes one row without blanks at its end.
func (t *table) line(b *strings.Builder, s style, widths []int, row []cell) {
	end := len(row)
	for end > 0 && row[end-1].text == "" {
		end--
	}
	for i, c := range row[:end] {
		pad := strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(c.text), 0))
		switch {
		case t.columns[i].right:
			b.WriteString(pad + s.paint(c.ink, c.text))
		case i == end-1:
			b.WriteString(s.paint(c.ink, c.text))
		default:
			b.WriteString(s.paint(c.ink, c.text) + pad)
		}
		if i < end-1 {
			b.WriteString("  ")
		}
	}
	b.WriteByte('\n')
}

// wrap breaks text at blanks into lines of at most room runes; a longer word
// stands alone. There is always one line.
func wrap(text string, room int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= room:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// labelled writes a label in its own column and the text wrapped beside it.
func (s style) labelled(b *strings.Builder, label string, i ink, text string) {
	const column = 13
	pad := strings.Repeat(" ", max(column-utf8.RuneCountInString(label), 1))
	for n, l := range wrap(s.text(text), s.width-column) {
		if n == 0 {
			b.WriteString(s.paint(bold, s.text(label)) + pad + s.paint(i, l) + "\n")
		} else {
			b.WriteString(strings.Repeat(" ", column) + s.paint(i, l) + "\n")
		}
	}
}
