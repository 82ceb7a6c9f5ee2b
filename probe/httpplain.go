package probe

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
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
	resp, err := exchange(conn, req)
	if err != nil {
		end()
		conn.Close()
		return nil, err
	}
	resp.Body = &onlyBody{resp.Body, conn, end}
	return resp, nil
}

// exchange sends the request and reads the head of the final response; those
// before it say only that it will come (RFC 9110 §15.2).
func exchange(conn net.Conn, req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Close = true // Connection: close
	sent := req.Write(conn)
	heard := &hearing{Reader: conn}
	limit := &io.LimitedReader{R: heard, N: maxHeaderBytes}
	in := bufio.NewReaderSize(limit, 2<<10) // for one answer
	for {
		resp, err := http.ReadResponse(in, req)
		switch {
		case err != nil && limit.N <= 0:
			return nil, fmt.Errorf("no end of the header in %d bytes", maxHeaderBytes)
		case err != nil && heard.err != nil:
			return nil, heard.err // what came until then makes no sense, and need not
		case err != nil && sent != nil:
			return nil, sent
		case err != nil:
			return nil, err
		case resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols:
			limit.N = math.MaxInt64 // whoever reads the body bounds it
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
}

func (b *onlyBody) Close() error {
	b.end()
	return b.conn.Close()
}
