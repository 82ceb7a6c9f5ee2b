package bgp

import (
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// sentTable is what left on the wire in one session: the proof. One row per
// prefix, and a queue of what the router's TCP has not acknowledged yet.
// The neighbour's lock guards it.
type sentTable struct {
	rows  map[netip.Prefix]*sentRow
	order []netip.Prefix // of rows; sorted if !unsorted
	// unsorted is set when order grew at its end.
	unsorted  bool
	announced int
	// waiting rows in the order they were written.
	waiting []waitingRow
}

type sentRow struct {
	announced  bool
	attributes steadycast.Attributes
	at, acked  time.Time
	end        uint64
}

type waitingRow struct {
	row *sentRow
	end uint64
}

func newSentTable() *sentTable { return &sentTable{rows: map[netip.Prefix]*sentRow{}} }

// record takes in one UPDATE that was written at the time at and ends at the
// offset end of the session's octets.
func (t *sentTable) record(u *update, at time.Time, end uint64) {
	for _, p := range u.withdrawn {
		t.put(p, sentRow{at: at, end: end})
	}
	for _, p := range u.announced {
		t.put(p, sentRow{announced: true, attributes: u.attributesOf(p), at: at, end: end})
	}
}

func (t *sentTable) put(p netip.Prefix, r sentRow) {
	row, ok := t.rows[p]
	if !ok {
		row = new(sentRow)
		t.rows[p] = row
		t.order = append(t.order, p)
		t.unsorted = true
	}
	if row.announced != r.announced {
		if r.announced {
			t.announced++
		} else {
			t.announced--
		}
	}
	*row = r
	t.waiting = append(t.waiting, waitingRow{row, r.end})
}

// holds returns those of prefixes that are announced, in their order.
func (t *sentTable) holds(prefixes []netip.Prefix) (out []netip.Prefix) {
	for _, p := range prefixes {
		if r, ok := t.rows[p]; ok && r.announced {
			out = append(out, p)
		}
	}
	return out
}

// acknowledge marks every row whose octets end at or before acked. It reports
// whether any did.
func (t *sentTable) acknowledge(acked uint64, at time.Time) bool {
	n := 0
	for ; n < len(t.waiting) && t.waiting[n].end <= acked; n++ {
		// A row that was written again since waits further back.
		if w := t.waiting[n]; w.row.end == w.end {
			w.row.acked = at
		}
	}
	if n == len(t.waiting) {
		t.waiting = t.waiting[:0]
	} else {
		t.waiting = slices.Delete(t.waiting, 0, n)
	}
	return n > 0
}

// rowsOf returns a copy for a snapshot, in order of prefix.
func (t *sentTable) rowsOf(peer string) []steadycast.Sent {
	if t.unsorted {
		slices.SortFunc(t.order, comparePrefix)
		t.unsorted = false
	}
	out := make([]steadycast.Sent, len(t.order))
	for i, p := range t.order {
		r := t.rows[p]
		out[i] = steadycast.Sent{Peer: peer, Prefix: p, Announced: r.announced, Attributes: r.attributes, At: r.at, Acked: r.acked}
	}
	return out
}
