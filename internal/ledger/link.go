package ledger

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// link is the HTTP/2 connection to one voter. It dials when it is used, and
// again when it broke. Its methods may be called from any goroutine.
//
// A connection may outlive the certificate of the voter at its other end, and a
// voter that was revoked does not end it. So it is judged anew with each answer.
type link struct {
	peer Peer
	http *http.Client
	tls  TLS
}

// maxReply bounds an answer of a voter in bytes.
const maxReply = 16 << 20

func newLink(fleet string, t TLS, p Peer, dial Dialer) *link {
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
			defer cancel()
			raw, err := dial(ctx, p.Address)
			if err != nil {
				return nil, &unsent{err}
			}
			c := tls.Client(raw, t.client(fleet, p.Node, httpProtocol))
			if err := c.HandshakeContext(ctx); err != nil {
				raw.Close()
				return nil, &unsent{err}
			}
			return c, nil
		},
		IdleConnTimeout: 90 * time.Second,
		// A link that died without a word is found by pings (RFC 9113 §6.7).
		HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 3 * time.Second},
	}
	return &link{p, &http.Client{Transport: transport}, t}
}

// unsent: the connection failed before anything was sent over it.
type unsent struct{ error }

func (e *unsent) Unwrap() error { return e.error }

func (l *link) close() { l.http.CloseIdleConnections() }

// answerError is a voter's refusal of a call, as it goes over the wire.
type answerError struct {
	Error string `json:"error"`
	// Kind is one of the words below.
	Kind   string `json:"kind"`
	Node   string `json:"node,omitempty"`
	Leader Peer   `json:"leader,omitzero"`
}

const (
	kindNotLeader = "not_leader" // not carried out
	kindInvalid   = "invalid"    // the ledger's own answer
	kindForbidden = "forbidden"  // not this node's to say
	kindUnsure    = "unsure"     // carried out or not
	kindOther     = "other"
)

// Forbidden says that a node may not say what it said. It was not carried out.
type Forbidden string

func (e Forbidden) Error() string { return string(e) }

// call sends one request and reads its answer into out. An error of the
// connection means that it may have been carried out, unless [*unsent].
func (l *link) call(ctx context.Context, path string, header http.Header, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+l.peer.Address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = header
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := l.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s at %s: %w", l.peer.Node, l.peer.Address, short(err))
	}
	defer res.Body.Close()
	if err := l.judge(res); err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s at %s: %w", l.peer.Node, l.peer.Address, err)
	case len(b) > maxReply:
		return fmt.Errorf("%s answers with more than %d bytes", l.peer.Node, maxReply)
	case res.StatusCode != http.StatusOK:
		return l.refusal(res.StatusCode, b)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s answers what this version does not understand: %w", l.peer.Node, err)
	}
	return nil
}

// judge refuses the answer of a voter whose certificate does not hold any more.
// The next call dials again, and is refused there.
func (l *link) judge(res *http.Response) error {
	if err := l.tls.again(*res.TLS); err != nil {
		l.close() // at once, or when nothing is under way
		return fmt.Errorf("%s at %s is not listened to: %w", l.peer.Node, l.peer.Address, err)
	}
	return nil
}

// refusal makes the error again that the voter had.
func (l *link) refusal(status int, b []byte) error {
	var a answerError
	if json.Unmarshal(b, &a) != nil || a.Kind == "" {
		return fmt.Errorf("%s at %s answers with HTTP status %d", l.peer.Node, l.peer.Address, status)
	}
	switch a.Kind {
	case kindNotLeader:
		return &NotLeader{a.Node, a.Leader}
	case kindInvalid:
		return Invalid(a.Error)
	case kindForbidden:
		return Forbidden(a.Error)
	case kindUnsure:
		return fmt.Errorf("%s: %w", l.peer.Node, errUnsure)
	}
	return fmt.Errorf("%s: %s", l.peer.Node, a.Error)
}

// short leaves out what http.Client adds: the address is said already.
func short(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		if _, ok := err.(interface{ Timeout() bool }); ok {
			return inner
		}
	}
	return err
}
