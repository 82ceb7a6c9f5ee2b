package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// VIPs keeps a host's service addresses as they are wanted: the whole wanted
// state is set, the kernel is read back, and only the difference is done.
//
// An address that this software adds carries a mark in the kernel, so that after
// kill -9 the next start knows it for its own. An address without the mark is
// someone else's: it counts as present, and is never touched.
//
// The kernel's reports of changes only say when to look; what is believed is
// always a whole reading. So a lost report costs time, never truth: after an
// overflow of the subscription, and every VIPSettings.Reconcile, everything is
// read again.
//
// run owns the state; watch only wakes it.
type VIPs struct {
	log      *slog.Logger
	settings VIPSettings
	onChange func()
	kernel   *kernel
	// subscribe is openWatch; a test opens it in another network namespace.
	subscribe func() (*nl.NetlinkSocket, error)

	commands chan vipCommand // unbuffered: the caller waits for the answer anyway
	wake     chan struct{}   // one is enough: it says "look again"
	closed   chan struct{}
	close    sync.Once
	done     sync.WaitGroup

	actual    atomic.Pointer[[]steadycast.VIP]
	interest  atomic.Pointer[map[netip.Addr]bool]
	overflows atomic.Uint64

	// Owned by run.
	view    vipView
	unread  bool                // the newest reading failed
	present map[netip.Addr]bool // wanted addresses that were there at the last reading
	said    map[string]string   // the newest line logged per subject, so that each is said once
}

// VIPOptions are the surroundings of VIPs.
type VIPOptions struct {
	Logger *slog.Logger
	// OnChange hears that Actual changed. Called from VIPs' own goroutine: it
	// must return soon and not call back except for Actual.
	OnChange func()
}

type vipCommand struct {
	want   []netip.Prefix
	repair bool
	done   chan error
}

// NewVIPs reads the host's addresses and starts to watch them. Nothing is
// changed before the first Set. With manage: off it does nothing at all.
func NewVIPs(s VIPSettings, o VIPOptions) (*VIPs, error) { return newVIPs(s, o, openWatch) }

func newVIPs(s VIPSettings, o VIPOptions, subscribe func() (*nl.NetlinkSocket, error)) (*VIPs, error) {
	s = s.WithDefaults()
	if ps := s.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("vip.%v", ps[0])
	}
	v := &VIPs{
		log: o.Logger, settings: s, onChange: o.OnChange, subscribe: subscribe,
		commands: make(chan vipCommand), wake: make(chan struct{}, 1), closed: make(chan struct{}),
		view: vipView{
			Settings: s,
			Added:    map[netip.Prefix]bool{}, Lost: map[netip.Addr]bool{}, Errors: map[netip.Addr]string{},
		},
		present: map[netip.Addr]bool{}, said: map[string]string{},
	}
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	v.actual.Store(&[]steadycast.VIP{})
	v.interest.Store(&map[netip.Addr]bool{})
	if s.Manage == manageOff {
		return v, nil
	}
	var err error
	if v.kernel, err = openKernel(); err != nil {
		return nil, err
	}
	// Subscribe before the first reading, so that nothing falls between them.
	socket, err := subscribe()
	if err != nil {
		v.kernel.close()
		return nil, err
	}
	if err := v.read(); err != nil {
		socket.Close()
		v.kernel.close()
		return nil, err
	}
	found := v.view.vips()
	v.actual.Store(&found)
	for _, a := range found {
		v.log.Info("service address adopted", "vip", a.Address, "interface", a.Interface)
	}
	v.done.Go(v.run)
	v.done.Go(func() { v.watch(socket) })
	return v, nil
}

// Set gives the whole wanted state: what is absent is removed if it is ours.
// Its error names every address that could not be put right; those are tried
// again at every reading. An address that someone else removed stays absent
// unless OnRemoved is repair; Repair puts it back.
func (v *VIPs) Set(want []netip.Prefix) error {
	return v.command(context.Background(), vipCommand{want: normalize(want)})
}

// Repair puts back what someone else removed, by a person's wish.
func (v *VIPs) Repair() error {
	return v.command(context.Background(), vipCommand{repair: true})
}

// Release removes everything that is ours, and nothing else.
func (v *VIPs) Release(ctx context.Context) error {
	return v.command(ctx, vipCommand{want: []netip.Prefix{}})
}

// Actual is what is there: the wanted addresses and any leftover of ours, in
// order. The slice is never changed.
func (v *VIPs) Actual() []steadycast.VIP { return *v.actual.Load() }

// Overflows counts how often the kernel reported changes faster than they were
// taken in; each was made good by a whole reading.
func (v *VIPs) Overflows() uint64 { return v.overflows.Load() }

// Close stops watching. Addresses stay as they are.
func (v *VIPs) Close() {
	v.close.Do(func() { close(v.closed) })
	v.done.Wait()
}

var errVIPsClosed = errors.New("service addresses are no longer watched")

func (v *VIPs) command(ctx context.Context, c vipCommand) error {
	if v.settings.Manage == manageOff {
		return nil
	}
	c.done = make(chan error, 1)
	select {
	case v.commands <- c:
	case <-v.closed:
		return errVIPsClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func normalize(want []netip.Prefix) []netip.Prefix {
	ps := make([]netip.Prefix, 0, len(want))
	for _, p := range want {
		ps = append(ps, netip.PrefixFrom(p.Addr().Unmap().WithZone(""), p.Bits()))
	}
	slices.SortFunc(ps, comparePrefix)
	return slices.CompactFunc(ps, func(a, b netip.Prefix) bool { return a.Addr() == b.Addr() })
}

// readAgain is how long after a reading that failed there is another: the report that
// called for it does not come twice.
const readAgain = 100 * time.Millisecond

func (v *VIPs) run() {
	defer v.kernel.close()
	whole := time.NewTicker(v.settings.Reconcile)
	defer whole.Stop()
	// After a reading that took t, reports wait 4t, so that a host whose
	// addresses churn cannot take more than a fifth of a core.
	wake, rest := v.wake, (<-chan time.Time)(nil)
	var again <-chan time.Time // when a reading that failed is repeated
	for {
		if v.unread && again == nil {
			again = time.After(readAgain)
		}
		select {
		case <-v.closed:
			return
		case <-again:
			again = nil
			_ = v.reconcile()
		case c := <-v.commands:
			c.done <- v.take(c)
		case <-whole.C:
			_ = v.reconcile()
		case <-wake:
			began := time.Now()
			_ = v.reconcile()
			wake, rest = nil, time.After(4*time.Since(began))
		case <-rest:
			wake, rest = v.wake, nil
		}
	}
}

func (v *VIPs) take(c vipCommand) error {
	if c.repair {
		clear(v.view.Lost)
		return v.reconcile()
	}
	v.view.Want, v.view.Given = c.want, true
	interest := map[netip.Addr]bool{}
	for _, p := range c.want {
		interest[p.Addr()] = true
	}
	v.interest.Store(&interest)
	// What is no longer wanted is forgotten; wanting it again is a fresh start.
	unwanted := func(ip netip.Addr) bool { return !interest[ip] }
	maps.DeleteFunc(v.view.Lost, func(ip netip.Addr, _ bool) bool { return unwanted(ip) })
	maps.DeleteFunc(v.view.Errors, func(ip netip.Addr, _ string) bool { return unwanted(ip) })
	maps.DeleteFunc(v.present, func(ip netip.Addr, _ bool) bool { return unwanted(ip) })
	return v.reconcile()
}

// reconcile reads everything, notes what others removed, does the difference,
// and reads back.
func (v *VIPs) reconcile() error {
	if err := v.read(); err != nil {
		v.say("read", slog.LevelError, "service addresses cannot be read", "err", err)
		return err
	}
	v.say("read", slog.LevelInfo, "")
	v.noteRemovals()
	steps := v.view.plan()
	var errs []error
	for _, s := range steps {
		errs = append(errs, v.do(s))
	}
	if len(steps) > 0 && !v.settings.DryRun {
		errs = append(errs, v.read())
		v.notePresent()
	}
	v.publish()
	if _, ok := v.view.link(); !ok && len(v.view.Want) > 0 {
		errs = append(errs, fmt.Errorf("interface %s: %w", v.settings.Interface, errNoLink))
	}
	return errors.Join(errs...)
}

func (v *VIPs) read() error {
	v.unread = true
	links, err := v.kernel.links()
	if err != nil {
		return err
	}
	addrs, err := v.kernel.addrs()
	if err != nil {
		return err
	}
	v.view.Links, v.view.Addrs = links, addrs
	v.unread = false
	return nil
}

// noteRemovals finds the wanted addresses that were there and are not: nobody
// but someone else can have taken them.
func (v *VIPs) noteRemovals() {
	link, _ := v.view.link()
	for _, p := range v.view.Want {
		ip := p.Addr()
		if _, there := v.view.find(ip, link.Index); there {
			if v.view.Lost[ip] {
				v.log.Info("service address is back", "vip", p, "interface", v.settings.Interface)
			}
			delete(v.view.Lost, ip)
			delete(v.view.Errors, ip)
			v.present[ip] = true
			continue
		}
		if v.present[ip] {
			delete(v.present, ip)
			delete(v.view.Added, p)
			v.view.Lost[ip] = true
			v.log.Warn("service address was removed by someone else", "vip", p, "interface", v.settings.Interface, "on_removed", v.settings.OnRemoved)
		}
	}
}

func (v *VIPs) notePresent() {
	link, _ := v.view.link()
	for _, p := range v.view.Want {
		if a, there := v.view.find(p.Addr(), link.Index); there {
			v.present[p.Addr()] = true
			if v.view.Added[p] && a.Proto == 0 && !v.view.NoMarks {
				v.view.NoMarks = true
				v.log.Warn("this kernel keeps no ownership mark with an address (it needs Linux 5.18): after a crash our addresses will pass for someone else's and stay")
			}
			delete(v.view.Lost, p.Addr())
			delete(v.view.Errors, p.Addr())
		}
	}
}

func (v *VIPs) do(s vipStep) error {
	subject := s.verb() + s.Prefix.String()
	if v.settings.DryRun {
		v.say(subject, slog.LevelInfo, "dry run: would "+s.verb()+" service address", "vip", s.Prefix, "interface", v.settings.Interface)
		return nil
	}
	var err error
	if s.Add {
		err = v.kernel.add(s.Prefix, s.Index, v.settings.Mark, v.settings.Label)
	} else {
		err = v.kernel.remove(s.Prefix, s.Index)
	}
	if err != nil {
		err = fmt.Errorf("%s %v on %s: %w%s", s.verb(), s.Prefix, v.settings.Interface, err, hint(err, s))
		v.view.Errors[s.Prefix.Addr()] = err.Error()
		v.say(subject, slog.LevelError, "service address cannot be put right; it is tried again", "vip", s.Prefix, "err", err)
		return err
	}
	v.say(subject, slog.LevelInfo, "")
	if s.Add {
		v.view.Added[s.Prefix] = true
		v.log.Info("service address added", "vip", s.Prefix, "interface", v.settings.Interface)
	} else {
		delete(v.view.Added, s.Prefix)
		v.log.Info("service address removed", "vip", s.Prefix)
	}
	return nil
}

// hint gives the next step for the failures an operator meets.
func hint(err error, s vipStep) string {
	switch {
	case errors.Is(err, unix.EPERM):
		return "; the speaker needs CAP_NET_ADMIN, or vip.manage: require"
	case errors.Is(err, unix.EACCES) && s.Prefix.Addr().Is6():
		return "; IPv6 is disabled on the interface (sysctl net.ipv6.conf.*.disable_ipv6)"
	}
	return ""
}

// say logs a line once until another, or an empty one, is said of the subject.
func (v *VIPs) say(subject string, level slog.Level, text string, args ...any) {
	line := text + fmt.Sprint(args...)
	if text == "" {
		delete(v.said, subject)
		return
	}
	if v.said[subject] != line {
		v.said[subject] = line
		v.log.Log(context.Background(), level, text, args...)
	}
}

func (v *VIPs) publish() {
	now := v.view.vips()
	if slices.Equal(now, *v.actual.Load()) {
		return
	}
	v.actual.Store(&now)
	if v.onChange != nil {
		v.onChange()
	}
}
