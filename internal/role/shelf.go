package role

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A supervisor keeps a child's files as a service manager does, but over a pair of
// sockets of their own that nobody else can reach.

const (
	// storeFD is the number of the child's end, in its environment.
	storeFD = "ROLE_STORE_FD"
	// shelfMax bounds what a child can have kept.
	shelfMax = 1024
	// firstFD is that of the first file a child is given (sd_listen_fds(3)).
	firstFD = 3
)

// shelf is what one child has had kept. Its goroutine puts files there; mu guards them.
type shelf struct {
	ours   *net.UnixConn
	theirs *os.File
	mu     sync.Mutex
	files  []*os.File
	names  []string
	done   sync.WaitGroup
}

func newShelf() (*shelf, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	own := os.NewFile(uintptr(pair[0]), "shelf")
	s := &shelf{theirs: os.NewFile(uintptr(pair[1]), "shelf")}
	c, err := net.FileConn(own)
	own.Close()
	if err != nil {
		s.theirs.Close()
		return nil, err
	}
	s.ours = c.(*net.UnixConn)
	s.done.Go(s.read)
	return s, nil
}

// read takes what the child says until the shelf is closed.
func (s *shelf) read() {
	data, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*storeBatch))
	for {
		n, k, _, _, err := s.ours.ReadMsgUnix(data, rights)
		if err != nil {
			return
		}
		var files []*os.File
		messages, _ := unix.ParseSocketControlMessage(rights[:k])
		for i := range messages {
			fds, _ := unix.ParseUnixRights(&messages[i])
			for _, fd := range fds {
				unix.CloseOnExec(fd)
				files = append(files, os.NewFile(uintptr(fd), "kept"))
			}
		}
		s.take(strings.Fields(string(data[:n])), files)
	}
}

// take does what one message asks.
func (s *shelf) take(words []string, files []*os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := ""
	for _, w := range words {
		if v, ok := strings.CutPrefix(w, "FDNAME="); ok {
			name = v
		}
	}
	if slices.Contains(words, "FDSTOREREMOVE=1") {
		for i := len(s.files) - 1; i >= 0; i-- {
			if s.names[i] == name {
				s.files[i].Close()
				s.files, s.names = slices.Delete(s.files, i, i+1), slices.Delete(s.names, i, i+1)
			}
		}
	}
	for _, f := range files {
		if !slices.Contains(words, "FDSTORE=1") || len(s.files) >= shelfMax {
			f.Close()
			continue
		}
		s.files, s.names = append(s.files, f), append(s.names, name)
	}
}

// give is what a child is started with: files from [firstFD] on, and the words that tell it of them.
func (s *shelf) give() (files []*os.File, env []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	files = append(slices.Clone(s.files), s.theirs)
	env = []string{storeFD + "=" + strconv.Itoa(firstFD+len(s.files))}
	if len(s.files) > 0 {
		env = append(env, fmt.Sprintf("LISTEN_FDS=%d", len(s.files)), "LISTEN_FDNAMES="+strings.Join(s.names, ":"))
	}
	return files, env
}

func (s *shelf) close() {
	s.ours.Close()
	s.done.Wait()
	s.theirs.Close()
	for _, f := range s.files {
		f.Close()
	}
}

// supervisor is the way to a supervisor that keeps files; -1 where there is none. What
// it gave is for this very process, whose number it could not know before.
var supervisor = sync.OnceValue(func() int {
	fd, err := strconv.Atoi(os.Getenv(storeFD))
	os.Unsetenv(storeFD)
	if err != nil || fd < firstFD {
		return -1
	}
	unix.CloseOnExec(fd)
	if os.Getenv("LISTEN_FDS") != "" {
		os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	}
	return fd
})
