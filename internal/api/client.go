package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// maxAnswer is the most a client reads of one answer.
const maxAnswer = 256 << 20

// Client calls a daemon over its unix socket. It is safe for use from many goroutines.
type Client struct {
	socket string
	http   http.Client
}

// NewClient returns a client of the socket; nothing is connected yet.
func NewClient(socket string) *Client {
	var d net.Dialer
	return &Client{socket: socket, http: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		},
		MaxIdleConns:    2,
		IdleConnTimeout: time.Minute,
	}}}
}

// Close lets the idle connections go.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Unreachable says that no daemon answered on the socket.
type Unreachable struct {
	Socket string
	Err    error
}

func (u *Unreachable) Error() string {
	switch {
	case errors.Is(u.Err, context.DeadlineExceeded):
		return fmt.Sprintf("the daemon at %s does not answer in time", u.Socket)
	case strings.Contains(u.Err.Error(), "permission denied"):
		return fmt.Sprintf("%s may not be opened by this user", u.Socket)
	}
	return fmt.Sprintf("no daemon answers at %s (%s)", u.Socket, cause(u.Err))
}

func (u *Unreachable) Unwrap() error { return u.Err }

// cause is the innermost reason, in the system's words.
func cause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// Get asks for a path below /v1/ and decodes the answer into `into`.
func (c *Client) Get(ctx context.Context, path string, q url.Values, into any) error {
	b, err := c.Raw(ctx, path, q)
	if err != nil {
		return err
	}
	return c.decode(b, into)
}

// Raw asks for a path below /v1/ and returns the JSON as the daemon sent it.
func (c *Client) Raw(ctx context.Context, path string, q url.Values) ([]byte, error) {
	return c.do(ctx, http.MethodGet, path, q, nil)
}

// Post sends a change and decodes the answer into `into`.
func (c *Client) Post(ctx context.Context, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if b, err = c.do(ctx, http.MethodPost, path, nil, b); err != nil {
		return err
	}
	return c.decode(b, into)
}

func (c *Client) decode(b []byte, into any) error {
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("the daemon at %s answers in an unknown way (%w); is it of the same version?", c.socket, err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, q url.Values, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	resp, err := c.open(ctx, method, path, q, body, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, &Unreachable{c.socket, err}
	}
	return b, nil
}

// open sends a request; an answer that is no success comes back as an *Error.
func (c *Client) open(ctx context.Context, method, path string, q url.Values, body []byte, header http.Header) (*http.Response, error) {
	u := url.URL{Scheme: "http", Host: "steadycast", Path: "/v1/" + path, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &Unreachable{c.socket, err}
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	e := &Error{}
	if json.Unmarshal(b, e) != nil || e.Message == "" {
		return nil, fmt.Errorf("the daemon at %s answers %s", c.socket, resp.Status)
	}
	return nil, e
}

// Events calls fn for each event after a place, and goes on for new ones when
// follow is set, until the context ends, fn fails or the daemon leaves. The
// place is empty, an event's id, or what an earlier call returned; the latter
// holds over a restart of the daemon. It returns the place behind the last event.
func (c *Client) Events(ctx context.Context, after string, follow bool, q url.Values, fn func(steadycast.Event) error) (string, error) {
	all := url.Values{"follow": {strconv.FormatBool(follow)}}
	if after != "" {
		all.Set("after", after)
	}
	for k, v := range q {
		all[k] = v
	}
	resp, err := c.open(ctx, http.MethodGet, "events", all, nil, http.Header{"Accept": {"application/jsonl"}})
	if err != nil {
		return after, err
	}
	defer resp.Body.Close()
	started, _ := strconv.ParseInt(resp.Header.Get(startedHeader), 10, 64)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e steadycast.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return after, fmt.Errorf("the daemon at %s sends an event that is not understood: %w", c.socket, err)
		}
		if err := fn(e); err != nil {
			return after, err
		}
		if e.ID > 0 {
			after = cursor(started, e.ID)
		}
	}
	switch err := lines.Err(); {
	case ctx.Err() != nil:
		return after, ctx.Err()
	case err != nil:
		return after, &Unreachable{c.socket, err}
	case follow:
		return after, &Unreachable{c.socket, io.EOF}
	}
	return after, nil
}
