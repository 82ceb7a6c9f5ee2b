package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/steadycast/steadycast"
	"golang.org/x/sys/unix"
)

// plainRequest is a request whose bytes are always the same: HTTP/1.1 without TLS,
// to an address that needs no resolver, once. It is immutable.
type plainRequest struct {
	to    netip.AddrPort
	req   *http.Request // what the response is one to
	bytes []byte
}

// writeDown gives the request as it goes over the wire; nil if the address is yet
// to be found.
func (p *httpProbe) writeDown() (*plainRequest, error) {
	req, err := p.request(context.Background())
	if err != nil {
		return nil, err
	}
	host := req.URL.Host
	if req.URL.Port() == "" {
		host += ":80"
	}
	to, ok := literal(host)
	if !ok {
		return nil, nil
	}
	req.Close = true // Connection: close
	var b bytes.Buffer
	err = req.Write(&b)
	return &plainRequest{to, req, b.Bytes()}, err
}

// glances: how long the answer takes does not matter.
func (p *httpProbe) glances() bool { return p.plain != nil && p.set.MaxLatency == 0 }

func (p *httpProbe) glance() glance {
	return &httpGlance{p: p, began: time.Now(), connecting: connecting{dialer: p.dialer, to: p.plain.to}}
}

// httpGlance makes a plain request.
type httpGlance struct {
	p     *httpProbe
	began time.Time
	connecting
	unsent []byte
	sent   error // how sending failed
	talk   *talk // once it is connected
}

func (g *httpGlance) more() (r steadycast.Result, over bool) {
	if g.talk == nil {
		switch connected, err := g.connecting.more(); {
		case err != nil:
			return g.p.failed(context.Background(), err, "waiting for the response"), true
		case !connected:
			return r, false
		}
		g.talk, g.unsent = talks.Get().(*talk), g.p.plain.bytes
		g.talk.got = g.talk.got[:0]
		g.send()
		return r, false // nobody is so quick
	}
	if len(g.unsent) > 0 {
		return r, false
	}
	in := soFar{end: g.read()}
	if in.rest = g.talk.got; len(in.rest) == 0 && in.end == errMore {
		return r, false
	}
	resp, err := g.talk.hear(&in, g.p.plain.req, g.sent)
	r = g.p.answered(context.Background(), g.began, resp, err)
	return r, !in.short
}

// send writes what the kernel takes at once; that is all, but for a long body.
func (g *httpGlance) send() {
	n, err := unix.Write(g.fd, g.unsent)
	switch err {
	case nil:
		g.unsent = g.unsent[n:]
	case unix.EAGAIN, unix.EINTR:
	default:
		g.unsent, g.sent = nil, err
	}
}

// read reads what has come, and gives what comes after it: io.EOF, an error, or
// errMore when that is not known yet.
func (g *httpGlance) read() error {
	for x := g.talk; len(x.got) < cap(x.got); {
		n, err := unix.Read(g.fd, x.got[len(x.got):cap(x.got)])
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return errMore
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		default:
			x.got = x.got[:len(x.got)+n]
		}
	}
	return errMore
}

func (g *httpGlance) wait(ctx context.Context) steadycast.Result {
	conn, err := g.connecting.wait(ctx)
	if err != nil {
		return g.p.failed(ctx, err, "waiting for the response")
	}
	defer conn.Close()
	defer until(ctx, conn)()
	if g.talk == nil {
		g.talk, g.unsent = talks.Get().(*talk), g.p.plain.bytes
		g.talk.got = g.talk.got[:0]
	}
	if len(g.unsent) > 0 {
		_, g.sent = conn.Write(g.unsent)
	}
	resp, err := g.talk.hear(io.MultiReader(bytes.NewReader(g.talk.got), conn), g.p.plain.req, g.sent)
	return g.p.answered(ctx, g.began, resp, err)
}

func (g *httpGlance) drop() {
	g.connecting.drop()
	if g.talk != nil {
		g.talk.over()
		g.talk = nil
	}
}

// soFar reads what has come until now.
type soFar struct {
	rest  []byte
	end   error
	short bool // more was asked for than has come
}

// errMore ends what has not come yet.
var errMore = errors.New("more may come")

func (s *soFar) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		s.short = s.short || s.end == errMore
		return 0, s.end
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
