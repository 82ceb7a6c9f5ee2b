package probe

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
)

// plainHTTP makes one HTTP/1.1 request on one connection, all in the caller's
// goroutine. http.Transport keeps two more for each connection, because it may be
// used again; here it never is, and waking them is most of what a look at a near
// service costs, and part of how late its failure is known.
//
// What is not plain HTTP/1.1 (TLS, HTTP/2) goes to other.
type plainHTTP struct {
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	other *http.Transport
}

func (p *plainHTTP) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "http" || !p.other.Protocols.HTTP1() {
		return p.other.RoundTrip(req)
	}
	port := req.URL.Port()
	if port == "" {
		port = "80"
	}
	ctx := req.Context()
	conn, err := p.dial(ctx, "tcp", net.JoinHostPort(req.URL.Hostname(), port))
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	end := until(ctx, conn)
	x := talks.Get().(*talk)
	resp, err := x.exchange(conn, req)
	if err != nil {
		x.over()
		end()
		conn.Close()
		return nil, err
	}
	resp.Body = &onlyBody{resp.Body, conn, end, x}
	return resp, nil
}

// talk is what one exchange needs of memory; it serves many, one after the other.
type talk struct {
	out   bytes.Buffer
	got   []byte // what a glance has read
	heard hearing
	limit io.LimitedReader
	in    *bufio.Reader
}

// glanceBytes is how long an answer may be that a glance reads to its end.
const glanceBytes = 4 << 10

var talks = sync.Pool{New: func() any { // for one answer
	return &talk{got: make([]byte, 0, glanceBytes), in: bufio.NewReaderSize(nil, 2<<10)}
}}

// over gives it back, when nothing of it is read any more.
func (x *talk) over() {
	x.heard.Reader = nil
	talks.Put(x)
}

// exchange sends the request and reads the head of the final response.
func (x *talk) exchange(conn net.Conn, req *http.Request) (*http.Response, error) {
	req = req.WithContext(req.Context()) // a copy
	req.Close = true                     // Connection: close
	x.out.Reset()
	sent := req.Write(&x.out)
	if sent == nil {
		_, sent = conn.Write(x.out.Bytes())
	}
	return x.hear(conn, req, sent)
}

// hear reads the head of the final response to req; those before it say only that
// it will come (RFC 9110 §15.2). sent is how sending went: a server may answer
// before it has heard all.
func (x *talk) hear(from io.Reader, req *http.Request, sent error) (*http.Response, error) {
	x.heard = hearing{Reader: from}
	x.limit = io.LimitedReader{R: &x.heard, N: maxHeaderBytes}
	x.in.Reset(&x.limit)
	for {
		resp, err := http.ReadResponse(x.in, req)
		switch {
		case err != nil && x.limit.N <= 0:
			return nil, fmt.Errorf("no end of the header in %d bytes", maxHeaderBytes)
		case err != nil && x.heard.err != nil:
			return nil, x.heard.err // what came until then makes no sense, and need not
		case err != nil && sent != nil:
			return nil, sent
		case err != nil:
			return nil, err
		case resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols:
			x.limit.N = math.MaxInt64 // whoever reads the body bounds it
			return resp, nil
		}
	}
}

// hearing remembers what kept it from reading on.
type hearing struct {
	io.Reader
	err error
}

func (h *hearing) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if err != nil && err != io.EOF {
		h.err = err
	}
	return n, err
}

// onlyBody ends the connection with the body, whatever of it was not read.
type onlyBody struct {
	io.Reader
	conn net.Conn
	end  func() bool
	talk *talk
}

func (b *onlyBody) Close() error {
	if b.talk == nil {
		return net.ErrClosed
	}
	b.end()
	b.Reader = http.NoBody // what it read from serves another
	b.talk.over()
	b.talk = nil
	return b.conn.Close()
}
