package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// field is one key of a settings struct, by its tags:
//
//	yaml:"name"     the key; yaml:",inline" lends its own fields to the struct around it
//	secret:"true"   never shown
//	empty:"ok"      an empty list means something here
//	layer:"help"    may also come from a variable or a flag; the help is the flag's
type field struct {
	name    string
	index   []int
	typ     reflect.Type
	secret  bool
	emptyOK bool
	layer   string
}

type fields []field

func (fs fields) find(name string) (field, bool) {
	i := slices.IndexFunc(fs, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return fs[i], true
}

var fieldCache sync.Map // of reflect.Type to fields

// fieldsOf lists the keys of a struct in the order of its declaration.
func fieldsOf(t reflect.Type) fields {
	if fs, ok := fieldCache.Load(t); ok {
		return fs.(fields)
	}
	var fs fields
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case opts == "inline":
			for _, in := range fieldsOf(f.Type) {
				in.index = append([]int{i}, in.index...)
				fs = append(fs, in)
			}
		case name != "" && name != "-" && f.IsExported():
			fs = append(fs, field{name, []int{i}, f.Type, f.Tag.Get("secret") == "true", f.Tag.Get("empty") == "ok", f.Tag.Get("layer")})
		}
	}
	fieldCache.Store(t, fs)
	return fs
}

// suggest ends the sentence about an unknown key: the likely key here, or the
// place where such a key belongs, or what is allowed here. It returns the
// likely key too, if there is one.
func suggest(key string, here fields, root reflect.Type) (likely, words string) {
	key = strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	near := 1 + max(1, min(3, len(key)/3))
	if best := closest(key, here, near); best != "" {
		return best, fmt.Sprintf("did you mean %q?", best)
	}
	var homes, kin []string
	told := map[*field]bool{} // sections of one type, of which the first stands for all
	eachSection(root, "", func(path string, fs fields) {
		if len(fs) == 0 || told[&fs[0]] {
			return
		}
		told[&fs[0]] = true
		if best := closest(key, fs, min(near, 3)); best == key {
			homes = append(homes, path)
		} else if best != "" {
			kin = append(kin, fmt.Sprintf("did you mean %q under %s?", best, path))
		}
	})
	switch {
	case len(homes) > 0 && len(homes) <= 4:
		return "", "it belongs under " + strings.Join(homes, " or ")
	case len(homes) == 0 && len(kin) == 1:
		return "", kin[0]
	}
	names := make([]string, len(here))
	for i, f := range here {
		names[i] = f.name
	}
	return "", "allowed: " + strings.Join(names, ", ")
}

// closest gives the field whose name is nearest to key, nearer than limit.
func closest(key string, fs fields, limit int) string {
	best := ""
	for _, f := range fs {
		if d := distance(key, f.name); d < limit {
			best, limit = f.name, d
		}
	}
	return best
}

// eachSection visits every mapping below t with its path.
func eachSection(t reflect.Type, path string, visit func(path string, fs fields)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			path += "[]"
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	fs := fieldsOf(t)
	visit(cmp.Or(path, "the top level"), fs)
	for _, f := range fs {
		eachSection(f.typ, join(path, f.name), visit)
	}
}

// distance is the Levenshtein distance of two words, in bytes.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(row[j]+1, row[j-1]+1, cost)
		}
	}
	return row[len(b)]
}
