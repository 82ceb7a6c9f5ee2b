package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/answers"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/metrics"
)

// Status is what a server says of itself at GET /v1/dns/status.
type Status struct {
	Node    string    `json:"node"`
	Program string    `json:"program"`
	Started time.Time `json:"started"`
	// Answering is false until the first table is known.
	Answering bool             `json:"answering"`
	Addresses []netip.AddrPort `json:"addresses"`
	// Version is that of the table in use, of Revision of the policy at Position of the
	// ledger; made at Since, of state that was heard last at Heard.
	Version  uint64    `json:"version"`
	Revision uint64    `json:"revision"`
	Position string    `json:"position,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Heard    time.Time `json:"heard,omitzero"`
	// Mode is the rung of the ladder, with why if it is not normal.
	Mode string `json:"mode"`
	Why  string `json:"why,omitempty"`
	// Stale, Refused and Wrong say what is wrong; empty while nothing is.
	Stale   string   `json:"stale,omitempty"`
	Refused string   `json:"refused,omitempty"`
	Wrong   string   `json:"wrong,omitempty"`
	Zones   []string `json:"zones"`
	// Sites are how each site is by the table in use.
	Sites []dnsfallback.SiteWord `json:"sites,omitempty"`
	Maps  []Map                  `json:"maps"`
	// Answers that were given, and what was dropped or limited, since Started.
	Answers uint64 `json:"answers"`
	Dropped uint64 `json:"dropped"`
	Limited uint64 `json:"limited"`
}

// Map is one of the maps in use.
type Map struct {
	Name    string    `json:"name"`
	File    string    `json:"file"`
	Rows    int       `json:"rows"`
	Changed time.Time `json:"changed"`
}

// Resolved answers GET /v1/dns/resolve: one answer, every step to it, and what
// the table is of that gave it.
type Resolved struct {
	dnsfallback.Explanation
	Node     string `json:"node"`
	Revision uint64 `json:"revision"`
	Position string `json:"position"`
	Mode     string `json:"mode"`
	Stale    string `json:"stale,omitempty"`
}

// askPatience bounds what one request may take: another revision is read for it.
const askPatience = 10 * time.Second

// Teller is a server of names that tells of itself.
type Teller interface {
	Status() Status
	// Led is whom its answers led where.
	Led() api.Led
	// Resolve explains what a client is answered, by the table in use or, if revision
	// is not 0, by another of the policy in the present state.
	Resolve(ctx context.Context, name, typ string, client netip.Prefix, revision uint64) (Resolved, error)
}

// Handler answers GET /v1/dns/status, /v1/dns/led and /v1/dns/resolve.
func Handler(t Teller) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/dns/status", func(w http.ResponseWriter, _ *http.Request) { api.Answer(w, t.Status(), nil) })
	mux.HandleFunc("GET /v1/dns/led", func(w http.ResponseWriter, _ *http.Request) { api.Answer(w, t.Led(), nil) })
	mux.HandleFunc("GET /v1/dns/resolve", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), askPatience)
		defer cancel()
		v, err := resolve(ctx, t, r.URL.Query())
		api.Answer(w, v, err)
	})
	return mux
}

// serveSocket answers on the unix socket until ctx ends.
func (d *daemon) serveSocket(ctx context.Context, l net.Listener) {
	s := &http.Server{Handler: Handler(d), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		ErrorLog: slog.NewLogLogger(d.o.Logger.Handler(), slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		d.o.Logger.Error("the socket of this server has ended; the answers go on", "err", err)
	}
}

// Status is what the process says of itself.
func (d *daemon) Status() Status {
	sheet, server, maps := d.keeper.show()
	s := Status{
		Node: d.o.Config.Node.Node, Program: d.o.Version, Started: d.began,
		Revision: sheet.Revision, Position: sheet.Position, Since: sheet.Since, Heard: sheet.Heard,
		Mode: sheet.Mode.String(), Why: sheet.ModeWhy, Stale: sheet.Stale, Refused: sheet.Refused, Wrong: sheet.Wrong,
		Addresses: []netip.AddrPort{}, Zones: []string{}, Maps: []Map{},
	}
	if sheet.RefusedMap != "" && s.Refused == "" {
		s.Refused = sheet.RefusedMap
	}
	for _, m := range maps.All() {
		s.Maps = append(s.Maps, Map{m.Name, m.File, m.Rows, m.Changed})
	}
	if server == nil {
		return s
	}
	s.Answering, s.Addresses, s.Version, s.Zones = true, server.Addresses(), sheet.Table.Version(), sheet.Table.Zones()
	s.Sites = sheet.Table.SiteWords()
	c := server.Counters()
	for _, a := range c.Answers {
		s.Answers += a.Count
	}
	s.Dropped, s.Limited = c.Dropped, c.Limited
	return s
}

// resolve reads what is asked for.
func resolve(ctx context.Context, t Teller, q url.Values) (Resolved, error) {
	client, err := netip.ParsePrefix(q.Get("client"))
	if err != nil {
		return Resolved{}, bad("client: %q is not a network", q.Get("client"))
	}
	revision := uint64(0)
	if s := q.Get("revision"); s != "" {
		if revision, err = strconv.ParseUint(s, 10, 64); err != nil || revision == 0 {
			return Resolved{}, bad("revision: %q is not a number", s)
		}
	}
	return t.Resolve(ctx, q.Get("name"), q.Get("type"), client, revision)
}

// bad says that the question cannot be answered.
func bad(format string, args ...any) error {
	return &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf(format, args...)}
}

// Resolve explains by the table in use or by another revision of the policy.
func (d *daemon) Resolve(ctx context.Context, name, typ string, client netip.Prefix, revision uint64) (r Resolved, err error) {
	sheet, _, _ := d.keeper.show()
	r = Resolved{Node: d.o.Config.Node.Node, Revision: sheet.Revision, Position: sheet.Position, Mode: sheet.Mode.String(), Stale: sheet.Stale}
	t := sheet.Table
	if revision != 0 {
		r.Revision = revision
		if t, err = d.keeper.at(ctx, revision); err != nil {
			return Resolved{}, &api.Error{Code: api.CodeNotFound, Message: err.Error(), Next: "steadycast revisions"}
		}
	}
	if t == nil {
		return Resolved{}, &api.Error{Code: api.CodeBusy, Message: "the server does not answer yet: the fleet's table and state are not known", Next: "steadycast dns status"}
	}
	if r.Explanation, err = t.Explain(name, typ, client); err != nil {
		return Resolved{}, bad("%v", err)
	}
	return r, nil
}

// figures are what metrics show.
func (d *daemon) figures() metrics.DNS {
	sheet, server, maps := d.keeper.show()
	m := metrics.DNS{
		Program: d.o.Version, Answering: server != nil, Revision: sheet.Revision, Since: sheet.Since, Heard: sheet.Heard,
		Stale: sheet.Stale != "", Refused: sheet.Refused != "" || sheet.RefusedMap != "",
		Tested: sheet.Tested, Right: sheet.Wrong == "", Mode: sheet.Mode.String(), Modes: answers.Modes(), Maps: maps.All(),
	}
	if server != nil {
		m.Counters, m.Given, m.Version = server.Counters(), sheet.Table.Given(), sheet.Table.Version()
	}
	return m
}
