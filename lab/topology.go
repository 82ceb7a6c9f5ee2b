package lab

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Topology is a containerlab topology file, as far as this package builds it.
// It is not changed after [Load].
type Topology struct {
	// Name is the file's name without .clab.yml: what T=… of `make lab` means.
	Name string
	// Path of the file; binds are relative to its folder.
	Path string
	// Nodes in the order of the file.
	Nodes []Node
	Links []Link
}

// Node is one container of the topology.
type Node struct {
	Name string `yaml:"-"`
	// Kind must be linux.
	Kind  string `yaml:"kind"`
	Image string `yaml:"image"`
	// Cmd replaces what the image would start.
	Cmd string `yaml:"cmd"`
	// Binds are source:target[:ro], the source relative to the topology's folder.
	Binds []string `yaml:"binds"`
	// Exec are commands run once the links are there.
	Exec []string `yaml:"exec"`
	// NetworkMode is none, or container:NODE to live in NODE's network.
	NetworkMode string            `yaml:"network-mode"`
	Env         map[string]string `yaml:"env"`
	Sysctls     map[string]string `yaml:"sysctls"`

	line int
}

// Link is one veth pair; its endpoints are NODE:INTERFACE.
type Link struct {
	Endpoints []string `yaml:"endpoints"`
	// MTU in bytes; 0 leaves the kernel's default.
	MTU int `yaml:"mtu"`
}

// document is the file's own shape. Whatever it does not name is refused.
type document struct {
	Name     string  `yaml:"name"`
	Prefix   *string `yaml:"prefix"`
	Topology struct {
		Defaults Node            `yaml:"defaults"`
		Nodes    map[string]Node `yaml:"nodes"`
		Links    []Link          `yaml:"links"`
	} `yaml:"topology"`
}

// Load reads a topology file, with the environment for its ${VARIABLES}.
func Load(path string) (*Topology, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseTopology(path, string(b), os.Getenv)
}

func parseTopology(path, text string, getenv func(string) string) (*Topology, error) {
	file := filepath.Base(path)
	text, err := expand(file, text, getenv)
	if err != nil {
		return nil, err
	}
	var doc document
	if err := strict(file, []byte(text), &doc); err != nil {
		return nil, err
	}
	t := &Topology{Name: strings.TrimSuffix(file, ".clab.yml"), Path: path, Links: doc.Topology.Links}
	if doc.Name == "" {
		return nil, fmt.Errorf("%s:1: name: missing; every topology has one", file)
	}
	for _, key := range keysOf(text, "topology", "nodes") {
		n := doc.Topology.Nodes[key.Value]
		n.Name, n.line = key.Value, key.Line
		t.Nodes = append(t.Nodes, inherit(doc.Topology.Defaults, n))
	}
	return t, t.check(file)
}

// keysOf gives the keys of the mapping at path, in the order of the file,
// which a Go map does not keep.
func keysOf(text string, path ...string) []*yaml.Node {
	var root yaml.Node
	if yaml.Unmarshal([]byte(text), &root) != nil || len(root.Content) == 0 {
		return nil
	}
	at := root.Content[0]
	for _, name := range path {
		i := slices.IndexFunc(at.Content, func(n *yaml.Node) bool { return n.Value == name })
		if at.Kind != yaml.MappingNode || i < 0 || i+1 >= len(at.Content) {
			return nil
		}
		at = at.Content[i+1]
	}
	var keys []*yaml.Node
	for i := 0; at.Kind == yaml.MappingNode && i < len(at.Content); i += 2 {
		keys = append(keys, at.Content[i])
	}
	return keys
}

// inherit gives n what the defaults say and it does not: lists are joined, as
// containerlab does.
func inherit(d, n Node) Node {
	n.Kind = cmp.Or(n.Kind, d.Kind)
	n.Image = cmp.Or(n.Image, d.Image)
	n.Cmd = cmp.Or(n.Cmd, d.Cmd)
	n.NetworkMode = cmp.Or(n.NetworkMode, d.NetworkMode)
	n.Binds = slices.Concat(d.Binds, n.Binds)
	n.Exec = slices.Concat(d.Exec, n.Exec)
	n.Env = joined(d.Env, n.Env)
	n.Sysctls = joined(d.Sysctls, n.Sysctls)
	return n
}

func joined(a, b map[string]string) map[string]string {
	m := map[string]string{}
	maps.Copy(m, a)
	maps.Copy(m, b)
	return m
}

var (
	yamlLine    = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	yamlUnknown = regexp.MustCompile(`^field (\S+) not found in type \S+$`)
)

// strict decodes one document and refuses keys that into does not have, with
// every problem's line.
func strict(file string, text []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	found := []string{err.Error()}
	var te *yaml.TypeError
	if errors.As(err, &te) {
		found = te.Errors
	}
	var problems []error
	for _, what := range found {
		at := "1"
		if m := yamlLine.FindStringSubmatch(what); m != nil {
			at, what = m[1], m[2]
		}
		if m := yamlUnknown.FindStringSubmatch(what); m != nil {
			what = fmt.Sprintf("unknown key %q: this runner would not build it, so it does not ignore it", m[1])
		}
		problems = append(problems, fmt.Errorf("%s:%s: %s", file, at, what))
	}
	return errors.Join(problems...)
}

// check finds what would fail only halfway through building the lab.
func (t *Topology) check(file string) error {
	var problems []error
	bad := func(line int, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s:%d: %s", file, line, fmt.Sprintf(format, args...)))
	}
	if len(t.Nodes) == 0 {
		bad(1, "topology.nodes: at least one node is needed")
	}
	for _, n := range t.Nodes {
		if n.Kind != "linux" {
			bad(n.line, "%s.kind: %q; only linux nodes are built here", n.Name, n.Kind)
		}
		if n.Image == "" {
			bad(n.line, "%s.image: missing", n.Name)
		}
		if host, ok := n.sharesNetworkOf(); ok {
			if h := t.node(host); h == nil || host == n.Name {
				bad(n.line, "%s.network-mode: %q is no other node of this topology", n.Name, host)
			} else if _, also := h.sharesNetworkOf(); also {
				bad(n.line, "%s.network-mode: %s has no network of its own to share", n.Name, host)
			}
		} else if n.NetworkMode != "none" {
			bad(n.line, "%s.network-mode: %q; write none (a management network would be a second path between all nodes) or container:NODE", n.Name, n.NetworkMode)
		}
		for _, b := range n.Binds {
			if p := strings.Split(b, ":"); len(p) < 2 || len(p) > 3 || !strings.HasPrefix(p[1], "/") || len(p) == 3 && p[2] != "ro" {
				bad(n.line, "%s.binds: %q; write source:/target or source:/target:ro", n.Name, b)
			}
		}
		for _, c := range append([]string{n.Cmd}, n.Exec...) {
			if _, err := words(c); err != nil {
				bad(n.line, "%s: %v", n.Name, err)
			}
		}
	}
	for i, l := range t.Links {
		if len(l.Endpoints) != 2 {
			bad(1, "topology.links[%d].endpoints: %d of them; a link has two", i, len(l.Endpoints))
			continue
		}
		for _, e := range l.Endpoints {
			node, ifname, _ := strings.Cut(e, ":")
			switch n := t.node(node); {
			case n == nil:
				bad(1, "topology.links[%d]: %q: no node %q", i, e, node)
			case ifname == "" || len(ifname) > 15:
				bad(1, "topology.links[%d]: %q: an interface name has 1 to 15 characters", i, e)
			case strings.HasPrefix(n.NetworkMode, "container:"):
				bad(1, "topology.links[%d]: %q: %s has no network of its own", i, e, node)
			}
		}
	}
	return errors.Join(problems...)
}

func (t *Topology) node(name string) *Node {
	for i := range t.Nodes {
		if t.Nodes[i].Name == name {
			return &t.Nodes[i]
		}
	}
	return nil
}

// sharesNetworkOf names the node in whose network n lives.
func (n *Node) sharesNetworkOf() (string, bool) {
	return strings.CutPrefix(n.NetworkMode, "container:")
}

// bind is one file of the topology and where the node finds it.
type bind struct{ from, to string }

func (t *Topology) binds(n Node) []bind {
	var out []bind
	for _, b := range n.Binds {
		p := strings.Split(magic(b, n.Name), ":")
		if !filepath.IsAbs(p[0]) {
			p[0] = filepath.Join(filepath.Dir(t.Path), p[0])
		}
		out = append(out, bind{p[0], p[1]})
	}
	return out
}
