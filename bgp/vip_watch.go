package bgp

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// watch waits for the kernel's reports and wakes run for those that matter.
func (v *VIPs) watch(socket *nl.NetlinkSocket) {
	var current atomic.Pointer[nl.NetlinkSocket]
	current.Store(socket)
	v.done.Go(func() { // ends a blocking Receive
		<-v.closed
		current.Load().Close()
	})
	interest := func(a hostAddr) bool { return a.Proto == v.settings.Mark || (*v.interest.Load())[a.Prefix.Addr()] }
	for {
		msgs, from, err := current.Load().Receive()
		select {
		case <-v.closed:
			current.Load().Close()
			return
		default:
		}
		switch {
		case errors.Is(err, unix.ENOBUFS):
			// The socket goes on, but reports were lost (netlink(7)).
			v.overflows.Add(1)
			v.look()
			continue
		case err != nil:
			v.log.Warn("the kernel's reports ended; subscribing again", "err", err)
			current.Load().Close()
			fresh, ok := v.resubscribe()
			if !ok {
				return
			}
			current.Store(fresh)
			select {
			case <-v.closed: // the one who closes may have seen the old socket
				fresh.Close()
				return
			default:
			}
			v.look()
			continue
		case from.Pid != nl.PidKernel: // anyone may send to a netlink socket
			continue
		}
		for _, m := range msgs {
			if concerns(m, interest) {
				v.look()
				break
			}
		}
	}
}

func (v *VIPs) resubscribe() (*nl.NetlinkSocket, bool) {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		if s, err := v.subscribe(); err == nil {
			return s, true
		}
		select {
		case <-v.closed:
			return nil, false
		case <-time.After(wait):
		}
	}
}

func (v *VIPs) look() {
	select {
	case v.wake <- struct{}{}:
	default: // it will look anyway
	}
}
