package probe

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(benchServers) != "" {
		serveBench()
	}
	goleak.VerifyTestMain(m)
}

// compiled makes a check ready, or fails the test.
func compiled(t testing.TB, c Check, env Env) *Compiled {
	t.Helper()
	if c.Name == "" {
		c.Name = "it"
	}
	out, err := Compile(c, env)
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return out
}

// run makes one attempt; one more when this host, not the check, was too slow.
func run(t testing.TB, c Check) (r steadycast.Result) {
	t.Helper()
	for range 3 {
		r = compiled(t, c, Env{}).Run(context.Background())
		if !strings.Contains(r.Reason, "this host was late") && !strings.Contains(r.Reason, "did not stop at its deadline") {
			break
		}
	}
	return r
}

// patient is a timeout that a busy host does not reach, unless reaching it is
// what is wanted.
func patient(want string, short time.Duration) time.Duration {
	for _, s := range []string{"timeout", "wrong id"} {
		if strings.Contains(want, s) {
			return short
		}
	}
	return 10 * time.Second
}

// expect compares with "up", "down soft", "down hard" or "unknown", then words
// that must be in the reason.
func expect(t testing.TB, r steadycast.Result, want string) {
	t.Helper()
	outcome, words, _ := strings.Cut(want, ":")
	got := r.Outcome.String()
	if r.Outcome == steadycast.Down {
		got += " " + r.Class.String()
	} else if r.Class != steadycast.NoFailure {
		t.Errorf("%v has class %v", r.Outcome, r.Class)
	}
	words = strings.TrimSpace(words)
	if got != outcome || !strings.Contains(r.Reason, words) {
		t.Errorf("got  %s: %s\nwant %s: …%s…", got, r.Reason, outcome, words)
	}
	if r.Reason == "" && r.Outcome != steadycast.Up {
		t.Error("a result that is not up has no reason")
	}
	if strings.ContainsAny(r.Reason, "\n\r\x00") {
		t.Errorf("the reason is not one line: %q", r.Reason)
	}
}

// server runs handle for each TCP connection until the test ends.
func server(t testing.TB, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, handle)
	return l.Addr().String()
}

func serve(t testing.TB, l net.Listener, handle func(net.Conn)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); handle(c) }()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

// silent reads and never answers, until the peer hangs up.
func silent(c net.Conn) {
	var b [512]byte
	for {
		if _, err := c.Read(b[:]); err != nil {
			return
		}
	}
}

// reset ends a connection with RST.
func reset(c net.Conn) {
	var b [1]byte
	c.Read(b[:])
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// eventually waits for a condition, for at most ten seconds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("did not happen: %s", what)
		}
	}
}
