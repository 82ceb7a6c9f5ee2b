package bench

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serveTarget is the service that is kept reachable: a process of its own, so
// that it can be killed. Each line it says is one thing that happened, with the
// time: looked (a probe came while all was well), failed (a probe was answered
// with 500), fail and heal (it began to do so).
func serveTarget(address string, words *bufio.Scanner) int {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var bad atomic.Bool
	idle := newIdleConns()
	server := &http.Server{
		ConnState: idle.change,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if bad.Load() {
				w.WriteHeader(http.StatusInternalServerError)
				fmt.Println("failed", time.Now().UnixNano())
				return
			}
			fmt.Fprintln(w, "ok")
			fmt.Println("looked", time.Now().UnixNano())
		}),
	}
	go func() { _ = server.Serve(l) }()
	fmt.Println("serving", l.Addr())
	for words.Scan() {
		switch words.Text() {
		case "fail", "heal":
			now := time.Now()
			bad.Store(words.Text() == "fail")
			fmt.Println(words.Text(), now.UnixNano())
		case "held?":
			fmt.Println("held", idle.oldest().Nanoseconds())
		}
	}
	os.Exit(0)
	return 0
}

// idleConns are connections on which nothing was asked yet, since when.
type idleConns struct {
	mu  sync.Mutex
	new map[net.Conn]time.Time
}

func newIdleConns() *idleConns { return &idleConns{new: map[net.Conn]time.Time{}} }

func (i *idleConns) change(c net.Conn, s http.ConnState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if s == http.StateNew {
		i.new[c] = time.Now()
	} else {
		delete(i.new, c)
	}
}

// oldest is the age of the oldest; 0 if there is none.
func (i *idleConns) oldest() (age time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, at := range i.new {
		age = max(age, time.Since(at))
	}
	return age
}

// target is such a service, seen from the benchmark.
type target struct {
	*process
	b       testing.TB
	ns      string
	address string
}

const patience = 20 * time.Second

// newTarget starts a service in a namespace, on a port that the kernel chooses
// if address says 0.
func newTarget(b testing.TB, ns, address string) *target {
	b.Helper()
	t := &target{b: b, ns: ns, address: address}
	t.open()
	return t
}

// open starts its process.
func (t *target) open() {
	t.b.Helper()
	t.process = partOf(t.b, t.ns, "service", t.address)
	t.expect(t.b, patience, "that it serves", func(line string) bool {
		var ok bool
		if a, found := strings.CutPrefix(line, "serving "); found {
			t.address, ok = a, true
		}
		return ok
	})
}

// when waits for the n-th line from now that begins with word, and gives its time.
func (t *target) when(word string, n int) time.Time {
	t.b.Helper()
	var at time.Time
	t.expect(t.b, patience, word, func(line string) bool {
		w, number, _ := strings.Cut(line, " ")
		if w != word {
			return false
		}
		n--
		at = instant(number)
		return n == 0
	})
	return at
}

// afterLook waits for a probe and then so long: where in the interval a fault
// falls is chosen, not left to chance, and so the same for everybody.
func (t *target) afterLook(wait time.Duration) {
	t.b.Helper()
	t.now(func(string) {})
	<-time.After(time.Until(t.when("looked", 1).Add(wait)))
}

// fail makes it answer 500, and gives the moment.
func (t *target) fail() time.Time {
	t.b.Helper()
	t.say(t.b, "fail")
	return t.when("fail", 1)
}

// heal makes it answer 200 again, and gives the moment.
func (t *target) heal() time.Time {
	t.b.Helper()
	t.say(t.b, "heal")
	return t.when("heal", 1)
}

// held waits until someone has held an idle connection for so long.
func (t *target) held(for_ time.Duration) {
	t.b.Helper()
	for deadline := time.Now().Add(patience); ; {
		t.say(t.b, "held?")
		if at := t.when("held", 1); at.UnixNano() >= for_.Nanoseconds() {
			return
		}
		if time.Now().After(deadline) {
			t.b.Fatalf("nobody holds an idle connection to %s for %v", t.address, for_)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func instant(unixNano string) time.Time {
	n, _ := strconv.ParseInt(unixNano, 10, 64)
	return time.Unix(0, n)
}
