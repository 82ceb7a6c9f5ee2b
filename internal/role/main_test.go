package role

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// childMark in the environment makes this test binary one of the processes that
// the tests need, instead of running tests.
const childMark = "STEADYCAST_ROLE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMark) == "" {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "log":
		childLog(os.Args[2])
	case "supervise":
		childSupervise(os.Args[2])
	case "shelf":
		childShelf(os.Args[2], os.Args[3])
	case "keeper":
		childKeeper(os.Args[2], os.Args[3])
	case "ward":
		childWard(os.Args[2], os.Args[3])
	}
}

func thinOver(w io.Writer) (*slog.Logger, error) {
	return slog.New(newThin(slog.NewTextHandler(w, nil))), nil
}

func childLog(mode string) {
	log, flush, err := NewLog(LogOptions{Level: "debug"})
	if err != nil {
		panic(err)
	}
	if mode == "levels" {
		log.Debug("debug")
		log.Info("info")
		log.Warn("warn")
		log.Error("error")
		flush()
		return
	}
	err = Run(context.Background(), Spec{Name: "test", Logger: log}, func(ctx context.Context, p *Process) error {
		for i := range 20000 {
			log.Info("a line that is long enough to fill a pipe of sixty-four kilobytes", "n", i)
		}
		return nil
	})
	flush()
	if err == nil {
		fmt.Println("survived")
	}
}

// childSupervise runs two wards which write what happens to them into dir.
func childSupervise(dir string) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := Run(context.Background(), Spec{Name: "run", Logger: log}, func(ctx context.Context, p *Process) error {
		return Supervise(ctx, p, Supervision{
			Logger: log,
			Children: []Child{
				{Name: "speaker", Args: []string{"ward", dir, "speaker"}, Patience: 3 * time.Second},
				{Name: "agent", Args: []string{"ward", dir, "agent"}, Patience: time.Second},
			},
		})
	})
	if e, ok := err.(*ExitError); ok {
		os.Exit(e.Code)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// childWard writes one line per event to dir/events and obeys the file dir/NAME.mode.
func childWard(dir, name string) {
	events, err := os.OpenFile(dir+"/events", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	say := func(what string) { fmt.Fprintf(events, "%s %s %d\n", name, what, os.Getpid()) }
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1)
	say("start")
	mode, _ := os.ReadFile(dir + "/" + name + ".mode")
	if code, err := strconv.Atoi(string(mode)); err == nil {
		os.Exit(code)
	}
	for sig := range signals {
		say(sig.String())
		if sig == syscall.SIGTERM && string(mode) != "stubborn" {
			say("end")
			return
		}
	}
}
