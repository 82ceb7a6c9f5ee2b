package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// EnvPrefix begins the names of the environment variables that are read.
const EnvPrefix = "STEADYCAST_"

// setting is one key of the small part of node.yaml that may also come from a
// variable or a flag: who the node is, its paths, its log and its listener.
// All of them are text.
type setting struct {
	path  string // log.level
	env   string // STEADYCAST_LOG_LEVEL
	flag  string // log-level
	help  string
	index []int
}

var settings = layered(reflect.TypeFor[Node](), "", nil)

func layered(t reflect.Type, path string, index []int) []setting {
	var out []setting
	for _, f := range fieldsOf(t) {
		at, in := join(path, f.name), slices.Concat(index, f.index)
		switch {
		case f.layer != "":
			word := strings.ReplaceAll(at, ".", "_")
			out = append(out, setting{
				path:  at,
				env:   EnvPrefix + strings.ToUpper(word),
				flag:  strings.ReplaceAll(word, "_", "-"),
				help:  f.layer,
				index: in,
			})
		case f.typ == reflect.TypeFor[Log]() || f.typ == reflect.TypeFor[Metrics]():
			out = append(out, layered(f.typ, at, in)...)
		}
	}
	return out
}

// AddFlags adds a flag for each setting that may come from one: --site,
// --state-dir, --log-level and so on. A flag that fs already has is left.
func AddFlags(fs *pflag.FlagSet) {
	for _, s := range settings {
		if fs.Lookup(s.flag) == nil {
			fs.String(s.flag, "", s.help+" (also "+s.env+")")
		}
	}
}

// overlay lays environment and flags over what the file says:
// defaults < file < environment < flags. A value from outside the file takes
// its place in the reader's marks, so that a later problem names the variable
// or flag.
func overlay(n *Node, r *reader, flags *pflag.FlagSet, env []string) Problems {
	given, ps := environment(env)
	v := viper.NewWithOptions(viper.KeyDelimiter("::")) // never WatchConfig: it is racy and takes in a bad file
	node := reflect.ValueOf(n).Elem()
	for _, s := range settings {
		v.SetDefault(s.path, node.FieldByIndex(s.index).String()) // the default, or what the file says over it
		if text, ok := given[s.env]; ok {
			if err := v.MergeConfigMap(map[string]any{s.path: text}); err != nil {
				ps = append(ps, Problem{Place: Place{File: s.env}, Path: s.path, Text: err.Error()})
			}
			r.marks[s.path] = outside(s.env)
		}
		if flags == nil {
			continue
		}
		if f := flags.Lookup(s.flag); f != nil && f.Changed {
			if err := v.BindPFlag(s.path, f); err != nil {
				ps = append(ps, Problem{Place: Place{File: "--" + s.flag}, Path: s.path, Text: err.Error()})
			}
			r.marks[s.path] = outside("--" + s.flag)
		}
	}
	for _, s := range settings {
		node.FieldByIndex(s.index).SetString(v.GetString(s.path))
	}
	return ps
}

func outside(name string) mark {
	p := Place{File: name}
	return mark{key: p, value: p}
}

// kubernetesLink is what Kubernetes sets in every container for a Service that
// happens to be called steadycast; those are not meant for us.
var kubernetesLink = regexp.MustCompile(`^STEADYCAST_(SERVICE_(HOST|PORT.*)|PORT(_\d+_(TCP|UDP|SCTP).*)?)$`)

// environment picks our variables. One that resembles a setting is a slip and
// an error; one that does not is said and left alone, so that a variable meant
// for someone else stops no node.
func environment(env []string) (map[string]string, Problems) {
	known := map[string]bool{EnvPrefix + "CONFIG": true} // the path of node.yaml itself, read by the command line
	for _, s := range settings {
		known[s.env] = true
	}
	given := map[string]string{}
	var ps Problems
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, EnvPrefix) || kubernetesLink.MatchString(name) {
			continue
		}
		if known[name] {
			if value != "" { // an empty one is not set, as everywhere
				given[name] = value
			}
			continue
		}
		p := Problem{Place: Place{File: brief(name)}, Text: "is not a variable of steadycast; it is ignored", Warning: true}
		best := 3
		for _, s := range settings {
			if d := distance(name, s.env); d < best {
				best = d
				p.Text, p.Warning = fmt.Sprintf("unknown variable; did you mean %s?", s.env), false
			}
		}
		ps = append(ps, p)
	}
	return given, ps
}
