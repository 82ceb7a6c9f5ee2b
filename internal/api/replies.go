package api

import (
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Status answers GET /v1/status: the verdict, the guards, and one row per unit.
type Status struct {
	Node    string    `json:"node"`
	Fleet   string    `json:"fleet"`
	Mode    string    `json:"mode"`
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	Started time.Time `json:"started"`

	Summary    Summary                 `json:"summary"`
	Prefixes   []decide.PrefixView     `json:"prefixes"`
	Tallies    []Tally                 `json:"tallies"`
	Rows       []Row                   `json:"rows"`
	Orders     []decide.StandingOrder  `json:"orders"`
	NodeOrders []decide.StandingOrder  `json:"node_orders,omitempty"`
	Freezes    []decide.StandingFreeze `json:"freezes"`
	Shares     []decide.ShareView      `json:"shares,omitempty"`
	Diverts    []decide.Divert         `json:"diverts,omitempty"`
	Paths      []decide.PathView       `json:"paths,omitempty"`
	PathWishes []decide.PathWish       `json:"path_wishes,omitempty"`
	// Levels are those in force, the largest change first.
	Levels     []decide.LevelNow `json:"levels,omitempty"`
	Gone       []decide.Gone     `json:"gone,omitempty"`
	Alarms     []Alarm           `json:"alarms"`
	LedgerLost string            `json:"ledger_lost,omitempty"`
	Config     Config            `json:"config"`
}

// Status derives the answer from the snapshot.
func (s *Snapshot) Status() *Status {
	rows := s.Rows()
	tallies := Tallies(&s.View, rows)
	return &Status{
		Node: s.Node, Fleet: s.Fleet, Mode: s.Mode, Version: s.Version, At: s.At, Started: s.Started,
		Summary:  s.Summarize(rows, tallies),
		Prefixes: listed(s.View.Prefixes), Tallies: tallies, Rows: rows,
		Orders: listed(s.View.Orders), NodeOrders: s.View.NodeOrders, Freezes: listed(s.View.Freezes), Shares: s.View.Shares, Diverts: s.View.Diverts, Paths: s.paths(), PathWishes: s.View.PathWishes, Levels: s.View.Levels(), Gone: s.View.Gone, Alarms: listed(s.Alarms),
		LedgerLost: s.LedgerLost, Config: s.Config,
	}
}

// listed makes an empty list of none: programs read [], never null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Page is a list with the moment it shows; ages are counted from At.
type Page[T any] struct {
	At    time.Time `json:"at"`
	Items []T       `json:"items"`
}

// SiteRow is one line of GET /v1/sites.
type SiteRow struct {
	Site    string `json:"site"`
	Witness bool   `json:"witness,omitempty"`
	// Announcing units of all, healthy services of all, sessions up of all.
	Announcing int `json:"announcing"`
	Units      int `json:"units"`
	Healthy    int `json:"healthy"`
	Services   int `json:"services"`
	PeersUp    int `json:"peers_up"`
	Peers      int `json:"peers"`
	// Nodes of the site, 0 where it has one; NodesOut of them are known not to announce
	// some prefix that the site announces, or are not heard. NodesTold: that is known.
	Nodes     int    `json:"nodes,omitempty"`
	NodesOut  int    `json:"nodes_out,omitempty"`
	NodesTold bool   `json:"nodes_told,omitempty"`
	Speaker   string `json:"speaker"` // up, lost, unknown; none at a witness
	// Heard is when it was last heard; zero if never.
	Heard time.Time `json:"heard,omitzero"`
	// Far: another node's site, of which the ledger's count is all that is known here.
	Far bool `json:"far,omitempty"`
	// Gone are its services that others see down while nothing is heard of it, so that
	// names lead elsewhere.
	Gone  []string `json:"gone,omitempty"`
	Order string   `json:"order,omitempty"`
	// Ordered are the orders over single nodes of it, and Names its nodes where it has several.
	Ordered []string `json:"ordered,omitempty"`
	Names   []string `json:"names,omitempty"`
	// Share is what it takes of its clients, where that is less than all: "web 5%".
	Share string `json:"share,omitempty"`
	// Path by which it is to announce, where it has several; Way is that it is on its
	// way there, or gone another, in words.
	Path string `json:"path,omitempty"`
	Way  string `json:"way,omitempty"`
	// Paths are all that it has, the preferred first, with the health of each.
	Paths []decide.PathView `json:"paths,omitempty"`
}

// SiteRows derives one row per site of the table, in its order.
func (s *Snapshot) SiteRows() []SiteRow {
	rows := s.Rows()
	out := []SiteRow{}
	for _, name := range s.siteNames() {
		r := SiteRow{Site: name, Speaker: "unknown"}
		_, here := s.Site(name)
		for _, p := range s.View.Table.Sites {
			r.Witness = r.Witness || p.Name == name && p.Witness
			if p.Name == name && len(p.Nodes) > 1 {
				r.Nodes = len(p.Nodes)
			}
		}
		for _, row := range rows {
			if row.Unit.Site == name {
				r.Units++
				if row.State.Announces() {
					r.Announcing++
					r.NodesOut = max(r.NodesOut, row.NodesOut)
					r.NodesTold = r.NodesTold || row.Nodes > 0
				}
				if row.Far {
					r.Far, r.Heard = true, row.Heard
				}
			}
		}
		for _, v := range s.View.Verdicts {
			if r.Far && v.Site == name && !here {
				r.Services++
				if v.State == steadycast.Healthy {
					r.Healthy++
				}
			}
		}
		for _, g := range s.View.Gone {
			if g.Site == name {
				r.Gone = append(r.Gone, g.Service)
			}
		}
		for i := range s.View.Orders {
			if o := &s.View.Orders[i]; o.Order.Site == name {
				r.Order = OrderText(o)
			}
		}
		r.Ordered, r.Names = s.nodeOrders(name), nodeNames(s.View.Table, name)
		if site, ok := s.Site(name); ok {
			r.Heard = site.Heard
			r.Services = len(site.Services)
			for _, svc := range site.Services {
				if svc.Verdict.State == steadycast.Healthy {
					r.Healthy++
				}
			}
			r.Peers = len(site.Actual.Peers)
			for _, p := range site.Actual.Peers {
				if p.Up() {
					r.PeersUp++
				}
			}
			r.Speaker = "up"
			if site.SpeakerLost != "" {
				r.Speaker = "lost"
			}
		}
		r.Share = sharesAt(&s.View, name)
		r.Path, r.Way = s.pathOf(name)
		r.Paths = s.Paths(name)
		if r.Witness {
			r.Speaker = "none"
		}
		out = append(out, r)
	}
	return out
}

// siteNames are the sites of the table, then others that are heard.
func (s *Snapshot) siteNames() []string {
	var names []string
	for _, p := range s.View.Table.Sites {
		names = append(names, p.Name)
	}
	for i := range s.Sites {
		if !slices.Contains(names, s.Sites[i].Name) {
			names = append(names, s.Sites[i].Name)
		}
	}
	return names
}

// Units answers GET /v1/units: the real state of some units, and the ledger
// position their site acts on. A waiter polls it.
type Units struct {
	At    time.Time        `json:"at"`
	Fence steadycast.Fence `json:"fence"`
	Units []Unit           `json:"units"`
}

// PeerRow is one line of GET /v1/peers.
type PeerRow struct {
	Site string          `json:"site"`
	Peer steadycast.Peer `json:"peer"`
	// Stuck: routes that were sent and not acknowledged.
	Unacknowledged int `json:"unacknowledged"`
}

// RouteRow is one line of GET /v1/routes: what left on the wire.
type RouteRow struct {
	Site string          `json:"site"`
	Sent steadycast.Sent `json:"sent"`
}

// CheckRow is one line of GET /v1/checks.
type CheckRow struct {
	Site  string `json:"site"`
	Check Check  `json:"check"`
}

// Peers derives one row per session, of one site or of all.
func (s *Snapshot) Peers(site string) []PeerRow {
	out := []PeerRow{}
	for _, st := range s.some(site) {
		late := map[string]int{}
		for _, x := range st.Actual.Sent {
			if x.Acked.IsZero() {
				late[x.Peer]++
			}
		}
		for _, p := range st.Actual.Peers {
			out = append(out, PeerRow{Site: st.Name, Peer: p, Unacknowledged: late[p.Name]})
		}
	}
	return out
}

// Routes derives what left on the wire; advertised leaves withdrawals out.
func (s *Snapshot) Routes(site, peer string, prefix netip.Prefix, advertised bool) []RouteRow {
	out := []RouteRow{}
	for _, st := range s.some(site) {
		for _, x := range st.Actual.Sent {
			if (peer == "" || x.Peer == peer) && (!prefix.IsValid() || x.Prefix == prefix) && (!advertised || x.Announced) {
				out = append(out, RouteRow{Site: st.Name, Sent: x})
			}
		}
	}
	return out
}

// CheckRows derives one row per check, of one site or of all.
func (s *Snapshot) CheckRows(site, service string) []CheckRow {
	out := []CheckRow{}
	for _, st := range s.some(site) {
		for _, c := range st.Checks {
			if service == "" || c.Service == service {
				out = append(out, CheckRow{Site: st.Name, Check: c})
			}
		}
	}
	return out
}

func (s *Snapshot) some(site string) []Site {
	if site == "" {
		return s.Sites
	}
	if st, ok := s.Site(site); ok {
		return []Site{*st}
	}
	return nil
}
