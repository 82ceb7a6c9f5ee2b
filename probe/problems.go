package probe

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Problem is one thing that is wrong with a setting. Path is below the check or
// service it was found in, as in the file: dns.rcode, checks[2].tcp.expect.
type Problem struct{ Path, Text string }

func (p Problem) String() string { return p.Path + ": " + p.Text }

func problem(path, format string, args ...any) Problem {
	return Problem{path, fmt.Sprintf(format, args...)}
}

// Timeouts that make sense; a probe that may take longer than a minute belongs
// into a file that something else writes.
const (
	minTimeout     = time.Millisecond
	maxTimeout     = time.Minute
	defaultTimeout = time.Second
)

// WithDefaults fills in what was not said. It does not touch c's sections; the
// result has its own.
func (c Check) WithDefaults() Check {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	switch c.Kind {
	case "dns":
		c.DNS = ptr(c.DNS).withDefaults()
	case "http":
		c.HTTP = ptr(c.HTTP).withDefaults()
	case "tcp":
		c.TCP = ptr(c.TCP)
	case "tls":
		c.TLS = ptr(c.TLS).withDefaults()
	case "icmp":
		c.ICMP = ptr(c.ICMP).withDefaults()
	case "exec":
		c.Exec = ptr(c.Exec)
	case "grpc":
		c.GRPC = ptr(c.GRPC)
	case "file":
		c.File = ptr(c.File).withDefaults()
	case "prometheus":
		c.Prometheus = ptr(c.Prometheus).withDefaults()
	}
	return c
}

// ptr copies what p points to, or makes a zero value.
func ptr[T any](p *T) *T {
	v := new(T)
	if p != nil {
		*v = *p
	}
	return v
}

// reserved words of expressions cannot be names of checks.
var reserved = []string{
	"and", "or", "not", "in", "at_least", "true", "false", "nil", "if", "else", "let",
	"matches", "contains", "startswith", "endswith",
}

var nameShape = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// Problems finds everything that is wrong with the check as it is written, in a
// fixed order. It looks at no file, so that a fleet's settings can be checked on
// any host; Compile does, on the host where the check will run.
func (c Check) Problems() []Problem {
	c = c.WithDefaults()
	var ps []Problem
	add := func(path, format string, args ...any) { ps = append(ps, problem(path, format, args...)) }
	switch {
	case c.Name == "":
		add("name", "missing; give the check a name, it is used in up: and in metrics")
	case !nameShape.MatchString(c.Name):
		add("name", "%q is not a name; a lower-case letter, then at most 62 of a-z 0-9 _", c.Name)
	case slices.Contains(reserved, c.Name):
		add("name", "%q is a word of expressions; choose another", c.Name)
	}
	k, known := kinds[c.Kind]
	if !known {
		if c.Kind == "" {
			add("kind", "missing; one of %s", strings.Join(kindNames, ", "))
		} else {
			add("kind", "%q is not a kind; one of %s%s", c.Kind, strings.Join(kindNames, ", "), didYouMean(c.Kind, kindNames))
		}
		return ps
	}
	for _, name := range kindNames {
		if other := kinds[name]; name != c.Kind && other.section != nil && other.section(c) {
			add(name, "settings of another kind; this check is kind: %s", c.Kind)
		}
	}
	if c.Interval < 0 || c.Interval > 0 && c.Interval < minInterval || c.Interval > maxInterval {
		add("interval", "%v is out of range; %v to %v", c.Interval, minInterval, maxInterval)
	}
	if c.Timeout < minTimeout || c.Timeout > maxTimeout {
		add("timeout", "%v is out of range; %v to %v", c.Timeout, minTimeout, maxTimeout)
	}
	if c.Tripwire && !k.tripwire {
		add("tripwire", "kind %s holds no TCP connection; only http, tcp, tls and grpc can", c.Kind)
	}
	if !k.remote {
		if c.Source.IsValid() {
			add("source", "kind %s sends nothing, so it has no source address; leave it out", c.Kind)
		}
		if c.Device != "" {
			add("device", "kind %s sends nothing, so it has no device; leave it out", c.Kind)
		}
	} else {
		if a := targetAddr(c); a.IsValid() && c.Source.IsValid() && a.Is4() != c.Source.Unmap().Is4() {
			add("source", "%v and the target %v are not of one family", c.Source, a)
		}
		if len(c.Device) > 15 {
			add("device", "%q is longer than the 15 characters of an interface name", c.Device)
		}
	}
	if c.Target == "" && c.Kind != "exec" {
		add("target", "missing; %s", targetWanted[c.Kind])
	} else if c.Target != "" && c.Kind == "exec" {
		add("target", "kind exec has no target; the command is exec.argv")
	}
	return append(ps, k.problems(c)...)
}

var targetWanted = map[string]string{
	"dns": "address:port", "tcp": "address:port", "tls": "address:port", "grpc": "address:port",
	"http": "a URL", "prometheus": "the URL of a Prometheus server", "icmp": "an address", "vip": "an address",
	"link": "an interface", "file": "a path", "bgp": "a neighbour's name, any, all, or path:NAME",
}

// hostPortProblems judges a target of the form host:port.
func hostPortProblems(c Check) []Problem {
	if c.Target == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(c.Target)
	if err != nil {
		hint := ""
		if a, err := netip.ParseAddr(c.Target); err == nil {
			hint = fmt.Sprintf("; add the port: %s", net.JoinHostPort(a.String(), "PORT"))
		}
		return []Problem{problem("target", "%q is not address:port%s", c.Target, hint)}
	}
	var ps []Problem
	if host == "" {
		ps = append(ps, problem("target", "%q has no address", c.Target))
	} else {
		ps = append(ps, hostProblems(host)...)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		ps = append(ps, problem("target", "%q is not a port; 1 to 65535", port))
	}
	return ps
}

// hostProblems finds an address that was mistyped: a name whose last label is a
// number cannot be a host name (RFC 1123 §2.1), and no resolver should see it.
func hostProblems(host string) []Problem {
	if a, err := netip.ParseAddr(host); err == nil {
		if a.IsUnspecified() || a.IsMulticast() {
			return []Problem{problem("target", "%v is not an address that answers", a)}
		}
		return nil
	}
	if !hostShape.MatchString(host) {
		return []Problem{problem("target", "%q is neither an address nor a host name", host)}
	}
	return nil
}

var hostShape = regexp.MustCompile(`^([a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?\.)*[a-zA-Z]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.?$`)

func regexpProblems(path, expr string) []Problem {
	if expr == "" {
		return nil
	}
	if _, err := regexp.Compile(expr); err != nil {
		return []Problem{problem(path, "%q is not a regular expression (RE2): %v", expr, err)}
	}
	return nil
}

// compileRegexp is for expressions that regexpProblems has passed.
func compileRegexp(expr string) *regexp.Regexp {
	if expr == "" {
		return nil
	}
	return regexp.MustCompile(expr)
}

func latencyProblems(path string, d, timeout time.Duration) []Problem {
	switch {
	case d < 0:
		return []Problem{problem(path, "%v is negative; leave it out for no limit", d)}
	case d > 0 && d >= timeout:
		return []Problem{problem(path, "%v is not under the timeout of %v, so it would never be reached", d, timeout)}
	}
	return nil
}

func caProblems(path, file string, skip bool) []Problem {
	if file == "" {
		return nil
	}
	if skip {
		return []Problem{problem(path, "%s is never used with skip_verify; drop one of the two", file)}
	}
	return absolutePath(path, file)
}

func absolutePath(path, file string) []Problem {
	if !strings.HasPrefix(file, string(os.PathSeparator)) {
		return []Problem{problem(path, "%q is not an absolute path", file)}
	}
	return nil
}

// Problems finds everything that is wrong with the service and its checks.
func (s Service) Problems() []Problem {
	s = s.WithDefaults()
	var ps []Problem
	add := func(path, format string, args ...any) { ps = append(ps, problem(path, format, args...)) }
	if s.Name == "" {
		add("name", "missing")
	}
	if s.Interval < minInterval || s.Interval > maxInterval {
		add("interval", "%v is out of range; %v to %v", s.Interval, minInterval, maxInterval)
	}
	if s.FastInterval < minInterval || s.FastInterval > s.Interval {
		add("fast_interval", "%v is out of range; %v to the interval, %v", s.FastInterval, minInterval, s.Interval)
	}
	if n := len(s.Checks); n == 0 {
		add("checks", "empty; a service without a check would never be seen up or down")
	} else if n > maxChecks {
		add("checks", "%d of them; at most %d", n, maxChecks)
	}
	var names []string
	for i, c := range s.Checks {
		at := fmt.Sprintf("checks[%d].", i)
		for _, p := range c.Problems() {
			add(at+p.Path, "%s", p.Text)
		}
		if c.Interval > 0 && c.Interval < s.Interval {
			add(at+"interval", "%v is under the service's %v, and checks run in its rounds; lower that", c.Interval, s.Interval)
		}
		if c.Name != "" && slices.Contains(names, c.Name) {
			add(at+"name", "%q is the name of an earlier check", c.Name)
		}
		names = append(names, c.Name)
	}
	if s.Up != "" {
		if _, err := ParseExpr(s.Up, names); err != nil {
			add("up", "%v", err)
		}
	}
	return ps
}
