package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast/probe"
)

// maxSocket is the longest path of a unix socket: sun_path with its ending zero (unix(7)).
const maxSocket = 107

// daemon judges the settings of the processes themselves.
func (j *judge) daemon() {
	n, r := &j.cfg.Node, j.node
	j.word("mode", n.Mode, "solo", "fleet")
	if n.Site == "" && !r.wrote("site") {
		j.say(r, "site", "is missing; give the name of this node's site, such as fra")
	} else {
		j.name(r, "site", n.Site)
	}
	if derived := n.Node == n.Site+"-1"; n.Site != "" && (!derived || nameShape.MatchString(n.Site)) {
		j.name(r, "node", n.Node) // a name made of a bad site's is the site's fault
	}
	j.name(r, "fleet", n.Fleet)

	for i, role := range n.Roles {
		at := fmt.Sprintf("roles[%d]", i)
		j.word(at, role, "speaker", "agent", "ledger", "dns")
		if slices.Contains(n.Roles[:i], role) {
			j.say(r, at, "%q stands here twice; name it once", role)
		}
	}
	j.voters()
	for _, p := range []struct{ path, value string }{{"state_dir", n.StateDir}, {"run_dir", n.RunDir}, {"socket", n.Socket}, {"speaker_socket", n.SpeakerSocket}, {"ledger_socket", n.LedgerSocket}, {"dns_socket", n.DNSSocket}} {
		if !filepath.IsAbs(p.value) {
			j.say(r, p.path, "%q is not an absolute path", brief(p.value))
		}
		if strings.HasSuffix(p.path, "socket") && len(p.value) > maxSocket {
			path := p.path
			if !r.wrote(path) {
				path = "run_dir"
			}
			j.say(r, path, "makes a socket path of %d characters; the kernel allows %d", len(p.value), maxSocket)
		}
	}
	if n.Socket == n.SpeakerSocket {
		j.say(r, "speaker_socket", "%q is the agent's socket too; each needs its own", n.SpeakerSocket)
	}
	if n.LedgerSocket == n.Socket || n.LedgerSocket == n.SpeakerSocket {
		j.say(r, "ledger_socket", "%q is another role's socket too; each needs its own", n.LedgerSocket)
	}
	if n.DNSSocket == n.Socket || n.DNSSocket == n.SpeakerSocket || n.DNSSocket == n.LedgerSocket {
		j.say(r, "dns_socket", "%q is another role's socket too; each needs its own", n.DNSSocket)
	}
	j.fallback()
	j.dns()
	j.word("log.level", n.Log.Level, "debug", "info", "warn", "error")
	j.word("log.format", n.Log.Format, "text", "json")
	if l := n.Metrics.Listen; l != "off" {
		if ap, err := netip.ParseAddrPort(l); err != nil || ap.Port() == 0 {
			j.say(r, "metrics.listen", "%q is not an IP address with a port; write 127.0.0.1:9342, [::1]:9342 or off", brief(l))
		}
	}
	j.load()
	j.word("agent_lost", n.AgentLost, "keep", "deprefer")
	if n.AgentLostAfter < time.Second || n.AgentLostAfter > time.Hour {
		j.say(r, "agent_lost_after", "%v is out of range; allowed: 1s to 1h", n.AgentLostAfter)
	}
	j.word("isolated", n.Isolated, "deprefer", "freeze")
	j.stop()
	j.outside()
	for i, argv0 := range n.Exec {
		if !filepath.IsAbs(argv0) || filepath.Clean(argv0) != argv0 {
			j.say(r, fmt.Sprintf("exec[%d]", i), "%q is not the absolute path of a program", brief(argv0))
		}
	}
}

// asksAbout is what the checks of one key ask about: by which kinds, and by which
// placeholders they name it.
type asksAbout struct {
	kinds, words []string
	missing      string // what is wrong where none of the words stands
}

var (
	aboutPrefix = asksAbout{[]string{"exec", "http", "prometheus", "file"}, []string{"{prefix}", "{address}"},
		"names no prefix: write {prefix} or {address} where the prefix it is asked about should stand"}
	aboutSite = asksAbout{[]string{"dns", "http", "tls", "tcp", "exec"}, []string{inSite, inNode},
		"cannot tell sites apart: write {site} or {node} where the site that should answer is named, as http: {identity: \"X-Site: {site}\"} or dns: {identity: \"{node}\"}"}
)

// outside judges the views that can contradict a proof, and those that look for
// whoever else serves a prefix, and fills in their defaults.
func (j *judge) outside() {
	n := &j.cfg.Node
	n.Outside = j.views("outside", n.Outside, aboutPrefix, func(cs []probe.Check) []leaf {
		return leavesOf(struct {
			Outside []probe.Check `yaml:"outside"`
		}{cs}, false)
	})
	n.Elsewhere = j.views("elsewhere", n.Elsewhere, aboutPrefix, func(cs []probe.Check) []leaf {
		return leavesOf(struct {
			Elsewhere []probe.Check `yaml:"elsewhere"`
		}{cs}, false)
	})
	n.WhoAnswers = j.views("who_answers", n.WhoAnswers, aboutSite, func(cs []probe.Check) []leaf {
		return leavesOf(struct {
			WhoAnswers []probe.Check `yaml:"who_answers"`
		}{cs}, false)
	})
	if n.LastResort != 0 && (n.LastResort < time.Minute || n.LastResort > 24*time.Hour) {
		j.say(j.node, "last_resort", "%v is out of range; allowed: 1m to 24h, or 0 for never", n.LastResort)
	}
}

// views judges the checks of one key that ask about a prefix, and returns them
// with their defaults.
func (j *judge) views(key string, checks []probe.Check, of asksAbout, leaves func([]probe.Check) []leaf) []probe.Check {
	for i, c := range checks {
		at := fmt.Sprintf("%s[%d]", key, i)
		if c.Kind != "" {
			j.word(at+".kind", c.Kind, of.kinds...)
		}
		const stands = "240.0.0.1" // for any address
		for _, p := range about(c, strings.NewReplacer(inAddress, stands)).Problems() {
			j.say(j.node, join(at, p.Path), "%s", strings.ReplaceAll(p.Text, stands, inAddress))
		}
		if c.Name != "" && slices.ContainsFunc(checks[:i], func(o probe.Check) bool { return o.Name == c.Name }) {
			j.say(j.node, at+".name", "%q stands here twice; give each view its own name", brief(c.Name))
		}
		asks := slices.ContainsFunc(leavesOf(c, false), func(l leaf) bool {
			return slices.ContainsFunc(of.words, func(w string) bool { return strings.Contains(l.value, w) })
		})
		if !asks {
			j.say(j.node, at, "%s", of.missing)
		}
	}
	written := leaves(checks)
	full := slices.Clone(checks)
	for i, c := range full {
		full[i] = c.WithDefaults()
	}
	j.asWritten(j.node, "", written, leaves(full))
	return full
}

func (j *judge) stop() {
	s := j.cfg.Node.Stop
	const most = 10 * time.Minute
	for _, d := range []struct {
		path  string
		value time.Duration
	}{{"stop.drain", s.Drain}, {"stop.after_withdraw", s.AfterWithdraw}, {"stop.timeout", s.Timeout}} {
		if d.value > most {
			j.say(j.node, d.path, "%v is over the greatest value %v", d.value, most)
		}
	}
	if need := s.Drain + s.AfterWithdraw; s.Timeout < need+time.Second {
		path := "stop.timeout"
		if !j.node.wrote(path) {
			path = "stop"
		}
		j.say(j.node, path, "%v leaves no time to close the sessions: drain and after_withdraw take %v; allowed: %v or more", s.Timeout, need, need+time.Second)
	}
}

// word checks one of a closed set of words in node.yaml.
func (j *judge) word(path, got string, allowed ...string) {
	if slices.Contains(allowed, got) {
		return
	}
	hint, least := "", 3
	for _, w := range allowed {
		if d := distance(strings.ToLower(got), w); d < least {
			hint, least = fmt.Sprintf("; did you mean %q?", w), d
		}
	}
	j.say(j.node, path, "%q is not known; allowed: %s%s", brief(got), strings.Join(allowed, ", "), hint)
}

// source judges where the services come from.
func (j *judge) source() {
	n, r := &j.cfg.Node, j.node
	if j.table == j.node {
		if n.Mode == "fleet" && j.announces() && r.wrote("bgp") && len(n.BGP.Allow) == 0 {
			j.say(r, "bgp.allow", "is missing; the table comes from the fleet's ledger, and node.yaml itself says what this node may ever announce")
		}
		return
	}
	for _, key := range []string{"services", "prefixes", "guards", "drain_wait"} {
		if r.wrote(key) {
			j.say(r, key, "stands in %s already, which table: names; write it in one of the two", filepath.Base(j.cfg.TableFile))
		}
	}
	if len(n.BGP.Allow) == 0 && j.announces() {
		j.say(r, "bgp.allow", "is missing; with table:, node.yaml itself says what this node may ever announce")
	}
	if !j.known {
		return
	}
	f := j.cfg.Fleet
	if n.Mode == "solo" && len(f.Sites) > 1 {
		j.say(j.table, "sites", "names %d sites, but mode: solo in %s decides for one site alone and would count on nobody; keep this node's site only", len(f.Sites), filepath.Base(r.file))
	}
	if n.Site != "" && !slices.ContainsFunc(f.Sites, func(p Site) bool { return p.Name == n.Site }) {
		var names []string
		for _, p := range f.Sites {
			names = append(names, p.Name)
		}
		j.say(r, "site", "%q is not a site of %s; known: %s", brief(n.Site), filepath.Base(j.cfg.TableFile), strings.Join(names, ", "))
	}
}
