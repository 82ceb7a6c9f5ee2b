package probe

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/loopback"
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

// run makes one attempt; one more when this host, not the check, was too slow. A
// check whose attempts may take turns with others makes another in that way, and
// must come to the same.
func run(t testing.TB, c Check) (r steadycast.Result) {
	t.Helper()
	r = inTime(func() steadycast.Result { return compiled(t, c, Env{}).Run(context.Background()) })
	if x := compiled(t, c, Env{}); x.glance != nil {
		beside := inTime(func() steadycast.Result { return amongOthers(t, x) })
		if beside.Outcome != r.Outcome || beside.Class != r.Class || beside.Reason != r.Reason {
			t.Errorf("alone:        %v %v: %s\namong others: %v %v: %s", r.Outcome, r.Class, r.Reason, beside.Outcome, beside.Class, beside.Reason)
		}
	}
	return r
}

func inTime(attempt func() steadycast.Result) (r steadycast.Result) {
	for range 3 {
		r = attempt()
		if !strings.Contains(r.Reason, "this host was late") && !strings.Contains(r.Reason, "did not stop at its deadline") {
			break
		}
	}
	return r
}

// amongOthers makes one attempt that takes turns with some that nobody answers.
func amongOthers(t testing.TB, c *Compiled) steadycast.Result {
	t.Helper()
	nobody := loopback.Own(t).String()
	out := make(chan steadycast.Result, 1)
	all := []errand{turn(t, compiled(t, Check{Kind: "tcp", Target: nobody}, Env{}), func(steadycast.Result) {}), turn(t, c, func(r steadycast.Result) { out <- r }),
		turn(t, compiled(t, Check{Kind: "http", Target: "http://" + nobody}, Env{}), func(steadycast.Result) {})}
	together(all, func(f func()) { go f() })
	return <-out
}

// turn is an admitted attempt.
func turn(t testing.TB, c *Compiled, deliver func(steadycast.Result)) errand {
	t.Helper()
	if !c.admit() {
		t.Fatal("it runs already")
	}
	return errand{ctx: context.Background(), run: c, deliver: func(r steadycast.Result, _ bool) { deliver(r) }}
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
