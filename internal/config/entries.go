package config

import "go.yaml.in/yaml/v3"

// entry is one key of a mapping.
type entry struct{ key, value *yaml.Node }

// entries returns the keys of a mapping in order, those it merges with `<<`
// last, and reports keys that stand twice. A key written beside `<<` wins over
// a merged one, and the first of several merged mappings over the next, as in
// YAML's merge type.
func (r *reader) entries(n *yaml.Node, path string) []entry {
	seen := map[string]*yaml.Node{}
	var out []entry
	r.collect(n, path, 0, seen, &out)
	return out
}

func (r *reader) collect(n *yaml.Node, path string, depth int, seen map[string]*yaml.Node, out *[]entry) {
	own := map[string]bool{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content) && !r.full(); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if depth > 0 {
			r.expand(k, path)
		}
		switch {
		case k.Kind == yaml.AliasNode:
			r.bad(k, path, "a key is an alias; write the key itself")
			continue
		case k.Kind != yaml.ScalarNode:
			r.bad(k, path, "a key is %s; keys are words", found(k))
			continue
		case k.ShortTag() == "!!merge":
			merges = append(merges, v)
			continue
		case own[k.Value]:
			r.bad(k, join(path, k.Value), "duplicate key; first set on line %d, and only one can hold", seen[k.Value].Line)
			continue
		}
		own[k.Value] = true
		if seen[k.Value] != nil {
			continue // written beside the merge, or merged before
		}
		seen[k.Value] = k
		*out = append(*out, entry{k, v})
	}
	for _, m := range merges {
		r.merge(m, path, depth+1, seen, out)
	}
}

// merge adds the keys of what a `<<` names: a mapping, an alias of one, or a list of those.
func (r *reader) merge(m *yaml.Node, path string, depth int, seen map[string]*yaml.Node, out *[]entry) {
	at := m
	if r.expand(at, path); r.full() {
		return
	}
	if depth > maxMerges {
		r.bad(at, path, "merges (<<) nest over %d deep; write the keys out", maxMerges)
		return
	}
	if m.Kind == yaml.AliasNode {
		m = m.Alias
	}
	switch {
	case m.Kind == yaml.MappingNode:
		r.collect(m, path, depth, seen, out)
	case m.Kind == yaml.SequenceNode:
		for _, c := range m.Content {
			if r.full() {
				return
			}
			r.merge(c, path, depth+1, seen, out)
		}
	default:
		r.bad(at, path, "merge (<<) of %s; only a mapping or a list of mappings can be merged", found(m))
	}
}
