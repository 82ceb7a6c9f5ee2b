package pki

import (
	"io"
	"net"
)

// wire is one end of a connection in memory that, unlike [net.Pipe], takes what
// is written before it is read, as a socket does. It lives in a bubble.
type wire struct {
	net.Conn
	out chan []byte
}

func wires() (net.Conn, net.Conn) {
	a, b := net.Pipe()
	return newWire(a), newWire(b)
}

func newWire(c net.Conn) *wire {
	w := &wire{c, make(chan []byte, 256)}
	go func() {
		defer c.Close()
		for b := range w.out {
			if _, err := c.Write(b); err != nil {
				for range w.out { // nobody reads; go on until Close
				}
			}
		}
	}()
	return w
}

func (w *wire) Write(b []byte) (int, error) {
	w.out <- append([]byte{}, b...)
	return len(b), nil
}

// Close lets what was written arrive, and throws away what still comes.
func (w *wire) Close() error {
	close(w.out)
	go io.Copy(io.Discard, w.Conn)
	return nil
}
