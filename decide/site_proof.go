package decide

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/steadycast/steadycast"
)

// Proof: what was wanted is compared with what left on the wire, per peer and
// prefix. A change is proven when every peer that is up has acknowledged it;
// what is not proven in time is an alarm that names the peer and the prefix.

// peerWatch is one peer's part of the proof.
type peerWatch struct {
	name    string
	off     bool   // the routes go another path
	stuck   bool   // holds what it was sent, and reads no more
	odd     string // what is not as wanted, in words; empty when all is
	prefix  netip.Prefix
	since   Now // when it became odd
	sent    int // wanted prefixes it was sent
	carried int // wanted prefixes its families can carry
}

// prove takes what the speaker did. A speaker that was lost or started anew is
// given the whole set again.
func (s *Site) prove(now Now, a steadycast.Actual) {
	anew := s.proved && a.Restarted(&s.actual)
	s.actual, s.proved = a, true
	s.compare(now)
	if s.speakerGone != "" {
		s.speakerGone = ""
		s.resend, s.compared = true, false
		s.recover(alarmKey{kind: "speaker lost"}, steadycast.Event{Reason: "the speaker is within reach again"})
	}
	for i := range s.units {
		u := &s.units[i]
		if anew && u.announced && !u.onWire && u.view.Order == steadycast.OrderNone && u.mine.Kind != steadycast.OrderAnnounce && !s.well(u, (*service).up) {
			s.takeOut(u, "the speaker started anew and the local check does not pass")
		}
	}
	if anew {
		s.resend = true
		s.note(steadycast.Event{Kind: steadycast.EventRoute, Reason: "the speaker started anew and is given the whole set"})
	}
	if a.Alarm != "" {
		s.relay(alarmKey{kind: "speaker"}, steadycast.Event{Reason: "speaker: " + a.Alarm})
	} else {
		s.recover(alarmKey{kind: "speaker"}, steadycast.Event{Reason: "the speaker reports no fault any more"})
	}
}

func (s *Site) loseSpeaker(why string) {
	if s.speakerGone != "" {
		return
	}
	s.speakerGone, s.compared = cmp.Or(why, "no reason given"), false
	s.alarm(alarmKey{kind: "speaker lost"}, steadycast.Event{
		Reason: "the speaker cannot be reached: " + s.speakerGone + "; what it announces is not known",
	})
}

// watch compares the wanted set with the wire, tells a completed proof once, and
// raises and ends the alarms of what stays unproven.
func (s *Site) watch(now Now, wake *deadline) {
	if !s.compared {
		s.compare(now)
	}
	up, odd := 0, false
	for i := range s.peers {
		w := &s.peers[i]
		if !w.stuck && !w.off {
			up++
		}
		odd = odd || w.odd != ""
		s.watchPeer(now, w, wake)
	}
	s.endStrangers()
	s.watchSessions(now, up, wake)
	s.watchPath(now, wake)
	open := s.watchViews(now, wake)
	if up == 0 || odd || open || s.pathOpen() != "" || len(s.changed) == 0 || s.speakerGone != "" {
		return
	}
	e := steadycast.Event{
		Kind: steadycast.EventProof, To: fmt.Sprintf("version %d", s.set.Version),
		Reason: fmt.Sprintf("acknowledged by %d of %d peers that are up, %s after it was wanted", up, up, seconds(now-s.setAt)),
	}
	if e.Prefix = s.changed[0]; len(s.changed) > 1 {
		e.Reason = fmt.Sprintf("and %d more: ", len(s.changed)-1) + e.Reason
	}
	s.changed = nil
	s.note(e)
}

func (s *Site) watchPeer(now Now, w *peerWatch, wake *deadline) {
	key := alarmKey{kind: "unproven", name: w.name}
	switch {
	case w.odd == "":
		s.recover(key, steadycast.Event{Peer: w.name, Reason: "what was sent is what is wanted again"})
	case now < w.since+proveWithin:
		wake.by(w.since + proveWithin)
	case w.carried > 0 && w.sent == 0:
		s.alarm(key, steadycast.Event{
			Peer: w.name, Prefix: w.prefix,
			Reason: fmt.Sprintf("session up, zero prefixes: %d are wanted at %s and none was sent", w.carried, w.name),
		})
	default:
		s.alarm(key, steadycast.Event{
			Peer: w.name, Prefix: w.prefix,
			Reason: fmt.Sprintf("unproven for %s: %s %s", seconds(proveWithin), w.name, w.odd),
		})
	}
}

// endStrangers ends the alarms of peers that are no longer up: the lost session
// is the news now.
func (s *Site) endStrangers() {
	for i := 0; i < len(s.alarms); {
		k := s.alarms[i].key
		if k.kind == "unproven" && !slices.ContainsFunc(s.peers, func(w peerWatch) bool { return w.name == k.name }) {
			s.recover(k, steadycast.Event{Peer: k.name, Reason: "the session is no longer up, nothing is to be proven there"})
			continue
		}
		i++
	}
}

func (s *Site) watchSessions(now Now, up int, wake *deadline) {
	key := alarmKey{kind: "sessions"}
	if up > 0 {
		s.sessionless = false
		s.recover(key, steadycast.Event{Reason: "a BGP session is up again"})
		return
	}
	if !s.sessionless {
		s.sessionless, s.sessionlessAt = true, now
	}
	if at := s.sessionlessAt + proveWithin; now < at {
		wake.by(at)
		return
	}
	s.alarm(key, steadycast.Event{Reason: fmt.Sprintf("no BGP session is up (%d configured): nothing is announced from here", len(s.actual.Peers))})
}

// compare fills in, for each peer that is up and each unit, whether the wire is
// as wanted.
func (s *Site) compare(now Now) {
	s.compared = true
	old := s.peers
	s.peers = nil
	for i := range s.units {
		u := &s.units[i]
		u.onWire, u.acked, u.proven, u.unproven, u.contradicted = false, false, true, "", false
	}
	taken := s.actual.Incarnation == s.set.Incarnation && s.actual.Version >= s.set.Version || !s.given
	for _, p := range s.actual.Peers {
		w := peerWatch{name: p.Name, stuck: p.State == steadycast.PeerStuck, off: p.OffPath}
		if !p.Up() && !w.stuck {
			continue // its routes went with its session
		}
		s.comparePeer(p, &w, taken)
		if w.odd != "" {
			w.since = now
			if i := slices.IndexFunc(old, func(o peerWatch) bool { return o.name == p.Name }); i >= 0 && old[i].odd != "" {
				w.since = max(old[i].since, s.setAt)
			}
		}
		s.peers = append(s.peers, w)
	}
	for i := range s.units {
		u := &s.units[i]
		switch {
		case s.speakerGone != "":
			u.proven, u.unproven = false, "the speaker cannot be reached"
		case u.announced && u.unproven == "" && !u.onWire:
			u.proven, u.unproven = false, "no session is up that carries it"
		case u.announced && u.unproven == "" && s.pathOpen() != "":
			u.proven, u.unproven = false, s.pathOpen()
		default:
			s.compareViews(u)
		}
	}
}

// comparePeer walks the units and what one peer was sent side by side.
func (s *Site) comparePeer(p steadycast.Peer, w *peerWatch, taken bool) {
	rows := s.rows(p.Name)
	oddity := func(prefix netip.Prefix, u *unit, text string) {
		if w.stuck {
			text = "is stuck and " + text
		}
		if w.odd == "" {
			w.odd, w.prefix = text, prefix
		}
		if u != nil && u.unproven == "" {
			u.proven, u.unproven = false, p.Name+" "+text
		}
	}
	for i := range s.units {
		u := &s.units[i]
		for len(rows) > 0 && comparePrefix(rows[0].Prefix, u.id.Prefix) < 0 {
			if rows[0].Announced && !s.covered(rows[0].Prefix) {
				oddity(rows[0].Prefix, nil, "still has a prefix that is in no service")
			}
			rows = rows[1:]
		}
		var row steadycast.Sent
		there := len(rows) > 0 && rows[0].Prefix == u.id.Prefix
		if there {
			row, rows = rows[0], rows[1:]
		}
		if row.Announced {
			u.onWire = true
			u.acked = u.acked || !row.Acked.IsZero()
		}
		if p.Path != "" && s.pathOpen() != "" && p.Path != s.actual.Toward {
			continue // it is about to be left, and shows nothing of what is wanted
		}
		wanted := u.announced && !p.OffPath
		if wanted && !carries(p, u.id.Prefix) {
			continue
		}
		if wanted {
			w.carried++
		}
		if row.Announced && wanted {
			w.sent++
		}
		if text := mismatch(u, wanted, row, there, taken); text != "" {
			oddity(u.id.Prefix, u, text)
		}
	}
	for _, row := range rows {
		if row.Announced && !s.covered(row.Prefix) {
			oddity(row.Prefix, nil, "still has a prefix that is in no service")
		}
	}
}

// mismatch says how one row differs from what is wanted.
func mismatch(u *unit, wanted bool, row steadycast.Sent, there, taken bool) string {
	switch {
	case wanted && !row.Announced:
		return "was not sent the route"
	case !wanted && row.Announced:
		return "was not sent the withdrawal"
	case wanted && row.Stale:
		return "has the route as it was before the newest change"
	case wanted && !covers(row.Attributes, u.policy):
		return "was sent other communities or MED than are wanted"
	case there && row.Acked.IsZero():
		return "has not acknowledged it"
	case wanted && !taken:
		return "is not known to have the newest change: the speaker has not taken it"
	default:
		return ""
	}
}

// covers: the route left with at least the communities of the policy. What a
// stance adds is each neighbour's own matter.
func covers(a steadycast.Attributes, p Prefix) bool {
	for _, c := range p.Communities {
		if !slices.Contains(a.Communities, c) {
			return false
		}
	}
	for _, c := range p.LargeCommunities {
		if !slices.Contains(a.LargeCommunities, c) {
			return false
		}
	}
	return p.MED == nil || a.MED != nil && *a.MED == *p.MED
}

// carries reports whether the session negotiated the prefix's family.
func carries(p steadycast.Peer, prefix netip.Prefix) bool {
	family := "ipv4"
	if prefix.Addr().Is6() {
		family = "ipv6"
	}
	return len(p.Families) == 0 || slices.Contains(p.Families, family)
}

// rows are what one peer was sent, in order of prefix. The speaker gives them so,
// and then they are not copied.
func (s *Site) rows(peer string) []steadycast.Sent {
	all := s.actual.Sent
	from := slices.IndexFunc(all, func(r steadycast.Sent) bool { return r.Peer == peer })
	if from < 0 {
		return nil
	}
	to := from + 1
	sorted := true
	for ; to < len(all) && all[to].Peer == peer; to++ {
		sorted = sorted && comparePrefix(all[to-1].Prefix, all[to].Prefix) < 0
	}
	if sorted && !slices.ContainsFunc(all[to:], func(r steadycast.Sent) bool { return r.Peer == peer }) {
		return all[from:to]
	}
	var rows []steadycast.Sent
	for _, r := range all {
		if r.Peer == peer {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b steadycast.Sent) int { return comparePrefix(a.Prefix, b.Prefix) })
	return rows
}

// alarmKey names one standing alarm.
type alarmKey struct{ kind, name string }

// alarm is something that needs a person, until it ends.
type alarm struct {
	key   alarmKey
	event steadycast.Event
}

// alarm raises one, once.
func (s *Site) alarm(k alarmKey, e steadycast.Event) {
	i, found := s.findAlarm(k)
	if found {
		return
	}
	e.Kind = steadycast.EventAlarm
	s.alarms = slices.Insert(s.alarms, i, alarm{k, e})
	s.note(e)
}

// relay raises an alarm in somebody else's words: other words are another alarm
// in its place.
func (s *Site) relay(k alarmKey, e steadycast.Event) {
	if i, found := s.findAlarm(k); found && s.alarms[i].event.Reason != e.Reason {
		s.alarms = slices.Delete(s.alarms, i, i+1)
	}
	s.alarm(k, e)
}

// recover ends one that was raised.
func (s *Site) recover(k alarmKey, e steadycast.Event) {
	i, found := s.findAlarm(k)
	if !found {
		return
	}
	s.alarms = slices.Delete(s.alarms, i, i+1)
	e.Kind = steadycast.EventRecovery
	s.note(e)
}

func (s *Site) findAlarm(k alarmKey) (int, bool) {
	return slices.BinarySearchFunc(s.alarms, k, func(a alarm, k alarmKey) int {
		return cmp.Or(cmp.Compare(a.key.kind, k.kind), cmp.Compare(a.key.name, k.name))
	})
}
