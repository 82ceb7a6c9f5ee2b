package voter

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/loopback"
	"github.com/steadycast/steadycast/internal/pki"
	"github.com/steadycast/steadycast/internal/role"
)

// credentials are those of one node of a fleet of its own.
func credentials(t *testing.T) ledger.TLS {
	t.Helper()
	ca, err := pki.Init(filepath.Join(t.TempDir(), "ca"), "edge", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "pki")
	if _, err := ca.Issue(pki.Identity{Fleet: "edge", Site: "fra", Node: "fra-1"}, dir, time.Hour, time.Now()); err != nil {
		t.Fatal(err)
	}
	creds, err := pki.Open(pki.Settings{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return TLS(creds)
}

// running is a voter's process inside the test's.
type running struct {
	socket  string
	signals chan os.Signal
	done    chan error
	log     *lines
}

type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

func start(t *testing.T, least int64) *running {
	t.Helper()
	address := loopback.Own(t).String()
	dir := t.TempDir()
	r := &running{socket: filepath.Join(dir, "ledger.sock"), signals: make(chan os.Signal, 1), done: make(chan error, 1), log: &lines{}}
	o := Options{
		Socket: r.socket, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
		Voter: ledger.VoterOptions{
			Fleet: "edge", Node: "fra-1", Dir: filepath.Join(dir, "voter"), Listen: address, TLS: credentials(t), LeastFree: least, Ballast: 4096,
			Peers: []ledger.Peer{{Node: "fra-1", Address: address, Domain: "fra"}},
		},
	}
	go func() {
		r.done <- role.Run(context.Background(), role.Spec{Name: "ledger", Logger: o.Logger, Signals: r.signals}, func(ctx context.Context, p *role.Process) error {
			return Run(ctx, p, o)
		})
	}()
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.signals <- syscall.SIGTERM
	select {
	case err := <-r.done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after 10 s not yet: %s", what)
		}
	}
}

// TestNoRoom: without room it waits, is stopped in order, and is no voter.
func TestNoRoom(t *testing.T) {
	r := start(t, 1<<60)
	until(t, "it to say why it waits", func() bool { return r.log.has("too little room on the disk") })
	if _, err := NewAdmin(r.socket).Members(t.Context()); err == nil {
		t.Error("it answers")
	}
	r.stop(t)
}

// TestSocket: the person on the host is answered, the set of one voter refused,
// and the socket is the owner's alone and gone with the process.
func TestSocket(t *testing.T) {
	r := start(t, 1)
	admin := NewAdmin(r.socket)
	until(t, "an answer", func() bool {
		s, err := admin.Members(t.Context())
		if err != nil {
			gone, ok := errors.AsType[*Unreachable](err)
			if !ok || gone.Socket != r.socket {
				t.Fatal(err)
			}
			return false
		}
		return s.From == "fra-1" && len(s.Voters) == 1 && s.Voters[0].State.Empty && !s.Voters[0].Voter
	})
	info, err := os.Stat(r.socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, err := admin.Change(t.Context(), []string{"fra-1"}, nil, "ann", "test"); err == nil || !strings.Contains(err.Error(), "does not lead") {
		t.Error(err)
	}
	if _, err := admin.Change(t.Context(), nil, []string{"fra-1"}, "ann", "test"); err == nil {
		t.Error("a set of none")
	}
	r.stop(t)
	if _, err := os.Stat(r.socket); !errors.Is(err, os.ErrNotExist) {
		t.Error("the socket is left")
	}
}
