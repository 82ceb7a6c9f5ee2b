package speaker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
)

// The pause before the next try to connect doubles from the first to the last,
// and is drawn between half and the whole of that.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 2 * time.Second
	// replacedPause is long: two agents of one node must not push each other out for ever.
	replacedPause = 30 * time.Second
	// A speaker that does not answer for silence is as good as gone, though its
	// socket stands: it may be stopped or hang.
	pingEvery = time.Second
	silence   = 5 * time.Second
)

// Client speaks to a speaker in another process and connects again by itself.
type Client struct {
	path   string
	o      Options
	cancel context.CancelFunc
	done   chan struct{}
	actual atomic.Pointer[steadycast.Actual]

	pingEvery, silence time.Duration

	mu    sync.Mutex
	link  *link // nil while there is none
	next  uint64
	asked map[uint64]chan frame // one frame fits; closed when the connection is lost
	why   error                 // why there is no connection
}

// link is one connection's way out. Its lock is not the client's: the reader
// must be able to hand out answers while a long frame is being written.
type link struct {
	mu   sync.Mutex
	conn net.Conn
}

func (l *link) write(q question) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(writePatience))
	err := writeFrame(l.conn, q)
	if err != nil {
		l.conn.Close() // half a frame may be out
	}
	return err
}

// Dial returns at once; connecting goes on by itself until Close.
func Dial(path string, o Options) *Client { return dialPatient(path, o, pingEvery, silence) }

func dialPatient(path string, o Options, pingEvery, silence time.Duration) *Client {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{path: path, o: o, cancel: cancel, done: make(chan struct{}), why: errors.New("not connected yet"),
		pingEvery: pingEvery, silence: silence}
	go c.run(ctx)
	return c
}

var _ Interface = (*Client)(nil)

// Close ends the connection. The speaker keeps what it was told.
func (c *Client) Close() error {
	c.cancel()
	<-c.done
	return nil
}

// Actual is the newest snapshot, false while the speaker cannot be reached.
func (c *Client) Actual() (steadycast.Actual, bool) {
	if a := c.actual.Load(); a != nil {
		return *a, true
	}
	return steadycast.Actual{}, false
}

func (c *Client) Apply(ctx context.Context, set steadycast.RouteSet) error {
	_, err := c.ask(ctx, question{Do: "apply", Set: &set})
	return err
}

func (c *Client) Intent(ctx context.Context) (Intent, error) {
	f, err := c.ask(ctx, question{Do: "intent"})
	if err != nil || f.Intent == nil {
		return Intent{}, err
	}
	return *f.Intent, nil
}

func (c *Client) Plan(ctx context.Context) (Plan, error) { return c.plan(ctx, "plan") }

func (c *Client) Reload(ctx context.Context) (Plan, error) { return c.plan(ctx, "reload") }

func (c *Client) plan(ctx context.Context, do string) (Plan, error) {
	f, err := c.ask(ctx, question{Do: do})
	if f.Plan == nil {
		return Plan{}, err
	}
	return *f.Plan, err
}

func (c *Client) Clear(ctx context.Context, what Clearance) error {
	_, err := c.ask(ctx, question{Do: "clear", Clear: what})
	return err
}

func (c *Client) Stop(ctx context.Context, reason StopReason) error {
	_, err := c.ask(ctx, question{Do: "stop", Reason: reason})
	return err
}

// ask sends a question and waits for its answer. Without a connection it fails
// at once, and with ErrLost when the connection ends first: whether a set was
// taken up is then seen in Actual after the next connect.
func (c *Client) ask(ctx context.Context, q question) (frame, error) {
	answer := make(chan frame, 1)
	c.mu.Lock()
	l, asked := c.link, c.asked
	if l == nil {
		err := fmt.Errorf("%w: %v", ErrLost, c.why)
		c.mu.Unlock()
		return frame{}, err
	}
	c.next++
	q.ID = c.next
	asked[q.ID] = answer
	c.mu.Unlock()
	if err := l.write(q); err != nil {
		return frame{}, fmt.Errorf("%w: %v", ErrLost, err)
	}
	select {
	case f, ok := <-answer:
		if !ok {
			return frame{}, fmt.Errorf("%w: the connection ended before the answer came", ErrLost)
		}
		if f.Error != nil {
			return f, f.Error
		}
		return f, nil
	case <-ctx.Done():
		c.mu.Lock()
		delete(asked, q.ID)
		c.mu.Unlock()
		return frame{}, ctx.Err()
	}
}

func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	pause := firstPause
	told := false // OnLost was called
	for {
		began := time.Now()
		err := c.session(ctx, func() { told = false })
		c.actual.Store(nil)
		if ctx.Err() != nil {
			return
		}
		if !told && c.o.OnLost != nil {
			c.o.OnLost(fmt.Errorf("%w: %w", ErrLost, err))
		}
		told = true
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		wait := pause/2 + rand.N(pause/2)
		if errors.Is(err, ErrReplaced) {
			wait = replacedPause
		}
		pause = min(2*pause, lastPause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// session is one connection, from connect to loss. heard is called with the first snapshot.
func (c *Client) session(ctx context.Context, heard func()) (err error) {
	d := net.Dialer{Timeout: writePatience}
	conn, err := d.DialContext(ctx, "unix", c.path)
	if err != nil {
		c.set(nil, err)
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	l := &link{conn: conn}
	if err := l.write(question{Do: "hello", Protocol: protocol, Watch: c.o.Watch}); err != nil {
		c.set(nil, err)
		return err
	}
	c.set(l, nil)
	defer func() { c.set(nil, err) }()
	var hangs atomic.Bool
	defer func() {
		if hangs.Load() {
			err = fmt.Errorf("it has not answered for %v", c.silence)
		}
	}()
	beat, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if c.listen(beat) {
			hangs.Store(true)
			conn.Close()
		}
	}()
	in := bufio.NewReaderSize(conn, 64<<10)
	for {
		var f frame
		if err := readFrame(in, &f); err != nil {
			return err
		}
		switch {
		case f.Push != nil:
			a, err := merge(c.actual.Load(), *f.Push)
			if err != nil {
				return err
			}
			c.actual.Store(&a)
			heard()
			if c.o.OnActual != nil {
				c.o.OnActual(a)
			}
		case f.ID != 0:
			c.mu.Lock()
			answer := c.asked[f.ID]
			delete(c.asked, f.ID)
			c.mu.Unlock()
			if answer != nil {
				answer <- f
			}
		case f.Error != nil:
			return f.Error
		}
	}
}

// listen asks for a sign of life until ctx ends, and reports whether none came in time.
func (c *Client) listen(ctx context.Context) bool {
	every := time.NewTicker(c.pingEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-every.C:
		}
		call, cancel := context.WithTimeout(ctx, c.silence)
		_, err := c.ask(call, question{Do: "ping"})
		late := call.Err() != nil && ctx.Err() == nil
		cancel()
		if err != nil {
			return late
		}
	}
}

// set changes the connection and lets go of those who wait on the old one.
func (c *Client) set(l *link, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, answer := range c.asked {
		close(answer)
	}
	c.link, c.why, c.asked = l, why, map[uint64]chan frame{}
}
