package role

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// A service manager can keep a process's open files over its restart
// (FileDescriptorStoreMax=, systemd.service(5)): what arrives at a socket
// meanwhile waits for the process that follows.

const (
	// storeBatch is how many files go with one message; the kernel takes 253 (SCM_MAX_FD).
	storeBatch = 128
	// storePatience bounds one message: a manager that does not read must not stop us.
	storePatience = time.Second
)

// kept are the files that this process was started with, by name; they are read once.
var kept = sync.OnceValue(func() map[string][]*os.File {
	supervisor()
	return activation.FilesWithNames()
})

// Kept are the files that the service manager kept under a name for this process,
// in no certain order. They are the caller's, and there for the first call only.
func Kept(name string) []*os.File {
	all := kept()
	files := all[name]
	delete(all, name)
	return files
}

// Keep gives files to the service manager, under a name, for the process after
// this one. Without one, or where it keeps none, nothing happens.
func (p *Process) Keep(name string, files []*os.File) {
	for len(files) > 0 {
		n := min(len(files), storeBatch)
		fds, err := numbers(files[:n])
		if err == nil {
			err = store("FDSTORE=1\nFDNAME="+name, fds)
		}
		if err != nil {
			p.log.Warn("the service manager does not keep the sockets; a restart may lose questions", "err", err)
			return
		}
		files = files[n:]
	}
}

// Forget has the service manager close what it keeps under a name.
func (p *Process) Forget(name string) {
	if err := store("FDSTOREREMOVE=1\nFDNAME="+name, nil); err != nil {
		p.log.Warn("the service manager keeps sockets that are of no use", "err", err)
	}
}

// numbers are the descriptors of files. Unlike File.Fd it leaves them as they are:
// that makes them block, and with them every socket that shares them.
func numbers(files []*os.File) ([]int, error) {
	out := make([]int, len(files))
	for i, f := range files {
		raw, err := f.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { out[i] = int(fd) })
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func store(state string, fds []int) error {
	if s := supervisor(); s >= 0 {
		if err := unix.Sendmsg(s, []byte(state), rightsOf(fds), nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT); err != nil {
			return fmt.Errorf("telling the supervisor: %w", err)
		}
		return nil
	}
	at := os.Getenv("NOTIFY_SOCKET")
	if at == "" {
		return nil
	}
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	patience := unix.NsecToTimeval(int64(storePatience))
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patience); err != nil {
		return err
	}
	if err := unix.Sendmsg(s, []byte(state), rightsOf(fds), &unix.SockaddrUnix{Name: at}, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("telling the service manager: %w", err)
	}
	return nil
}

func rightsOf(fds []int) []byte {
	if len(fds) == 0 {
		return nil
	}
	return unix.UnixRights(fds...)
}
