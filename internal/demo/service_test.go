package demo

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// A killed service refuses, its port goes to nobody else, and it can come back.
func TestServiceKeepsItsPort(t *testing.T) {
	ip := netip.MustParseAddr("127.0.0.11")
	s, err := newService("fra", ip, newNetwork())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for range 3 {
		s.kill() // at first without any connection, whose TIME-WAIT would keep the port too
		if _, err := net.DialTimeout("tcp", s.addr.String(), 5*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("killed, and a caller hears %v", err)
		}
		fd, err := bindAs(ip, s.addr.Port())
		if err == nil {
			syscall.Close(fd)
			t.Fatalf("someone else had %v", s.addr)
		}
		if err := s.heal(); err != nil {
			t.Fatal(err)
		}
		if err := ask(t.Context(), s.addr); err != nil {
			t.Fatal(err)
		}
	}
}

// bindAs takes an address as one who shares it with nobody.
func bindAs(ip netip.Addr, port uint16) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: ip.As4(), Port: int(port)}); err != nil {
		syscall.Close(fd)
		return 0, err
	}
	return fd, nil
}
