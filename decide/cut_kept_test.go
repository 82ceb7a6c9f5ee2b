package decide

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// remembering plays what nodes say that their cuts came to:
//
//	came SITE [PREFIX] STATE [over|unheard] AT [AGE]: WHY   what the cut at position AT came to
//	cuts                                                     what is remembered
func (s *stage) remembering(word string, args []string, text string) []string {
	if word == "cuts" {
		var out []string
		for _, k := range s.f.View().Cuts {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s at %d by %s, since %s %s", k.Unit, k.State, k.Fence.Index, cmp.Or(k.Node, "nobody"), wait(k.Since), strings.Join(k.Why, "; "))))
		}
		return out
	}
	c := CutTold{Node: args[0] + "-1", Cut: Cut{Unit: s.unit(args), Fence: steadycast.Fence{Epoch: 1}}}
	for _, w := range args[1:] {
		switch d, err := time.ParseDuration(w); {
		case w == "over":
			c.Over = true
		case w == "unheard":
			c.Unheard, c.Node = true, ""
		case err == nil && w != "0":
			c.AgeMS = d.Milliseconds()
		default:
			if n, err := strconv.ParseUint(w, 10, 64); err == nil {
				c.Fence.Index = n
			} else if _, err := netip.ParsePrefix(w); err != nil {
				c.State = CutState(strings.ReplaceAll(w, "-", " "))
			}
		}
	}
	if text != "" {
		c.Why = []string{text}
	}
	e := s.entry(KindCut)
	e.Cuts = []CutTold{c}
	return s.say(s.apply(e))
}

// TestCutsAreRemembered draws what nodes say of their cuts, nonsense among it, and
// holds what is remembered to it: the newest word of each cut, nothing of what is
// still going on, never more than the bound, nothing else moved; and a snapshot
// carries it.
func TestCutsAreRemembered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newFleetWorld(t)
		sites, prefixes := w.t.Announcers(), w.t.AllPrefixes()
		said := map[string]CutState{} // by unit, node and position
		key := func(c *Cut, node string) string { return fmt.Sprint(c.Unit, node, c.Fence) }
		t.Repeat(map[string]func(*rapid.T){
			"told": func(t *rapid.T) {
				e := w.entry(KindCut)
				for range rapid.IntRange(1, CutsTold+1).Draw(t, "cuts") {
					site := rapid.SampledFrom(sites).Draw(t, "site")
					e.Cuts = append(e.Cuts, CutTold{
						Node: site + rapid.SampledFrom([]string{"-1", "-2"}).Draw(t, "node"), AgeMS: rapid.Int64Range(-1, 1<<40).Draw(t, "age"),
						Cut: Cut{
							Unit: steadycast.Unit{Site: site, Prefix: rapid.SampledFrom(prefixes).Draw(t, "prefix")}, Fence: steadycast.Fence{Epoch: 1, Index: rapid.Uint64Range(1, 30).Draw(t, "at")},
							State: rapid.SampledFrom([]CutState{CutComplete, CutComplete, CutFailed, CutUnmeasured, CutInProgress, "odd"}).Draw(t, "state"),
							Over:  rapid.Bool().Draw(t, "over"), Decided: time.Duration(rapid.IntRange(-1, 100).Draw(t, "decided")),
							Why: slices.Repeat([]string{strings.Repeat("w", rapid.IntRange(0, cutText).Draw(t, "long"))}, rapid.IntRange(0, cutReasons).Draw(t, "why")),
						},
					})
				}
				good := len(e.Cuts) <= CutsTold
				for i := range e.Cuts {
					c := &e.Cuts[i]
					good = good && c.AgeMS >= 0 && c.Decided >= 0 && c.State != "odd" && (c.State != CutInProgress || c.Over)
				}
				before := w.f.View()
				r, err := w.f.Apply(e)
				if err != nil {
					t.Fatal(err)
				}
				if good != (r.Invalid == "") {
					t.Fatalf("good %t: %q", good, r.Invalid)
				}
				after := w.f.View()
				if !good {
					if len(after.Cuts) != len(before.Cuts) {
						t.Fatal("what was refused is remembered")
					}
					return
				}
				for i := range e.Cuts {
					said[key(&e.Cuts[i].Cut, e.Cuts[i].Node)] = e.Cuts[i].State
				}
				if !slices.Equal(before.Units, after.Units) || !slices.Equal(before.Prefixes, after.Prefixes) {
					t.Fatal("what is remembered moved something")
				}
			},
			"": func(t *rapid.T) {
				v := w.f.View()
				if len(v.Cuts) > cutsRemembered {
					t.Fatalf("%d are remembered", len(v.Cuts))
				}
				seen := map[string]bool{}
				for i := range v.Cuts {
					k := &v.Cuts[i]
					id := key(&k.Cut, k.Node)
					if seen[id] || said[id] != k.State || k.Since < 0 || k.Since > v.LT {
						t.Fatalf("%s is remembered twice, or as %s where %s was said, or since %d of %d", id, k.State, said[id], k.Since, v.LT)
					}
					seen[id] = true
				}
				twin := NewFleet()
				if err := twin.Restore(w.f.Snapshot()); err != nil || twin.Hash() != w.f.Hash() {
					t.Fatalf("a snapshot loses something: %v", err)
				}
			},
		})
	})
}

// TestCutsThatNeverEnd: more cuts than are remembered, each told again and again, are
// written down once; the newest of them stay, in whatever order they are told.
func TestCutsThatNeverEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newFleetWorld(t)
		site, prefix := w.t.Announcers()[0], w.t.AllPrefixes()[0]
		var told []CutTold
		for i := range cutsRemembered + rapid.IntRange(1, 30).Draw(t, "more") {
			told = append(told, CutTold{Node: site + "-" + strconv.Itoa(i), Cut: Cut{
				Unit:  steadycast.Unit{Site: site, Prefix: prefix},
				Fence: steadycast.Fence{Epoch: 1, Index: rapid.Uint64Range(1, 20).Draw(t, "at")}, State: CutFailed,
			}})
		}
		entries := 0
		for range 3 {
			for _, i := range rapid.Permutation(makeRange(len(told))).Draw(t, "order") {
				if told[i].Settled(w.f.View().Cuts) {
					continue
				}
				e := w.entry(KindCut)
				e.Cuts = []CutTold{told[i]}
				if r, err := w.f.Apply(e); err != nil || r.Invalid != "" {
					t.Fatal(r.Invalid, err)
				}
				entries++
			}
		}
		if entries > len(told) {
			t.Errorf("%d entries for %d cuts", entries, len(told))
		}
		v := w.f.View()
		for _, c := range told {
			older := 0
			for _, k := range v.Cuts {
				if k.Fence.Compare(c.Fence) < 0 {
					older++
				}
			}
			if !c.KnownIn(v.Cuts) && older > 0 {
				t.Fatalf("the cut at %s is forgotten, and %d older ones are not", c.Fence, older)
			}
		}
		if len(v.Cuts) != cutsRemembered {
			t.Errorf("%d are remembered", len(v.Cuts))
		}
	})
}

func makeRange(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// TestCutIsTold: a node tells of a cut until the ledger remembers what it came to,
// and once more when it comes to something else.
func TestCutIsTold(t *testing.T) {
	w := newCutWorld()
	told := func() []CutTold { return w.c.Tell(w.now, "fra-1") }
	keep := func() { // as the ledger does
		for _, c := range told() {
			w.c.Remembered("fra-1", []CutKept{{Cut: c.Cut, Node: c.Node}})
		}
	}
	if len(told()) != 0 {
		t.Error("something is told before anything left")
	}
	w.f.Announced, w.f.Rate = false, 0
	w.look(4)
	keep()
	if got := told(); len(got) != 1 || got[0].State != CutInProgress || got[0].AgeMS != 3000 || got[0].Node != "fra-1" {
		t.Errorf("%+v", got)
	}
	w.look(CutsTold)
	if got := told(); len(got) != 1 || got[0].State != CutComplete {
		t.Errorf("%+v", got)
	}
	keep()
	if got := told(); len(got) != 0 {
		t.Errorf("told though it is known: %+v", got)
	}
	w.f.Announced = true
	w.look(1)
	if got := told(); len(got) != 1 || !got[0].Over {
		t.Errorf("that it is over: %+v", got)
	}
	keep()
	if got := told(); len(got) != 0 {
		t.Errorf("told though it is known: %+v", got)
	}
	for range 3 * CutsTold { // nobody hears: the newest are told, and no more than fit
		w.f.Announced = !w.f.Announced
		w.look(1)
	}
	if got := told(); len(got) != CutsTold {
		t.Errorf("%d are told", len(got))
	}
}
