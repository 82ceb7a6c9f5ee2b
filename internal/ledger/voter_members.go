package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Who votes is changed by people only, on a running voter, and never by waiting
// for enough of them to show up: two halves that each began a ledger would both
// give permits.

// changeTimeout bounds one step of a change of the set.
const changeTimeout = 10 * time.Second

// unsafe says what is wrong with a set of voters, nil if nothing.
func unsafe(set []Peer) error {
	switch n := len(set); {
	case n%2 == 0:
		return fmt.Errorf("%d voters survive no more losses than %d; allowed: 3, 5, 7", n, max(n-1, 1))
	case n < 3:
		return fmt.Errorf("%d voter survives no loss; allowed: 3, 5, 7", n)
	case n > 7:
		return fmt.Errorf("%d voters make every permit slower and survive no more than 7 need to; allowed: 3, 5, 7", n)
	}
	for i, p := range set {
		if p.Domain == "" {
			return fmt.Errorf("the failure domain of %s is not known; give it in ledger.peers of node.yaml", p.Node)
		}
		for _, q := range set[:i] {
			switch {
			case q.Node == p.Node:
				return fmt.Errorf("%s stands here twice", p.Node)
			case q.Address == p.Address:
				return fmt.Errorf("%s and %s have the same address %s", q.Node, p.Node, p.Address)
			case q.Domain == p.Domain:
				return fmt.Errorf("%s and %s share the failure domain %s: one event would take two votes; every voter needs its own", q.Node, p.Node, p.Domain)
			}
		}
	}
	return nil
}

// named are peers of node.yaml by their names.
func (v *Voter) named(nodes []string) ([]Peer, error) {
	var ps []Peer
	for _, n := range nodes {
		p, ok := v.opts.peer(n)
		if !ok {
			var known []string
			for _, q := range v.opts.Peers {
				known = append(known, q.Node)
			}
			return nil, fmt.Errorf("%s is not in ledger.peers of this node's node.yaml; known: %s", n, strings.Join(known, ", "))
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// ask asks another voter for its state.
func (v *Voter) ask(ctx context.Context, p Peer) (s State, err error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	err = v.link(p).call(ctx, pathState, nil, struct{}{}, &s)
	return s, err
}

// empty refuses a peer that holds anything of a ledger already, or does not say.
func (v *Voter) empty(ctx context.Context, p Peer) error {
	s := v.State()
	if p.Node != v.opts.Node {
		var err error
		if s, err = v.ask(ctx, p); err != nil {
			return fmt.Errorf("%s cannot be asked whether it holds a ledger already: %w", p.Node, err)
		}
	}
	if s.Rules < decide.RulesLevel {
		return fmt.Errorf("%s is of an older version (rules level %d, here %d); upgrade it first", p.Node, s.Rules, decide.RulesLevel)
	}
	if !s.Empty {
		return fmt.Errorf("%s holds a ledger already (term %d, %d entries): nothing is begun over it. If that is to be given up, stop it and move its state away", p.Node, s.Term, s.LastIndex)
	}
	return nil
}

// Init begins the fleet's ledger, once: with the voters of node.yaml, none of
// whom may hold anything yet, and table as its first policy. With operators it
// takes orders by their signature only; the first of them must be an admin.
func (v *Voter) Init(ctx context.Context, table decide.Table, actor, reason string, operators ...steadycast.Operator) error {
	v.changing.Lock()
	defer v.changing.Unlock()
	table = table.WithDefaults()
	if table.Revision == 0 {
		table.Revision = 1
	}
	charter := decide.Charter{Fleet: v.opts.Fleet, Operators: operators}
	first := decide.Entry{Kind: decide.KindGenesis, Schema: decide.Schema, Rules: decide.RulesLevel, Epoch: 1, Table: &table, Charter: &charter}
	if r, err := decide.NewFleet().Try(first); err != nil || r.Invalid != "" { // before anything is set up for it
		return cmp.Or(err, error(Invalid(r.Invalid)))
	}
	if s := v.State(); s.Empty {
		if err := unsafe(v.opts.Peers); err != nil {
			return err
		}
		for _, p := range v.opts.Peers {
			if err := v.empty(ctx, p); err != nil {
				return err
			}
		}
		var c raft.Configuration
		for _, p := range v.opts.Peers {
			c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(p.Node), Address: raft.ServerAddress(p.Address)})
		}
		if err := v.raft.BootstrapCluster(c).Error(); err != nil {
			return fmt.Errorf("the ledger cannot begin: %w", err)
		}
	} else if s.Fence.Epoch > 0 {
		return fmt.Errorf("%s holds a ledger already, at %s: it has begun and is not begun again", s.Node, s.Fence)
	}
	return v.genesis(ctx, table, charter, actor, reason)
}

// genesis writes the first entry, as soon as this voter leads. When another was
// elected in between, that one is asked to hand over.
func (v *Voter) genesis(ctx context.Context, table decide.Table, charter decide.Charter, actor, reason string) error {
	for {
		r := v.call(ctx, op{entry: func(l *leader, now time.Duration) decide.Entry {
			e := l.entry(now, decide.KindGenesis)
			e.Actor, e.Reason, e.Table = actor, reason, &table
			e.Charter = &charter
			return e
		}})
		not, wait := errors.AsType[*NotLeader](r.err)
		switch {
		case !wait:
			return r.err
		case not.Leader.Node != "":
			return fmt.Errorf("the voters are set up and %s leads: give it the first policy there, with the same command", not.Leader.Node)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the voters are set up, but none was elected in time (%w): run the same command again", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Join takes nodes in as voters, and replaced ones out, in one change: the set
// that comes of it must be a safe one. It must be asked of the leader.
func (v *Voter) Join(ctx context.Context, nodes, replaced []string) error {
	return v.change(ctx, nodes, replaced)
}

// Leave takes nodes out. It must be asked of the leader.
func (v *Voter) Leave(ctx context.Context, nodes []string) error { return v.change(ctx, nil, nodes) }

// change goes from one set of voters to another. First everyone who joins learns
// the log without a vote; then they get it, one by one; then those who leave
// lose it, this leader last. Each step names the one before it, so that two
// people who change the set at once do not mix. What a broken change leaves
// behind is finished by asking for it again.
func (v *Voter) change(ctx context.Context, in, out []string) error {
	v.changing.Lock()
	defer v.changing.Unlock()
	if v.raft.State() != raft.Leader {
		return v.notLeader()
	}
	f := v.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return err
	}
	servers, index := f.Configuration().Servers, f.Index()
	joining, err := v.named(in)
	if err != nil {
		return err
	}
	if err := v.safeAfter(servers, joining, out); err != nil {
		return err
	}
	for _, p := range joining {
		if at, known := serverAt(servers, p.Node); known {
			if string(servers[at].Address) != p.Address {
				return fmt.Errorf("%s votes already, at %s and not at %s: take it out first", p.Node, servers[at].Address, p.Address)
			}
			continue
		}
		if err := v.empty(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range joining {
		id, address := raft.ServerID(p.Node), raft.ServerAddress(p.Address)
		if err := v.admit(p.Node); err != nil {
			return err
		}
		if _, known := serverAt(servers, p.Node); !known {
			if index, err = step(v.raft.AddNonvoter(id, address, index, changeTimeout)); err != nil {
				return fmt.Errorf("%s cannot be taken in: %w", p.Node, err)
			}
		}
		if err := v.caughtUp(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range joining {
		if index, err = step(v.raft.AddVoter(raft.ServerID(p.Node), raft.ServerAddress(p.Address), index, changeTimeout)); err != nil {
			return fmt.Errorf("%s cannot be given a vote: %w", p.Node, err)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return last(a == v.opts.Node) - last(b == v.opts.Node) })
	for _, n := range out {
		if _, known := serverAt(servers, n); !known {
			continue
		}
		if index, err = step(v.raft.RemoveServer(raft.ServerID(n), index, changeTimeout)); err != nil {
			return fmt.Errorf("%s cannot be taken out: %w", n, err)
		}
	}
	return nil
}

func last(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// step waits for one change of the configuration and gives its index.
func step(f raft.IndexFuture) (uint64, error) {
	if err := f.Error(); err != nil {
		return 0, err
	}
	return f.Index(), nil
}

func serverAt(servers []raft.Server, node string) (int, bool) {
	i := slices.IndexFunc(servers, func(s raft.Server) bool { return string(s.ID) == node })
	return i, i >= 0
}

// safeAfter refuses a change that would not end in a safe set.
func (v *Voter) safeAfter(servers []raft.Server, joining []Peer, out []string) error {
	set := slices.Clone(joining)
	for _, s := range servers {
		node := string(s.ID)
		if slices.Contains(out, node) || slices.ContainsFunc(set, func(p Peer) bool { return p.Node == node }) {
			continue
		}
		p := Peer{Node: node, Address: string(s.Address)}
		if known, ok := v.opts.peer(node); ok {
			p.Domain = known.Domain
		}
		set = append(set, p)
	}
	for _, n := range out {
		if _, known := serverAt(servers, n); !known && len(joining) == 0 {
			return fmt.Errorf("%s is no voter", n)
		}
	}
	if err := unsafe(set); err != nil {
		return fmt.Errorf("the set after it would not be safe: %w", err)
	}
	return nil
}

// caughtUp waits until a newcomer has what is committed now.
func (v *Voter) caughtUp(ctx context.Context, p Peer) error {
	want := v.raft.CommitIndex()
	for {
		s, err := v.ask(ctx, p)
		if err == nil && s.Applied >= want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not catch up (%w); it has no vote yet, and the same command goes on with it", p.Node, ctx.Err())
		case <-v.quit:
			return ErrClosed
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Survey is how all voters are, as one of them sees it.
type Survey struct {
	// From is who asked.
	From   string        `json:"from"`
	Voters []SurveyState `json:"voters"`
	// Problem says what is unsafe in the set as it is; empty if nothing.
	Problem string `json:"problem,omitempty"`
}

// SurveyState is what one voter answered, or why it did not.
type SurveyState struct {
	Member
	State *State `json:"state,omitempty"`
	Error string `json:"error,omitempty"`
	// RTTMicros is how long the answer took, in microseconds; 0 for the asker itself.
	RTTMicros int64 `json:"rtt_us,omitempty"`
}

// Survey asks all voters, and those that node.yaml expects to vote.
func (v *Voter) Survey(ctx context.Context) Survey {
	s := Survey{From: v.opts.Node}
	for _, m := range v.Members() {
		s.Voters = append(s.Voters, SurveyState{Member: m})
	}
	if len(s.Voters) > 0 {
		var set []Peer
		for _, m := range s.Voters {
			if m.Voter {
				set = append(set, m.Peer)
			}
		}
		if err := unsafe(set); err != nil {
			s.Problem = err.Error()
		}
	}
	for _, p := range v.opts.Peers {
		if !slices.ContainsFunc(s.Voters, func(x SurveyState) bool { return x.Node == p.Node }) {
			s.Voters = append(s.Voters, SurveyState{Member: Member{Peer: p}})
		}
	}
	var asked sync.WaitGroup
	for i := range s.Voters {
		x := &s.Voters[i]
		if x.Node == v.opts.Node {
			own := v.hashed()
			x.State = &own
			continue
		}
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, changeTimeout/2)
			defer cancel()
			began := v.clock.now()
			state, err := v.ask(ctx, x.Peer)
			if err != nil {
				x.Error = err.Error()
				return
			}
			x.State, x.RTTMicros = &state, (v.clock.now() - began).Microseconds()
		})
	}
	asked.Wait()
	return s
}
