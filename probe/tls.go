package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// tlsProbe makes a handshake and judges what was agreed.
type tlsProbe struct {
	dialer
	target string
	set    TLS
	config *tls.Config
}

func (t *TLS) withDefaults() *TLS {
	if t.MinVersion == "" {
		t.MinVersion = "1.2"
	}
	return t
}

var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

func tlsProblems(c Check) []Problem {
	ps := hostPortProblems(c)
	if _, ok := tlsVersions[c.TLS.MinVersion]; !ok {
		ps = append(ps, problem("tls.min_version", "%q is not a version; 1.2 or 1.3", c.TLS.MinVersion))
	}
	if c.TLS.MinDays < 0 || c.TLS.MinDays > 3650 {
		ps = append(ps, problem("tls.min_days", "%d is out of range; 0 to 3650", c.TLS.MinDays))
	}
	for _, a := range c.TLS.ALPN {
		if a == "" || len(a) > 255 {
			ps = append(ps, problem("tls.alpn", "%q is not a protocol name; 1 to 255 bytes (RFC 7301 §3.1)", a))
		}
	}
	ps = append(ps, caProblems("tls.ca_file", c.TLS.CAFile, c.TLS.SkipVerify)...)
	return append(ps, latencyProblems("tls.max_latency", c.TLS.MaxLatency, c.Timeout)...)
}

func compileTLS(c Check, env Env) (body, error) {
	conf, err := clientTLS(c, c.TLS.ServerName, c.TLS.CAFile, c.TLS.SkipVerify)
	if err != nil {
		return nil, err
	}
	conf.MinVersion = tlsVersions[c.TLS.MinVersion]
	conf.NextProtos = c.TLS.ALPN
	return &tlsProbe{newDialer(c, env), c.Target, *c.TLS, conf}, nil
}

// clientTLS is the client side's settings: name is who the server must be,
// default the target's host.
func clientTLS(c Check, name, caFile string, skip bool) (*tls.Config, error) {
	conf := &tls.Config{ServerName: name, InsecureSkipVerify: skip}
	if name == "" {
		conf.ServerName, _ = endpoint(c)
	}
	if caFile != "" {
		pool, err := loadCAs(caFile)
		if err != nil {
			return nil, fmt.Errorf("%s.ca_file: %w", c.Kind, err)
		}
		conf.RootCAs = pool
	}
	return conf, nil
}

func (p *tlsProbe) probe(ctx context.Context) steadycast.Result {
	began := time.Now()
	raw, err := p.dial(ctx, "tcp", p.target)
	if err != nil {
		return failed(err, p.target, "connecting")
	}
	defer raw.Close()
	defer until(ctx, raw)()
	conn := tls.Client(raw, p.config)
	if err := conn.Handshake(); err != nil {
		return failed(err, p.target, "shaking hands")
	}
	took := time.Since(began)
	if r := p.judge(conn.ConnectionState(), time.Now()); r.Outcome != steadycast.Up {
		return r
	}
	if r, slow := tooSlow(took, p.set.MaxLatency); slow {
		return r
	}
	return up("handshake done")
}

// judge looks at what was agreed; now is the wall clock, which certificates are dated by.
func (p *tlsProbe) judge(s tls.ConnectionState, now time.Time) steadycast.Result {
	if len(p.set.ALPN) > 0 && !slices.Contains(p.set.ALPN, s.NegotiatedProtocol) {
		return soft("%s agreed on no protocol of %s (ALPN)", p.target, strings.Join(p.set.ALPN, ", "))
	}
	if p.set.MinDays > 0 {
		for _, cert := range s.PeerCertificates {
			if left := cert.NotAfter.Sub(now); left < time.Duration(p.set.MinDays)*24*time.Hour {
				return soft("%s: the certificate of %q ends %s, in %d days; at least %d are wanted", p.target,
					clip(cert.Subject.CommonName, 80), cert.NotAfter.UTC().Format(time.DateOnly), int(left/(24*time.Hour)), p.set.MinDays)
			}
		}
	}
	return up("")
}
