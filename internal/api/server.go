package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// maxConns open at once; more wait in the kernel's queue.
	maxConns = 128
	// maxStreams of events at once; more are refused as busy.
	maxStreams = 32
	// backendTime is the most a backend may take for one request.
	backendTime = 10 * time.Second
)

// limits of time; fields so that tests need not wait for them.
type limits struct {
	// read is the most a request may take to arrive.
	read time.Duration
	// write is the most one write to a stream may wait for its reader.
	write time.Duration
	// beat is the pause after which an idle stream shows that it lives.
	beat time.Duration
}

// Server answers the API of one backend on any number of listeners. It owns no
// state but its open connections.
type Server struct {
	backend Backend
	log     *slog.Logger
	handler http.Handler
	streams chan struct{} // one token per open stream
	version Version
	limits  limits
}

// Version answers GET /v1/version.
type Version struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	Commit  string `json:"commit,omitempty"`
}

// NewServer returns a server over the backend.
func NewServer(b Backend, v Version, log *slog.Logger) *Server {
	s := &Server{backend: b, log: log, version: v, streams: make(chan struct{}, maxStreams),
		limits: limits{read: 10 * time.Second, write: 10 * time.Second, beat: 15 * time.Second}}
	s.handler = s.guard(s.mux())
	return s
}

// Handler returns the handler without a listener; calls through it may only
// read, since nobody is identified.
func (s *Server) Handler() http.Handler { return s.handler }

// Beside answers the paths that begin with prefix by another part of the process,
// which may only read. It is called before [Server.Serve].
func (s *Server) Beside(prefix string, h http.Handler) {
	m := http.NewServeMux()
	m.Handle("GET "+prefix, s.guard(h))
	m.Handle("/", s.handler)
	s.handler = m
}

// Serve answers on a unix listener until the context ends, then lets requests
// in flight finish for at most two seconds and closes the rest, streams among
// them. It returns nil after an orderly end. The owner and the group of the
// file at path may change things; it need not be the name that was bound.
func (s *Server) Serve(ctx context.Context, l net.Listener, path string) error {
	// Streams end with this context; a plain request is not cut off by it.
	streams, stop := context.WithCancel(context.Background())
	defer stop()
	srv := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       s.limits.read,
		WriteTimeout:      30 * time.Second, // a stream extends it write by write
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return streams },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if l, ok := c.(*limitedConn); ok {
				c = l.Conn
			}
			return context.WithValue(ctx, callerKey{}, identify(c, path))
		},
	}
	done := make(chan error, 1)
	go func() {
		done <- srv.Serve(&limitedListener{Listener: l, slots: make(chan struct{}, maxConns), closed: make(chan struct{})})
	}()
	select {
	case err := <-done:
		return fmt.Errorf("api: serve %s: %w", path, err)
	case <-ctx.Done():
	}
	stop()
	grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		srv.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("api: serve %s: %w", path, err)
	}
	return nil
}

// guard catches panics of handlers: a fault of the API stops nothing else.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("api: a request failed inside", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				fail(w, &Error{Code: CodeFailed, Message: "the daemon failed to answer this request; its log has the place"})
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// status of each code; see also the exit codes of the command line.
var status = map[Code]int{
	CodeFailed:    http.StatusInternalServerError,
	CodeUsage:     http.StatusBadRequest,
	CodeConfig:    http.StatusUnprocessableEntity,
	CodeForbidden: http.StatusForbidden,
	CodeRefused:   http.StatusConflict,
	CodeNotFound:  http.StatusNotFound,
	CodeBusy:      http.StatusServiceUnavailable,
}

func fail(w http.ResponseWriter, err error) {
	e := AsError(err)
	code, ok := status[e.Code]
	if !ok {
		code = http.StatusInternalServerError
	}
	write(w, code, e)
}

func write(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON","code":"failed"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	w.Write(append(b, '\n'))
}

// limitedListener hands out at most cap(slots) connections at once.
type limitedListener struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, free: func() { <-l.slots }}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *limitedConn) Close() error {
	c.once.Do(c.free)
	return c.Conn.Close()
}
