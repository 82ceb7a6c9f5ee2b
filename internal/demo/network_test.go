package demo

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

// echo answers what it is told, behind the switch.
func echo(t *testing.T, n *network, at netip.Addr) netip.AddrPort {
	t.Helper()
	p, err := takePort(at)
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); p.close() })
	behind := n.behind(l)
	go func() {
		for {
			c, err := behind.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	return p.addr
}

// says sends a word and waits for its echo.
func says(c net.Conn, patience time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// A cut loses everything between two parts without a word, and nothing else; a
// connection that lost something is reset when the way is open again, and a new
// one works.
func TestNetwork(t *testing.T) {
	a, b, c := netip.MustParseAddr("127.0.0.241"), netip.MustParseAddr("127.0.0.242"), netip.MustParseAddr("127.0.0.243")
	n := newNetwork()
	to := echo(t, n, b).String()
	call := func(from netip.Addr) net.Conn {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		conn, err := n.dial(from)(ctx, to)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	const long, short = 30 * time.Second, 50 * time.Millisecond
	lossy, idle, other := call(a), call(a), call(c)
	for _, conn := range []net.Conn{lossy, idle, other} {
		if err := says(conn, long); err != nil {
			t.Fatal(err)
		}
	}

	n.cut([]netip.Addr{a}, []netip.Addr{b})
	for name, conn := range map[string]net.Conn{"an old connection": lossy, "a new one": call(a)} {
		if err := says(conn, short); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("cut off, %s hears %v", name, err)
		}
	}
	if err := says(other, long); err != nil {
		t.Errorf("another way: %v", err)
	}

	n.heal()
	if err := says(lossy, long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that lost something goes on: %v", err)
	}
	for name, conn := range map[string]net.Conn{"one that lost nothing": idle, "a new one": call(a)} {
		if err := says(conn, long); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
