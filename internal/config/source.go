package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFile is far beyond any real configuration; a greater file is a mistake.
const maxFile = 4 << 20

// read returns the content of a file of at most maxFile bytes.
func read(file string) ([]byte, Problems) {
	f, err := os.Open(file)
	if err != nil {
		return nil, Problems{{Place: Place{File: file}, Text: cannot("be read", err)}}
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, Problems{{Place: Place{File: file}, Text: "is a directory; give the file"}}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, Problems{{Place: Place{File: file}, Text: cannot("be read", err)}}
	}
	return b, nil
}

// cannot words a failure without repeating the path, which the place gives.
func cannot(what string, err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return "cannot " + what + ": " + err.Error()
}

// parse turns the bytes of one file into its root mapping, or says why not.
// Only one problem of this kind can be told at a time: after it, nothing of
// what follows is sure.
func parse(file string, src []byte) (*yaml.Node, Problems) {
	fail := func(line, col int, format string, args ...any) (*yaml.Node, Problems) {
		return nil, Problems{{Place: Place{file, max(line, 1), max(col, 1)}, Text: fmt.Sprintf(format, args...)}}
	}
	if len(src) > maxFile {
		return fail(1, 1, "is over 4 MiB; a configuration is text of a few pages")
	}
	if line, col, ok := badUTF8(src); ok {
		return fail(line, col, "is not UTF-8 text; save the file as UTF-8")
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc, next yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF), err == nil && len(doc.Content) == 0:
		return fail(1, 1, "is empty; see configs/minimal.yaml for a first one")
	case err != nil:
		line, col, text := syntax(src, err)
		return fail(line, col, "%s", text)
	}
	if err := dec.Decode(&next); err == nil {
		return fail(next.Line, next.Column, "a second document begins here; one file holds one, so remove the --- line")
	} else if !errors.Is(err, io.EOF) {
		line, col, text := syntax(src, err)
		return fail(line, col, "%s", text)
	}
	root := doc.Content[0]
	switch {
	case root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null":
		return fail(root.Line, root.Column, "is empty; see configs/minimal.yaml for a first one")
	case root.Kind != yaml.MappingNode:
		return fail(root.Line, root.Column, "is %s; a configuration is a mapping of keys to values", found(root))
	}
	return root, nil
}

// badUTF8 finds the first byte that is not UTF-8.
func badUTF8(src []byte) (line, col int, bad bool) {
	if utf8.Valid(src) {
		return 0, 0, false
	}
	line, col = 1, 1
	for len(src) > 0 {
		r, n := utf8.DecodeRune(src)
		if r == utf8.RuneError && n == 1 {
			break
		}
		if col++; r == '\n' {
			line, col = line+1, 1
		}
		src = src[n:]
	}
	return line, col, true
}

// found says in words what kind of thing stands in a file.
func found(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	default:
		return "text"
	}
}

// oneLine reports whether a value stands on one line as it is.
func oneLine(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

func isQuoted(n *yaml.Node) bool {
	return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
}
