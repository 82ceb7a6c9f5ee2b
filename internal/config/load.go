package config

import "net/url"

// load judges where what the site carries is read from.
func (j *judge) load() {
	n, r := &j.cfg.Node, j.node
	j.word("count", n.Count, "off", "nftables")
	l := n.Load
	if n.LoadPackets && n.Count == "off" {
		j.say(r, "load_packets", "takes what count: counts, and that is off; write count: nftables")
	}
	if n.LoadPackets && l != (LoadFrom{}) {
		j.say(r, "load_packets", "is one source of the load, and load: another; name one")
	}
	if n.LoadFile != "" && (n.LoadPackets || l != (LoadFrom{})) {
		j.say(r, "load_file", "is one source of the load, and load: or load_packets: another; name one")
	}
	switch u, err := url.Parse(l.Prometheus); {
	case l.Prometheus == "" && l.Query == "":
	case l.Prometheus == "":
		j.say(r, "load.query", "is asked of nobody; name the server in load.prometheus, as http://127.0.0.1:9090")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		j.say(r, "load.prometheus", "%q is not the address of a server; write http://127.0.0.1:9090", brief(l.Prometheus))
	case u.User != nil:
		j.say(r, "load.prometheus", "carries a name or a password, which logs would show and nobody would be sent; name a server that asks for none")
	case l.Query == "":
		j.say(r, "load.query", "is missing; write what gives one figure, as sum(rate(http_requests_total[1m]))")
	}
}
