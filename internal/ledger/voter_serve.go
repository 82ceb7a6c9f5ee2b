package ledger

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

const (
	// serveTimeout bounds one call on the voter's side.
	serveTimeout = 10 * time.Second
	// maxCall bounds a call in bytes: a table is the largest.
	maxCall = decide.MaxEntry
	// watchersMost read at once; an agent has one stream.
	watchersMost = 1024
	// aliveEvery is how often a stream without news says so.
	aliveEvery = time.Second
	// pieceMost is how much of a report is written at once, in bytes.
	pieceMost = 64 << 10
	// passEvery is how often a call that waits looks for a new leader.
	passEvery = 20 * time.Millisecond
	// onBehalfOf names who a call came from that another voter passes on.
	onBehalfOf = "Steadycast-On-Behalf-Of"
)

// newServer is what agents, tools and other voters call.
func (v *Voter) newServer() *http.Server {
	mux := http.NewServeMux()
	serve(v, mux, pathAsk, func(ctx context.Context, who Identity, c askCall) (any, error) {
		if err := own(who, c.Request.Site); err != nil {
			return nil, err
		}
		if err := ownVerdicts(who, c.Reported); err != nil {
			return nil, err
		}
		if err := cmp.Or(ownNode(who, c.Request.ID.Node), start(c.Request.ID.Incarnation)); err != nil {
			return nil, err
		}
		return v.Ask(ctx, c.Request, c.Reported...)
	})
	serve(v, mux, pathReport, func(ctx context.Context, who Identity, c reportCall) (any, error) {
		if err := ownVerdicts(who, c.Verdicts); err != nil {
			return nil, err
		}
		return struct{}{}, v.Report(ctx, c.Verdicts)
	})
	serve(v, mux, pathGiveUp, func(ctx context.Context, who Identity, c giveUpCall) (any, error) {
		if err := own(who, c.Site); err != nil {
			return nil, err
		}
		if err := cmp.Or(ownUnits(who, c.Units), ownNode(who, c.ID.Node), start(c.ID.Incarnation)); err != nil {
			return nil, err
		}
		return struct{}{}, v.GiveUp(ctx, c.Site, c.ID, c.Units)
	})
	serve(v, mux, pathOrder, func(ctx context.Context, _ Identity, c orderCall) (any, error) {
		if c.Try {
			return v.Try(ctx, c.Order)
		}
		return v.Order(ctx, c.Order)
	})
	serve(v, mux, pathDo, func(ctx context.Context, _ Identity, c doCall) (any, error) {
		if c.Try {
			return v.TryDo(ctx, c.Kind, c.Scope, c.Actor, c.Reason)
		}
		return v.Do(ctx, c.Kind, c.Scope, c.Actor, c.Reason)
	})
	serve(v, mux, pathTable, func(ctx context.Context, _ Identity, c tableCall) (any, error) {
		return v.SetTable(ctx, c.Table, c.Actor, c.Reason)
	})
	serve(v, mux, pathCarry, func(ctx context.Context, _ Identity, s decide.Signed) (any, error) { return v.Carry(ctx, s) })
	serve(v, mux, pathAck, func(ctx context.Context, who Identity, k decide.Ack) (any, error) {
		if err := own(who, k.Site); err != nil {
			return nil, err
		}
		if k.Node == "" {
			return nil, Invalid("an acknowledgement names its node")
		}
		if err := ownNode(who, k.Node); err != nil {
			return nil, err
		}
		return struct{}{}, v.Ack(ctx, k)
	})
	serve(v, mux, pathStep, func(ctx context.Context, who Identity, w decide.StepWord) (any, error) {
		if err := ownStep(who, w); err != nil {
			return nil, err
		}
		return v.Step(ctx, w)
	})
	serve(v, mux, pathRevision, func(ctx context.Context, _ Identity, c revisionCall) (any, error) {
		return v.Revision(ctx, c.Revision)
	})
	serve(v, mux, pathSeal, func(ctx context.Context, _ Identity, _ struct{}) (any, error) { return v.Seal(ctx) })
	serve(v, mux, pathGuards, func(ctx context.Context, _ Identity, _ struct{}) (any, error) { return v.Guards(ctx) })
	serve(v, mux, pathSites, func(ctx context.Context, _ Identity, _ struct{}) (any, error) { return v.Sites(ctx) })
	serve(v, mux, pathHistory, func(ctx context.Context, _ Identity, _ struct{}) (any, error) { return v.History(ctx) })
	serve(v, mux, pathLocal, func(ctx context.Context, who Identity, o steadycast.Order) (any, error) {
		if err := cmp.Or(own(who, o.Site), ownNode(who, o.Node)); err != nil {
			return nil, err
		}
		o.Actor += " at " + who.Node // whoever it was, it was there
		return v.Local(ctx, o)
	})
	serve(v, mux, pathEnter, func(ctx context.Context, _ Identity, w decide.Wish) (any, error) { return v.Enter(ctx, w) })
	serve(v, mux, pathTry, func(ctx context.Context, _ Identity, w decide.Wish) (any, error) { return v.Rehearse(ctx, w) })
	serve(v, mux, pathBeat, func(_ context.Context, who Identity, c beatCall) (any, error) {
		if err := cmp.Or(ownBeat(who, c.Beat), ownNode(who, c.Beat.Node), ownNode(who, c.Beat.DeadThrough.Node), start(c.Beat.Incarnation), start(c.Beat.DeadThrough.Incarnation)); err != nil {
			return nil, err
		}
		age, ok := v.age(c.Nonce)
		if ok {
			v.Heard(c.Beat, age)
		}
		return beatReply{v.nonce(), ok}, nil
	})
	serve(v, mux, pathState, func(context.Context, Identity, struct{}) (any, error) { return v.hashed(), nil })
	mux.HandleFunc("POST "+pathWatch, v.serveWatch)
	var only http.Protocols
	only.SetHTTP2(true)
	return &http.Server{
		Handler: mux, Protocols: &only, TLSConfig: &tls.Config{NextProtos: []string{httpProtocol}},
		ReadHeaderTimeout: handshakeTimeout, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 16 << 10,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 64, SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
		ErrorLog: v.raftLog.StandardLogger(nil),
		ConnState: func(c net.Conn, s http.ConnState) {
			if t, ok := c.(*tls.Conn); ok && s == http.StateClosed {
				v.door.drop(t.NetConn())
			}
		},
	}
}

func (v *Voter) serveHTTP() { _ = v.web.Serve(v.door.http) } // ends with Close

// own: a node speaks for its own site only.
func own(who Identity, site string) error {
	if who.Site != site {
		return Forbidden(fmt.Sprintf("%s speaks for site %s, not for %s", who, who.Site, site))
	}
	return nil
}

// ownNode: what is of one node of a site is said by that node.
func ownNode(who Identity, node string) error {
	if node != "" && who.Node != node {
		return Forbidden(fmt.Sprintf("%s speaks for itself, not for node %s", who, node))
	}
	return nil
}

func ownVerdicts(who Identity, verdicts []steadycast.Verdict) error {
	for _, x := range verdicts {
		if err := own(who, x.Site); err != nil {
			return err
		}
	}
	return nil
}

func ownUnits(who Identity, units []steadycast.Unit) error {
	for _, u := range units {
		if err := own(who, u.Site); err != nil {
			return err
		}
	}
	return nil
}

// startsMost bounds how often a node may have started: once a second for a
// hundred years. A greater number would leave none for the starts to come.
const startsMost = 1 << 32

func start(n uint64) error {
	if n >= startsMost {
		return Invalid(fmt.Sprintf("start %d is more than a node can have; at most %d", n, uint64(startsMost)))
	}
	return nil
}

// ownBeat: neither the beat nor anything in it is of another site.
func ownBeat(who Identity, b decide.Beat) error {
	if err := own(who, b.Site); err != nil {
		return err
	}
	if b.Load != nil && b.Load.Site != "" {
		if err := own(who, b.Load.Site); err != nil {
			return err
		}
	}
	for _, r := range b.Returned {
		if err := own(who, r.Unit.Site); err != nil {
			return err
		}
	}
	return ownUnits(who, slices.Concat(b.Announcing, b.Unproven, b.Wanted, b.Left))
}

// serve answers one path.
func serve[In any](v *Voter, mux *http.ServeMux, path string, f func(context.Context, Identity, In) (any, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), serveTimeout)
		defer cancel()
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCall))
		var in In
		if err == nil {
			err = decodeCall(body, &in)
		}
		if err != nil {
			v.refuse(w, http.StatusBadRequest, answerError{Error: fmt.Sprintf("%s: %v", path, err), Kind: kindInvalid})
			return
		}
		who, passed, err := v.caller(r)
		var out any
		if err == nil {
			out, err = f(ctx, who, in)
		}
		for not := (*NotLeader)(nil); errors.As(err, &not) && !passed && ctx.Err() == nil; {
			if not.Leader.Node == "" {
				if !v.newLeader(ctx, Peer{}) {
					break
				}
			} else if out, err = v.pass(ctx, not.Leader, path, who, body); err == nil || !mayRepeat(any(in), err) {
				break
			} else if !v.newLeader(ctx, not.Leader) {
				break
			}
			out, err = f(ctx, who, in)
		}
		if err != nil {
			v.refuseFor(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the caller is gone otherwise
	})
}

// decodeCall reads exactly one JSON value without unknown fields.
func decodeCall(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if d.More() {
		return errors.New("something follows the value")
	}
	return nil
}

// caller is who calls, by certificate; a voter may pass on another's call.
func (v *Voter) caller(r *http.Request) (who Identity, passed bool, err error) {
	who, err = member(*r.TLS, v.opts.Fleet)
	if err == nil {
		err = v.opts.TLS.again(*r.TLS)
	}
	if err != nil {
		return who, false, Forbidden(err.Error())
	}
	behalf := r.Header.Get(onBehalfOf)
	if behalf == "" {
		return who, false, nil
	}
	site, node, ok := strings.Cut(behalf, "/")
	if !ok || !slices.ContainsFunc(v.servers(), func(s raft.Server) bool { return string(s.ID) == who.Node }) {
		return who, true, Forbidden(fmt.Sprintf("%s is no voter and passes on a call of %s", who, behalf))
	}
	return Identity{v.opts.Fleet, site, node}, true, nil
}

// A call that reaches a voter which does not lead is passed on to who does, for a
// caller that does not reach it; and while an election is under way, it waits
// here for its end. A voter that passes on is asked again when the leader it
// passed on to is no more.

// pass carries a call to the leader, and gives up when it is another.
func (v *Voter) pass(ctx context.Context, to Peer, path string, who Identity, body []byte) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		v.newLeader(ctx, to)
		cancel()
	}()
	var out json.RawMessage
	err := v.link(to).call(ctx, path, http.Header{onBehalfOf: {who.Site + "/" + who.Node}}, json.RawMessage(body), &out)
	if _, ok := errors.AsType[*unsent](err); ok {
		err = &NotLeader{Node: v.opts.Node}
	}
	return out, err
}

// mayRepeat: the leader did not answer a call, and it may go to the next.
func mayRepeat(in any, err error) bool {
	if _, ok := errors.AsType[*NotLeader](err); ok {
		return true
	}
	switch c := in.(type) {
	case orderCall:
		return c.Try && !isAnswer(err)
	case doCall:
		return c.Try && !isAnswer(err)
	case decide.Wish:
		return false // it may be one that is entered
	}
	return !isAnswer(err)
}

// newLeader waits, a moment at least, until another than the one given leads, or
// none; false when the context ended first.
func (v *Voter) newLeader(ctx context.Context, than Peer) bool {
	look := time.NewTicker(passEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-v.quit:
			return false
		case <-look.C:
		}
		if leader, _ := v.leaderPeer(); leader != than {
			return true
		}
	}
}

// link is the connection to another voter, made once.
func (v *Voter) link(to Peer) *link {
	v.linksMu.Lock()
	defer v.linksMu.Unlock()
	l := v.links[to.Address]
	if l == nil || l.peer.Node != to.Node {
		l = newLink(v.opts.Fleet, v.opts.TLS, to, v.opts.Dial)
		if v.links == nil {
			v.links = map[string]*link{}
		}
		v.links[to.Address] = l
	}
	return l
}

func (v *Voter) refuseFor(w http.ResponseWriter, err error) {
	status, a := http.StatusServiceUnavailable, answerError{Error: err.Error(), Kind: kindOther, Node: v.opts.Node}
	if not, ok := errors.AsType[*NotLeader](err); ok {
		status, a.Kind, a.Node, a.Leader = http.StatusMisdirectedRequest, kindNotLeader, not.Node, not.Leader
	} else if _, ok := errors.AsType[Invalid](err); ok {
		status, a.Kind = http.StatusUnprocessableEntity, kindInvalid
	} else if _, ok := errors.AsType[Forbidden](err); ok {
		status, a.Kind = http.StatusForbidden, kindForbidden
		v.log.Warn("a call to the ledger is refused", "why", err)
	} else if errors.Is(err, errUnsure) {
		a.Kind = kindUnsure
	}
	v.refuse(w, status, a)
}

func (v *Voter) refuse(w http.ResponseWriter, status int, a answerError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a)
}

// nonce is this process's time for those who beat: who echoes it proves that the
// beat was made later. It means something here only.
func (v *Voter) nonce() string {
	return v.salt + "." + strconv.FormatInt(v.clock.now().Milliseconds(), 10)
}

// age is how long ago a nonce was given out. A beat that echoes it is at most
// that old; a nonce from the future is forged, and says nothing.
func (v *Voter) age(nonce string) (time.Duration, bool) {
	salt, ms, _ := strings.Cut(nonce, ".")
	n, err := strconv.ParseInt(ms, 10, 64)
	if age := v.clock.now() - time.Duration(n)*time.Millisecond; err == nil && salt == v.salt && n >= 0 && age >= 0 {
		return age, true
	}
	return 0, false
}

// serveWatch streams the view from the caller's position on. It ends when this
// voter cannot vouch for its state any more; the caller goes to another.
func (v *Voter) serveWatch(w http.ResponseWriter, r *http.Request) {
	var at steadycast.Fence
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4096))
	if err == nil {
		err = decodeCall(body, &at)
	}
	if err != nil {
		v.refuse(w, http.StatusBadRequest, answerError{Error: err.Error(), Kind: kindOther})
		return
	}
	if _, _, err := v.caller(r); err != nil {
		v.refuseFor(w, err)
		return
	}
	if !v.current() {
		v.refuseFor(w, v.notLeader())
		return
	}
	wake, leave, ok := v.feed.join(watchersMost)
	if !ok {
		v.refuse(w, http.StatusServiceUnavailable, answerError{Error: fmt.Sprintf("%d watch already; try another voter", watchersMost), Kind: kindOther})
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := http.NewResponseController(w)
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for open := true; open; {
		lines, newest := v.feed.since(at)
		at = newest
		if len(lines) == 0 {
			leader, _ := v.leaderPeer()
			lines = append(lines, line(report{Leader: leader.Node, Skewed: v.skew.standing(v.clock.now())}))
		}
		for _, l := range lines { // in pieces, of which each has its time: a whole view may take long
			for piece := range slices.Chunk(l, pieceMost) {
				_ = out.SetWriteDeadline(v.clock.in(handshakeTimeout))
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}
		if out.Flush() != nil {
			return
		}
		select {
		case _, open = <-wake:
		case <-alive.C:
			open = v.current() && v.opts.TLS.again(*r.TLS) == nil
		case <-r.Context().Done():
			return
		}
	}
}

// hashed is State with the state's hash, which costs a pass over all of it.
func (v *Voter) hashed() State {
	s := v.State()
	s.Fence, s.Hash = v.Hash()
	return s
}

// State is what this voter says of itself, but for the hash.
func (v *Voter) State() State {
	s := State{
		Fleet: v.opts.Fleet, Node: v.opts.Node, Role: strings.ToLower(v.raft.State().String()), Term: v.raft.CurrentTerm(),
		LastIndex: v.raft.LastIndex(), Commit: v.raft.CommitIndex(), Applied: v.raft.AppliedIndex(), Rules: decide.RulesLevel,
	}
	s.Leader, _ = v.leaderPeer()
	s.Fence, s.Members = v.View().Fence, v.Members()
	s.Skewed = v.skew.standing(v.clock.now())
	s.Free, _ = free(v.opts.Dir)
	s.Empty = s.Term == 0 && s.LastIndex == 0 && len(s.Members) == 0
	return s
}

// Members are the voters as the log has them.
func (v *Voter) Members() []Member {
	var ms []Member
	for _, s := range v.servers() {
		m := Member{Peer{Node: string(s.ID), Address: string(s.Address)}, s.Suffrage == raft.Voter}
		if p, ok := v.opts.peer(m.Node); ok {
			m.Domain = p.Domain
		}
		ms = append(ms, m)
	}
	return ms
}
