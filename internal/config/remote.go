package config

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/steadycast/steadycast/probe"
)

// What other sites look at is written once for all of them, with placeholders
// for what differs. They are filled in for each subject.

const (
	inAddress  = "{address}"  // the subject's IPv4 address
	inAddress6 = "{address6}" // its IPv6 address
	inSite     = "{site}"     // its name
	inNode     = "{node}"     // the name of the node of it that is looked at
)

// placeholders are those that stand in a remote check, where [replaced] says.
var placeholders = []string{inAddress, inAddress6, inSite, inNode}

// replaced are the settings of a check, by path below it, in which placeholders
// are filled in: where it looks, and by what it knows whom it has reached.
var replaced = []string{"target", "http.host", "http.identity", "http.json_value", "tls.server_name", "grpc.server_name", "grpc.service", "dns.identity", "dns.names"}

// isReplaced reports whether placeholders are filled in at the path of a leaf.
func isReplaced(path string) bool {
	path, _, _ = strings.Cut(path, "[")
	return slices.Contains(replaced, path)
}

var anyPlaceholder = regexp.MustCompile(`\{[a-z0-9_]+\}`)

// unknownPlaceholder finds a word in braces that stands for nothing at the path.
func unknownPlaceholder(path, value string) (string, bool) {
	for _, p := range anyPlaceholder.FindAllString(value, -1) {
		if random := p == "{random}" && strings.HasPrefix(path, "dns.names["); !random && !slices.Contains(placeholders, p) {
			return p, true
		}
	}
	return "", false
}

// replacer fills in what is known of a subject. The longer word stands first.
func replacer(site, node string, v4, v6 netip.Addr) *strings.Replacer {
	words := []string{inSite, site, inNode, node}
	if v6.IsValid() {
		words = append(words, inAddress6, v6.String())
	}
	if v4.IsValid() {
		words = append(words, inAddress, v4.String())
	}
	return strings.NewReplacer(words...)
}

// about fills in the placeholders of a check; the check itself is not touched.
func about(c probe.Check, r *strings.Replacer) probe.Check {
	c.Target = r.Replace(c.Target)
	if c.HTTP != nil {
		h := *c.HTTP
		h.Host, h.Identity, h.JSONValue = r.Replace(h.Host), r.Replace(h.Identity), r.Replace(h.JSONValue)
		c.HTTP = &h
	}
	if c.TLS != nil {
		t := *c.TLS
		t.ServerName = r.Replace(t.ServerName)
		c.TLS = &t
	}
	if c.GRPC != nil {
		g := *c.GRPC
		g.ServerName, g.Service = r.Replace(g.ServerName), r.Replace(g.Service)
		c.GRPC = &g
	}
	if c.DNS != nil {
		d := *c.DNS
		d.Identity, d.Names = r.Replace(d.Identity), slices.Clone(d.Names)
		for i := range d.Names {
			d.Names[i] = r.Replace(d.Names[i])
		}
		c.DNS = &d
	}
	return c
}

// allAbout fills in the placeholders of several checks.
func allAbout(cs []probe.Check, r *strings.Replacer) []probe.Check {
	out := make([]probe.Check, len(cs))
	for i, c := range cs {
		out[i] = about(c, r)
	}
	return out
}
