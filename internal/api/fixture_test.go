package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	p4  = netip.MustParsePrefix("192.0.2.0/24")
	p6  = netip.MustParsePrefix("2001:db8:53::/48")
	now = time.Date(2026, 5, 4, 14, 31, 12, 0, time.UTC)
)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// fleet is a snapshot of four sites: ams is well, fra fails and is held by the
// floor, gru is drained by a person, iad was heard long ago. It touches every
// field, and is built anew at each call so that no test shares values with another.
func fleet() *Snapshot {
	s := &Snapshot{
		Node: "ams-1", Fleet: "edge", Mode: "fleet", Version: "v0.1.0", At: now, Started: ago(6 * 24 * time.Hour),
		View: decide.View{
			Fence: steadycast.Fence{Epoch: 1, Term: 1, Index: 42}, LT: 900_000,
			Table: decide.Table{
				Revision: 7, DrainWait: 3 * time.Second,
				Sites:    []decide.Place{{Name: "ams"}, {Name: "fra"}, {Name: "gru"}, {Name: "iad"}, {Name: "eye", Witness: true}},
				Services: []decide.Service{{Name: "web", Prefixes: []netip.Prefix{p4}}, {Name: "dns", Prefixes: []netip.Prefix{p6}}},
			},
			Prefixes: []decide.PrefixView{
				{Prefix: p4, Sites: 4, Floor: 2, HealthyFloor: 1, FleetUsed: 1, FleetLimit: 1, Troubled: 1, BreakerLimit: 3},
				{Prefix: p6, Sites: 4, Floor: 2, HealthyFloor: 1, FleetLimit: 1, BreakerLimit: 3},
			},
			Orders: []decide.StandingOrder{{
				Order: steadycast.Order{Kind: steadycast.OrderDrain, Site: "gru", Actor: "maria (uid 1003)", Reason: "rack swap, CHG-4411", For: time.Hour},
				Fence: steadycast.Fence{Epoch: 1, Term: 1, Index: 40}, Until: 2_640_000, LeftMS: 29 * 60_000,
			}},
			Freezes: []decide.StandingFreeze{{Scope: decide.Scope{Prefix: p6}, Actor: "breaker", Reason: "4 of 4 sites in trouble", Breaker: true, Since: 890_000}},
		},
		Config: Config{Path: "/etc/steadycast/node.yaml", Revision: 7, Hash: "9f2c", LoadedAt: ago(2 * time.Hour), LastError: "node.yaml:12:15: bgp.hold_time: 2s is under the 3s minimum"},
		Alarms: []Alarm{{Since: ago(31 * time.Second), Site: "fra", Text: "held on the air while failing", Next: "steadycast why fra 192.0.2.0/24"}},
		Skewed: 1,
		Mesh: &Mesh{
			Links: []MeshLink{{Name: "ams-1", State: "up", Calls: 1, Sent: 4200, Waiting: 1, BytesOut: 2_100_000, BytesIn: 61_000, RTT: 12_400}, {Name: "gru-1", State: "down", Calls: 9, Sent: 10, Dropped: 3, Relayed: 5, Lost: 2, Backoff: 7500}},
			Heard: 8000, Dropped: []Count{{"stale", 4}}, Refused: []Count{{"revoked", 1}},
		},
		Counts: Counts{
			Refusals:    []Refusals{{"floor", 3}},
			Transitions: []Transitions{{steadycast.Unit{Site: "gru", Prefix: p4}, "withdrawn", "order", 1}},
			LoopRan:     ago(time.Second), Dropped: 2, StateWriteErrors: 1,
		},
	}
	s.Counts.Detect.Observe(420 * time.Millisecond)
	s.Counts.Decide.Observe(2 * time.Millisecond)
	s.Counts.Announce.Observe(3 * time.Millisecond)
	s.Counts.Confirm.Observe(8 * time.Millisecond)
	for _, name := range []string{"ams", "fra", "gru", "iad"} {
		for _, p := range []netip.Prefix{p4, p6} {
			s.View.Units = append(s.View.Units, decide.UnitView{
				Unit: steadycast.Unit{Site: name, Prefix: p}, Phase: steadycast.In, Ever: true, BudgetLimit: 2,
				Permit: steadycast.Permit{Unit: steadycast.Unit{Site: name, Prefix: p}, ID: steadycast.RequestID{Incarnation: 1, Seq: 3}, Action: steadycast.Return, Fence: steadycast.Fence{Epoch: 1, Index: 12}},
			})
			if p == p6 {
				s.View.Units[len(s.View.Units)-1].Frozen = "breaker: 4 of 4 sites in trouble"
			}
		}
		s.Sites = append(s.Sites, site(name))
	}
	// fra: its service fails, and the floor refuses the withdrawal.
	held := steadycast.Unit{Site: "fra", Prefix: p4}
	v, u := view(s, held), unit(s, held)
	v.Depreferred, v.Guard, v.BudgetUsed, v.Cycles, v.CooldownLeftMS = true, "floor", 1, 1, 272_000
	v.Permit.Action = steadycast.Deprefer
	u.Stance, u.Since = steadycast.Depreferred, ago(31*time.Second)
	u.Why = []string{"web unhealthy", "floor refuses"}
	u.Last = &decide.Ruling{Unit: held, Permit: &v.Permit, Guards: []steadycast.GuardAnswer{
		{Guard: "freeze", Pass: true, Text: "not frozen"},
		{Guard: "floor", Text: "1 of 4 would announce; floor 2", Override: "steadycast withdraw fra 192.0.2.0/24 --force: fewer sites than the floor will announce it"},
		{Guard: "fleet budget", Text: "1 of 1 withdrawals used in 10m", RetryAfter: 4 * time.Minute},
	}}
	u.Nodes = []decide.NodeStatus{
		{Node: "fra-1", Here: true, Heard: true, Announcing: true, Bound: 12 * time.Second, Outcome: steadycast.Down, Reason: "web: connection refused by 192.0.2.1:443"},
		{Node: "fra-2", Heard: true, Alone: true, LeftAgo: 18 * time.Second, Outcome: steadycast.Down, Reason: "web: connection refused by 192.0.2.1:443"},
	}
	fra, _ := s.Site("fra")
	fra.Services[0].Verdict = steadycast.Verdict{Site: "fra", Service: "web", State: steadycast.Unhealthy, Class: steadycast.Hard, Reason: "connection refused by 192.0.2.1:443", Bad: 31}
	fra.Services[0].Since, fra.Services[0].Fast = ago(31*time.Second), true
	fra.Services[0].Why = &steadycast.Tree{Text: "and", Outcome: steadycast.Down, Class: steadycast.Hard, Kids: []steadycast.Tree{
		{Text: "https", Outcome: steadycast.Down, Class: steadycast.Hard, Reason: "connection refused by 192.0.2.1:443"},
		{Text: "or", Outcome: steadycast.Up, Kids: []steadycast.Tree{{Text: "wan", Outcome: steadycast.Unknown, Reason: "no route"}, {Text: "disk", Outcome: steadycast.Up}}},
	}}
	fra.Checks[0].Result = steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard, Reason: "connection refused by 192.0.2.1:443", Took: 300 * time.Microsecond}
	fra.Checks[0].LastSuccess, fra.Checks[0].Down = ago(34*time.Second), 31
	fra.Actual.Peers[1] = steadycast.Peer{Name: "tor2", Address: netip.MustParseAddr("10.0.0.2"), ASN: 65001, State: "connect", Since: ago(12 * time.Minute), LastError: "connection refused", Flaps: 2, Malformed: 1}
	fra.Actual.Peers[0].BFD = &steadycast.BFD{State: "up", Remote: "up", Since: ago(6 * 24 * time.Hour), Interval: 300 * time.Millisecond, Detection: 900 * time.Millisecond, Sent: 1971000, Received: 1970200}
	fra.Actual.Peers[1].BFD = &steadycast.BFD{State: "down", Remote: "down", Since: ago(12 * time.Minute), Why: "nothing was heard within the detection time", Interval: time.Second, Downs: 1, Sent: 9000, Received: 8211, Dropped: 2}
	cut := decide.Cut{Unit: steadycast.Unit{Site: "fra", Prefix: p4}, Fence: steadycast.Fence{Epoch: 1, Term: 3, Index: 388}, Reason: "web is unhealthy", State: decide.CutComplete, Over: true,
		Decided: 1300 * time.Millisecond, Effect: 1420 * time.Millisecond, Migrated: 9 * time.Second, Lost: 1250 * time.Millisecond, Before: 12000, Rest: 4, Counted: true}
	fra.Cuts = []Cut{{Cut: cut, Node: "fra-1", At: ago(26 * time.Hour)}}
	cut.Fence.Index = 401
	cut.State, cut.Over, cut.Decided, cut.Effect, cut.Migrated, cut.Rest = decide.CutInProgress, false, 1100*time.Millisecond, 1190*time.Millisecond, 0, 310
	cut.Why = []string{"residual: 310 a second still come here, of 12000 before; at most 120"}
	fra.WithCuts(append(fra.Cuts, Cut{Cut: cut, Node: "fra-1", At: ago(31 * time.Second)}))
	fra.Actual.Sent = fra.Actual.Sent[:2]
	fra.Actual.Sent[0].Attributes.Communities = []steadycast.Community{steadycast.GracefulShutdown}
	med := uint32(50)
	fra.Actual.Sent[0].Attributes.MED = &med
	fra.Actual.Sent[1].Acked = time.Time{}
	unit(s, steadycast.Unit{Site: "fra", Prefix: p6}).Proven = false
	unit(s, steadycast.Unit{Site: "fra", Prefix: p6}).Unproven = "tor1 has not acknowledged the route"
	// gru: drained by a person.
	gru, _ := s.Site("gru")
	for i := range gru.Units {
		gru.Units[i].Wanted, gru.Units[i].Since = false, ago(29*time.Minute)
		w := view(s, gru.Units[i].Unit)
		w.Phase, w.Order = steadycast.Out, steadycast.OrderDrain
	}
	for i := range gru.Actual.Sent {
		gru.Actual.Sent[i].Announced = false
	}
	for i := range gru.Actual.Peers {
		gru.Actual.Peers[i].Announced = 0
	}
	// iad: nothing heard for a while.
	iad, _ := s.Site("iad")
	iad.Heard = ago(43 * time.Second)
	return s
}

// site is a site on which all is well.
func site(name string) Site {
	s := Site{Name: name, Heard: ago(time.Second), Fence: steadycast.Fence{Epoch: 1, Term: 1, Index: 42}}
	s.Actual = steadycast.Actual{Incarnation: 3, Version: 9, Started: 2}
	for i, peer := range []string{"tor1", "tor2"} {
		s.Actual.Peers = append(s.Actual.Peers, steadycast.Peer{
			Name: peer, Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), ASN: 65001, State: "established", Since: ago(6 * 24 * time.Hour),
			Families: []string{"ipv4", "ipv6"}, HoldTime: 9 * time.Second, MessagesIn: 172800, MessagesOut: 172811, UpdatesDropped: 4, Announced: 2,
		})
		for _, p := range []netip.Prefix{p4, p6} {
			sent := steadycast.Sent{Peer: peer, Prefix: p, Announced: true, At: ago(time.Hour), Acked: ago(time.Hour - 400*time.Microsecond)}
			sent.Attributes = steadycast.Attributes{NextHop: netip.MustParseAddr("10.0.0.10"), ASPath: []uint32{65010}}
			s.Actual.Sent = append(s.Actual.Sent, sent)
		}
	}
	s.Actual.VIPs = []steadycast.VIP{{Address: netip.MustParsePrefix("192.0.2.1/32"), Interface: "lo", Present: true, Ours: true, Usable: true}}
	for _, p := range []netip.Prefix{p4, p6} {
		s.Units = append(s.Units, Unit{Unit: steadycast.Unit{Site: name, Prefix: p}, Wanted: true, Proven: true, Since: ago(6 * 24 * time.Hour)})
	}
	for i, svc := range []string{"web", "dns"} {
		s.Services = append(s.Services, Service{Verdict: steadycast.Verdict{Site: name, Service: svc, State: steadycast.Healthy, Good: 500}, Since: ago(6 * 24 * time.Hour)})
		c := Check{Name: []string{"https", "ask"}[i], Service: svc, Kind: []string{"http", "dns"}[i], Target: "192.0.2.1:443", At: ago(400 * time.Millisecond), LastSuccess: ago(400 * time.Millisecond), Lag: 2 * time.Millisecond, Up: 500, Unknown: 1}
		c.Result = steadycast.Result{Outcome: steadycast.Up, Took: 3 * time.Millisecond}
		c.Took.Observe(3 * time.Millisecond)
		s.Checks = append(s.Checks, c)
	}
	return s
}

func view(s *Snapshot, u steadycast.Unit) *decide.UnitView {
	for i := range s.View.Units {
		if s.View.Units[i].Unit == u {
			return &s.View.Units[i]
		}
	}
	panic("no such unit: " + u.String())
}

func unit(s *Snapshot, u steadycast.Unit) *Unit {
	r, ok := s.Unit(u)
	if !ok {
		panic("no such unit: " + u.String())
	}
	return r
}

// The wire form is an interface: a change of it shows here. Other packages'
// tests read the same file.
func TestWireFormIsStable(t *testing.T) {
	got, err := json.MarshalIndent(fleet(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	golden(t, "testdata/snapshot.json", got)

	var back Snapshot
	d := json.NewDecoder(bytes.NewReader(got))
	d.DisallowUnknownFields()
	if err := d.Decode(&back); err != nil {
		t.Fatal(err)
	}
	again, _ := json.MarshalIndent(&back, "", " ")
	if !bytes.Equal(append(again, '\n'), got) {
		t.Error("a snapshot that was written and read back is another one")
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; if that is meant, run the test with -update and read the difference. Got:\n%s", file, got)
	}
}

// live is the snapshot moved to the present, every moment in it by as much.
func live(s *Snapshot) *Snapshot {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	moved := new(Snapshot)
	if err := json.Unmarshal(b, moved); err != nil {
		panic(err)
	}
	shift(reflect.ValueOf(moved).Elem(), time.Since(s.At))
	return moved
}

func shift(v reflect.Value, by time.Duration) {
	switch v.Kind() {
	case reflect.Struct:
		if t, ok := v.Interface().(time.Time); ok {
			if !t.IsZero() {
				v.Set(reflect.ValueOf(t.Add(by)))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				shift(v.Field(i), by)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			shift(v.Index(i), by)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			shift(v.Elem(), by)
		}
	}
}
