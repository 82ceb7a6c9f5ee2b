package ledger

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// TestSkewBook: who acts on another table is an alarm after a while, until he acts
// on the one in force or is not heard any more; the log has it once.
func TestSkewBook(t *testing.T) {
	var k skewBook
	beat := func(at time.Duration, site, node string, revision uint64) {
		k.hear(at, decide.Beat{Site: site, Node: node, Revision: revision}, 5)
	}
	names := func(all []Skewed) string {
		var s []string
		for _, x := range all {
			s = append(s, x.Site+"/"+x.Node)
		}
		return strings.Join(s, " ")
	}
	for at := time.Duration(0); at <= skewAfter; at += time.Second {
		if got := k.standing(at - 1); len(got) != 0 {
			t.Fatalf("after %v: %v", at, got)
		}
		beat(at, "lon", "lon-1", 4)
		beat(at, "fra", "", 4)
		beat(at, "ams", "", 5) // acts on the one in force
		beat(at, "par", "", 0) // says nothing of it
	}
	now := skewAfter
	got := k.standing(now)
	if names(got) != "fra/ lon/lon-1" || got[1] != (Skewed{"lon", "lon-1", 4, 5, skewAfter.Milliseconds()}) {
		t.Errorf("%+v", got)
	}
	if want := "table_skew: lon-1 acts on revision 4 of the table and the fleet on 5"; got[1].String() != want {
		t.Errorf("%q", got[1].String())
	}
	if got[0].String() != "table_skew: the node of fra acts on revision 4 of the table and the fleet on 5" {
		t.Errorf("%q", got[0].String())
	}
	if n := names(k.news(now)); n != "fra/ lon/lon-1" {
		t.Error(n)
	}
	if n := names(k.news(now)); n != "" {
		t.Errorf("said again: %s", n)
	}
	beat(now, "fra", "", 5)
	if n := names(k.standing(now)); n != "lon/lon-1" {
		t.Error(n)
	}
	if n := names(k.standing(now + skewSilent + 1)); n != "" {
		t.Errorf("silent, and still skewed: %s", n)
	}
}

// TestTableSkew: every voter says of a node that acts on another table, whoever
// leads, and whoever follows one of them learns it.
func TestTableSkew(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	c.leader()
	cl := c.client("fra", nil)
	until(t, "the view", func() bool { return cl.View().Fence.Epoch == 1 })
	until(t, "the voters to hear a node of another table", func() bool {
		cl.Beat(decide.Beat{Site: "fra", Incarnation: 1, Revision: 7})
		return !slices.ContainsFunc(c.all(), func(v *Voter) bool {
			v.skew.mu.Lock()
			defer v.skew.mu.Unlock()
			return len(v.skew.nodes) == 0
		})
	})
	for _, v := range c.all() { // as if that had been a while ago
		v.skew.mu.Lock()
		for i := range v.skew.nodes {
			v.skew.nodes[i].since -= skewAfter
		}
		v.skew.mu.Unlock()
	}
	until(t, "the alarm at who follows", func() bool {
		cl.Beat(decide.Beat{Site: "fra", Incarnation: 1, Revision: 7})
		return len(cl.Skewed()) == 1
	})
	for _, v := range c.all() {
		if s := v.State().Skewed; len(s) != 1 || s[0].Site != "fra" || s[0].Revision != 7 {
			t.Errorf("%s: %+v", v.opts.Node, s)
		}
		until(t, "the log to have it", func() bool { return c.books[v.opts.Node].count("table_skew: ") == 1 })
	}
	until(t, "its end", func() bool {
		cl.Beat(decide.Beat{Site: "fra", Incarnation: 1, Revision: cl.View().Table.Revision})
		return len(cl.Skewed()) == 0
	})
}
