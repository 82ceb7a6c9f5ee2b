package role

import (
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifier tells the service manager how the process is (sd_notify(3)), in
// order, from a goroutine of its own: a service manager that does not read
// must not stop the process. Without a NOTIFY_SOCKET it does nothing.
type notifier struct {
	queue chan string // 64; when full the newest is dropped, since the manager hangs anyway
	done  chan struct{}
}

func newNotifier() *notifier {
	n := &notifier{queue: make(chan string, 64), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		for state := range n.queue {
			// An error means that nobody listens; there is nobody else to tell.
			_, _ = daemon.SdNotify(false, state)
		}
	}()
	return n
}

func (n *notifier) send(lines ...string) {
	select {
	case n.queue <- strings.Join(lines, "\n"):
	default:
	}
}

// close sends what is queued, for at most a second.
func (n *notifier) close() {
	close(n.queue)
	select {
	case <-n.done:
	case <-time.After(time.Second):
	}
}

// status is one line of at most 500 octets, so that a datagram always fits.
func status(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:497], "") + "…"
	}
	return "STATUS=" + text
}

func extend(d time.Duration) string { return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()) }

// reloading carries the time of the request: systemd from version 253 on drops a
// reload without it, older ones ignore it.
func reloading() []string {
	lines := []string{daemon.SdNotifyReloading}
	if now := daemon.SdNotifyMonotonicUsec(); now != "" {
		lines = append(lines, strings.TrimSpace(now))
	}
	return lines
}
