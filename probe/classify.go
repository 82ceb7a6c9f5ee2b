package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/steadycast/steadycast"
)

var past = time.Unix(1, 0)

// local are the errors that say something about this host or its surroundings
// and nothing about the service.
var local = []struct {
	errno syscall.Errno
	words string
}{
	{syscall.ENETUNREACH, "no route from here"},
	{syscall.EHOSTUNREACH, "no route to the host from here"},
	{syscall.ENETDOWN, "the network is down here"},
	{syscall.EADDRNOTAVAIL, "the source address is not on this host, or no local port is free"},
	{syscall.EADDRINUSE, "no local port is free"},
	{syscall.EMFILE, "this process has no file descriptor left"},
	{syscall.ENFILE, "this host has no file descriptor left"},
	{syscall.ENOBUFS, "this host has no buffer left"},
	{syscall.ENOMEM, "this host has no memory left"},
	{syscall.EAGAIN, "this host is out of a resource"},
	{syscall.EACCES, "not permitted here"},
	{syscall.EPERM, "not permitted here"},
	{syscall.ENODEV, "no such device on this host"},
	{syscall.EAFNOSUPPORT, "this host does not speak the address family"},
	{syscall.EPROTONOSUPPORT, "this host does not speak the protocol"},
	{syscall.EINVAL, "the source address cannot reach the target"},
}

// failed turns the error of talking to target into a result. doing completes
// the sentence "… while …".
func failed(err error, target, doing string) steadycast.Result {
	if _, ok := errors.AsType[*resolveError](err); ok {
		return unknown("%v", err)
	}
	if e, ok := errors.AsType[*absentError](err); ok {
		return hard("%v", e)
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return hard("connection refused by %s", target)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return hard("connection reset by %s while %s", target, doing)
	case isTimeout(err):
		return soft("timeout while %s, %s", doing, target)
	}
	for _, l := range local {
		if errors.Is(err, l.errno) {
			return unknown("%s: %s (%v)", target, l.words, l.errno)
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return soft("%s closed the connection while %s", target, doing)
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return soft("%s: certificate: %v", target, e.Err)
	}
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return soft("%s: certificate: %v", target, e)
	}
	return soft("%s: %s while %s", target, clip(err.Error(), 200), doing)
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) {
		return true
	}
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// tooSlow judges a right answer that took longer than allowed.
func tooSlow(took, most time.Duration) (steadycast.Result, bool) {
	if most > 0 && took > most {
		return soft("right, but slow: %v, over %v", took.Round(time.Microsecond), most), true
	}
	return steadycast.Result{}, false
}
