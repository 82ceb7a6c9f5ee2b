package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/steadycast/steadycast/dnsfallback"
)

// A reader reads one file's mapping into a struct, by walking both at once. It
// goes on after a problem, so that all of them are told together, and keeps
// where each path was written, so that later problems have a place too.
//
// Nothing is converted that the writer did not say: a number where a duration
// is meant, text where a number is meant and a key that no field has are
// problems. The depth of the walk is that of the Go types, whatever the file.
type reader struct {
	file     string
	root     reflect.Type
	marks    map[string]mark // by path
	problems Problems
	// wrong are the paths that the walk reported itself.
	wrong map[string]bool
	// meant are the paths that unknown keys were probably meant to be.
	meant map[string]bool
	// aliased counts the values reached through aliases.
	aliased int
	// inAlias is how many aliases the walk is inside of.
	inAlias int
}

// mark is where a path was written.
type mark struct {
	key, value Place
	node       *yaml.Node
}

const (
	// maxProblems is where telling more stops helping.
	maxProblems = 200
	// maxAliased bounds what a small file with aliases of aliases can expand to.
	maxAliased = 100_000
	// maxMerges bounds `<<` within `<<`.
	maxMerges = 8
)

func newReader(file string) *reader {
	return &reader{file: file, marks: map[string]mark{}, wrong: map[string]bool{}, meant: map[string]bool{}}
}

// read reads the bytes of the file into the struct that v points to. When they
// are no YAML mapping at all, nothing is marked.
func (r *reader) read(src []byte, v any) Problems {
	root, ps := parse(r.file, src)
	if ps != nil {
		return ps
	}
	rv := reflect.ValueOf(v).Elem()
	r.root = rv.Type()
	r.marks[""] = mark{key: r.place(root), value: r.place(root), node: root}
	r.value(root, rv, "", false)
	return r.problems
}

func (r *reader) place(n *yaml.Node) Place { return Place{r.file, n.Line, n.Column} }

func (r *reader) full() bool { return len(r.problems) >= maxProblems || r.aliased > maxAliased }

func (r *reader) bad(n *yaml.Node, path, format string, args ...any) {
	r.wrong[path] = true
	if !r.wrote(path) {
		r.marks[path] = mark{key: r.place(n), value: r.place(n), node: n}
	}
	switch {
	case len(r.problems) < maxProblems-1:
		r.problems = append(r.problems, Problem{Place: r.place(n), Path: path, Text: fmt.Sprintf(format, args...)})
	case len(r.problems) == maxProblems-1:
		r.problems = append(r.problems, Problem{Place: r.place(n), Path: path, Text: "and more after this; repair these first"})
	}
}

// expand counts a value reached through an alias, and says so once when they
// are too many; after that nothing more is read.
func (r *reader) expand(n *yaml.Node, path string) {
	if r.aliased++; r.aliased == maxAliased+1 {
		r.bad(n, path, "aliases expand to over %d values; write them out", maxAliased)
	}
}

// value reads n into v. A secret is never repeated in a problem's text.
func (r *reader) value(n *yaml.Node, v reflect.Value, path string, secret bool) {
	if n.Kind == yaml.AliasNode {
		r.inAlias++
		defer func() { r.inAlias-- }()
		n = n.Alias
	}
	if r.inAlias > 0 {
		r.expand(n, path)
	}
	if r.full() {
		return
	}
	if v.Kind() == reflect.Pointer {
		p := reflect.New(v.Type().Elem())
		r.value(n, p.Elem(), path, secret)
		v.Set(p)
		return
	}
	_, text := v.Addr().Interface().(encoding.TextUnmarshaler)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		if text || v.Kind() != reflect.Struct {
			r.bad(n, path, "has no value; give one or remove the key")
		} // else a section whose every line is commented out
		return
	}
	switch {
	case text || v.Type() == durationType || v.Type() == ttlType:
		r.scalar(n, v, path, secret)
	case v.Kind() == reflect.Struct:
		if r.kind(n, yaml.MappingNode, v.Type(), path) {
			r.mapping(n, v, path)
		}
	case v.Kind() == reflect.Map:
		if r.kind(n, yaml.MappingNode, v.Type(), path) {
			r.dictionary(n, v, path, secret)
		}
	case v.Kind() == reflect.Slice:
		if r.kind(n, yaml.SequenceNode, v.Type(), path) {
			r.list(n, v, path, secret)
		}
	default:
		r.scalar(n, v, path, secret)
	}
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	ttlType      = reflect.TypeFor[dnsfallback.TTL]()
)

// kind reports whether n is of the kind that t needs.
func (r *reader) kind(n *yaml.Node, want yaml.Kind, t reflect.Type, path string) bool {
	if tag := n.ShortTag(); n.Kind == want {
		if tag != "!!map" && tag != "!!seq" {
			r.bad(n, path, "has the tag %s; write it without", brief(n.Tag))
			return false
		}
		return true
	}
	hint := ""
	if want == yaml.SequenceNode && single(t.Elem()) && oneLine(n) && len(n.Value) < 80 {
		hint = fmt.Sprintf("; for one entry write [%s]", n.Value)
	}
	r.bad(n, path, "is %s; allowed: %s%s", found(n), wanted(t), hint)
	return false
}

// single reports whether a value of type t is one scalar.
func single(t reflect.Type) bool {
	return t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// wanted says in words what a setting of type t takes.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "a mapping of names to text"
	default:
		var names []string
		for _, f := range fieldsOf(t) {
			names = append(names, f.name)
		}
		return "a mapping with the keys " + strings.Join(names, ", ")
	}
}

// mapping reads a mapping into a struct.
func (r *reader) mapping(n *yaml.Node, v reflect.Value, path string) {
	fields := fieldsOf(v.Type())
	for _, e := range r.entries(n, path) {
		if r.full() {
			return
		}
		at := join(path, e.key.Value)
		f, ok := fields.find(e.key.Value)
		if !ok {
			likely, words := suggest(e.key.Value, fields, r.root)
			if likely != "" {
				r.meant[join(path, likely)] = true
			}
			r.bad(e.key, at, "unknown key %q; %s", brief(e.key.Value), words)
			continue
		}
		r.marks[at] = mark{key: r.place(e.key), value: r.place(e.value), node: e.value}
		if e.value.Kind == yaml.SequenceNode && len(e.value.Content) == 0 && !f.emptyOK {
			r.bad(e.value, at, "is an empty list; name at least one, or remove the key")
			continue
		}
		r.value(e.value, v.FieldByIndex(f.index), at, f.secret)
	}
}

// dictionary reads a mapping of free names.
func (r *reader) dictionary(n *yaml.Node, v reflect.Value, path string, secret bool) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range r.entries(n, path) {
		if r.full() {
			return
		}
		at := join(path, e.key.Value)
		r.marks[at] = mark{key: r.place(e.key), value: r.place(e.value), node: e.value}
		el := reflect.New(v.Type().Elem()).Elem()
		r.value(e.value, el, at, secret)
		v.SetMapIndex(reflect.ValueOf(e.key.Value), el)
	}
}

// list reads a sequence into a slice.
func (r *reader) list(n *yaml.Node, v reflect.Value, path string, secret bool) {
	v.Set(reflect.MakeSlice(v.Type(), 0, min(len(n.Content), 1024)))
	for i, c := range n.Content {
		if r.full() {
			return
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		r.marks[at] = mark{key: r.place(c), value: r.place(c), node: c}
		el := reflect.New(v.Type().Elem()).Elem()
		r.value(c, el, at, secret)
		v.Set(reflect.Append(v, el))
	}
}

// brief keeps a word that was not expected from filling the line.
func brief(s string) string {
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

func join(path, key string) string {
	key = brief(key)
	if path == "" {
		return key
	}
	return path + "." + key
}
