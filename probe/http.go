package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"golang.org/x/net/http/httpguts"
)

// httpProbe makes one request on a new connection and judges the response.
type httpProbe struct {
	dialer
	target string
	set    HTTP
	judge  httpJudge
	header http.Header
	round  http.RoundTripper

	plain *plainRequest // nil when it takes more than one request to a written address
}

const (
	defaultMaxBody = 64 << 10
	limitMaxBody   = 1 << 20
	maxHeaderBytes = 64 << 10
	maxRedirects   = 10
)

func (h *HTTP) withDefaults() *HTTP {
	if h.Method == "" {
		h.Method = http.MethodGet
	}
	if len(h.Status) == 0 {
		h.Status = []string{"2xx"}
	}
	if h.MaxBody == 0 {
		h.MaxBody = defaultMaxBody
	}
	if h.Version == "" {
		h.Version = "any"
	}
	return h
}

func httpProblems(c Check) []Problem {
	h := c.HTTP
	ps := urlProblems(c.Target)
	add := func(path, format string, args ...any) { ps = append(ps, problem(path, format, args...)) }
	if !httpguts.ValidHeaderFieldName(h.Method) || h.Method != strings.ToUpper(h.Method) { // both are tokens (RFC 9110 §9.1)
		add("http.method", "%q is not a method; GET, HEAD, POST, …", h.Method)
	}
	if h.Host != "" && !httpguts.ValidHostHeader(h.Host) {
		add("http.host", "%q is not a host", h.Host)
	}
	for _, name := range sortedKeys(h.Headers) {
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			add("http.headers", "%q is not the name of a header", name)
		case strings.EqualFold(name, "Host"):
			add("http.headers", "Host is set by http.host")
		case !httpguts.ValidHeaderFieldValue(h.Headers[name]):
			add("http.headers", "the value of %s has a character that headers may not have (RFC 9110 §5.5)", name)
		}
	}
	for i, s := range h.Status {
		if _, err := parseStatus(s); err != nil {
			add(fmt.Sprintf("http.status[%d]", i), "%v", err)
		}
	}
	ps = append(ps, regexpProblems("http.match", h.Match)...)
	ps = append(ps, regexpProblems("http.not_match", h.NotMatch)...)
	ps = append(ps, regexpProblems("http.header_match", h.HeaderMatch)...)
	if h.MaxBody < 1 || h.MaxBody > limitMaxBody {
		add("http.max_body", "%d is out of range; 1 to %d bytes", h.MaxBody, limitMaxBody)
	}
	if h.JSONField == "" && h.JSONValue != "" {
		add("http.json_value", "needs http.json_field, the field that must have it")
	}
	if h.JSONField != "" && slices.Contains(strings.Split(h.JSONField, "."), "") {
		add("http.json_field", "%q has an empty part; write a.b.0.c", h.JSONField)
	}
	if (h.Header == "") != (h.HeaderMatch == "") {
		add("http.header", "http.header and http.header_match go together")
	}
	if h.Header != "" && !httpguts.ValidHeaderFieldName(h.Header) {
		add("http.header", "%q is not the name of a header", h.Header)
	}
	if h.Identity != "" {
		if _, _, err := parseIdentity(h.Identity); err != nil {
			add("http.identity", "%v", err)
		}
	}
	if !slices.Contains(httpVersions, h.Version) {
		add("http.version", "%q is not a version; one of %s", h.Version, strings.Join(httpVersions, ", "))
	}
	if h.FollowRedirects < 0 || h.FollowRedirects > maxRedirects {
		add("http.follow_redirects", "%d is out of range; 0 to %d", h.FollowRedirects, maxRedirects)
	}
	if strings.HasPrefix(c.Target, "http:") {
		if h.CAFile != "" {
			add("http.ca_file", "is for https; the target is http")
		}
		if h.SkipVerify {
			add("http.skip_verify", "is for https; the target is http")
		}
	} else {
		ps = append(ps, caProblems("http.ca_file", h.CAFile, h.SkipVerify)...)
	}
	return append(ps, latencyProblems("http.max_latency", h.MaxLatency, c.Timeout)...)
}

var httpVersions = []string{"any", "1.1", "2"}

func urlProblems(target string) []Problem {
	if target == "" {
		return nil
	}
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return []Problem{problem("target", "%q is not a URL: %v", target, err)}
	case u.Scheme != "http" && u.Scheme != "https":
		return []Problem{problem("target", "%q does not start with http:// or https://", target)}
	case u.Hostname() == "":
		return []Problem{problem("target", "%q has no host", target)}
	case u.User != nil:
		return []Problem{problem("target", "a user in the URL would show in logs; use http.headers with Authorization")}
	}
	ps := hostProblems(u.Hostname())
	if p := u.Port(); p != "" {
		ps = append(ps, hostPortProblems(Check{Target: net.JoinHostPort("127.0.0.1", p)})...)
	}
	return ps
}

func compileHTTP(c Check, env Env) (body, error) {
	h := c.HTTP
	p := &httpProbe{dialer: newDialer(c, env), target: c.Target, set: *h, judge: newHTTPJudge(*h), header: http.Header{}}
	p.header.Set("User-Agent", "steadycast")
	for k, v := range h.Headers {
		p.header.Set(k, v)
	}
	transport := &http.Transport{
		DialContext:            p.dial,
		DisableKeepAlives:      true, // a kept connection would hide a listener that is gone
		DisableCompression:     true, // nothing to blow up
		MaxResponseHeaderBytes: maxHeaderBytes,
		ReadBufferSize:         2 << 10, // for one answer
		WriteBufferSize:        1 << 10,
		Protocols:              new(http.Protocols),
	}
	switch h.Version {
	case "2":
		transport.Protocols.SetHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
	case "any":
		transport.Protocols.SetHTTP2(true)
		fallthrough
	default:
		transport.Protocols.SetHTTP1(true)
	}
	if strings.HasPrefix(c.Target, "https:") {
		host, _, err := net.SplitHostPort(h.Host)
		if err != nil {
			host = h.Host
		}
		if transport.TLSClientConfig, err = clientTLS(c, host, h.CAFile, h.SkipVerify); err != nil {
			return nil, err
		}
	}
	p.round = &plainHTTP{p.dial, transport}
	if strings.HasPrefix(c.Target, "http:") && transport.Protocols.HTTP1() && h.FollowRedirects == 0 {
		var err error
		if p.plain, err = p.writeDown(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// request makes the request.
func (p *httpProbe) request(ctx context.Context) (*http.Request, error) {
	var content io.Reader
	if p.set.Body != "" {
		content = strings.NewReader(p.set.Body)
	}
	req, err := http.NewRequestWithContext(ctx, p.set.Method, p.target, content)
	if err != nil {
		return nil, err
	}
	req.Header, req.Host = p.header, p.set.Host
	return req, nil
}

func (p *httpProbe) probe(ctx context.Context) steadycast.Result {
	if p.plain != nil {
		return look(ctx, p.glance())
	}
	began := time.Now()
	req, err := p.request(ctx)
	if err != nil {
		return unknown("%v", err)
	}
	resp, err := p.do(req)
	if err == nil {
		defer resp.Body.Close()
	}
	return p.answered(ctx, began, resp, err)
}

// answered judges what came of the request: a response, whose body is yet to be
// read, or an error.
func (p *httpProbe) answered(ctx context.Context, began time.Time, resp *http.Response, err error) steadycast.Result {
	if err != nil {
		return p.failed(ctx, err, "waiting for the response")
	}
	// One byte more than is looked at tells whether there is more.
	text, err := readBounded(resp.Body, int(p.set.MaxBody)+1)
	if r := p.judge.head(resp); r.Outcome != steadycast.Up {
		if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone {
			r = p.wordOf(resp, r)
		}
		return r // says more than a body that did not end
	}
	if err != nil {
		return p.failed(ctx, err, "reading the body")
	}
	if r := p.judge.body(text); r.Outcome != steadycast.Up {
		if resp.StatusCode/100 == 2 && len(text) > 0 {
			r = p.wordOf(resp, r)
		}
		return r
	}
	if r, slow := tooSlow(time.Since(began), p.set.MaxLatency); slow {
		return r
	}
	return up("answered as it should")
}

// wordOf takes a failure for the target's own word, if nobody else may have answered.
func (p *httpProbe) wordOf(resp *http.Response, r steadycast.Result) steadycast.Result {
	if j := p.judge; j.idName != "" && resp.Header.Get(j.idName) != j.idValue {
		return r
	}
	return p.env.word.of(r)
}

// do makes the request and follows redirects as far as was asked.
func (p *httpProbe) do(req *http.Request) (*http.Response, error) {
	if p.set.FollowRedirects == 0 {
		return p.round.RoundTrip(req)
	}
	client := http.Client{Transport: p.round, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > p.set.FollowRedirects {
			return http.ErrUseLastResponse // judged as it is
		}
		return nil
	}}
	return client.Do(req)
}

func (p *httpProbe) failed(ctx context.Context, err error, doing string) steadycast.Result {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	if pe, ok := errors.AsType[textproto.ProtocolError](err); ok {
		return soft("%s does not speak HTTP: %s", p.target, clip(string(pe), 120))
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		// What broke off at the deadline broke off because of it.
		if _, resolving := errors.AsType[*resolveError](err); !resolving {
			err = ctx.Err()
		}
	}
	return failed(err, p.target, doing)
}

// readBounded reads to the end or up to most bytes, whichever comes first.
func readBounded(r io.Reader, most int) ([]byte, error) {
	var b []byte
	for len(b) < most {
		b = grow(b)
		n, err := r.Read(b[len(b):min(cap(b), most)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}
