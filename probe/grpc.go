package probe

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/steadycast/steadycast"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// grpcProbe asks grpc.health.v1.Health/Check on a connection of its own.
type grpcProbe struct {
	dialer
	target string
	set    GRPC
	creds  credentials.TransportCredentials
}

func grpcProblems(c Check) []Problem {
	ps := hostPortProblems(c)
	if !c.GRPC.TLS {
		for _, x := range []struct {
			path string
			set  bool
		}{{"grpc.server_name", c.GRPC.ServerName != ""}, {"grpc.ca_file", c.GRPC.CAFile != ""}, {"grpc.skip_verify", c.GRPC.SkipVerify}} {
			if x.set {
				ps = append(ps, problem(x.path, "is for TLS; set grpc.tls: true"))
			}
		}
	}
	ps = append(ps, caProblems("grpc.ca_file", c.GRPC.CAFile, c.GRPC.SkipVerify)...)
	return append(ps, latencyProblems("grpc.max_latency", c.GRPC.MaxLatency, c.Timeout)...)
}

func compileGRPC(c Check, env Env) (body, error) {
	p := &grpcProbe{newDialer(c, env), c.Target, *c.GRPC, insecure.NewCredentials()}
	if c.GRPC.TLS {
		conf, err := clientTLS(c, c.GRPC.ServerName, c.GRPC.CAFile, c.GRPC.SkipVerify)
		if err != nil {
			return nil, err
		}
		p.creds = credentials.NewTLS(conf)
	}
	return p, nil
}

func (p *grpcProbe) probe(ctx context.Context) steadycast.Result {
	began := time.Now()
	// The library folds errors of the connection into its own words; the first of
	// them is kept aside, because it tells refused from unreachable from reset.
	wire := make(chan error, 1)
	note := func(err error) {
		if err != nil && !errors.Is(err, net.ErrClosed) {
			select {
			case wire <- err:
			default:
			}
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+p.target,
		grpc.WithTransportCredentials(p.creds),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithUserAgent("steadycast"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxExpect)),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithContextDialer(func(_ context.Context, _ string) (net.Conn, error) {
			c, err := p.dial(ctx, "tcp", p.target)
			note(err)
			return notingConn{c, note}, err
		}))
	if err != nil {
		return unknown("%v", err)
	}
	defer conn.Close()
	resp, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: p.set.Service})
	if err != nil {
		if status.Code(err) == codes.Unavailable {
			select {
			case werr := <-wire:
				return failed(werr, p.target, "talking gRPC")
			default:
			}
		}
		return p.failed(err)
	}
	if s := resp.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return p.env.word.of(soft("%s says %v", p.named(), s))
	}
	if r, slow := tooSlow(time.Since(began), p.set.MaxLatency); slow {
		return r
	}
	return up("serving")
}

// notingConn tells of each error of reading and writing.
type notingConn struct {
	net.Conn
	note func(error)
}

func (c notingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.note(err)
	return n, err
}

func (c notingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.note(err)
	return n, err
}

func (p *grpcProbe) named() string {
	if p.set.Service == "" {
		return p.target
	}
	return p.target + " (" + p.set.Service + ")"
}

func (p *grpcProbe) failed(err error) steadycast.Result {
	s := status.Convert(err)
	switch s.Code() {
	case codes.DeadlineExceeded:
		return soft("timeout while waiting for an answer, %s", p.target)
	case codes.NotFound:
		return soft("%s does not know the service", p.named())
	case codes.Unimplemented:
		return soft("%s has no health service (grpc.health.v1)", p.target)
	default:
		return soft("%s: %v: %s", p.target, s.Code(), clip(s.Message(), 160))
	}
}
