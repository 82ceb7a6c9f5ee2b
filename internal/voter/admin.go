package voter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/role"
)

// changeTimeout bounds a change of the set of voters: newcomers learn the log in it.
const changeTimeout = 2 * time.Minute

// maxBody bounds what a person sends: a table is the largest.
const maxBody = decide.MaxEntry

// The bodies of calls over the socket.
type (
	initCall struct {
		Table     decide.Table          `json:"table"`
		Operators []steadycast.Operator `json:"operators"`
		Actor     string                `json:"actor"`
		Reason    string                `json:"reason"`
	}
	changeCall struct {
		In     []string `json:"in,omitempty"`
		Out    []string `json:"out,omitempty"`
		Actor  string   `json:"actor"`
		Reason string   `json:"reason"`
	}
)

// serveAdmin answers on the socket until ctx ends.
func serveAdmin(ctx context.Context, l net.Listener, v *ledger.Voter, log *slog.Logger) {
	mux := http.NewServeMux()
	handle(mux, "/v1/init", func(ctx context.Context, who string, c initCall) (any, error) {
		log.Info("asked to begin the ledger", "by", c.Actor, "user", who, "reason", c.Reason)
		if len(c.Operators) == 0 {
			return nil, errors.New("no operator is given: nobody could give orders to this ledger")
		}
		return struct{}{}, v.Init(ctx, c.Table, c.Actor, c.Reason, c.Operators...)
	})
	handle(mux, "/v1/change", func(ctx context.Context, who string, c changeCall) (any, error) {
		log.Info("asked to change the set of voters", "in", c.In, "out", c.Out, "by", c.Actor, "user", who, "reason", c.Reason)
		if len(c.In) == 0 {
			return v.Members(), v.Leave(ctx, c.Out)
		}
		err := v.Join(ctx, c.In, c.Out)
		return v.Members(), err
	})
	handle(mux, "/v1/members", func(ctx context.Context, _ string, _ struct{}) (any, error) { return v.Survey(ctx), nil })
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		if p, err := role.PeerOf(c); err == nil {
			ctx = context.WithValue(ctx, userKey{}, p.User)
		}
		return ctx
	}}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		log.Error("the socket of this voter has ended; the voter goes on", "error", err)
	}
}

type userKey struct{}

func handle[In any](mux *http.ServeMux, path string, f func(context.Context, string, In) (any, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), changeTimeout)
		defer cancel()
		var in In
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		d.DisallowUnknownFields()
		err := d.Decode(&in)
		var out any
		if err == nil {
			who, _ := r.Context().Value(userKey{}).(string)
			out, err = f(ctx, who, in)
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(http.StatusConflict)
			out = map[string]string{"error": err.Error()}
		}
		_ = json.NewEncoder(w).Encode(out) // the caller is gone otherwise
	})
}

// Admin is the person's side of the socket.
type Admin struct {
	socket string
	http   *http.Client
}

// Unreachable says that no voter answers on the socket.
type Unreachable struct {
	Socket string
	Err    error
}

func (e *Unreachable) Error() string {
	return fmt.Sprintf("no voter answers on %s: %v", e.Socket, e.Err)
}

func (e *Unreachable) Unwrap() error { return e.Err }

// NewAdmin speaks to the voter behind a socket.
func NewAdmin(socket string) *Admin {
	return &Admin{socket, &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err != nil {
			err = &Unreachable{socket, err}
		}
		return c, err
	}}}}
}

// Init begins the ledger; one of the operators at least is an admin.
func (a *Admin) Init(ctx context.Context, table decide.Table, operators []steadycast.Operator, actor, reason string) error {
	return a.call(ctx, "/v1/init", initCall{table, operators, actor, reason}, nil)
}

// Change takes voters in and out.
func (a *Admin) Change(ctx context.Context, in, out []string, actor, reason string) (members []ledger.Member, err error) {
	err = a.call(ctx, "/v1/change", changeCall{in, out, actor, reason}, &members)
	return members, err
}

// Members asks every voter how it is.
func (a *Admin) Members(ctx context.Context) (s ledger.Survey, err error) {
	err = a.call(ctx, "/v1/members", struct{}{}, &s)
	return s, err
}

func (a *Admin) call(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://voter"+path, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	res, err := a.http.Do(req)
	if err != nil {
		if gone, ok := errors.AsType[*Unreachable](err); ok {
			return gone
		}
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		var e struct{ Error string }
		if json.Unmarshal(b, &e) == nil && e.Error != "" {
			return errors.New(e.Error)
		}
		return fmt.Errorf("the voter answers with HTTP status %d", res.StatusCode)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}
