package probe

import (
	"net"
	"net/netip"
	"net/url"
)

// kind is what one word of `kind:` stands for. The set is closed.
type kind struct {
	// problems finds what is wrong with the kind's own part of a check that has
	// its defaults; compile may rely on there being none.
	problems func(Check) []Problem
	compile  func(Check, Env) (body, error)
	// section is whether the kind has settings of its own, and whether c has them.
	section func(c Check) (has bool)
	// remote kinds send packets to Target: source, device and the rule about
	// service addresses apply to them.
	remote bool
	// tripwire: Target names a TCP endpoint on which an idle connection can be held.
	tripwire bool
}

var kinds map[string]kind

// kindNames are in the order of the documentation.
var kindNames = []string{"dns", "http", "tcp", "tls", "icmp", "exec", "grpc", "file", "prometheus", "vip", "link", "bgp"}

func init() { // a plain initialiser would be a cycle: the kinds use the table
	kinds = map[string]kind{
		"dns":        {dnsProblems, compileDNS, func(c Check) bool { return c.DNS != nil }, true, false},
		"http":       {httpProblems, compileHTTP, func(c Check) bool { return c.HTTP != nil }, true, true},
		"tcp":        {tcpProblems, compileTCP, func(c Check) bool { return c.TCP != nil }, true, true},
		"tls":        {tlsProblems, compileTLS, func(c Check) bool { return c.TLS != nil }, true, true},
		"icmp":       {icmpProblems, compileICMP, func(c Check) bool { return c.ICMP != nil }, true, false},
		"exec":       {execProblems, compileExec, func(c Check) bool { return c.Exec != nil }, false, false},
		"grpc":       {grpcProblems, compileGRPC, func(c Check) bool { return c.GRPC != nil }, true, true},
		"file":       {fileProblems, compileFile, func(c Check) bool { return c.File != nil }, false, false},
		"prometheus": {prometheusProblems, compilePrometheus, func(c Check) bool { return c.Prometheus != nil }, true, false},
		"vip":        {vipProblems, compileVIP, nil, false, false},
		"link":       {linkProblems, compileLink, nil, false, false},
		"bgp":        {bgpProblems, compileBGP, nil, false, false},
	}
}

// endpoint gives host and port of a remote check's target.
func endpoint(c Check) (host, port string) {
	switch c.Kind {
	case "http", "prometheus":
		u, err := url.Parse(c.Target)
		if err != nil {
			return "", ""
		}
		port = u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		return u.Hostname(), port
	case "icmp":
		return c.Target, ""
	default:
		host, port, _ = net.SplitHostPort(c.Target)
		return host, port
	}
}

// targetAddr is the target's address when it is written as one.
func targetAddr(c Check) netip.Addr {
	host, _ := endpoint(c)
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}
