package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/steadycast/steadycast/internal/api"
)

// Handler answers scrapes from a registry of its own: every metric of this
// package over the newest snapshot, and those of the process and of the Go
// runtime. At most four scrapes run at once, each for at most five seconds.
func Handler(snapshot func() *api.Snapshot, log *slog.Logger) http.Handler {
	return handler(log, &collector{snapshot: snapshot}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

func handler(log *slog.Logger, all ...prometheus.Collector) http.Handler {
	reg := prometheus.NewRegistry()
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			log.Error("metrics: some are missing", "error", err)
		}
	}
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
		Timeout:             5 * time.Second,
		EnableOpenMetrics:   true,
	})
}

// Serve answers GET /metrics on address, host:port, until the context ends. An
// address that is in use is tried again every ten seconds: missing metrics are
// no reason to stop a daemon, and none to be without them for ever.
func Serve(ctx context.Context, address string, snapshot func() *api.Snapshot, log *slog.Logger) {
	listenAndServe(ctx, address, Handler(snapshot, log), log)
}

func listenAndServe(ctx context.Context, address string, h http.Handler, log *slog.Logger) {
	said := ""
	for {
		err := serve(ctx, address, h, log)
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != said {
			log.Error("metrics: not served; trying again every 10s", "address", address, "error", err)
			said = text
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Second):
		}
	}
}

func serve(ctx context.Context, address string, h http.Handler, log *slog.Logger) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "steadycast: metrics are at /metrics")
	})
	srv := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
