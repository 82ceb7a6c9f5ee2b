package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// mux lists every path of the API.
func (s *Server) mux() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	m.HandleFunc("GET /readyz", s.ready)
	m.HandleFunc("GET /v1/events", s.events)

	m.HandleFunc("GET /v1/version", read(s.getVersion))
	m.HandleFunc("GET /v1/snapshot", read(s.getSnapshot))
	m.HandleFunc("GET /v1/status", read(s.getStatus))
	m.HandleFunc("GET /v1/sites", read(s.getSites))
	m.HandleFunc("GET /v1/units", read(s.getUnits))
	m.HandleFunc("GET /v1/why", read(s.getWhy))
	m.HandleFunc("GET /v1/orders", read(s.getOrders))
	m.HandleFunc("GET /v1/peers", read(s.getPeers))
	m.HandleFunc("GET /v1/routes", read(s.getRoutes))
	m.HandleFunc("GET /v1/checks", read(s.getChecks))

	m.HandleFunc("POST /v1/orders", change(s.postOrder))
	m.HandleFunc("POST /v1/orders/clear", change(s.scope(decide.KindOrderClear, "undrain")))
	m.HandleFunc("POST /v1/freeze", change(s.scope(decide.KindFreeze, "freeze")))
	m.HandleFunc("POST /v1/thaw", change(s.scope(decide.KindThaw, "thaw")))
	m.HandleFunc("POST /v1/unlock", change(s.scope(decide.KindUnlock, "unlock")))
	m.HandleFunc("POST /v1/resume", change(s.scope(decide.KindResume, "resume")))
	m.HandleFunc("GET /v1/authority", read(s.getAuthority))
	m.HandleFunc("POST /v1/carry", change(s.postCarry))
	m.HandleFunc("GET /v1/guards", read(s.getGuards))
	m.HandleFunc("GET /v1/history", read(s.getHistory))
	m.HandleFunc("GET /v1/cuts", read(s.getCuts))
	m.HandleFunc("GET /v1/loads", read(s.getLoads))
	m.HandleFunc("GET /v1/table", read(s.getTable))
	m.HandleFunc("GET /v1/view", read(s.getView))
	m.HandleFunc("GET /v1/staged", read(s.getStaged))
	m.HandleFunc("GET /v1/revisions", read(s.getRevisions))
	m.HandleFunc("GET /v1/decisions", read(s.getDecisions))
	m.HandleFunc("GET /v1/plans", read(s.getPlans))
	m.HandleFunc("POST /v1/local", change(s.postLocal))
	m.HandleFunc("POST /v1/enter", change(s.postEnter))
	m.HandleFunc("POST /v1/try", change(s.postTry))
	m.HandleFunc("POST /v1/reload", change(s.postReload))
	m.HandleFunc("POST /v1/clear", change(s.postClear))
	m.HandleFunc("POST /v1/probe", change(s.postProbe))
	m.HandleFunc("POST /v1/fault", change(s.postFault))

	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, &Error{Code: CodeNotFound, Message: fmt.Sprintf("no %s %s here", r.Method, r.URL.Path), Next: "GET /v1/status"})
	})
	return m
}

func read(h func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := h(r)
		if err != nil {
			fail(w, err)
			return
		}
		write(w, http.StatusOK, v)
	}
}

// change lets in who may change things, and bounds the time.
func change[T any](h func(context.Context, Caller, *T) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := callerOf(r.Context())
		if !who.Write {
			fail(w, &Error{
				Code:    CodeForbidden,
				Message: fmt.Sprintf("%s may read here, not change", who),
				Next:    "run it as root, or join the group of the socket",
			})
			return
		}
		if _, err := query(r); err != nil {
			fail(w, err)
			return
		}
		var q T
		if err := decode(w, r, &q); err != nil {
			fail(w, err)
			return
		}
		// A caller that hangs up does not undo what it asked for.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), backendTime)
		defer cancel()
		v, err := h(ctx, who, &q)
		if err != nil {
			fail(w, err)
			return
		}
		write(w, http.StatusOK, v)
	}
}

// snapshot is the newest one, as of now.
func (s *Server) snapshot() *Snapshot { return s.backend.Snapshot().AsOf(time.Now()) }

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	newest := s.backend.Snapshot()
	snap := newest.AsOf(time.Now())
	problem := ""
	switch age := snap.At.Sub(newest.At); {
	case age > Stale:
		problem = "the loop that decides has finished no step for " + Span(age)
	case snap.LedgerLost != "":
		problem = "ledger: " + snap.LedgerLost
	case len(snap.Sites) == 0:
		problem = "no site is heard yet"
	}
	for _, site := range snap.Sites {
		if site.SpeakerLost != "" {
			problem = "speaker of " + site.Name + ": " + site.SpeakerLost
		}
	}
	if problem != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, problem)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *Server) getVersion(r *http.Request) (any, error) {
	_, err := query(r)
	return s.version, err
}

func (s *Server) getSnapshot(r *http.Request) (any, error) {
	_, err := query(r)
	return s.snapshot(), err
}

func (s *Server) getStatus(r *http.Request) (any, error) {
	snap, _, err := s.scoped(r, "site")
	if err != nil {
		return nil, err
	}
	st := s.withNodes(r.Context(), snap).Status()
	if site := r.FormValue("site"); site != "" {
		st.Rows = filter(st.Rows, func(row Row) bool { return row.Unit.Site == site })
	}
	return st, nil
}

func (s *Server) getSites(r *http.Request) (any, error) {
	_, err := query(r)
	snap := s.withNodes(r.Context(), s.snapshot())
	return Page[SiteRow]{snap.At, snap.SiteRows()}, err
}

// scoped checks the query and that the site and the prefix in it exist.
func (s *Server) scoped(r *http.Request, allowed ...string) (*Snapshot, netip.Prefix, error) {
	q, err := query(r, allowed...)
	if err != nil {
		return nil, netip.Prefix{}, err
	}
	p, err := queryPrefix(q)
	if err != nil {
		return nil, p, err
	}
	snap := s.snapshot()
	return snap, p, snap.checkScope(q.Get("site"), p)
}

func (s *Server) getUnits(r *http.Request) (any, error) {
	snap, prefix, err := s.scoped(r, "site", "prefix", "node")
	if err != nil {
		return nil, err
	}
	name := r.FormValue("site")
	if name == "" {
		return nil, usage("site is missing")
	}
	if node := r.FormValue("node"); node != "" {
		return s.nodeUnits(r, snap, name, node, prefix)
	}
	out := Units{At: snap.At, Units: []Unit{}}
	if site, ok := snap.Site(name); ok {
		out.Fence = site.Fence
		out.Units = filter(site.Units, func(u Unit) bool { return !prefix.IsValid() || u.Unit.Prefix == prefix })
		place, _ := snap.View.Table.Place(name)
		if len(place.Nodes) < 2 {
			return out, nil
		}
		// A change of the site is proven once its other nodes have proven it, too.
		ctx, cancel := context.WithTimeout(r.Context(), backendTime)
		defer cancel()
		sites, err := s.backend.SitesNow(ctx)
		if err != nil { // this node's own word is no less true without the ledger
			return out, nil
		}
		return out.beside(snap, sites, name, prefix, snap.Node), nil
	}
	return s.farUnits(r, snap, name, prefix)
}

func (s *Server) getWhy(r *http.Request) (any, error) {
	snap, prefix, err := s.scoped(r, "site", "prefix")
	if err != nil {
		return nil, err
	}
	site := r.FormValue("site")
	if site == "" || !prefix.IsValid() {
		return nil, usage("site and prefix are needed: /v1/why?site=fra&prefix=192.0.2.0/24")
	}
	recent, _ := s.backend.Events(0)
	if w := snap.Why(steadycast.Unit{Site: site, Prefix: prefix}, recent); w != nil {
		return w, nil
	}
	return nil, &Error{Code: CodeNotFound, Message: fmt.Sprintf("%s does not serve %s", site, prefix), Next: "steadycast status"}
}

// Orders answers GET /v1/orders.
type Orders struct {
	Orders []decide.StandingOrder `json:"orders"`
	// NodeOrders stand over single nodes of sites of several.
	NodeOrders []decide.StandingOrder  `json:"node_orders,omitempty"`
	Freezes    []decide.StandingFreeze `json:"freezes"`
}

func (s *Server) getOrders(r *http.Request) (any, error) {
	_, err := query(r)
	v := s.snapshot().View
	return Orders{Orders: append([]decide.StandingOrder{}, v.Orders...), NodeOrders: v.NodeOrders, Freezes: append([]decide.StandingFreeze{}, v.Freezes...)}, err
}

func (s *Server) getPeers(r *http.Request) (any, error) {
	snap, _, err := s.scoped(r, "site")
	if err != nil {
		return nil, err
	}
	return Page[PeerRow]{snap.At, snap.Peers(r.FormValue("site"))}, nil
}

func (s *Server) getRoutes(r *http.Request) (any, error) {
	snap, prefix, err := s.scoped(r, "site", "peer", "prefix", "advertised")
	if err != nil {
		return nil, err
	}
	adv := r.FormValue("advertised")
	if adv != "" && adv != "true" && adv != "false" {
		return nil, usage("advertised: %q; allowed: true, false", adv)
	}
	peer := r.FormValue("peer")
	if peer != "" {
		var names []string
		for _, p := range snap.Peers(r.FormValue("site")) {
			if p.Peer.Name == peer {
				return Page[RouteRow]{snap.At, snap.Routes(r.FormValue("site"), peer, prefix, adv == "true")}, nil
			}
			names = append(names, p.Peer.Name)
		}
		return nil, &Error{Code: CodeNotFound, Message: fmt.Sprintf("no peer %q; peers: %s", peer, orNone(names)), Next: "steadycast peers"}
	}
	return Page[RouteRow]{snap.At, snap.Routes(r.FormValue("site"), "", prefix, adv == "true")}, nil
}

func (s *Server) getChecks(r *http.Request) (any, error) {
	snap, _, err := s.scoped(r, "site", "service")
	if err != nil {
		return nil, err
	}
	if svc := r.FormValue("service"); svc != "" {
		if err := snap.checkService(svc); err != nil {
			return nil, err
		}
	}
	return Page[CheckRow]{snap.At, snap.CheckRows(r.FormValue("site"), r.FormValue("service"))}, nil
}

func (s *Snapshot) checkService(name string) error {
	var names []string
	for _, svc := range s.View.Table.Services {
		if svc.Name == name {
			return nil
		}
		names = append(names, svc.Name)
	}
	return &Error{Code: CodeNotFound, Message: fmt.Sprintf("no service %q; services: %s", name, orNone(names)), Next: "steadycast checks"}
}

func (s *Server) postOrder(ctx context.Context, who Caller, q *OrderRequest) (any, error) {
	snap := s.snapshot()
	o, err := q.order(snap, who)
	if err != nil {
		return nil, err
	}
	follows := snap.followsOrder(&o)
	reply, err := s.backend.Order(ctx, who, o, q.DryRun)
	if err != nil {
		return nil, err
	}
	return snap.outcome(reply, q.DryRun, commandOf(o.Kind.String(), o.Target(), o.Prefixes, o.Reason), follows)
}

func (s *Server) scope(kind decide.Kind, verb string) func(context.Context, Caller, *ScopeRequest) (any, error) {
	return func(ctx context.Context, who Caller, q *ScopeRequest) (any, error) {
		snap := s.snapshot()
		if err := checkReason(q.Reason); err != nil {
			return nil, err
		}
		if err := snap.checkScope(q.Site, q.Prefix); err != nil {
			return nil, err
		}
		if err := snap.checkNode(q.Site, q.Node); err != nil {
			return nil, err
		}
		sc := decide.Scope{Site: q.Site, Prefix: q.Prefix, Node: q.Node}
		follows := snap.followsScope(kind, sc)
		reply, err := s.backend.Do(ctx, who, kind, sc, q.Reason, q.DryRun)
		if err != nil {
			return nil, err
		}
		return snap.outcome(reply, q.DryRun, commandOf(verb, sc.Target(), []netip.Prefix{q.Prefix}, q.Reason), follows)
	}
}

func (s *Server) postReload(ctx context.Context, who Caller, q *ReloadRequest) (any, error) {
	return s.backend.Reload(ctx, who, q.DryRun)
}

// Done answers a request of which there is nothing to tell.
type Done struct {
	Done bool `json:"done"`
}

func (s *Server) postClear(ctx context.Context, who Caller, q *ClearRequest) (any, error) {
	if q.What != "crash_loop" && q.What != "fence" {
		return nil, usage("what: %q; allowed: crash_loop, fence", q.What)
	}
	return Done{true}, s.backend.Clear(ctx, who, q.What)
}

func (s *Server) postProbe(ctx context.Context, who Caller, q *ProbeRequest) (any, error) {
	snap := s.snapshot()
	if err := snap.checkScope(q.Site); err != nil {
		return nil, err
	}
	if q.Service != "" {
		if err := snap.checkService(q.Service); err != nil {
			return nil, err
		}
	}
	return Done{true}, s.backend.ProbeNow(ctx, who, q.Site, q.Service)
}

func (s *Server) postFault(ctx context.Context, who Caller, q *FaultRequest) (any, error) {
	if q.Site == "" || q.What == "" {
		return nil, usage("site and what are needed")
	}
	site, node, _ := strings.Cut(q.Site, "/")
	snap := s.snapshot()
	if err := snap.checkScope(site); err != nil {
		return nil, err
	}
	if err := snap.checkNode(site, node); err != nil {
		return nil, err
	}
	return Done{true}, s.backend.Fault(ctx, who, q.Site, q.What)
}

func filter[T any](in []T, keep func(T) bool) []T {
	out := make([]T, 0, len(in))
	for _, v := range in {
		if keep(v) {
			out = append(out, v)
		}
	}
	return out
}
