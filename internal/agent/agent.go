package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/mesh"
	"github.com/steadycast/steadycast/internal/speaker"
	"github.com/steadycast/steadycast/probe"
)

// Options are what an agent is made of.
type Options struct {
	Site, Node, Fleet string
	// Mode is solo, fleet or demo; it is only shown.
	Mode    string
	Version string
	Plan    Plan
	// Solo: the site's own checks are the only evidence.
	Solo bool
	// StateDir holds agent.json; empty means nothing is remembered.
	StateDir string
	Isolated string
	// LastResort as in [decide.SiteOptions]; 0 is never.
	LastResort time.Duration
	// Counts are how many packets ever came for each of the prefixes, from one
	// goroutine; nil where they are not counted. LoadPackets: their rate is the load.
	Counts      func([]netip.Prefix) (map[netip.Prefix]uint64, error)
	LoadPackets bool
	// LoadTarget is a Prometheus server, and LoadQuery what gives the load there.
	LoadTarget, LoadQuery string
	// LoadFile is where what the site carries is written; empty where nobody does.
	LoadFile string
	// Led asks the server of names on this node whom its answers led where; nil if
	// there is none.
	Led func(context.Context) (api.Led, error)
	// Names is the server of names on this node; the zero value if there is none.
	Names Names
	// Ledger is [ledger.Local] in solo, a [ledger.Client] in a fleet.
	Ledger ledger.Ledger
	// FallbackURL is where a newer signed table may be while there is no ledger; empty
	// for nowhere.
	FallbackURL string
	// Derive makes the plan of the table that the fleet's ledger has committed, and
	// again of each new one; Plan is not looked at then, and until there is a table
	// nothing is probed or announced. An error leaves the plan before in force. nil:
	// Plan stands, with the table that the ledger was given.
	Derive func(decide.Table) (Plan, error)
	// Mesh makes this node's end of the links to other nodes; nil: it is alone.
	Mesh MeshMaker
	// Voters are the voters' own ends of the mesh: they are told of everything, and
	// relay. Their sites are filled in from the table where it names the nodes.
	Voters []mesh.Peer
	// Speak makes the connection to the speaker, with where to tell what it did;
	// nil where there is none, at a witness.
	Speak func(speaker.Options) (speaker.Interface, error)
	// Alarms are what else stands, beside what the agent itself sees; may be nil.
	Alarms func() []string
	Events *api.Ring
	// Quiet leaves the ledger's events to whoever owns it, when several agents share one.
	Quiet  bool
	Logger *slog.Logger
	// Jitter is the random wait before a cold start announces; the shell draws it.
	Jitter time.Duration
	// Alive is called by the owner's loop in each turn, at least every
	// AliveWithin (default 1s); it feeds the watchdog.
	Alive       func()
	AliveWithin time.Duration
}

// Plan is the part of the configuration that an agent can change while it runs.
type Plan struct {
	Table  decide.Table
	Probes []probe.Service
	// LooksBut are the Probes while nodes of other sites are taken out by order; nil
	// where no site has several.
	LooksBut func(takenOut func(site, node, service string) bool) []probe.Service
	// VIPs that the services need on this host.
	VIPs []netip.Prefix
	// VIPsOf, by service, are those whose absence is a hard failure of it; empty
	// where addresses are not looked after.
	VIPsOf map[string][]netip.Prefix
	// Outside are the views that may contradict a proof; see outside.go.
	Outside []probe.Check
	// Elsewhere look for whoever else serves a prefix; they count where nobody can
	// be asked.
	Elsewhere []probe.Check
	// WhoAnswers ask shared addresses for sites that are out; see whose.go.
	WhoAnswers []probe.Check
	// Placement is what the fleet's names are answered by. No agent answers; it looks
	// whether another table would leave a name with nobody.
	Placement dnsfallback.Placement
	// Plans are those of the table, with what nodes look at and run in them, and
	// Programs what a table may run on this host.
	Plans    []config.Plan
	Programs []string
	Config   api.Config
	// Alarms say what of the table cannot be carried out here, and is left out.
	Alarms []string
	// Notes are for a person's look; nothing is left out for them.
	Notes []string
}

// Agent is one site's judge. All fields above the line belong to the goroutine
// of Run.
type Agent struct {
	o       Options
	start   time.Time // wall and monotonic; all node time counts from it
	memory  remembered
	warm    bool // it was off for less than warm_start
	site    *decide.Site
	probes  *probe.Scheduler
	spk     speaker.Interface
	sets    *announcer
	views   *outside
	others  *outside // looks for whoever else serves what this site may announce
	whose   *whose   // asks who answers where a site is out
	errand  *courier
	record  record
	wanted  steadycast.RouteSet
	actual  steadycast.Actual
	lost    string           // why the speaker cannot be reached
	reload  string           // why the newest reload failed
	half    string           // why the speaker has older settings than this process
	newest  steadycast.Fence // of the ledger's view, learnt at viewAt
	viewAt  time.Time
	edition edition    // of the newest table that a plan was made of
	unfit   string     // why it cannot be carried out here
	unfitAt decide.Now // since when; 0 while it can
	acting  uint64     // the revision that a plan is in force of
	skew    string     // why it is said to act on another table than the fleet
	// pulled: it acts on a signed table that did not come from the ledger.
	pulled bool
	// unlinked is why whom this node tells is not what the table says.
	unlinked   string
	ineligible string           // why what this node sees of others does not count
	regarded   string           // which nodes are taken out by order, as its looks know
	unregarded string           // why they do not, as it was said last
	local      *localOrder      // what a person did here without a ledger
	localAt    steadycast.Fence // where the ledger has it; zero while it has not
	ledgerLost bool             // a remote ledger was not heard for long
	beats      uint64           // so far
	// tried is the newest staged table, and what is said of it.
	tried struct {
		at  steadycast.Fence
		ack decide.Ack
	}
	explained *decide.Explanation         // since the machine was told the newest; read only
	cuts      cuts                        // what became of routes that left
	led       atomic.Pointer[ledRecently] // whom this node's names lead where; nil is not known
	dirty     bool                        // something is worth showing before the next beat
	alarms    alarms

	// ── shared ──

	seen        *window                // observations on their way to the owner
	answers     chan decide.Answer     // bounded; a full one means the owner hangs, and the request is resent
	spoke       chan struct{}          // actualNow or lostNow changed
	ledgers     chan decide.LedgerLost // the newest call to the ledger that failed
	calls       chan func()            // what the API asks of the owner
	actualNow   atomic.Pointer[steadycast.Actual]
	lostNow     atomic.Pointer[string]
	refusal     atomic.Pointer[string] // why the speaker takes no set
	snapshot    atomic.Pointer[api.Snapshot]
	plan        atomic.Pointer[Plan]
	rounds      rounds
	link        Mesh             // nil: it is alone; set before anything runs
	named       atomic.Bool      // the site has several nodes, and what this one sees is said with its name
	kin         chan decide.Told // bounded; full drops what is said again in a second
	unread      complaints       // of siblings whose words cannot be read
	untold      atomic.Bool      // a report failed, and may not have arrived
	outdated    chan struct{}    // the speaker knows a later start of this node than this one
	writeErrors atomic.Uint64
	keepFailed  atomic.Bool
	took        durations
	probesAt    time.Duration // node time at which the scheduler's clock is zero
	start32     uint64        // the number of this start, above all sequence numbers of a start
}

// New makes an agent ready to run. It reads what the node remembers and touches
// no route.
func New(o Options) (*Agent, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Events == nil {
		o.Events = api.NewRing(4096)
	}
	if o.Alive == nil {
		o.Alive = func() {}
	}
	if o.AliveWithin <= 0 {
		o.AliveWithin = time.Second
	}
	a := &Agent{
		o: o, start: time.Now(), ledgers: make(chan decide.LedgerLost, 1),
		seen: newWindow(), answers: make(chan decide.Answer, 16),
		kin:   make(chan decide.Told, 64),
		spoke: make(chan struct{}, 1), calls: make(chan func(), 16), outdated: make(chan struct{}, 1),
		errand: newCourier(), record: newRecord(), alarms: alarms{},
	}
	a.plan.Store(&o.Plan)
	return a, nil
}

// now is the node's monotonic time.
func (a *Agent) now() decide.Now { return time.Since(a.start) }

// Run judges until ctx ends. It returns with every helper stopped; the speaker
// keeps what it was told.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	a.spk = mute{}
	if a.o.Speak != nil {
		spk, err := a.o.Speak(speaker.Options{OnActual: a.heard, OnLost: a.unheard})
		if err != nil {
			return fmt.Errorf("speaker: %w", err)
		}
		a.spk = spk
	}
	spk := a.spk
	defer spk.Close()
	if err := a.awake(ctx); err != nil {
		return err
	}
	if a.o.Mesh != nil {
		link, err := a.o.Mesh(a.memory.Incarnation, a.heardOf, a.heardKin)
		if err != nil {
			return err
		}
		a.link = link
	}
	plan := *a.plan.Load()

	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	a.sets = newAnnouncer(spk.Apply, a.applied)
	helpers.Go(func() { a.sets.run(ctx) })
	helpers.Go(func() { a.errand.run(ctx) })
	plans := newSteps(a)
	helpers.Go(func() { plans.run(ctx) })
	a.views = newOutside(plan.Outside, a.env(), a.now, a.viewed)
	helpers.Go(func() { a.views.run(ctx) })
	a.others = newOutside(plan.Elsewhere, a.env(), a.now, a.elsewhere)
	a.others.calm = true
	helpers.Go(func() { a.others.run(ctx) })
	a.whose = newWhose(a.o.Site, a.o.Ledger.View, func() []probe.Check { return a.plan.Load().WhoAnswers }, a.env())
	helpers.Go(func() { a.whose.run(ctx) })
	a.recallCuts()
	helpers.Go(func() { a.watchOthers(ctx) })
	if a.o.Counts != nil {
		helpers.Go(func() { a.watchTraffic(ctx) })
	}
	if a.o.LoadQuery != "" {
		helpers.Go(func() { a.watchFigure(ctx, a.o.LoadTarget, a.o.LoadQuery) })
	}
	var keeper sync.WaitGroup
	if a.o.LoadFile != "" {
		helpers.Go(func() { a.watchLoad(ctx, a.o.LoadFile) })
	}
	if a.o.Led != nil {
		helpers.Go(func() { a.watchLed(ctx) })
	}
	if a.o.StateDir != "" && a.o.Derive != nil {
		helpers.Go(func() { a.watchSeal(ctx) })
	}
	if a.o.Names.Health != "" && a.o.Names.Service != "" {
		helpers.Go(func() { a.watchNames(ctx, a.o.Names) })
	}
	if a.o.StateDir != "" {
		keeper.Go(func() { a.stayAlive(ctx) })
		defer keeper.Wait()
		defer cancel()
	}

	a.start32 = a.memory.Incarnation << 32
	a.probes = probe.NewScheduler(probe.Options{OnResult: a.observed, OnCheck: a.took.put, Env: a.env()})
	a.probesAt = a.now()
	defer a.probes.Stop()
	if err := a.probes.Set(a.withVIPs(plan)); err != nil {
		return fmt.Errorf("checks: %w", err)
	}
	a.tellPeers(a.o.Ledger.View().Table)

	if !a.o.Quiet {
		defer a.o.Ledger.OnEvents(a.ledgerSaid)()
	}
	changed, stopWatch := a.o.Ledger.Watch()
	defer stopWatch()

	var ended chan error // the mesh ended, which it should not
	if a.link != nil {
		ended = make(chan error, 1)
		helpers.Go(func() { ended <- a.link.Run(ctx) })
	}

	a.committed()
	if a.warm { // a short restart: look at once instead of at a random moment of the first interval
		for _, s := range a.plan.Load().Probes {
			a.probes.Hurry(s.Name)
		}
	}
	switch again, err := a.loop(ctx, changed, ended); {
	case err != nil:
		return fmt.Errorf("the links to other nodes have ended: %w", err)
	case !again:
		return nil
	}
	end := ctx
	cancel() // one writer of agent.json
	keeper.Wait()
	return a.outlived(context.WithoutCancel(end))
}

// loop is the owner. It never blocks on anything but its inputs. It ends with
// ctx, with the mesh, or when another start must take over.
func (a *Agent) loop(ctx context.Context, changed <-chan struct{}, ended <-chan error) (again bool, err error) {
	beat := time.NewTicker(min(time.Second, a.o.AliveWithin))
	defer beat.Stop()
	wake := time.NewTimer(0)
	defer wake.Stop()
	show := time.NewTimer(0)
	defer show.Stop()
	var shown time.Time
	for {
		a.o.Alive()
		if _, ok := a.site.Overtaken(); ok {
			return true, nil
		}
		if at, ok := a.site.Wake(); ok {
			wake.Reset(max(at-a.now(), 0))
		} else {
			wake.Stop()
		}
		if a.dirty {
			// The first change is shown at once, a storm of them fifty times a second.
			show.Reset(max(20*time.Millisecond-time.Since(shown), 0))
		}
		select {
		case <-ctx.Done():
			return false, nil
		case err := <-ended:
			if ctx.Err() == nil && err == nil {
				err = errors.New("no reason given")
			}
			return false, err
		case <-a.outdated:
			return true, nil
		case <-a.seen.more:
			for o, ok := a.seen.take(); ok; o, ok = a.seen.take() {
				a.step(o)
			}
		case ans := <-a.answers:
			a.record.answered(ans, a.now())
			a.step(decide.Answered{Answer: ans})
		case k := <-a.kin:
			a.step(k)
		case <-changed:
			a.committed()
		case <-a.spoke:
			a.hear()
		case lost := <-a.ledgers:
			a.step(lost)
		case f := <-a.calls:
			f()
			a.dirty = true
		case <-wake.C:
			a.step(decide.Tick{})
		case <-beat.C:
			a.beat()
			a.tellKin()
			a.listenToLedger()
			a.believe()
			a.tryAgain()
			a.skewed()
			a.reconcile()
			a.lookAtCuts()
			a.dirty = true
		case <-show.C:
			if a.cuts.due {
				a.lookAtCuts()
			}
			if a.dirty {
				a.publish()
				a.dirty, shown = false, time.Now()
			}
		}
	}
}

// step tells the machine one thing and carries out what it answers. What acts
// comes before what only tells of it, each in order: a withdrawal does not wait
// until its reasons are written down for people. Verdicts wait for a request of
// the same step: both are then written to the ledger at once, and a withdrawal
// waits for one write less.
func (a *Agent) step(in decide.Input) {
	now, wall := a.now(), time.Now()
	var reported []steadycast.Verdict
	effects := a.site.Step(now, in)
	a.explained = nil
	acted := false
	for _, e := range effects {
		switch e := e.(type) {
		case decide.Report:
			reported = append(reported, e.Verdicts...)
		case decide.Ask:
			a.ask(now, e.Request, reported)
			reported, acted = nil, true
		case decide.GiveUp:
			a.giveUp(e)
		case decide.Announce:
			a.sets.set(e.Set)
			acted = true
		case decide.Pace:
			a.probes.Pace(e.Service, e.Fast)
		case decide.Tell:
			a.tellSibling(e.To, e.Kin)
		case decide.Look:
			a.probes.Hurry(e.Service)
		}
	}
	if len(reported) > 0 {
		a.errand.send(func(ctx context.Context) {
			err := a.o.Ledger.Report(ctx, reported)
			a.mayNotKnow(err)
			a.ledgerAnswered("report", err)
		})
	}
	if acted {
		runtime.Gosched() // to whoever carries it on
	}
	for _, e := range effects {
		a.tell(e, now, wall)
	}
	a.record.looped(time.Now())
	a.dirty = a.dirty || len(effects) > 0 || !routine(in)
}

// tell keeps for people what an effect that was carried out means.
func (a *Agent) tell(e decide.Effect, now decide.Now, wall time.Time) {
	switch e := e.(type) {
	case decide.Report:
		a.record.judged(e.Verdicts, now, wall)
	case decide.Announce:
		a.record.announced(a.wanted, e.Set, a.cause, wall)
		a.wanted = e.Set
		a.views.want(e.Set, a.prefixes())
		a.cuts.due = true
		a.others.want(e.Set, a.prefixes())
	case decide.Pace:
		a.record.fast[e.Service] = e.Fast
	case decide.Note:
		if e.Event.At.IsZero() {
			e.Event.At = wall
		}
		a.say(e.Event)
	}
}

// routine: a round that passes, or time, is shown with the next beat if nothing
// came of it. That is all there is while all is well, and it must cost little.
func routine(in decide.Input) bool {
	switch in := in.(type) {
	case decide.Observed:
		return in.Observation.Result.Outcome == steadycast.Up
	case decide.Tick, decide.Told:
		return true
	}
	return false
}

func (a *Agent) giveUp(e decide.GiveUp) {
	a.errand.send(func(ctx context.Context) {
		a.ledgerAnswered("give up", a.o.Ledger.GiveUp(ctx, a.o.Site, e.ID, e.Units))
	})
}

// ask sends the courier with a request, and with what was reported before it.
func (a *Agent) ask(now decide.Now, r steadycast.Request, reported []steadycast.Verdict) {
	a.record.asked(r.ID, now)
	a.errand.send(func(ctx context.Context) {
		ans, err := a.o.Ledger.Ask(ctx, r, reported...)
		if len(reported) > 0 {
			a.mayNotKnow(err)
		}
		if a.ledgerAnswered("request", err); err != nil {
			return
		}
		select {
		case a.answers <- ans:
		case <-ctx.Done(): // resent with the same id, and answered the same
		}
	})
}

// prefixes are all that this site may announce.
func (a *Agent) prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, u := range a.o.Ledger.View().Units {
		if u.Unit.Site == a.o.Site {
			out = append(out, u.Unit.Prefix)
		}
	}
	return out
}

// beat tells the ledger what is so, once a second and after each change of it.
func (a *Agent) beat() {
	met := a.whose.told()
	if a.o.Speak == nil && met == nil {
		return // who announces nothing and asks nobody has nothing to say
	}
	if a.cuts.due { // a route that left, and that it is a cut, are told together
		a.lookAtCuts()
	}
	b := a.site.Beat()
	b.Cuts = a.cuts.judge.Tell(a.now(), a.o.Node)
	b.Revision = a.acting
	b.Led, b.Met = a.ledTold(), met
	a.beats++
	b.Seq = a.beats
	a.o.Ledger.Beat(b)
}

// heard and unheard are called by the speaker's connection.
func (a *Agent) heard(x steadycast.Actual) {
	a.actualNow.Store(&x)
	a.lostNow.Store(nil)
	a.poke()
}

func (a *Agent) unheard(err error) {
	text := strings.TrimPrefix(err.Error(), speaker.ErrLost.Error()+": ") // the machine says that, too
	a.lostNow.Store(&text)
	a.poke()
}

func (a *Agent) poke() {
	select {
	case a.spoke <- struct{}{}:
	default:
	}
}

// hear takes the speaker's newest words to the machine, and hurries the checks
// of the services whose addresses changed: events hurry probes, probes decide.
func (a *Agent) hear() {
	if why := a.lostNow.Load(); why != nil {
		if a.lost != *why {
			a.lost = *why
			a.step(decide.SpeakerLost{Reason: *why})
		}
		return
	}
	x := a.actualNow.Load()
	if x == nil {
		return
	}
	before := a.actual
	a.lost, a.actual = "", *x
	if x.Restarted(&before) {
		a.half = "" // it read the file when it started
	}
	for _, name := range a.touched(before.VIPs, x.VIPs) {
		a.probes.Hurry(name)
	}
	a.told(before, *x)
	a.step(decide.Proved{Actual: *x})
	a.record.proved(*x)
	a.beat()
}

// applied is called by the announcer with what the speaker answered. What it says
// of itself in Actual, or cannot say because it is gone, is not said here once
// more; another refusal is an alarm until a set is taken up.
func (a *Agent) applied(s steadycast.RouteSet, err error) {
	no, refused := errors.AsType[*speaker.Refused](err)
	switch {
	case err == nil:
		if was := a.refusal.Swap(nil); was != nil {
			a.say(steadycast.Event{Kind: steadycast.EventRecovery, Reason: fmt.Sprintf("the speaker takes sets again: %d.%d", s.Incarnation, s.Version)})
		}
		return
	case errors.Is(err, speaker.ErrLost), refused && slices.Contains(toldByActual, no.Code):
		return
	case errors.Is(err, speaker.ErrStale):
		select {
		case a.outdated <- struct{}{}:
		default:
		}
	}
	text := fmt.Sprintf("the speaker does not take what is wanted: %v", err)
	if was := a.refusal.Swap(&text); was == nil { // each set is refused; that is said once
		a.say(steadycast.Event{Kind: steadycast.EventAlarm, Site: a.o.Site, Reason: text})
	}
}

// sayAgain gives the speaker the newest set once more.
func (a *Agent) sayAgain() {
	if a.wanted.Incarnation != 0 {
		a.sets.set(a.wanted)
	}
}

// mayNotKnow notes that the ledger may not have what was reported to it.
func (a *Agent) mayNotKnow(err error) {
	if _, invalid := errors.AsType[ledger.Invalid](err); err != nil && !invalid {
		a.untold.Store(true)
	}
}

// forgetFence makes the machine believe the ledger as it stands now, although it
// stood higher before.
func (a *Agent) forgetFence() {
	a.step(decide.Unfenced{})
	a.committed()
}

// toldByActual are the refusals that the speaker keeps saying in Actual.Alarm.
var toldByActual = []string{"disk", "crash_loop", "allow", "stopping"}

// ledgerAnswered is called by the courier after each call. Every failure of a
// ledger in this process is told to the machine, which says it once; that the
// ledger works again is seen in what it commits. Of a remote one only that it is
// lost counts, and listenToLedger says that: a call that fails otherwise is made
// again, for voters come and go.
func (a *Agent) ledgerAnswered(what string, err error) {
	_, invalid := errors.AsType[ledger.Invalid](err)
	_, forbidden := errors.AsType[ledger.Forbidden](err)
	if invalid || forbidden {
		a.o.Logger.Warn("the ledger cannot make sense of a call", "call", what, "why", err)
		return
	}
	if err == nil {
		return
	}
	if _, away := a.o.Ledger.(remote); away {
		a.o.Logger.Debug("a call to the ledger failed, and is made again", "call", what, "why", err)
		return
	}
	select { // only the courier sends: after the drain there is room
	case <-a.ledgers:
	default:
	}
	a.ledgers <- decide.LedgerLost{Reason: fmt.Sprintf("%s: %v", what, err), At: a.o.Ledger.View().Fence}
}

// do runs f in the owner's goroutine and waits for it.
func (a *Agent) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case a.calls <- func() { f(); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
