package role

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "steadycast", "s.sock") // whose directories it makes
	ln, err := Listen(path, 0o660, fmt.Sprint(os.Getgid()))
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o660 {
		t.Fatalf("%v, %v", st.Mode(), err)
	}
	got := make(chan Peer, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		p, err := PeerOf(c)
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := <-got
	if int(p.UID) != os.Getuid() || int(p.GID) != os.Getgid() || int(p.PID) != os.Getpid() || p.User == "" {
		t.Errorf("%+v", p)
	}

	// A second one must not take the place of one that is answered.
	if _, err := Listen(path, 0o660, ""); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another process answers there (pid %d", os.Getpid())) {
		t.Errorf("took a socket that is in use: %v", err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestListenReplacesStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false) // as after kill -9
	dead.Close()
	first, err := Listen(path, 0o600, "")
	if err != nil {
		t.Fatal(err)
	}
	// Its successor's socket is not its own to remove.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(path, 0o600, "")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	first.Close()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the first removed the second's socket: %v", err)
	}
}

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, group, want string }{
		{file, "", "a file that is no socket is there"},
		{filepath.Join(dir, strings.Repeat("x", 120)), "", "the path is too long"},
		{filepath.Join(file, "s"), "", "not a directory"},
		{filepath.Join(dir, "s"), "no-such-group-here", "no-such-group-here"},
	} {
		ln, err := Listen(c.path, 0o660, c.group)
		if err == nil {
			ln.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}
