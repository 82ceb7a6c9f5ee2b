package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dialAs connects as another user: credentials belong to a thread, so one
// thread takes them, connects, and is thrown away.
func dialAs(socket string, uid, gid int, groups ...uint32) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	out := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var first *uint32
		if len(groups) > 0 {
			first = &groups[0]
		}
		for _, call := range [][4]uintptr{
			{unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(first)), 0},
			{unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)},
			{unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)},
		} {
			if _, _, errno := syscall.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				out <- result{err: errno}
				return
			}
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
		}
		if err != nil {
			out <- result{err: err}
			return
		}
		f := os.NewFile(uintptr(fd), socket)
		defer f.Close()
		c, err := net.FileConn(f)
		out <- result{c, err}
	}()
	r := <-out
	return r.conn, r.err
}

// Who may change things is decided by the kernel's word and the socket's file:
// root, its owner, and the members of its group, be it their first or not.
func TestWhoMayChange(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test connects as other users and needs root")
		}
		t.Skip("this test connects as other users and needs root")
	}
	const owner, group, stranger, other = 4001, 4002, 4003, 4004
	many := make([]uint32, 200) // more than the first buffer holds
	for i := range many {
		many[i] = uint32(5000 + i)
	}
	tests := []struct {
		name     string
		uid, gid int
		groups   []uint32
		may      bool
	}{
		{"root", 0, 0, nil, true},
		{"the owner", owner, other, nil, true},
		{"first group", stranger, group, nil, true},
		{"another group of theirs", stranger, other, []uint32{other, group}, true},
		{"one of very many groups", stranger, other, append(slices.Clone(many), group), true},
		{"a stranger", stranger, other, []uint32{other}, false},
		{"a stranger in very many groups", stranger, other, many, false},
		{"a stranger whose uid is the group's number", group, other, nil, false},
	}
	b := &backend{}
	_, socket := serve(t, b)
	dir := strings.TrimSuffix(socket, "/s")
	for path, mode := range map[string]os.FileMode{dir: 0o755, socket: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(socket, owner, group); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := len(b.seen())
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
				return dialAs(socket, tt.uid, tt.gid, tt.groups...)
			}}}
			resp, err := client.Get("http://x/v1/status")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Errorf("may not read: %s", resp.Status)
			}
			if resp, err = client.Post("http://x/v1/freeze", "application/json", strings.NewReader(`{"reason":"x"}`)); err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			calls := b.seen()[before:]
			switch {
			case tt.may && (resp.StatusCode != 200 || len(calls) != 1):
				t.Errorf("may not change: %s", resp.Status)
			case tt.may && tt.uid != 0 && !strings.HasSuffix(calls[0], " by "+(Caller{UID: uint32(tt.uid)}).String()):
				t.Errorf("recorded as %q", calls[0])
			case !tt.may && (resp.StatusCode != http.StatusForbidden || len(calls) > 0):
				t.Errorf("may change: %s, %q", resp.Status, calls)
			}
		})
	}
}

func TestWhoCannotBeIdentifiedMayOnlyRead(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	if who := identify(here, "/nowhere"); who.Write || who.UID == 0 {
		t.Errorf("%+v", who)
	}
	// A socket that is no unix socket has no credentials to give.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if who := identify(c, "/nowhere"); who.Write {
		t.Errorf("%+v may change things", who)
	}
	if text := (Caller{UID: 1003}).String(); text != "uid 1003" {
		t.Error(text)
	}
	if text := (Caller{Name: "maria", UID: 1003}).String(); text != "maria (uid 1003)" {
		t.Error(text)
	}
	if e := AsError(errors.New("x")); e.Code != CodeFailed {
		t.Error(e)
	}
	if e := AsError(context.DeadlineExceeded); e.Code != CodeBusy {
		t.Error(e)
	}
}
