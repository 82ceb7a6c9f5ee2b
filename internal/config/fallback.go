package config

import "net/url"

// fallback judges where a node looks for a signed table while it hears no ledger.
func (j *judge) fallback() {
	n := j.cfg.Node
	if n.FallbackURL == "" {
		return
	}
	u, err := url.Parse(n.FallbackURL)
	switch {
	case n.Mode != "fleet":
		j.say(j.node, "fallback_url", "is for mode fleet; this node has its table in its own files")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		j.say(j.node, "fallback_url", "%q is no address of a web server; write https://HOST/PATH", brief(n.FallbackURL))
	case u.User != nil:
		j.say(j.node, "fallback_url", "carries a name or a password, which logs would show; what counts is the signature, so let the server need none")
	}
}
