package config

import (
	"cmp"
	"crypto/sha256"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/probe"
)

// Config is one loaded configuration, complete with defaults and free of
// problems. It is an immutable snapshot: a reload makes another.
type Config struct {
	// File is the path of node.yaml, TableFile that of fleet.yaml; empty when
	// the services stand in node.yaml.
	File, TableFile string
	Node            Node
	// Fleet is the table, from either place.
	Fleet Fleet
	// secrets are digests of the passwords by neighbour, from either place, where
	// they could be read, so that a reload notices another one.
	secrets map[string][sha256.Size]byte
	// origin is what node.yaml was read from, to read it once more beside a table.
	origin origin
	// left are the services of a committed table that this node leaves out.
	left map[string]bool
}

type origin struct {
	loading loading
	src     []byte
}

// Options says what to load.
type Options struct {
	// File is the path of node.yaml.
	File string
	// Flags are those of the command line; only the ones that were given count. May be nil.
	Flags *pflag.FlagSet
	// Env is the environment as NAME=VALUE; nil means that of the process.
	Env []string
}

// Load reads node.yaml, and fleet.yaml where a solo node names one, lays environment and
// flags over the daemon's own settings, fills in the defaults and judges the
// whole. The Config is nil when there is a problem that is not a warning, in
// which case Problems.Err is not nil.
func Load(o Options) (*Config, Problems) {
	env := o.Env
	if env == nil {
		env = os.Environ()
	}
	src, ps := read(o.File)
	if ps != nil {
		return nil, ps
	}
	l := loading{flags: o.Flags, env: env, open: read, runs: true}
	return l.node(o.File, src)
}

// loading is one run of the pipeline: bytes, YAML nodes, structs, defaults, judgement.
type loading struct {
	flags *pflag.FlagSet
	env   []string
	// open reads the file that `table:` names.
	open func(string) ([]byte, Problems)
	// runs: it is for a process, which must not mind a file that is not in force.
	runs bool
	// committed is the text of the table in force, instead of any file's.
	committed *string
}

// node runs it for the bytes of node.yaml.
func (l loading) node(file string, src []byte) (*Config, Problems) {
	cfg, ps := l.judged(file, src)
	if ps.Fatal() > 0 {
		return nil, ps
	}
	return cfg, ps
}

// judged is node, with what there is in spite of problems.
func (l loading) judged(file string, src []byte) (*Config, Problems) {
	r := newReader(file)
	cfg := &Config{File: file, Node: newNode(), origin: origin{l, src}}
	ps := r.read(src, &cfg.Node)
	if len(r.marks) == 0 {
		return cfg, ps
	}
	ps = append(ps, overlay(&cfg.Node, r, l.flags, l.env)...)
	cfg.Node.settle()

	j := &judge{node: r, table: r, cfg: cfg, known: true}
	switch {
	case l.committed != nil:
		cfg.TableFile = committedFile
		j.table = newReader(cfg.TableFile)
		ps = append(ps, j.table.read([]byte(*l.committed), &cfg.Fleet)...)
		j.known = len(j.table.marks) > 0
	case cfg.Node.Table != "" && !(l.runs && cfg.Node.Mode == "fleet"):
		cfg.TableFile = cfg.Node.Table
		if written := r.marks["table"].node != nil; written && !filepath.IsAbs(cfg.TableFile) {
			cfg.TableFile = filepath.Join(filepath.Dir(file), cfg.TableFile)
		}
		j.table = newReader(cfg.TableFile)
		if src, unread := l.open(cfg.TableFile); unread != nil {
			j.known = false
			j.say(r, "table", "%s %s", brief(cfg.TableFile), unread[0].Text) // told where it is named
		} else {
			ps = append(ps, j.table.read(src, &cfg.Fleet)...)
			j.known = len(j.table.marks) > 0
		}
	case cfg.Node.Mode == "fleet": // the ledger has it
		j.known = false
	default:
		n := cfg.Node
		cfg.Fleet = Fleet{Services: n.Services, Prefixes: n.Prefixes, Guards: n.Guards, DrainWait: n.DrainWait, Levels: n.Levels}
		if n.Site != "" {
			cfg.Fleet.Sites = []Site{{Place: decide.Place{Name: n.Site, Paths: n.Paths}}}
		}
	}
	j.whole()
	return cfg, append(ps, j.problems...).sorted()
}

// Table is the policy that the machines take.
func (c *Config) Table() decide.Table { return c.Fleet.Table() }

// Probes are what the vantage looks at, for the subject site: its own services
// by their checks, and those of a site that it is a vantage of by their remote
// ones.
func (c *Config) Probes(site, vantage string) []probe.Service {
	if site != vantage && !slices.Contains(c.Table().Vantages(site), vantage) {
		return nil
	}
	return c.probes(site, vantage, nobody)
}

// nobody is taken out.
func nobody(site, node, service string) bool { return false }

// Looks is all that the vantage looks at: its own services, those of every site
// that it is a vantage of, and the controls that say whether it can be believed.
func (c *Config) Looks(vantage string) []probe.Service { return c.LooksBut(vantage, nobody) }

// LooksBut is Looks while people have taken nodes of other sites out: what those serve
// says nothing of their site.
func (c *Config) LooksBut(vantage string, takenOut func(site, node, service string) bool) []probe.Service {
	out := c.probes(vantage, vantage, nobody)
	if vantage == c.Node.Site {
		out = append(out, c.siblings()...)
	}
	table := c.Table()
	for _, s := range c.Fleet.Sites {
		if s.Name != vantage && !s.Witness && slices.Contains(table.Vantages(s.Name), vantage) {
			out = append(out, c.probes(s.Name, vantage, takenOut)...)
		}
	}
	if c.Fleet.Controls != nil && len(c.Fleet.Sites) > 1 {
		out = append(out, c.Fleet.Controls.Service(vantage))
	}
	return out
}

// probes are those of the services that the site serves, as the vantage looks at them.
func (c *Config) probes(site, vantage string, takenOut func(site, node, service string) bool) []probe.Service {
	subject, _ := c.Fleet.site(site)
	var out []probe.Service
	for _, s := range c.Fleet.Services {
		if !c.Fleet.serves(site, s.Service) || site == vantage && c.left[s.Name] {
			continue
		}
		p := probe.Service{Name: s.Name, Subject: site, Vantage: vantage}
		switch r := s.Remote; {
		case site == vantage:
			p.Checks, p.Up, p.Interval, p.FastInterval = s.health(), s.Up, s.Health.Interval, s.Health.FastInterval
		case r != nil:
			p.Checks, p.Up = r.from(subject, s.Name, func(node string) bool { return takenOut(site, node, s.Name) })
			p.Interval, p.FastInterval = r.Interval, r.FastInterval
		default:
			continue
		}
		out = append(out, p)
		if site == vantage {
			out = append(out, s.required(site)...)
		}
	}
	return out
}

// VIPs are the host addresses that this node's site needs: those of its services,
// and single addresses of sites, its own and those that it covers. In order, each
// once.
func (c *Config) VIPs() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range c.Fleet.Services {
		if c.Fleet.serves(c.Node.Site, s.Service) && !c.left[s.Name] {
			out = append(out, s.Addresses()...)
		}
	}
	for _, s := range c.Fleet.Sites {
		for _, own := range s.Own {
			if own.IsSingleIP() && len(out) > 0 && c.mayAnnounce(own, s.Name == c.Node.Site) {
				out = append(out, own)
			}
		}
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(out)
}

// mayAnnounce reports whether node.yaml lets this node announce p; at another
// site than its own it may be as backup only.
func (c *Config) mayAnnounce(p netip.Prefix, home bool) bool {
	within := func(a netip.Prefix) bool { return a.Bits() <= p.Bits() && a.Contains(p.Addr()) }
	return slices.ContainsFunc(c.Node.BGP.Allow, within) || !home && slices.ContainsFunc(c.Node.BGP.AllowBackup, within)
}

// Addresses are the service's own: its VIPs, and its prefixes of one address.
func (s Service) Addresses() []netip.Prefix {
	var out []netip.Prefix
	for _, a := range s.VIPs {
		out = append(out, netip.PrefixFrom(a, a.BitLen()))
	}
	for _, p := range s.Prefixes {
		if p.IsSingleIP() {
			out = append(out, p)
		}
	}
	return out
}

// serves reports whether the service is announced from the site.
func (f Fleet) serves(site string, s decide.Service) bool {
	if len(s.Sites) > 0 {
		return slices.Contains(s.Sites, site)
	}
	return slices.ContainsFunc(f.Sites, func(p Site) bool {
		return p.Name == site && !p.Witness && (s.Path == "" || slices.Contains(p.Paths, s.Path))
	})
}
