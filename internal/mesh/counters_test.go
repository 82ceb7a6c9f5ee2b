package mesh

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestLinkCounters: octets are those of the frames both ways, and the pause before
// the next call stands only while nobody calls.
func TestLinkCounters(t *testing.T) {
	m := &Mesh{desk: newDesk(1, time.Second), in: newInbox("fra-1", "fra", false, func(Heard) {})}
	l := newLink(m, Peer{Name: "ams-1", Site: "ams", Node: "ams-1"})
	up, down := encodeJSON(kindNonce, tick{Nonce: 7}), encode(kindNoRoute, []byte("lon-1"))
	l.took(up)
	l.took(encode(kindReport, make([]byte, 100)))
	if err := l.frame(kindNoRoute, []byte("lon-1")); err != nil {
		t.Fatal(err)
	}
	l.wait = 3 * time.Second
	s := l.status(time.Now())
	if s.BytesOut != uint64(len(up)+105) || s.BytesIn != uint64(len(down)) || s.Sent != 1 || s.Backoff != 3*time.Second || s.RTT != 0 {
		t.Errorf("%+v", s)
	}
}

// TestRoundTrip: a TCP connection has one, measured by the kernel; anything else has none.
func TestRoundTrip(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if c, err := ln.Accept(); err == nil {
			io.Copy(c, c)
			c.Close()
		}
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if rtt := roundTrip(c); rtt <= 0 || rtt > time.Minute {
		t.Errorf("round trip %v", rtt)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if rtt := roundTrip(a); rtt != 0 {
		t.Errorf("a pipe's round trip %v", rtt)
	}
}
