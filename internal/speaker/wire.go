package speaker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/steadycast/steadycast"
)

// The protocol: frames of one JSON object and a newline over a unix socket.
// The client's first frame is a hello; then it asks, and each question gets one
// answer with its number, in any order. Unasked, the server pushes what changed.

// maxFrame bounds a frame in octets: about 100,000 routes.
const maxFrame = 32 << 20

// protocol is the version both sides must speak.
const protocol = 1

// question is a frame from the client.
type question struct {
	ID uint64 `json:"id"`
	// Do is hello, ping, apply, intent, plan, reload, clear or stop.
	Do       string               `json:"do"`
	Protocol int                  `json:"protocol,omitempty"` // hello
	Watch    bool                 `json:"watch,omitempty"`    // hello: not an agent
	Set      *steadycast.RouteSet `json:"set,omitempty"`      // apply
	Clear    Clearance            `json:"clear,omitempty"`
	Reason   StopReason           `json:"reason,omitempty"` // stop
}

// frame is a frame from the server: an answer if ID is given, else a push.
type frame struct {
	ID     uint64   `json:"id,omitempty"`
	Error  *Refused `json:"error,omitempty"`
	Intent *Intent  `json:"intent,omitempty"`
	Plan   *Plan    `json:"plan,omitempty"`
	Push   *push    `json:"push,omitempty"`
}

// push is a new snapshot, told as the difference to the last one: Sent has the
// new and changed rows only, unless Whole.
type push struct {
	Actual steadycast.Actual `json:"actual"`
	Whole  bool              `json:"whole,omitempty"`
	Gone   []sentKey         `json:"gone,omitempty"`
}

type sentKey struct {
	Peer   string       `json:"peer"`
	Prefix netip.Prefix `json:"prefix"`
}

// difference makes the push that takes a client from one snapshot to the next.
func difference(from *steadycast.Actual, to steadycast.Actual) push {
	if from == nil {
		return push{Actual: to, Whole: true}
	}
	old := make(map[sentKey]steadycast.Sent, len(from.Sent))
	for _, r := range from.Sent {
		old[sentKey{r.Peer, r.Prefix}] = r
	}
	p := push{Actual: to}
	p.Actual.Sent = nil
	for _, r := range to.Sent {
		k := sentKey{r.Peer, r.Prefix}
		// Whatever left on the wire has its own time, with which its attributes
		// change; acknowledgement and staleness come later.
		if o, ok := old[k]; !ok || !o.At.Equal(r.At) || !o.Acked.Equal(r.Acked) || o.Announced != r.Announced || o.Stale != r.Stale {
			p.Actual.Sent = append(p.Actual.Sent, r)
		}
		delete(old, k)
	}
	for _, r := range from.Sent {
		k := sentKey{r.Peer, r.Prefix}
		if _, gone := old[k]; gone {
			p.Gone = append(p.Gone, k)
		}
	}
	return p
}

// merge is the inverse of difference. Rows keep their order: first those that
// stay, where they were, then new ones; with a new peer or prefix the whole is
// sorted as Actual promises by order.
func merge(from *steadycast.Actual, p push) (steadycast.Actual, error) {
	if p.Whole {
		return p.Actual, nil
	}
	if from == nil {
		return steadycast.Actual{}, errors.New("a difference came before the whole")
	}
	rows := make(map[sentKey]steadycast.Sent, len(from.Sent)+len(p.Actual.Sent))
	for _, r := range from.Sent {
		rows[sentKey{r.Peer, r.Prefix}] = r
	}
	for _, k := range p.Gone {
		delete(rows, k)
	}
	for _, r := range p.Actual.Sent {
		rows[sentKey{r.Peer, r.Prefix}] = r
	}
	to := p.Actual
	to.Sent = inOrder(rows, to.Peers)
	return to, nil
}

// readFrame reads one frame into v. The error of a frame that is too long or no
// JSON ends the connection: what follows cannot be trusted.
func readFrame(r *bufio.Reader, v any) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxFrame {
			return fmt.Errorf("a frame of more than %d octets", maxFrame)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if len(line) > 0 && errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("not a frame: %w", err)
	}
	return nil
}

func writeFrame(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
