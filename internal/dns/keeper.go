package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/answers"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/rto"
)

const (
	// gather is the least time between two tables, so that what changes together is
	// one table, and a storm of changes costs a bounded part of a processor.
	gather = 20 * time.Millisecond
	// mapsEvery is how often the maps' files are looked at.
	mapsEvery = 10 * time.Second
	// beat is how often a keeper looks at the clock.
	beat = time.Second
	// freshFor is how long the ledger must be heard before stale answers are fresh
	// again: a link that comes and goes does not make the mode come and go.
	freshFor = 10 * time.Second
)

// keeper makes the tables: it joins the policy, the maps and the newest state, and
// counts the versions. Its run is the only goroutine that changes it; others read
// what mu guards.
type keeper struct {
	node   config.Node
	source Source
	memory *memory
	log    *slog.Logger
	// beat and freshFor are those above, but in tests.
	beat, freshFor time.Duration
	// serve is called once, with the first table.
	serve func(*dnsfallback.Table) (*dnsfallback.Server, error)
	// placed are the zones of a node's own file; nil where the ledger has them.
	placed *config.Fleet

	server  *dnsfallback.Server // nil before serve
	version uint64
	edition edition
	state   known  // that the newest table is of
	news    bool   // the memory does not have it yet
	behind  string // why what the ledger says is older than that; empty while it is not
	// lostAt is since when the ledger is lost, and until the answers are fresh again,
	// heardAt since when it is heard again; monotonic, zero for not.
	lostAt, heardAt time.Time
	loading         bool // maps are being read
	loaded          chan loaded

	mu     sync.Mutex
	policy *dnsfallback.Policy
	maps   *dnsfallback.Maps
	files  []dnsfallback.MapFile
	sheet  sheet
}

// edition tells one committed table from another.
type edition struct{ epoch, revision uint64 }

// sheet is what a keeper shows of itself.
type sheet struct {
	// Since is when the newest table was made, Heard when the ledger was heard last.
	Since, Heard time.Time
	Table        *dnsfallback.Table // nil before the first
	// Revision and Position of what the table is of.
	Revision uint64
	Position string
	Mode     answers.Mode
	ModeWhy  string
	Stale    string // why the answers are; empty while they are not
	Silent   bool   // so stale that none are given
	// Refused says why a newer table, or map, is not used; empty if none.
	Refused    string
	RefusedMap string
	Wrong      string // of the newest self-test
	Tested     bool   // there was one
}

// loaded are the maps of some files, and what was wrong with them.
type loaded struct {
	files    []dnsfallback.MapFile
	maps     *dnsfallback.Maps
	problems []dnsfallback.Problem
}

// run makes tables until ctx ends. alive is called at every turn.
func (k *keeper) run(ctx context.Context, alive func(), reload <-chan func()) {
	k.loaded = make(chan loaded, 1)
	changed, cancel := k.source.Watch()
	defer cancel()
	tick := time.NewTicker(k.beat)
	defer tick.Stop()
	maps := time.NewTicker(mapsEvery)
	defer maps.Stop()
	k.recall()
	var due <-chan time.Time
	last := time.Time{}
	soon := func() {
		if due == nil {
			due = time.After(max(0, gather-time.Since(last)))
		}
	}
	soon()
	for {
		alive()
		select {
		case <-ctx.Done():
			k.memory.finish(k.state, k.news)
			return
		case <-changed:
			soon()
		case <-due:
			due, last = nil, time.Now()
			k.hear()
			k.watch()
			k.renew()
		case f := <-reload:
			f()
			k.readMaps()
			soon()
		case <-maps.C:
			k.readMaps()
		case l := <-k.loaded:
			k.loading = false
			if k.take(l) {
				soon()
			}
			if !slices.Equal(l.files, k.files) { // another table came meanwhile
				k.readMaps()
			}
		case <-tick.C:
			if k.watch() {
				soon()
			}
		}
	}
}

// recall begins with what is remembered, if it is young enough to answer from.
func (k *keeper) recall() {
	was, ok := k.memory.recall()
	if !ok {
		return
	}
	k.version = was.Version
	age := time.Since(was.Heard)
	if age > k.node.DNS.Remember || k.node.DNS.Remember == 0 {
		k.log.Warn("what the server remembers is too old to answer from", "age", age.Round(time.Second), "remember", k.node.DNS.Remember)
		return
	}
	if err := k.follow(was.View.Table); err != nil {
		if was.Used == nil || k.follow(*was.Used) != nil {
			k.log.Warn("what the server remembers cannot be used", "err", err)
			return
		}
		k.refuse(refusal(was.View.Table, err))
	}
	k.state = was
	k.lostAt = time.Now().Add(-age)
	k.log.Info("answering from what is remembered until the fleet's state is heard", "age", age.Round(time.Second), "revision", was.View.Table.Revision)
}

// hear takes the newest committed state.
func (k *keeper) hear() {
	v := k.source.View()
	if v.Fence.Epoch == 0 {
		return
	}
	if k.placed == nil && v.Fence.Compare(k.state.View.Fence) < 0 {
		k.behind = fmt.Sprintf("the ledger is at %s, before %s that was answered from: an old leader, or a backup that was restored", v.Fence, k.state.View.Fence)
		k.refuse(k.behind)
		return
	}
	k.behind = ""
	if k.source.Lost() == nil {
		k.state.Heard = time.Now()
	}
	if v.Fence == k.state.View.Fence && k.policy != nil {
		return
	}
	if e := (edition{v.Fence.Epoch, v.Table.Revision}); e != k.edition || k.policy == nil {
		if err := k.follow(v.Table); err != nil {
			k.refuse(refusal(v.Table, err))
			if k.policy == nil {
				return
			}
			if k.state.Used == nil { // the one before was good
				k.state.Used = new(k.state.View.Table)
			}
		} else {
			k.refuse("")
			k.state.Used = nil
		}
		k.edition = e
	}
	k.state.View, k.news = v, true
}

// refuse notes why something newer is not used, and says it once.
func (k *keeper) refuse(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if text != "" && text != k.sheet.Refused {
		k.log.Error("the table of names is refused; the one before goes on answering", "why", text)
	}
	k.sheet.Refused = text
}

func refusal(t decide.Table, err error) string {
	return fmt.Sprintf("revision %d of the table is not answered from: %v", t.Revision, err)
}

// follow makes the policy of a committed table. Its error changes nothing.
func (k *keeper) follow(t decide.Table) error {
	fleet := k.placed
	if fleet == nil {
		f, err := placementOf(t)
		if err != nil {
			return err
		}
		fleet = &f
	}
	p, err := policyOf(t.Revision, *fleet)
	if err != nil {
		return err
	}
	k.mu.Lock()
	if k.policy, k.files = p, fleet.Maps; len(k.files) == 0 {
		k.maps = nil
	}
	k.mu.Unlock()
	k.readMaps()
	return nil
}

// placementOf reads the zones in the text of a committed table.
func placementOf(t decide.Table) (config.Fleet, error) {
	if t.Source == "" {
		return config.Fleet{}, errors.New("the ledger has no text for it; give fleet.yaml again")
	}
	fleet, ps := config.ParseTable("fleet.yaml", []byte(t.Source))
	return fleet, ps.Err()
}

func policyOf(revision uint64, fleet config.Fleet) (*dnsfallback.Policy, error) {
	if len(fleet.Zones) == 0 {
		return nil, errors.New("it has no zones")
	}
	p, ps := dnsfallback.NewPolicy(revision, fleet.Placement, rto.Known(fleet))
	if len(ps) > 0 {
		return nil, errors.New(ps[0].String())
	}
	return p, nil
}

// readMaps looks at the maps' files, beside the answering: a large one takes seconds.
func (k *keeper) readMaps() {
	k.mu.Lock()
	old, files := k.maps, k.files
	k.mu.Unlock()
	if k.loading || len(files) == 0 {
		return
	}
	k.loading = true
	go func() {
		maps, ps := dnsfallback.LoadMaps(old, files)
		k.loaded <- loaded{files, maps, ps}
	}()
}

// take puts maps that were read into use, and reports whether any is new.
func (k *keeper) take(l loaded) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	text := ""
	for _, p := range l.problems {
		text = p.String()
	}
	if text != "" && text != k.sheet.RefusedMap {
		k.log.Error("a map cannot be read; what was read of it before stays in use", "why", text)
	}
	k.sheet.RefusedMap = text
	if k.maps != nil && slices.Equal(k.maps.All(), l.maps.All()) {
		return false
	}
	k.maps = l.maps
	return true
}

// watch notes how long the ledger is silent, and reports whether the answers
// change by that, or by the clock.
func (k *keeper) watch() bool {
	now := time.Now()
	stale, lost := "", (*ledger.LostError)(nil)
	if err := k.source.Lost(); err != nil {
		stale = err.Error()
		lost, _ = errors.AsType[*ledger.LostError](err)
	}
	if k.source.View().Fence.Epoch == 0 && lost == nil {
		stale = "the fleet's state was not heard yet"
	}
	if stale == "" {
		stale = k.behind
	}
	switch {
	case stale == "":
		k.state.Heard = now
		if k.sheet.Stale == "" { // else it counts on until they are fresh
			k.lostAt = time.Time{}
		}
		if k.heardAt.IsZero() {
			k.heardAt = now
		}
	default:
		k.heardAt = time.Time{}
		if k.lostAt.IsZero() {
			k.lostAt = now
		}
		if lost != nil && now.Add(-lost.For).Before(k.lostAt) {
			k.lostAt = now.Add(-lost.For)
		}
	}
	if k.server != nil {
		if k.memory.keep(k.state, k.news) {
			k.news = false
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sheet.Heard = k.state.Heard
	was := k.sheet.Stale
	switch {
	case stale != "" && now.Sub(k.lostAt) >= k.node.DNS.StaleAfter:
		k.sheet.Stale = stale
	case stale == "" && now.Sub(k.heardAt) >= k.freshFor:
		k.sheet.Stale, k.lostAt = "", time.Time{}
	}
	if (was == "") != (k.sheet.Stale == "") {
		if was == "" {
			k.log.Error("the answers are stale: they are of the state that was heard last", "why", stale)
		} else {
			k.log.Info("the answers are fresh again")
		}
		return true
	}
	t := k.sheet.Table
	is := k.stand(now)
	return t == nil || is.Mode != k.sheet.Mode || is.Silent != k.sheet.Silent || !t.Until().IsZero() && !now.Before(t.Until())
}

// stand is the rung of the ladder that this server stands on.
func (k *keeper) stand(now time.Time) answers.Standing {
	news := answers.News{Stale: k.sheet.Stale}
	if !k.lostAt.IsZero() {
		news.For = now.Sub(k.lostAt)
	}
	return answers.Stand(&k.state.View, news, answers.Patience{Minimal: k.node.DNS.MinimalAfter, Silence: k.node.DNS.NoResponse})
}

// renew makes a table of what is known, and has it answered from.
func (k *keeper) renew() {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.policy == nil || len(k.files) > 0 && k.maps == nil {
		return // not everything is known yet
	}
	is := k.stand(now)
	k.version = max(k.version+1, uint64(now.UnixMilli()))
	t := k.policy.Table(k.version, k.maps, answers.StateIn(&k.state.View, now, is.Mode))
	if is.Silent {
		t = t.Muted()
	}
	if k.server == nil {
		s, err := k.serve(t)
		if err != nil {
			return // said there, and tried again
		}
		k.server = s
	} else if err := k.server.Set(t); err != nil {
		k.log.Error("the table of names is refused; the one before goes on answering", "why", err)
		return
	}
	k.state.Version = k.version
	k.sheet.Table, k.sheet.Since = t, now
	k.sheet.Mode, k.sheet.ModeWhy = is.Mode, is.Why
	if is.Silent != k.sheet.Silent {
		if k.sheet.Silent = is.Silent; is.Silent {
			k.log.Error("nothing is answered any more: the state is too old", "no_response", k.node.DNS.NoResponse, "why", k.sheet.Stale)
		} else {
			k.log.Info("questions are answered again")
		}
	}
	k.sheet.Revision, k.sheet.Position = k.state.inUse().Revision, k.state.View.Fence.String()
}

// replace puts other zones of a node's own file into force. They were judged.
func (k *keeper) replace(fleet *config.Fleet) {
	k.placed = fleet
	if err := k.follow(k.state.View.Table); err != nil {
		k.refuse(err.Error())
	}
}

// tested notes what the newest self-test found.
func (k *keeper) tested(wrong string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sheet.Wrong, k.sheet.Tested = wrong, true
}

// show is what the keeper knows now.
func (k *keeper) show() (sheet, *dnsfallback.Server, *dnsfallback.Maps) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sheet, k.server, k.maps
}

// at answers by another revision of the table, in the present state.
func (k *keeper) at(ctx context.Context, revision uint64) (*dnsfallback.Table, error) {
	t, err := k.source.Revision(ctx, revision)
	if err != nil {
		return nil, err
	}
	fleet, err := placementOf(t)
	if err != nil {
		return nil, err
	}
	p, err := policyOf(revision, fleet)
	if err != nil {
		return nil, fmt.Errorf("revision %d: %w", revision, err)
	}
	k.mu.Lock()
	maps, mode := k.maps, k.sheet.Mode
	k.mu.Unlock()
	if !slices.EqualFunc(fleet.Maps, maps.All(), func(f dnsfallback.MapFile, m *dnsfallback.Map) bool { return f == m.MapFile }) {
		loaded, ps := dnsfallback.LoadMaps(maps, fleet.Maps)
		if len(ps) > 0 {
			return nil, errors.New(ps[0].String())
		}
		maps = loaded
	}
	v := k.source.View()
	return p.Table(revision, maps, answers.StateIn(&v, time.Now(), mode)), nil
}
