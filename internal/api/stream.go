package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// KindGap is the kind of a line that is no event: it says how many events a
// stream could not show, because they had left the ring.
const KindGap steadycast.EventKind = "gap"

// events answers GET /v1/events: JSON lines, or server-sent events when the
// caller accepts text/event-stream. With follow=true it goes on until either
// side leaves. A reader that does not read for ten seconds is let go; it may
// come back with Last-Event-ID.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "after", "follow", "site", "kind")
	if err != nil {
		fail(w, err)
		return
	}
	if site := q.Get("site"); site != "" {
		if err := s.snapshot().checkScope(site); err != nil {
			fail(w, err)
			return
		}
	}
	if kind := q.Get("kind"); kind != "" {
		var kinds []string
		for _, k := range steadycast.EventKinds() {
			kinds = append(kinds, string(k))
		}
		if !slices.Contains(kinds, kind) {
			fail(w, usage("kind: %q; allowed: %s", kind, strings.Join(kinds, ", ")))
			return
		}
	}
	follow := q.Get("follow")
	if follow != "" && follow != "true" && follow != "false" {
		fail(w, usage("follow: %q; allowed: true, false", follow))
		return
	}
	started := s.backend.Snapshot().Started.UnixMilli()
	after, err := position(q.Get("after"), r.Header.Get("Last-Event-ID"), started)
	if err != nil {
		fail(w, err)
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		fail(w, &Error{Code: CodeBusy, Message: fmt.Sprintf("%d streams are open already", maxStreams), Next: "close one"})
		return
	}

	out := stream{w: w, c: http.NewResponseController(w), started: started, patience: s.limits.write, sse: strings.Contains(r.Header.Get("Accept"), "text/event-stream")}
	// Otherwise the server's read timeout would end a long stream.
	out.c.SetReadDeadline(time.Time{})
	out.head()
	beat := time.NewTicker(s.limits.beat)
	defer beat.Stop()
	for {
		batch, more := s.backend.Events(after)
		if len(batch) > 0 {
			if missed := batch[0].ID - after - 1; after > 0 && batch[0].ID > after && missed > 0 {
				out.put(steadycast.Event{Kind: KindGap, Reason: fmt.Sprintf("%d events could not be shown", missed)})
			}
			for _, e := range batch {
				if (q.Get("site") == "" || e.Site == q.Get("site")) && (q.Get("kind") == "" || string(e.Kind) == q.Get("kind")) {
					out.put(e)
				}
			}
			after = batch[len(batch)-1].ID
		}
		if out.flush() != nil || follow != "true" {
			return
		}
		select {
		case <-more:
		case <-beat.C:
			out.beat()
		case <-r.Context().Done():
			return
		}
	}
}

// startedHeader tells a reader which start of the daemon its ids are of.
const startedHeader = "Steadycast-Started"

// cursor is a place in the events of one start of the daemon: ids begin anew
// with each start, so a place of another start is no place in this one.
func cursor(started int64, id uint64) string { return fmt.Sprintf("%d-%d", started, id) }

// position is where a stream begins, by an id or a cursor; Last-Event-ID, which
// a browser sends when it comes back, goes before the query.
func position(after, last string, started int64) (uint64, error) {
	text := after
	if last != "" {
		text = last
	}
	if text == "" {
		return 0, nil
	}
	of, id, ok := strings.Cut(text, "-")
	if !ok {
		of, id = "", text
	}
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0, usage("after: %q is not an event's id", text)
	}
	if ok && of != strconv.FormatInt(started, 10) {
		return 0, nil
	}
	return n, nil
}

// stream writes events in one of two forms; the first error ends it.
type stream struct {
	w   http.ResponseWriter
	c   *http.ResponseController
	sse bool
	// started is the start of the daemon that ids are of.
	started int64
	// patience is how long one write may wait for the reader.
	patience time.Duration
	err      error
}

func (o *stream) head() {
	kind := "application/jsonl"
	if o.sse {
		kind = "text/event-stream"
	}
	o.w.Header().Set("Content-Type", kind)
	o.w.Header().Set("Cache-Control", "no-store")
	o.w.Header().Set(startedHeader, strconv.FormatInt(o.started, 10))
	o.w.WriteHeader(http.StatusOK)
}

func (o *stream) put(e steadycast.Event) {
	b, err := json.Marshal(e)
	if err != nil {
		return
	}
	switch {
	case !o.sse:
		o.write("%s\n", b)
	case e.ID == 0:
		o.write("event: %s\ndata: %s\n\n", e.Kind, b)
	default:
		o.write("id: %s\nevent: %s\ndata: %s\n\n", cursor(o.started, e.ID), e.Kind, b)
	}
}

func (o *stream) beat() {
	if o.sse {
		o.write(": still here\n\n")
	}
}

func (o *stream) write(format string, args ...any) {
	if o.err == nil {
		o.c.SetWriteDeadline(time.Now().Add(o.patience))
		_, o.err = fmt.Fprintf(o.w, format, args...)
	}
}

func (o *stream) flush() error {
	if o.err == nil {
		o.c.SetWriteDeadline(time.Now().Add(o.patience))
		o.err = o.c.Flush()
	}
	return o.err
}
