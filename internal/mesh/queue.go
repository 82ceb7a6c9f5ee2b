package mesh

import (
	"context"
	"io"
	"sync"
)

// depth is how many frames wait for one peer: at the pace of a large fleet some
// ten seconds of observations, which are too old by then.
const depth = 256

// queue holds frames for one peer. Anybody pushes; one goroutine takes. When it
// is full the oldest frame is dropped and counted: a newer one says more.
type queue struct {
	mu      sync.Mutex
	frames  [][]byte // guarded by mu; oldest first
	dropped uint64   // guarded by mu
	wake    chan struct{}
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) push(frame []byte) {
	q.mu.Lock()
	if len(q.frames) >= depth {
		q.frames = append(q.frames[:0], q.frames[1:]...)
		q.dropped++
	}
	q.frames = append(q.frames, frame)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for the oldest frame.
func (q *queue) take(ctx context.Context) ([]byte, error) {
	for {
		if f := q.poll(); f != nil {
			return f, nil
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// clear drops what waits for a stream that is over, and counts the observations in it.
func (q *queue) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range q.frames {
		if carries(f) {
			q.dropped++
		}
	}
	q.frames = nil
}

func (q *queue) state() (waiting int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.frames), q.dropped
}

// poll takes the oldest frame if there is one.
func (q *queue) poll() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.frames) == 0 {
		return nil
	}
	f := q.frames[0]
	q.frames[0] = nil
	if q.frames = q.frames[1:]; len(q.frames) == 0 {
		q.frames = nil
	}
	return f
}

// piece bounds what is written at once. The reader's buffers grow to the largest
// piece that they have seen and stay so: with a voter's three hundred callers
// that is most of its memory.
const piece = 4 << 10

// body is a queue as the body of a request. took is told of every frame. The
// transport closes it when the stream is over, which must end a Read that
// waits: until then nobody is told.
type body struct {
	ctx  context.Context
	stop context.CancelFunc
	q    *queue
	took func(frame []byte)
	rest []byte // of a frame that is partly read; the reader's goroutine owns it
}

func newBody(ctx context.Context, q *queue, took func([]byte)) *body {
	ctx, stop := context.WithCancel(ctx)
	return &body{ctx: ctx, stop: stop, q: q, took: took}
}

func (b *body) Close() error { b.stop(); return nil }

// Read waits for one frame, and takes along what else is there and has room.
func (b *body) Read(p []byte) (n int, err error) {
	p = p[:min(len(p), piece)]
	if len(b.rest) == 0 {
		if b.rest, err = b.q.take(b.ctx); err != nil {
			return 0, io.EOF
		}
		b.took(b.rest)
	}
	for {
		k := copy(p[n:], b.rest)
		n, b.rest = n+k, b.rest[k:]
		if len(b.rest) > 0 {
			return n, nil
		}
		if b.rest = b.q.poll(); b.rest == nil {
			return n, nil
		}
		b.took(b.rest)
	}
}
