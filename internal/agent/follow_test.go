package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/mesh"
	"github.com/steadycast/steadycast/internal/speaker"
	"github.com/steadycast/steadycast/probe"
)

// together is a fleet in a bubble: agents around one ledger, a mesh without
// links, speakers that do what they are told. A site's service is a file.
type together struct {
	*testing.T
	dir   string
	led   *distant
	table decide.Table

	mu    sync.Mutex
	hears map[string]func(mesh.Heard) // by site; whom the mesh reaches
	tells map[string]func(mesh.Told)  // by node; whom siblings reach
	peers map[string][]mesh.Peer      // by site, as it was told
	ends  map[string]func()
	spk   map[string]*mirror
	log   *logFile
}

// distant is a ledger in other processes, as an agent sees it: not begun until
// born, and lost while gone.
type distant struct {
	ledger.Ledger
	born atomic.Bool
	gone atomic.Bool
}

func (d *distant) Lost() error {
	if d.gone.Load() {
		return &ledger.LostError{For: 15 * time.Second}
	}
	return nil
}

func (d *distant) View() decide.View {
	if !d.born.Load() {
		return decide.NewFleet().View()
	}
	return d.Ledger.View()
}

func (d *distant) Ask(ctx context.Context, r steadycast.Request, vs ...steadycast.Verdict) (decide.Answer, error) {
	if d.gone.Load() {
		return decide.Answer{}, errAway
	}
	return d.Ledger.Ask(ctx, r, vs...)
}

func (d *distant) Report(ctx context.Context, vs []steadycast.Verdict) error {
	if d.gone.Load() {
		return errAway
	}
	return d.Ledger.Report(ctx, vs)
}

var errAway = errors.New("no voter answered in time")

// port is one node's end of the mesh.
type port struct {
	f               *together
	key, site, node string
}

func (p port) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (p port) Peers() mesh.Status            { return mesh.Status{} }
func (p port) SetDigest(time.Duration)       {}

func (p port) Tell(node string, body []byte) bool {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	for _, to := range p.f.peers[p.key] {
		if tell := p.f.tells[to.Node]; tell != nil && to.Site == p.site && (node == "" || node == to.Node) {
			tell(mesh.Told{Node: p.node, Body: body, Issued: time.Now()})
		}
	}
	return true
}

func (p port) SetPeers(peers []mesh.Peer) error {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.f.peers[p.key] = peers
	return nil
}

func (p port) Publish(o steadycast.Observation) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	for _, to := range p.f.peers[p.key] {
		hear := p.f.hears[to.Node]
		if hear == nil {
			hear = p.f.hears[to.Site]
		}
		if hear != nil && to.Site == o.Subject && o.Subject != p.site {
			hear(mesh.Heard{Observation: o, Issued: time.Now().Add(-o.Result.Took)})
		}
	}
}

func inFleet(t *testing.T, test func(*together)) {
	synctest.Test(t, func(t *testing.T) {
		f := &together{T: t, dir: t.TempDir(), hears: map[string]func(mesh.Heard){}, tells: map[string]func(mesh.Told){}, peers: map[string][]mesh.Peer{},
			ends: map[string]func(){}, spk: map[string]*mirror{}, log: &logFile{}}
		f.table = decide.Table{
			Revision: 1,
			Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{prefix}, Health: decide.Health{Rise: 3, HoldUp: time.Second}}},
			Guards:   decide.Guards{Cooldown: time.Millisecond, FleetBudget: 100, SiteBudget: 100, SiteLongBudget: 100, LockCycles: 100},
		}
		for i, site := range []string{"ams", "fra", "lon", "eye"} {
			f.table.Sites = append(f.table.Sites, decide.Place{Name: site, Witness: site == "eye",
				Nodes: []decide.Node{{Name: site + "-1", Mesh: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 7482)}}})
		}
		local, err := ledger.Open("", f.table, ledger.Options{Fleet: "test", Node: "led", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer local.Close()
		f.led = &distant{Ledger: local}
		f.led.born.Store(true)
		defer func() {
			for _, end := range f.ends {
				end()
			}
		}()
		test(f)
	})
}

// serve makes a site's service up, down, or unknown.
func (f *together) serve(site, word string) {
	f.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, site), []byte(word+"\n"), 0o600); err != nil {
		f.Fatal(err)
	}
}

// derive is the plan of a site: its own service, and those that it watches.
func (f *together) derive(site string) func(decide.Table) (Plan, error) {
	return func(t decide.Table) (Plan, error) {
		p := Plan{Table: t}
		for _, x := range t.Sites {
			if x.Witness || x.Name != site && !slices.Contains(t.Vantages(x.Name), site) {
				continue
			}
			for _, s := range t.Services {
				p.Probes = append(p.Probes, probe.Service{Name: s.Name, Subject: x.Name, Vantage: site, Interval: time.Second, FastInterval: 200 * time.Millisecond,
					Checks: []probe.Check{{Name: "word", Kind: "file", Target: filepath.Join(f.dir, x.Name), File: &probe.File{MaxAge: time.Hour}}}})
			}
		}
		return p, nil
	}
}

// start runs a site's agent, with changes to its options.
func (f *together) start(site string, change ...func(*Options)) *Agent {
	f.Helper()
	m := &mirror{now: steadycast.Actual{Started: 1, Peers: []steadycast.Peer{{Name: "tor1", State: steadycast.PeerEstablished, Families: []string{"ipv4"}}}}}
	f.spk[site] = m
	o := Options{
		Site: site, Node: site + "-1", Fleet: "test", Mode: "fleet", Ledger: f.led, Derive: f.derive(site),
		Logger: slog.New(slog.NewTextHandler(f.log, nil)).With("at", site),
		Speak:  func(o speaker.Options) (speaker.Interface, error) { m.tell = o.OnActual; m.say(); return m, nil },
	}
	o.Mesh = func(_ uint64, hear func(mesh.Heard), told func(mesh.Told)) (Mesh, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hears[site], f.tells[o.Node] = hear, told
		return port{f, site, o.Site, o.Node}, nil
	}
	for _, c := range change {
		c(&o)
	}
	a, err := New(o)
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	f.ends[site] = func() {
		f.mu.Lock()
		delete(f.hears, site)
		delete(f.tells, o.Node)
		f.mu.Unlock()
		cancel()
		if err := <-ended; err != nil {
			f.Error(err)
		}
		delete(f.ends, site)
	}
	return a
}

// wires waits, and compares how each site sends the prefix: site=stance.
func (f *together) wires(after time.Duration, want ...string) {
	f.Helper()
	time.Sleep(after) // the bubble's clock: it takes no time
	synctest.Wait()
	for _, w := range want {
		site, stance, _ := strings.Cut(w, "=")
		if got := f.spk[site].wire(); got != stance {
			f.Fatalf("%s sends the prefix %q, want %q; they said\n%s", site, got, stance, f.log)
		}
	}
}

func witness(o *Options) { o.Speak = nil }

// A site leaves on what the others see of it, and stays whatever one of them says.
func TestFleetJudgesTogether(t *testing.T) {
	inFleet(t, func(f *together) {
		for _, p := range f.table.Sites {
			f.serve(p.Name, "up")
			if p.Witness {
				f.start(p.Name, witness)
			} else {
				f.start(p.Name)
			}
		}
		f.wires(30*time.Second, "ams=normal", "fra=normal", "lon=normal")
		f.serve("fra", "down it is")
		f.wires(10*time.Second, "ams=normal", "fra=gone", "lon=normal")
		f.serve("fra", "up")
		f.wires(30*time.Second, "fra=normal")

		// The site alone sees a failure: nobody agrees, so nothing moves, and it is said.
		f.ends["fra"]()
		alone := f.derive("fra")
		f.start("fra", func(o *Options) {
			o.Derive = func(t decide.Table) (Plan, error) {
				p, err := alone(t)
				for i, s := range p.Probes {
					if s.Subject == "fra" {
						p.Probes[i].Checks[0].Target = filepath.Join(f.dir, "fra-alone")
					}
				}
				return p, err
			}
		})
		f.serve("fra-alone", "up")
		f.wires(2*time.Minute, "fra=normal")
		f.serve("fra-alone", "down")
		f.wires(time.Minute, "fra=normal")
		if f.log.count("at=fra", "own check fails", "fra-alone") != 1 {
			f.Errorf("the doubt was not said once:\n%s", f.log)
		}
	})
}

// Who hears nobody is held: its own failure moves nothing.
func TestUnheardIsNotFailure(t *testing.T) {
	inFleet(t, func(f *together) {
		for _, site := range []string{"ams", "fra", "lon"} {
			f.serve(site, "up")
			f.start(site)
		}
		f.wires(30*time.Second, "fra=normal")
		f.mu.Lock()
		delete(f.hears, "fra")
		f.mu.Unlock()
		f.wires(10*time.Second, "fra=normal")
		f.serve("fra", "down")
		f.wires(time.Minute, "fra=normal")
	})
}

// Who cannot be believed is no voice, whatever it sees, and says so once.
func TestControlsGoWrong(t *testing.T) {
	inFleet(t, func(f *together) {
		look := func(name string) probe.Check {
			return probe.Check{Name: name, Kind: "file", Target: filepath.Join(f.dir, name), File: &probe.File{MaxAge: time.Hour}}
		}
		controls := probe.Controls{Interval: time.Second, Positive: []probe.Check{look("a"), look("b"), look("c")}, Negative: []probe.Check{look("wrong")}}
		agents := map[string]*Agent{}
		for _, name := range []string{"a", "b", "c"} {
			f.serve(name, "up")
		}
		f.serve("wrong", "down")
		for _, site := range []string{"ams", "fra", "lon"} {
			f.serve(site, "up")
			derive := f.derive(site)
			agents[site] = f.start(site, func(o *Options) {
				o.Derive = func(t decide.Table) (Plan, error) {
					p, err := derive(t)
					p.Probes = append(p.Probes, controls.Service(site))
					return p, err
				}
			})
		}
		alarmed := func() (n int) {
			for _, a := range agents {
				for _, x := range a.snapshot.Load().Alarms {
					if strings.Contains(x.Text, "does not count: controls: ") {
						n++
					}
				}
			}
			return n
		}
		f.wires(30*time.Second, "ams=normal", "fra=normal", "lon=normal")
		if n := alarmed(); n != 0 || f.log.count("does not count: ") != 0 {
			t := agents["ams"].snapshot.Load().Alarms
			f.Errorf("%d alarms while all is well: %v\n%s", n, t, f.log)
		}
		f.serve("b", "down")
		f.serve("c", "down")
		f.wires(10*time.Second, "fra=normal")
		f.serve("fra", "down")
		f.wires(time.Minute, "ams=normal", "fra=normal", "lon=normal")
		if n := alarmed(); n != 3 || f.log.count("at=ams", "alarm", "does not count: ") != 1 {
			f.Errorf("%d alarms\n%s", n, f.log)
		}
		f.serve("b", "up")
		f.wires(30*time.Second, "ams=normal", "fra=gone", "lon=normal")
		if n := alarmed(); n != 0 || f.log.count("at=ams", "recovery", "counts again") != 1 {
			f.Errorf("%d alarms after the end\n%s", n, f.log)
		}
	})
}

// Before there is a table nothing is probed or announced; with one, all is.
func TestNoTableNoAnnouncement(t *testing.T) {
	inFleet(t, func(f *together) {
		f.led.born.Store(false)
		var agents []*Agent
		for _, site := range []string{"ams", "fra", "lon"} {
			f.serve(site, "up")
			agents = append(agents, f.start(site))
		}
		f.wires(time.Minute, "ams=", "fra=", "lon=")
		if n := len(agents[0].probes.Status()); n != 0 {
			f.Errorf("%d checks without a table", n)
		}
		if len(f.peers["ams"]) != 0 {
			f.Errorf("it tells %v", f.peers["ams"])
		}
		f.led.born.Store(true)
		f.table.Revision = 0
		f.table.DrainWait = 2 * time.Second
		if _, err := f.led.SetTable(f.Context(), f.table, "test", "another"); err != nil {
			f.Fatal(err)
		}
		f.wires(30*time.Second, "ams=normal", "fra=normal", "lon=normal")
		if got := f.peers["ams"]; len(got) != 2 || got[0].Name != "fra-1" || got[1].Site != "lon" {
			f.Errorf("it tells %v", got)
		}
	})
}

// A table that cannot be carried out leaves the plan as it is, is an alarm, and
// ends with the next one.
func TestUnfitTable(t *testing.T) {
	inFleet(t, func(f *together) {
		bad := atomic.Bool{}
		good := f.derive("fra")
		for _, site := range []string{"ams", "lon"} {
			f.serve(site, "up")
			f.start(site)
		}
		f.serve("fra", "up")
		a := f.start("fra", func(o *Options) {
			o.Derive = func(t decide.Table) (Plan, error) {
				if bad.Load() {
					return Plan{}, errors.New("services[0].checks[0].exec: not among exec:")
				}
				return good(t)
			}
		})
		f.wires(30*time.Second, "fra=normal")
		bad.Store(true)
		set := func(wait time.Duration) {
			f.Helper()
			f.table.Revision, f.table.DrainWait = 0, wait
			if _, err := f.led.SetTable(f.Context(), f.table, "test", "another"); err != nil {
				f.Fatal(err)
			}
		}
		set(2 * time.Second)
		f.wires(10*time.Second, "fra=normal")
		alarms := a.snapshot.Load().Alarms
		if len(alarms) != 1 || !strings.Contains(alarms[0].Text, "revision 2 of the table cannot be carried out here") {
			f.Errorf("alarms: %+v", alarms)
		}
		if len(a.probes.Status()) != 3 {
			f.Errorf("checks: %+v", a.probes.Status())
		}
		bad.Store(false)
		set(time.Second)
		f.wires(10*time.Second, "fra=normal")
		if alarms := a.snapshot.Load().Alarms; len(alarms) != 0 {
			f.Errorf("alarms: %+v", alarms)
		}
	})
}

// Without the ledger nothing moves; when it is heard again what must go goes,
// although nothing new was committed, and calls that failed meanwhile are made again.
func TestDistantLedger(t *testing.T) {
	inFleet(t, func(f *together) {
		for _, site := range []string{"ams", "fra", "lon"} {
			f.serve(site, "up")
			f.start(site, func(o *Options) { o.Isolated = decide.IsolatedFreeze })
		}
		f.wires(30*time.Second, "fra=normal")
		f.led.gone.Store(true)
		f.wires(2*time.Second, "fra=normal")
		f.serve("fra", "down")
		f.wires(time.Minute, "fra=normal")
		if n := f.log.count("at=fra", "msg=freeze", "no ledger for 15s"); n != 1 {
			f.Errorf("the freeze was said %d times:\n%s", n, f.log)
		}
		f.led.gone.Store(false)
		f.wires(3*time.Second, "fra=gone", "ams=normal", "lon=normal")
	})
}

// A staged table is tried here and answered: with what it would change, or why
// it cannot be. Nothing follows until it is in force.
func TestStagedTable(t *testing.T) {
	inFleet(t, func(f *together) {
		refuses := atomic.Bool{}
		for _, site := range []string{"ams", "fra", "lon"} {
			f.serve(site, "up")
			derive := f.derive(site)
			f.start(site, func(o *Options) {
				o.Derive = func(t decide.Table) (Plan, error) {
					p, err := derive(t)
					if len(t.Services) > 1 && site == "lon" && refuses.Load() {
						p.Alarms = []string{"198.51.100.0/24 is outside bgp.allow"}
					}
					return p, err
				}
			})
		}
		f.wires(30*time.Second, "fra=normal")
		stage := func() decide.View {
			f.Helper()
			next := f.table
			next.Revision = 0
			next.Services = append(slices.Clone(next.Services), decide.Service{Name: "dns", Prefixes: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}})
			r, err := f.led.Enter(f.Context(), decide.Wish{Kind: decide.KindStage, By: "ann", Reason: "more", Table: &next})
			if err != nil || r.Refused != nil || r.Invalid != "" {
				f.Fatal(err, r)
			}
			f.wires(3*time.Second, "fra=normal")
			return f.led.View()
		}
		v := stage()
		if len(v.Acks) != 3 {
			f.Fatalf("acks: %+v", v.Acks)
		}
		for _, k := range v.Acks {
			want := []string{"198.51.100.0/24 is announced here, once its checks pass and a permit is given",
				"dns of ams: looked at from here", "dns of fra: looked at from here", "dns of lon: looked at from here"}
			if k.Refusal != "" || !slices.Equal(k.Changes, want) {
				f.Errorf("%s: %q %q", k.Node, k.Refusal, k.Changes)
			}
		}
		if v.Table.Revision != 1 || len(f.peers["ams"]) != 2 {
			f.Errorf("it is in force: %+v", v.Table)
		}
		refuses.Store(true)
		v = stage()
		if i := slices.IndexFunc(v.Acks, func(k decide.Ack) bool { return k.Site == "lon" }); i < 0 || v.Acks[i].Refusal != "198.51.100.0/24 is outside bgp.allow" || len(v.Acks) != 3 {
			f.Errorf("acks: %+v", v.Acks)
		}
	})
}
