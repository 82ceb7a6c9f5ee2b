package main

import (
	"bytes"
	"net"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// lossy stands between a client and a DNS server: it drops questions while drop
// holds, and counts them.
type lossy struct {
	conn    *net.UDPConn
	drop    atomic.Bool
	dropped atomic.Int64
}

func (l *lossy) serve(t *testing.T) {
	b := make([]byte, 4096)
	for {
		n, from, err := l.conn.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		if l.drop.Load() {
			l.dropped.Add(1)
			continue
		}
		answer, err := answerTo(b[:n], "fra")
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = l.conn.WriteToUDPAddrPort(answer, from)
	}
}

// Exactly what nobody answered is lost: no more, no less, and nothing of before the
// first answer or the last mark.
func TestAskerCountsEveryLoss(t *testing.T) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadBuffer(8 << 20)
	server := &lossy{conn: conn}
	server.drop.Store(true) // nobody is there yet: not a loss
	go server.serve(t)
	a, err := newAsker(conn.LocalAddr().String(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = a.run() }()
	t.Cleanup(func() {
		conn.Close()
		for _, flow := range a.flows {
			flow.Close()
		}
	})
	tally := func() string {
		w := httptest.NewRecorder()
		a.page().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		return strings.TrimSpace(w.Body.String())
	}
	read := func(text string) (lost, of int) {
		m := regexp.MustCompile(`^lost (\d+) of (\d+) in \S+ \(worst \S+\); fra \d+$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("got %q", text)
		}
		lost, _ = strconv.Atoi(m[1])
		of, _ = strconv.Atoi(m[2])
		return lost, of
	}
	until(t, "the first questions", func() bool { return server.dropped.Load() > 20 })
	if got := tally(); got != "nobody has answered yet" {
		t.Fatalf("got %q", got)
	}
	server.drop.Store(false)
	until(t, "an answer that counts", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.answers["fra"] > 100 })
	if lost, of := read(tally()); lost != 0 || of < 100 {
		t.Errorf("nothing dropped: lost %d of %d", lost, of)
	}
	before := server.dropped.Load()
	server.drop.Store(true)
	until(t, "some dropped", func() bool { return server.dropped.Load() > before+50 })
	server.drop.Store(false)
	lost, _ := read(tally())
	if dropped := int(server.dropped.Load() - before); lost != dropped {
		t.Errorf("lost %d, dropped %d", lost, dropped)
	}
	w := httptest.NewRecorder()
	a.page().ServeHTTP(w, httptest.NewRequest("POST", "/mark", &bytes.Buffer{}))
	until(t, "an answer after the mark", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.answers["fra"] > 0 })
	if lost, _ := read(tally()); lost != 0 {
		t.Errorf("after the mark: lost %d", lost)
	}
}

func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("no %s in 20s", what)
		}
	}
}

func TestAskerRefuses(t *testing.T) {
	for _, x := range []struct {
		address string
		rate    int
	}{{"192.0.2.53", 1000}, {"192.0.2.53:53", 0}, {"192.0.2.53:53", 1_000_000}} {
		if _, err := newAsker(x.address, x.rate); err == nil {
			t.Errorf("%+v is taken", x)
		}
	}
}
