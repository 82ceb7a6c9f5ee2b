package api

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// String names the caller as it enters the record: "maria (uid 1003)".
func (c Caller) String() string {
	if c.Name == "" {
		return fmt.Sprintf("uid %d", c.UID)
	}
	return fmt.Sprintf("%s (uid %d)", c.Name, c.UID)
}

// callerKey finds the caller in a request's context.
type callerKey struct{}

func callerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// identify asks the kernel who is at the other end (SO_PEERCRED, unix(7)) and
// whether they may change things: uid 0, the daemon's own user, the socket's
// owner, or a member of its group. Whoever cannot be identified may only read.
func identify(conn net.Conn, socket string) Caller {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return Caller{Name: "unidentified", UID: ^uint32(0)}
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return Caller{Name: "unidentified", UID: ^uint32(0)}
	}
	var cred *unix.Ucred
	var groups []uint32
	var credErr error
	err = raw.Control(func(fd uintptr) {
		if cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); credErr == nil {
			groups = append(peerGroups(fd), cred.Gid)
		}
	})
	if err != nil || credErr != nil {
		return Caller{Name: "unidentified", UID: ^uint32(0)}
	}
	who := Caller{UID: cred.Uid}
	if u, err := user.LookupId(strconv.FormatUint(uint64(cred.Uid), 10)); err == nil {
		who.Name = u.Username
	}
	var st unix.Stat_t
	statErr := unix.Stat(socket, &st)
	who.Write = cred.Uid == 0 || int(cred.Uid) == os.Geteuid() ||
		statErr == nil && (cred.Uid == st.Uid || slices.Contains(groups, st.Gid))
	return who
}

// peerGroups are the supplementary groups of the other end (SO_PEERGROUPS,
// Linux 4.13); none when the kernel does not say.
func peerGroups(fd uintptr) []uint32 {
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == 0:
			return groups[:size/4]
		case errno == unix.ERANGE && int(size) > len(groups)*4 && size <= 1<<18:
			groups = make([]uint32, size/4)
		default:
			return nil
		}
	}
}
