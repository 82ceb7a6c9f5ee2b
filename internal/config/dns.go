package config

import (
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/steadycast/steadycast/dnsfallback"
)

// DNS is how a node answers for the zones of the table.
type DNS struct {
	dnsfallback.Settings `yaml:",inline"`
	// CookieSecrets is a file that all nodes have: 32 hexadecimal digits on a line
	// for each secret, the one that signs first (RFC 9018 §5). Without one, a client
	// that reaches another node shows a cookie that is not known there.
	CookieSecrets string `yaml:"cookie_secrets"`
	// Service of the table whose prefixes are the addresses answered at; what
	// announces them is depreferred while the answers here are stale. Default none.
	Service string `yaml:"service"`
	// StaleAfter is how long the fleet's state may go unheard before the answers
	// count as stale; default 1m. They are given all the same.
	StaleAfter time.Duration `yaml:"stale_after"`
	// MinimalAfter is how long they may be stale before only plain anycast addresses
	// are answered, for names that have some; default 0, never.
	MinimalAfter time.Duration `yaml:"minimal_after"`
	// NoResponse is how long they may be stale before nothing is answered any more, so
	// that resolvers ask another server; default 0, never. Where no ledger can be heard
	// by any node, all of them fall silent: then nobody answers rather than wrongly.
	NoResponse time.Duration `yaml:"no_response"`
	// Remember is how old the state on disk may be for a server that starts to answer
	// from it; default 24h. 0 waits until the fleet's state is heard.
	Remember time.Duration `yaml:"remember"`
	// Metrics is the Prometheus listener of this role, an IP literal and port;
	// default 127.0.0.1:9344, or off.
	Metrics string `yaml:"metrics"`
	// QueryLog takes down some of the questions, with their answers and why.
	QueryLog QueryLog `yaml:"query_log"`
}

// QueryLog says how much of the questions is written down.
type QueryLog struct {
	// File is where: a line of JSON each; default none. SIGHUP opens it anew.
	File string `yaml:"file"`
	// Sample writes one of so many questions; default 1000.
	Sample int `yaml:"sample"`
	// PerSecond bounds the lines; default 100.
	PerSecond int `yaml:"per_second"`
}

// newDNS has the defaults that rest on nothing else.
func newDNS() DNS {
	return DNS{
		StaleAfter: time.Minute, Remember: 24 * time.Hour, Metrics: "127.0.0.1:9344",
		QueryLog: QueryLog{Sample: 1000, PerSecond: 100},
	}
}

// dns judges how this node answers.
func (j *judge) dns() {
	n, r := &j.cfg.Node, j.node
	d := n.DNS
	role := slices.Contains(n.Roles, "dns")
	if len(d.Listen) > 0 || role {
		for _, p := range d.Settings.Problems() {
			j.say(r, join("dns", p.Path), "%s", p.Text)
		}
	} else if r.wrote("dns") {
		j.say(r, "dns.listen", "is missing; name the addresses to answer at, as [192.0.2.53:53], or remove dns")
	}
	if role && n.Mode == "solo" && n.Table == "" {
		j.say(r, "table", "is missing; role dns answers for the zones of a fleet.yaml, and table: names it")
	}
	for _, f := range []struct{ path, value string }{{"dns.cookie_secrets", d.CookieSecrets}, {"dns.query_log.file", d.QueryLog.File}} {
		if f.value != "" && !filepath.IsAbs(f.value) {
			j.say(r, f.path, "%q is not an absolute path", brief(f.value))
		}
	}
	for _, t := range []struct {
		path       string
		value      time.Duration
		low, high  time.Duration
		offAllowed bool
	}{
		{"dns.stale_after", d.StaleAfter, 15 * time.Second, 24 * time.Hour, false}, // an election takes a few seconds, and is no loss
		{"dns.minimal_after", d.MinimalAfter, time.Minute, 30 * 24 * time.Hour, true},
		{"dns.no_response", d.NoResponse, time.Minute, 30 * 24 * time.Hour, true},
		{"dns.remember", d.Remember, time.Minute, 30 * 24 * time.Hour, true},
	} {
		if t.offAllowed && t.value == 0 {
			continue
		}
		if t.value < t.low || t.value > t.high {
			off := ""
			if t.offAllowed {
				off = ", or 0"
			}
			j.say(r, t.path, "%v is out of range; allowed: %v to %v%s", t.value, t.low, t.high, off)
		}
	}
	for _, c := range []struct {
		path        string
		value, high int
	}{{"dns.query_log.sample", d.QueryLog.Sample, 1_000_000}, {"dns.query_log.per_second", d.QueryLog.PerSecond, 10_000}} {
		if c.value < 1 || c.value > c.high {
			j.say(r, c.path, "%d is out of range; allowed: 1 to %d", c.value, c.high)
		}
	}
	if d.NoResponse > 0 && d.NoResponse < d.StaleAfter {
		j.say(r, "dns.no_response", "%v is shorter than stale_after (%v), before which nothing is stale", d.NoResponse, d.StaleAfter)
	}
	if d.NoResponse > 0 && d.MinimalAfter >= d.NoResponse {
		j.say(r, "dns.minimal_after", "%v is not before no_response (%v), after which nothing is answered at all", d.MinimalAfter, d.NoResponse)
	}
	if l := d.Metrics; l != "off" {
		ap, err := netip.ParseAddrPort(l)
		switch {
		case err != nil || ap.Port() == 0:
			j.say(r, "dns.metrics", "%q is not an IP address with a port; write 127.0.0.1:9344, [::1]:9344 or off", brief(l))
		case l == n.Metrics.Listen:
			j.say(r, "dns.metrics", "%q is the agent's listener (metrics.listen); the server is a process of its own", l)
		}
	}
	if j.known && d.Service != "" && j.table != j.node && !slices.ContainsFunc(j.cfg.Fleet.Services, func(s Service) bool { return s.Name == d.Service }) {
		j.say(r, "dns.service", "%q is not a service of the table", brief(d.Service))
	}
}
