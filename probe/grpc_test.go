package probe

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/steadycast/steadycast/internal/loopback"
)

func grpcServer(t *testing.T, withHealth bool, opts ...grpc.ServerOption) (string, *health.Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, h := grpc.NewServer(opts...), health.NewServer()
	if withHealth {
		grpc_health_v1.RegisterHealthServer(s, h)
	}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String(), h
}

type stuckHealth struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (stuckHealth) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestGRPC(t *testing.T) {
	addr, h := grpcServer(t, true)
	h.SetServingStatus("db", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	h.SetServingStatus("web", grpc_health_v1.HealthCheckResponse_SERVING)
	bare, _ := grpcServer(t, false)
	cert, ca := pair(t, "grpc.example.test", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	secure, _ := grpcServer(t, true, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}})))
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stuck := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(stuck, stuckHealth{})
	go stuck.Serve(l)
	defer stuck.Stop()
	for name, c := range map[string]struct {
		addr string
		set  GRPC
		want string
	}{
		"serving":           {addr, GRPC{}, "up"},
		"service serving":   {addr, GRPC{Service: "web"}, "up"},
		"not serving":       {addr, GRPC{Service: "db"}, "down soft: (db) says NOT_SERVING"},
		"unknown service":   {addr, GRPC{Service: "dbx"}, "down soft: (dbx) does not know the service"},
		"no health service": {bare, GRPC{}, "down soft: has no health service"},
		"TLS":               {secure, GRPC{TLS: true, CAFile: ca}, "up"},
		"TLS by name":       {secure, GRPC{TLS: true, CAFile: ca, ServerName: "grpc.example.test"}, "up"},
		"TLS, another name": {secure, GRPC{TLS: true, CAFile: ca, ServerName: "x.test"}, "down soft"},
		"TLS, no trust":     {secure, GRPC{TLS: true}, "down soft"},
		"TLS, not verified": {secure, GRPC{TLS: true, SkipVerify: true}, "up"},
		"plain to TLS":      {secure, GRPC{}, "down soft"},
		"refused":           {loopback.Own(t).String(), GRPC{}, "down hard: connection refused"},
		"reset":             {server(t, reset), GRPC{}, "down hard: connection reset"},
		"silent":            {server(t, silent), GRPC{}, "down soft: timeout"},
		"stuck":             {l.Addr().String(), GRPC{}, "down soft: timeout"},
		"only HTTP/1":       {plain.Listener.Addr().String(), GRPC{}, "down soft"},
		"slow":              {addr, GRPC{MaxLatency: 1}, "down soft: right, but slow"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, run(t, Check{Kind: "grpc", Target: c.addr, Timeout: patient(c.want, 200*time.Millisecond), GRPC: &c.set}), c.want)
		})
	}
}
