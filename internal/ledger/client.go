package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// lostAfterSilence is how long no voter may be heard before the ledger counts as
// lost. An election takes two to four seconds and is no loss.
const lostAfterSilence = 15 * time.Second

// ClientOptions say whose client it is and where the voters are.
type ClientOptions struct {
	// Fleet, Site and Node are this node's, as its certificate has them.
	Fleet, Site, Node string
	Voters            []Peer
	TLS               TLS
	// MaxRTT is the greatest round trip to a voter; default 100ms. A voter that
	// does not answer in ten times that (at least a second) is passed over.
	MaxRTT time.Duration
	// Cache is a file for the last view, so that a node that starts without a
	// ledger knows what was decided, and nobody shows it an older one. Default
	// none.
	Cache string
	// Log gets what people must know; default slog.Default().
	Log *slog.Logger
	// Dial opens the connections to voters; default plain TCP.
	Dial Dialer
}

// Client is the [Ledger] of a node: it asks the voters, whichever answers, and
// follows what they commit.
//
// A call goes to the voter that led last and round the others from there, until
// one answers or the call's context ends; requests, reports and statements are
// sent again safely. The stream of committed state comes from any voter that is
// up to date. It only ever goes forward: a position lower than one seen before,
// of an old leader or a restored backup, is refused.
//
// Its goroutines are follow (the stream), keep (the cache) and one that beats
// for each voter. View is replaced by follow alone.
type Client struct {
	opts  ClientOptions
	log   *slog.Logger
	clock clock
	links []*link
	view  atomic.Pointer[decide.View]
	watch watchers
	// lead is the index of the voter that led when it was last known.
	lead atomic.Int32
	// heard is when a voter was last heard, on clock.
	heard atomic.Int64
	// skewed is what a voter said last of nodes that act on another table.
	skewed atomic.Pointer[[]Skewed]
	// moved wakes those who wait for a position, each a closed channel.
	movedMu sync.Mutex
	moved   chan struct{}
	beats   []*beater
	dirty   chan struct{}
	ctx     context.Context // of all goroutines
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
}

var _ Ledger = (*Client)(nil)

// OpenClient starts a client. It reads what the cache has and does not wait for
// any voter.
func OpenClient(opts ClientOptions) (*Client, error) {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Dial == nil {
		opts.Dial = dialTCP
	}
	if opts.MaxRTT == 0 {
		opts.MaxRTT = 100 * time.Millisecond
	}
	if len(opts.Voters) == 0 {
		return nil, fmt.Errorf("no voter is named in ledger.peers")
	}
	c := &Client{opts: opts, log: opts.Log, clock: newClock(), moved: make(chan struct{}), dirty: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	first := c.load()
	c.view.Store(&first)
	for _, p := range opts.Voters {
		l := newLink(opts.Fleet, opts.TLS, p, opts.Dial)
		c.links = append(c.links, l)
		b := &beater{link: l, wake: make(chan struct{}, 1), patience: c.patience()}
		c.beats = append(c.beats, b)
		c.tasks.Go(func() { b.run(c.ctx) })
	}
	c.tasks.Go(c.follow)
	c.tasks.Go(c.keep)
	return c, nil
}

// Close ends the client; calls that wait end with it.
func (c *Client) Close() error {
	c.cancel()
	c.tasks.Wait()
	for _, l := range c.links {
		l.close()
	}
	return nil
}

// patience is how long one voter may take to answer.
func (c *Client) patience() time.Duration { return max(time.Second, 10*c.opts.MaxRTT) }

// View returns the newest committed state that was heard of.
func (c *Client) View() decide.View { return *c.view.Load() }

// Watch signals that View has changed.
func (c *Client) Watch() (<-chan struct{}, func()) { return c.watch.add() }

// Skewed are the nodes that act on another table than the one in force, as the
// voter that is followed hears them; nil while none is heard.
func (c *Client) Skewed() []Skewed {
	if s := c.skewed.Load(); s != nil && c.Lost() == nil {
		return *s
	}
	return nil
}

// OnEvents calls f with the events of each entry. Those of entries during which
// no voter was heard for long are missing.
func (c *Client) OnEvents(f func([]steadycast.Event)) func() { return c.watch.on(f) }

// Lost says why the ledger counts as lost, and since when; nil while it does not.
func (c *Client) Lost() error {
	if silent := c.silent(); silent > lostAfterSilence {
		return &LostError{For: silent}
	}
	return nil
}

func (c *Client) silent() time.Duration { return c.clock.now() - time.Duration(c.heard.Load()) }

func (c *Client) hear() { c.heard.Store(int64(c.clock.now())) }

// LostError says that no voter was heard for so long that the ledger is lost:
// nothing changes until one is heard again.
type LostError struct {
	For  time.Duration
	Last error // of the last try, if any
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("no voter of the ledger was heard for %s", e.For.Truncate(time.Second))
	if e.Last != nil {
		text += ": " + e.Last.Error()
	}
	return text
}

func (e *LostError) Unwrap() error { return e.Last }

// Beat sends what the site announces to every voter, so that whoever is elected
// next knows it already.
func (c *Client) Beat(b decide.Beat) {
	for _, x := range c.beats {
		x.put(b)
	}
}

// beater carries beats to one voter: the newest, one at a time. Each echoes the
// nonce of the voter that was known when it was made, and counts as old as that;
// the first to a voter's process echoes none, and only brings one.
type beater struct {
	link     *link
	patience time.Duration
	wake     chan struct{}

	mu    sync.Mutex
	next  beatCall
	nonce string
}

func (x *beater) put(b decide.Beat) {
	x.mu.Lock()
	x.next = beatCall{b, x.nonce}
	x.mu.Unlock()
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

func (x *beater) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.wake:
		}
		x.mu.Lock()
		b := x.next
		x.mu.Unlock()
		call, cancel := context.WithTimeout(ctx, x.patience)
		var r beatReply
		err := x.link.call(call, pathBeat, nil, b, &r)
		cancel()
		if err == nil { // else the next one is due in a second
			x.mu.Lock()
			x.nonce = r.Nonce
			x.mu.Unlock()
		}
	}
}

// Report tells that services changed state.
func (c *Client) Report(ctx context.Context, verdicts []steadycast.Verdict) error {
	if len(verdicts) == 0 {
		return nil
	}
	return c.call(ctx, again, pathReport, reportCall{verdicts}, nil)
}

// Ask asks for leave to change routes.
func (c *Client) Ask(ctx context.Context, request steadycast.Request, reported ...steadycast.Verdict) (a decide.Answer, err error) {
	err = c.call(ctx, again, pathAsk, askCall{request, reported}, &a)
	return a, err
}

// GiveUp voids what will never be carried out.
func (c *Client) GiveUp(ctx context.Context, site string, id steadycast.RequestID, units []steadycast.Unit) error {
	return c.call(ctx, again, pathGiveUp, giveUpCall{site, id, units}, nil)
}

// Order records a person's wish.
func (c *Client) Order(ctx context.Context, order steadycast.Order) (decide.Reply, error) {
	return c.person(ctx, once, pathOrder, orderCall{Order: order})
}

// Try says what Order would answer now.
func (c *Client) Try(ctx context.Context, order steadycast.Order) (decide.Reply, error) {
	return c.person(ctx, again, pathOrder, orderCall{order, true})
}

// Do records one of a person's plain entries.
func (c *Client) Do(ctx context.Context, kind decide.Kind, scope decide.Scope, actor, reason string) (decide.Reply, error) {
	return c.person(ctx, once, pathDo, doCall{kind, scope, actor, reason, false})
}

// TryDo says what Do would answer now.
func (c *Client) TryDo(ctx context.Context, kind decide.Kind, scope decide.Scope, actor, reason string) (decide.Reply, error) {
	return c.person(ctx, again, pathDo, doCall{kind, scope, actor, reason, true})
}

// SetTable replaces the policy.
func (c *Client) SetTable(ctx context.Context, table decide.Table, actor, reason string) (decide.Reply, error) {
	return c.person(ctx, again, pathTable, tableCall{table, actor, reason})
}

// Carry brings a person's signed wish to the log. It counts once, however often
// it comes, so it may be sent again.
func (c *Client) Carry(ctx context.Context, signed decide.Signed) (decide.Reply, error) {
	return c.person(ctx, again, pathCarry, signed)
}

// Ack says what this node makes of the table that is staged.
func (c *Client) Ack(ctx context.Context, ack decide.Ack) error {
	return c.call(ctx, again, pathAck, ack, nil)
}

// Revision gives the content of a table.
func (c *Client) Revision(ctx context.Context, revision uint64) (t decide.Table, err error) {
	err = c.call(ctx, again, pathRevision, revisionCall{revision}, &t)
	return t, err
}

// Seal proves who put the table into force that is.
func (c *Client) Seal(ctx context.Context) (s decide.Seal, err error) {
	err = c.call(ctx, again, pathSeal, struct{}{}, &s)
	return s, err
}

// Local tells what a person did at this node while it had no ledger.
func (c *Client) Local(ctx context.Context, order steadycast.Order) (decide.Reply, error) {
	return c.person(ctx, again, pathLocal, order)
}

// Guards says what every guard would answer now.
func (c *Client) Guards(ctx context.Context) (g []decide.Ruling, err error) {
	err = c.call(ctx, again, pathGuards, struct{}{}, &g)
	return g, err
}

// Sites says what was heard last of each site.
func (c *Client) Sites(ctx context.Context) (s []decide.SiteNow, err error) {
	err = c.call(ctx, again, pathSites, struct{}{}, &s)
	return s, err
}

// History is what the ledger remembers.
func (c *Client) History(ctx context.Context) (h []decide.Past, err error) {
	err = c.call(ctx, again, pathHistory, struct{}{}, &h)
	return h, err
}

// Enter records a wish that nobody signed.
func (c *Client) Enter(ctx context.Context, wish decide.Wish) (decide.Reply, error) {
	return c.person(ctx, once, pathEnter, wish)
}

// Rehearse says what would come of a wish.
func (c *Client) Rehearse(ctx context.Context, wish decide.Wish) (decide.Reply, error) {
	return c.person(ctx, again, pathTry, wish)
}

// person carries a person's call, and waits a moment until View shows what came
// of it.
func (c *Client) person(ctx context.Context, how resend, path string, in any) (r decide.Reply, err error) {
	if err := c.call(ctx, how, path, in, &r); err != nil {
		return r, err
	}
	c.reach(ctx, r.Fence)
	return r, nil
}

// Voters are the voters this client asks.
func (c *Client) Voters() []Peer { return slices.Clone(c.opts.Voters) }
