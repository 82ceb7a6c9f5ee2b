package speaker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp"
)

// world is a host with routers that do at once what they are told. It keeps a
// diary: what was done to sessions and addresses, with the time since its start.
type world struct {
	began time.Time

	mu       sync.Mutex
	diary    []string
	set      steadycast.RouteSet
	vips     []netip.Prefix
	changed  []func()
	settings bgp.Settings
	alarm    string
	loadErr  error
	vipsErr  error
	log      bytes.Buffer
}

func newWorld() *world {
	return &world{began: time.Now(), settings: bgp.Settings{ASN: 64512, Allow: prefixes("192.0.2.0/24", "2001:db8::/32")}}
}

func (w *world) config(dir string) Config {
	return Config{
		Node: "fra-1", StateDir: dir, Logger: slog.New(slog.NewTextHandler(lockedWriter{w}, nil)),
		Load: func() (bgp.Settings, bgp.VIPSettings, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.settings, bgp.VIPSettings{}, w.loadErr
		},
	}
}

type lockedWriter struct{ w *world }

func (l lockedWriter) Write(b []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.log.Write(b)
}

func (w *world) makers() makers {
	return makers{
		speaker: func(_ bgp.Settings, o bgp.Options) (announcer, error) {
			w.changed = append(w.changed, o.OnChange)
			return &fakeSpeaker{w}, nil
		},
		vips: func(_ bgp.VIPSettings, o bgp.VIPOptions) (addresses, error) {
			return &fakeVIPs{w}, w.vipsErr
		},
	}
}

func (w *world) note(format string, args ...any) {
	at := time.Since(w.began).Round(time.Millisecond)
	w.diary = append(w.diary, fmt.Sprintf("%v %s", at, fmt.Sprintf(format, args...)))
}

// read gives the diary since the last reading.
func (w *world) read() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := strings.Join(w.diary, "\n")
	w.diary = nil
	return s
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

type fakeSpeaker struct{ w *world }

func (f *fakeSpeaker) Apply(s steadycast.RouteSet) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if s.Incarnation < f.w.set.Incarnation || s.Incarnation == f.w.set.Incarnation && s.Version < f.w.set.Version || s.Fence.Compare(f.w.set.Fence) < 0 {
		return errors.New("older set")
	}
	f.w.set = s
	f.w.note("announce %s", describe(s))
	for _, f := range f.w.changed {
		f()
	}
	return nil
}

func describe(s steadycast.RouteSet) string {
	var words []string
	for _, r := range s.Routes {
		word := r.Prefix.Addr().String()
		if r.Stance != steadycast.Normal {
			word += "(" + r.Stance.String() + ")"
		}
		words = append(words, word)
	}
	return "[" + strings.Join(words, " ") + "]"
}

func (f *fakeSpeaker) Actual() steadycast.Actual {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	a := steadycast.Actual{
		Incarnation: f.w.set.Incarnation, Version: f.w.set.Version, Alarm: f.w.alarm,
		Peers: []steadycast.Peer{{Name: "tor1", State: "established"}},
	}
	for _, r := range f.w.set.Routes {
		a.Sent = append(a.Sent, steadycast.Sent{Peer: "tor1", Prefix: r.Prefix, Announced: true})
	}
	return a
}

func (f *fakeSpeaker) Plan(s bgp.Settings) []bgp.Change {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return []bgp.Change{{Neighbor: "tor1", Kind: bgp.ChangeReset, Reason: fmt.Sprintf("asn becomes %d", s.ASN)}, {Neighbor: "tor2", Kind: bgp.ChangeNone}}
}

func (f *fakeSpeaker) Reconfigure(s bgp.Settings) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if s.ASN == 0 {
		return errors.New("asn: 0 is no ASN")
	}
	f.w.note("reconfigure %d", s.ASN)
	return nil
}

func (f *fakeSpeaker) Stop(context.Context, string) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.note("close sessions")
	return nil
}

type fakeVIPs struct{ w *world }

func (f *fakeVIPs) Set(ps []netip.Prefix) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.vips = slices.Clone(ps)
	f.w.note("addresses %v", ps)
	return nil
}

func (f *fakeVIPs) Actual() (all []steadycast.VIP) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for _, p := range f.w.vips {
		all = append(all, steadycast.VIP{Address: p, Interface: "lo", Present: true, Ours: true, Usable: true})
	}
	return all
}

func (f *fakeVIPs) Repair() error { return nil }
func (f *fakeVIPs) Close()        {}

func (f *fakeVIPs) Release(context.Context) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.vips = nil
	f.w.note("release addresses")
	return nil
}

func prefixes(ss ...string) (ps []netip.Prefix) {
	for _, s := range ss {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

// set makes a set of version v: each word is the last octet of a /32, with a
// stance behind a colon if not normal. Each route has an address of its own.
func set(v uint64, words ...string) steadycast.RouteSet {
	s := steadycast.RouteSet{Incarnation: 1, Version: v, Fence: steadycast.Fence{Epoch: 1, Index: 10}, Routes: []steadycast.Route{}}
	for _, word := range words {
		octet, stance, _ := strings.Cut(word, ":")
		r := steadycast.Route{Prefix: netip.MustParsePrefix("192.0.2." + octet + "/32")}
		if stance != "" {
			if err := r.Stance.UnmarshalText([]byte(stance)); err != nil {
				panic(err)
			}
		}
		s.Routes = append(s.Routes, r)
		s.VIPs = append(s.VIPs, r.Prefix)
	}
	return s
}

// begin starts a speaker in this process over w, with dir as its state.
func begin(t *testing.T, w *world, dir string, change ...func(*Config)) *InProcess {
	t.Helper()
	cfg := w.config(dir)
	for _, c := range change {
		c(&cfg)
	}
	l, err := local(cfg, Options{}, w.makers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// mustApply applies until the set is wholly taken up: on a loaded machine the
// disk may take longer than an agent is kept waiting.
func mustApply(t *testing.T, i Interface, s steadycast.RouteSet) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := i.Apply(context.Background(), s)
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "wait for it") || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// breakDisk makes the intent impossible to write, until mended.
func breakDisk(t *testing.T, dir string) (mend func()) {
	t.Helper()
	temp := filepath.Join(dir, "intent.json.tmp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(temp); err != nil {
			t.Fatal(err)
		}
	}
}
