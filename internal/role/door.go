package role

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listen opens the unix socket at path, owned by group (a name or number; ""
// leaves it), and makes its directory if there is none. A socket left by a process that is gone is replaced; one that
// somebody answers is not. The socket never stands there with other rights than mode.
func Listen(path string, mode os.FileMode, group string) (net.Listener, error) {
	// sun_path has room for 108 octets, the last of them zero; the name that it
	// has first is a little longer.
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	if len(temp) > 107 {
		return nil, fmt.Errorf("socket %s: the path is too long (%d octets; at most %d)", path, len(path), 107-(len(temp)-len(path)))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if err := vacate(path); err != nil {
		return nil, err
	}
	_ = os.Remove(temp)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	ln.SetUnlinkOnClose(false)
	if err := furnish(temp, path, mode, group); err != nil {
		ln.Close()
		os.Remove(temp)
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	own, _ := os.Stat(path)
	return &door{UnixListener: ln, path: path, own: own}, nil
}

// vacate makes room at path, if what is there is a socket that nobody answers.
func vacate(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket %s: %w", path, err)
	case st.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("socket %s: a file that is no socket is there; remove it or choose another path", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		defer c.Close()
		who := ""
		if p, err := PeerOf(c); err == nil {
			who = fmt.Sprintf(" (pid %d, user %s)", p.PID, p.User)
		}
		return fmt.Errorf("socket %s: another process answers there%s; stop it first", path, who)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("socket %s: cannot tell whether another process answers there: %w", path, err)
	}
	return nil // the rename replaces it
}

func furnish(temp, path string, mode os.FileMode, group string) error {
	if err := os.Chmod(temp, mode); err != nil {
		return err
	}
	if group != "" {
		gid, err := strconv.Atoi(group)
		if err != nil {
			g, err := user.LookupGroup(group)
			if err != nil {
				return err
			}
			if gid, err = strconv.Atoi(g.Gid); err != nil {
				return err
			}
		}
		if err := os.Chown(temp, -1, gid); err != nil {
			return fmt.Errorf("give it to group %s: %w", group, err)
		}
	}
	return os.Rename(temp, path)
}

// door unlinks its path when closed, if it is still its own.
type door struct {
	*net.UnixListener
	path string
	own  os.FileInfo
	once sync.Once
}

func (d *door) Close() error {
	d.once.Do(func() {
		if st, err := os.Stat(d.path); err == nil && os.SameFile(st, d.own) {
			os.Remove(d.path)
		}
	})
	return d.UnixListener.Close()
}

// Peer is who is at the other end of a unix socket, by the kernel's word.
type Peer struct {
	UID, GID uint32
	PID      int32
	// User is the name of UID, or its number.
	User string
}

// PeerOf asks the kernel who made the connection (SO_PEERCRED, unix(7)).
func PeerOf(c net.Conn) (Peer, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return Peer{}, fmt.Errorf("%T is no unix socket", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) { cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, inner); err != nil {
		return Peer{}, err
	}
	return Peer{UID: cred.Uid, GID: cred.Gid, PID: cred.Pid, User: userName(cred.Uid)}, nil
}

// names remembers users, since asking may be slow; a host has few.
var names sync.Map

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if name, ok := names.Load(id); ok {
		return name.(string)
	}
	name := id
	if u, err := user.LookupId(id); err == nil {
		name = u.Username
	}
	names.Store(id, name)
	return name
}
