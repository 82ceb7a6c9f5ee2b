package bgp

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
)

// Plan says what Reconfigure would do, one change per neighbour: those of next
// in order, then those that go. Nothing is touched but password files, which
// are read.
func (s *Speaker) Plan(next Settings) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	steps := s.plan(next.WithDefaults())
	out := make([]Change, len(steps))
	for i, st := range steps {
		out[i] = st.Change
	}
	return out
}

// step is a Change and the neighbours it is about.
type step struct {
	Change
	old  *neighbor // nil for add
	next Neighbor  // zero for remove
}

func (s *Speaker) plan(next Settings) []step {
	var out []step
	for _, n := range next.Neighbors {
		i := slices.IndexFunc(s.neighbors, func(o *neighbor) bool { return o.cfg.Name == n.Name })
		if i < 0 {
			out = append(out, step{Change{n.Name, ChangeAdd, fmt.Sprintf("%s is new: a session with %s will be opened", n.Name, n.Address)}, nil, n})
			continue
		}
		kind, why := s.compare(s.neighbors[i], next, n)
		out = append(out, step{Change{n.Name, kind, why}, s.neighbors[i], n})
	}
	for _, o := range s.neighbors {
		if !slices.ContainsFunc(next.Neighbors, func(n Neighbor) bool { return n.Name == o.cfg.Name }) {
			out = append(out, step{Change{o.cfg.Name, ChangeRemove, fmt.Sprintf("%s is gone: its session will be closed", o.cfg.Name)}, o, Neighbor{}})
		}
	}
	return out
}

// resetKeys are the settings that live in the connection or the OPEN.
var resetKeys = []struct {
	key string
	of  func(Neighbor) any
}{
	{"address", func(n Neighbor) any { return n.Address }},
	{"port", func(n Neighbor) any { return n.Port }},
	{"asn", func(n Neighbor) any { return n.ASN }},
	{"local_address", func(n Neighbor) any { return n.LocalAddress }},
	{"bind_device", func(n Neighbor) any { return n.BindDevice }},
	{"passive", func(n Neighbor) any { return n.Passive }},
	{"listen_port", func(n Neighbor) any { return n.ListenPort }},
	{"ttl_security", func(n Neighbor) any { return n.TTLSecurity }},
	{"multihop", func(n Neighbor) any { return n.Multihop }},
	{"hold_time", func(n Neighbor) any { return n.HoldTime }},
	{"keepalive", func(n Neighbor) any { return n.Keepalive }},
	{"families", func(n Neighbor) any { return sortedFamilies(n.Families) }},
}

// attributeKeys are the settings that only change what an UPDATE says.
var attributeKeys = []struct {
	key string
	of  func(Neighbor) any
}{
	{"path", func(n Neighbor) any { return n.Path }},
	{"next_hop4", func(n Neighbor) any { return n.NextHop4 }},
	{"next_hop6", func(n Neighbor) any { return n.NextHop6 }},
	{"communities", func(n Neighbor) any { return n.Communities }},
	{"large_communities", func(n Neighbor) any { return n.LargeCommunities }},
	{"med", func(n Neighbor) any { return n.MED }},
	{"prepend", func(n Neighbor) any { return n.Prepend }},
	{"local_pref", func(n Neighbor) any { return n.LocalPref }},
	{"deprefer", func(n Neighbor) any { return n.Deprefer }},
	{"drain", func(n Neighbor) any { return n.Drain }},
	{"backup", func(n Neighbor) any { return n.Backup }},
}

// compare says what becoming n in next does to o.
func (s *Speaker) compare(o *neighbor, next Settings, n Neighbor) (ChangeKind, string) {
	var resets []string
	if o.settings.RouterID != next.RouterID {
		resets = append(resets, "router_id")
	}
	if o.asn != n.localASN(next) {
		resets = append(resets, "our own asn")
	}
	cur := o.current()
	for _, k := range resetKeys {
		if !reflect.DeepEqual(k.of(cur), k.of(n)) {
			resets = append(resets, k.key)
		}
	}
	if secret, err := n.secret(); err != nil || secret != o.password {
		resets = append(resets, "password")
	}
	if cur.BFD != nil && n.BFD == nil {
		// Several routers take AdminDown for the end of the way, and all of them
		// silence; the routes would go in any case.
		resets = append(resets, "bfd")
	}
	if len(resets) > 0 {
		return ChangeReset, fmt.Sprintf("%s changed: session %s will be reset", strings.Join(resets, ", "), n.Name)
	}
	var reasons []string
	for _, k := range attributeKeys {
		if !reflect.DeepEqual(k.of(cur), k.of(n)) {
			reasons = append(reasons, k.key)
		}
	}
	allow := next.allowed()
	var gone []string
	for _, r := range s.set.Routes {
		if !allow.may(r) {
			gone = append(gone, r.Prefix.String())
		}
	}
	switch {
	case len(gone) > 0:
		return ChangeAttributes, fmt.Sprintf("no longer allowed, will be withdrawn: %s", strings.Join(gone, ", "))
	case len(reasons) > 0:
		return ChangeAttributes, fmt.Sprintf("%s changed: routes that differ are sent again, session %s stays", strings.Join(reasons, ", "), n.Name)
	case !reflect.DeepEqual(cur.BFD, n.BFD):
		return ChangeAttributes, fmt.Sprintf("bfd changed: agreed with the router in flight, session %s stays", n.Name)
	case cur.ConnectRetry != n.ConnectRetry:
		return ChangeNone, "connect_retry changed: used from the next attempt"
	default:
		return ChangeNone, "nothing changed"
	}
}

func sortedFamilies(fs []string) []string {
	fs = slices.Clone(fs)
	slices.Sort(fs)
	return fs
}

// Reconfigure moves to next and touches only what differs; the same settings
// again do nothing at all. If next has problems, or a password file cannot be
// read, nothing is changed. A prefix that next does not allow any more is
// withdrawn at once.
func (s *Speaker) Reconfigure(next Settings) error {
	if err := asError(next.Problems()); err != nil {
		return err
	}
	next = next.WithDefaults()
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return errStopped
	}
	steps := s.plan(next)
	fresh := make(map[string]*neighbor)
	for _, st := range steps {
		if st.Kind != ChangeAdd && st.Kind != ChangeReset {
			continue
		}
		nb, err := newNeighbor(next, st.next, s.logger, &s.doors, &s.bfd, s.changed)
		if err != nil {
			s.mu.Unlock()
			for _, nb := range fresh {
				nb.engine.stop()
			}
			return fmt.Errorf("nothing is changed: %w", err)
		}
		fresh[st.Neighbor] = nb
	}
	s.settings, s.allow = next, next.allowed()
	s.set.Routes = slices.DeleteFunc(slices.Clone(s.set.Routes), func(r steadycast.Route) bool { return !s.allow.may(r) })
	var kept []*neighbor
	var waits []<-chan struct{}
	for _, st := range steps {
		nb := st.old
		switch st.Kind {
		case ChangeNone, ChangeAttributes:
			waits = append(waits, nb.become(next, st.next, s.allow.any, s.way().routesFor(st.next.Path)))
		case ChangeRemove:
			nb.stop(&fault{Code: codeCease, Sub: subDeconfig, Text: st.Reason})
			delete(s.late, st.Neighbor)
			continue
		case ChangeReset:
			old := st.old
			nb = fresh[st.Neighbor]
			nb.inherit(old)
			old.stop(&fault{Code: codeCease, Sub: 6, Text: st.Reason})
			waits = append(waits, nb.pusher.set(s.way().routesFor(st.next.Path)))
			nb.startAfter(old.done)
		case ChangeAdd:
			nb = fresh[st.Neighbor]
			waits = append(waits, nb.pusher.set(s.way().routesFor(st.next.Path)))
			nb.start()
		}
		kept = append(kept, nb)
		if st.Kind != ChangeNone {
			s.logger.Info("neighbour reconfigured", "peer", st.Neighbor, "change", string(st.Kind), "reason", st.Reason)
		}
	}
	s.neighbors = kept
	s.mu.Unlock()
	s.changed()
	s.await(kept, waits)
	return nil
}
