package dnsfallback

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Side is one of two policies that are compared, in the state it would answer in.
// Without a policy there are no names.
type Side struct {
	Policy *Policy
	State  FleetState

	table *Table
}

// Difference is what one policy answers otherwise than another to one question.
type Difference struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Lost and Gained are members that only the first or only the second has, as
	// "fra 192.0.2.1"; of static records their data.
	Lost   []string `json:"lost,omitempty"`
	Gained []string `json:"gained,omitempty"`
	// Moved of the Sampled client networks are answered otherwise.
	Moved   int `json:"moved,omitempty"`
	Sampled int `json:"sampled,omitempty"`
	// Emptied: of a name that state steers somebody is well to answer with by the
	// first, and nobody by the second. Static records are taken away on purpose.
	Emptied bool `json:"emptied,omitempty"`
}

// String is the difference in one line for people.
func (d Difference) String() string {
	var parts []string
	if len(d.Lost) > 0 {
		parts = append(parts, "no more "+strings.Join(d.Lost, ", "))
	}
	if len(d.Gained) > 0 {
		parts = append(parts, "also "+strings.Join(d.Gained, ", "))
	}
	if d.Moved > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d sample clients are answered otherwise", d.Moved, d.Sampled))
	}
	if d.Emptied {
		parts = append(parts, "nobody that is well is left to answer with")
	}
	return d.Name + " " + d.Type + ": " + strings.Join(parts, "; ")
}

// samples is how many client networks are asked for in a comparison.
const samples = 256

// Compare tells what is answered otherwise, in order of name and type. Each sample
// client draws the same lot on both sides, so that no chance looks like a change.
// Who is where is looked up in the same maps for both.
func Compare(was, is Side, where *Maps) []Difference {
	var out []Difference
	a, b := was.sets(), is.sets()
	keys := slices.SortedFunc(maps.Keys(a), asked.compare)
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, asked.compare)
	was.prepare(where)
	is.prepare(where)
	for _, k := range keys {
		x, y := a[k], b[k]
		d := Difference{Name: k.name.text(), Type: dns.TypeToString[k.typ], Lost: without(x.members, y.members), Gained: without(y.members, x.members)}
		d.Emptied = x.steered != nil && len(x.well) > 0 && len(y.well) == 0
		if x.steered != nil && y.steered != nil {
			d.Sampled = samples
			d.Moved = moved(&was, &is, x.steered, y.steered, where, k.typ)
		}
		if d.Emptied || d.Moved > 0 || len(d.Lost)+len(d.Gained) > 0 {
			out = append(out, d)
		}
	}
	return out
}

// asked is what may be asked.
type asked struct {
	name name
	typ  uint16
}

func (q asked) compare(p asked) int {
	if c := strings.Compare(q.name.text(), p.name.text()); c != 0 {
		return c
	}
	return int(q.typ) - int(p.typ)
}

// answer is who may be answered with, by words for people, and who of them is well.
type answer struct {
	members, well []string
	steered       *steered
}

// sets are all questions that a side has answers to.
func (s *Side) sets() map[asked]answer {
	out := map[asked]answer{}
	if s.Policy == nil {
		return out
	}
	for n, node := range s.Policy.nodes {
		for _, set := range node.sets {
			if set.typ == dns.TypeSOA || len(set.data) == 0 {
				continue // its serial is the revision
			}
			var data []string
			for _, d := range set.data {
				text := "data that cannot be shown"
				if rr, err := set.record(d); err == nil {
					text = strings.TrimPrefix(rr.String(), rr.Header().String())
				}
				data = append(data, text)
			}
			slices.Sort(data)
			out[asked{n, set.typ}] = answer{members: data, well: data}
		}
	}
	for _, t := range s.Policy.steered {
		for family, typ := range []uint16{typeA, typeAAAA} {
			x := answer{steered: t}
			s.gather(&x, t.pool, family)
			if m := t.anycast; m != nil && m.count[family] > 0 {
				x.well = append(x.well, m.name)
			}
			slices.Sort(x.members)
			if x.members = slices.Compact(x.members); len(x.members) > 0 {
				out[asked{t.name, typ}] = x
			}
		}
	}
	return out
}

// gather adds the members of a pool, and of those it names.
func (s *Side) gather(x *answer, o *pool, family int) {
	all := o.members
	if o.fallback != nil {
		all = append(slices.Clip(all), o.fallback)
	}
	for _, m := range all {
		if m.pool != nil {
			s.gather(x, m.pool, family)
			continue
		}
		text := m.shows(family)
		if text == "" {
			continue
		}
		x.members = append(x.members, text)
		if m.site == "" || !s.State.stand(m.key, m, family == 1).out {
			x.well = append(x.well, text)
		}
	}
}

// shows is a member with its addresses of a family; empty if it has none.
func (m *member) shows(family int) string {
	var what []string
	for _, a := range addressesIn(m.addresses[family]) {
		what = append(what, a.String())
	}
	if m.alias != nil {
		what = append(what, "an alias")
	}
	if len(what) == 0 {
		return ""
	}
	return m.name + " " + strings.Join(what, " ")
}

// addressesIn reads the addresses of records in wire form: an owner of two octets
// that points at the question, then type, class, TTL, length and data (RFC 1035 §4.1.3).
func addressesIn(records []byte) (out []netip.Addr) {
	const head = 12
	for len(records) >= head {
		n := int(binary.BigEndian.Uint16(records[head-2:]))
		if len(records) < head+n {
			break
		}
		if a, ok := netip.AddrFromSlice(records[head : head+n]); ok {
			out = append(out, a)
		}
		records = records[head+n:]
	}
	return out
}

// prepare makes a side ready to be asked.
func (s *Side) prepare(where *Maps) {
	if s.Policy != nil {
		s.table = s.Policy.Table(0, where, s.State)
	}
}

// moved counts the sample clients that are given something else.
func moved(was, is *Side, x, y *steered, where *Maps, typ uint16) (n int) {
	family := 0
	if typ == typeAAAA {
		family = 1
	}
	for i := range samples {
		// All over IPv4 space: a prime apart, so that neither regions nor hashes line up.
		client := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(1 + i*211%223), byte(i * 89), byte(i * 151), 0}), 24)
		if !bytes.Equal(was.ask(x, where, client, family, uint64(i)), is.ask(y, where, client, family, uint64(i))) {
			n++
		}
	}
	return n
}

// ask gives what one client is given, by the lot it draws.
func (s *Side) ask(t *steered, where *Maps, client netip.Prefix, family int, lot uint64) []byte {
	c := chooser{draw: mix(lot + 1), turn: lot, aside: true}
	c.start(where, client, true, family)
	s.table.choose(&c, t)
	return c.given
}

// without is what of a is not in b; both are in order.
func without(a, b []string) (out []string) {
	for _, x := range a {
		if _, ok := slices.BinarySearch(b, x); !ok {
			out = append(out, x)
		}
	}
	return out
}
