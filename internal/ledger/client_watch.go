package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/steadycast/steadycast"
)

const (
	// streamSilence ends a stream on which not even a sign of life comes.
	streamSilence = 3 * aliveEvery
	// streamPause is the pause before another stream, and its longest.
	streamPause     = 100 * time.Millisecond
	streamPauseMost = 2 * time.Second
	// behindFor is how long no voter may be up to date before that is said.
	behindFor = 3 * time.Second
)

// follow keeps one stream of committed state open, to one voter or another.
func (c *Client) follow() {
	at, pause := rand.N(len(c.links)), streamPause
	for {
		began := c.clock.now()
		err := c.stream(c.links[at])
		if c.ctx.Err() != nil {
			return
		}
		c.log.Debug("the stream of the ledger ended; another voter is asked", "voter", c.links[at].peer.Node, "why", err)
		if c.clock.now()-began > streamSilence {
			pause = streamPause
		}
		at = (at + 1) % len(c.links)
		wait := time.NewTimer(pause/2 + rand.N(pause))
		pause = min(2*pause, streamPauseMost)
		select {
		case <-c.ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
}

// stream reads from one voter until the stream breaks or says what cannot be.
func (c *Client) stream(l *link) error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	quiet := time.AfterFunc(streamSilence, cancel)
	defer quiet.Stop()
	body, err := json.Marshal(c.View().Fence)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+l.peer.Address+pathWatch, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := l.http.Do(req)
	if err != nil {
		return short(err)
	}
	defer res.Body.Close()
	if err := l.judge(res); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
		return l.refusal(res.StatusCode, b)
	}
	lines := bufio.NewReader(&feeding{res.Body, quiet})
	for {
		b, err := readLine(lines)
		if err != nil {
			return err
		}
		if err := l.judge(res); err != nil { // one line a second at least
			return err
		}
		var r report
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("%s says what this version does not understand: %w", l.peer.Node, err)
		}
		if err := c.take(r, l.peer.Node); err != nil {
			// A voter that follows may be an entry behind the one that was heard before;
			// what lasts is worth a person's look.
			level := slog.LevelWarn
			if c.silent() < behindFor {
				level = slog.LevelDebug
			}
			c.log.Log(ctx, level, "what a voter says of the ledger is refused", "voter", l.peer.Node, "why", err)
			return err
		}
		c.hear()
	}
}

// readLine reads one line without keeping the room for it: the first of a stream is a
// whole view, of some megabytes in a large fleet, and all others are short.
func readLine(r *bufio.Reader) ([]byte, error) {
	var b []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(b)+len(part) > maxReply {
			return nil, fmt.Errorf("a line of more than %d bytes", maxReply)
		}
		switch {
		case err == nil:
			return append(b, part[:len(part)-1]...), nil
		case errors.Is(err, bufio.ErrBufferFull):
			b = append(b, part...)
		case errors.Is(err, io.EOF) && len(b)+len(part) == 0:
			return nil, errors.New("the stream ended")
		default:
			return nil, err
		}
	}
}

// feeding is a stream of which every octet is a sign of life: a whole view is one
// line of some megabytes, which a thin or busy link may need longer for than
// silence may last.
type feeding struct {
	from  io.Reader
	quiet *time.Timer
}

func (f *feeding) Read(b []byte) (int, error) {
	n, err := f.from.Read(b)
	if n > 0 {
		f.quiet.Reset(streamSilence)
	}
	return n, err
}

// take makes the next view of what a voter says, or refuses it.
func (c *Client) take(r report, from string) error {
	if i := c.index(r.Leader); i >= 0 {
		c.lead.Store(int32(i))
	}
	have := c.view.Load()
	next := r.Full
	switch {
	case r.Delta != nil:
		if r.From != have.Fence {
			return fmt.Errorf("it goes on from %s, and %s is known", r.From, have.Fence)
		}
		v, err := r.Delta.follow(have)
		if err != nil {
			return err
		}
		next = &v
	case next == nil:
		c.skewed.Store(&r.Skewed)
		return nil
	}
	if next.Fence.Compare(have.Fence) < 0 {
		return fmt.Errorf("%s is at %s, before %s that was seen: an old leader, or a backup that was restored. What was seen last stays in force", from, next.Fence, have.Fence)
	}
	c.view.Store(next)
	c.movedMu.Lock()
	close(c.moved)
	c.moved = make(chan struct{})
	c.movedMu.Unlock()
	select {
	case c.dirty <- struct{}{}:
	default:
	}
	c.watch.tell(r.Events)
	return nil
}

// reach waits until View is at a position or past it, for a second at most.
func (c *Client) reach(ctx context.Context, at steadycast.Fence) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		c.movedMu.Lock()
		moved := c.moved
		c.movedMu.Unlock()
		if c.View().Fence.Compare(at) >= 0 {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}
