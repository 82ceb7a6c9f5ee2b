package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// crowd is a fleet of n sites of which everybody sees everybody, and a voter
// that hears all of it.
type crowd struct {
	t     Table
	c     CrossCheck
	seq   uint64
	views map[string]map[string]steadycast.Outcome // vantage, subject
}

func newCrowd(n int) *crowd {
	w := &crowd{views: map[string]map[string]steadycast.Outcome{}}
	w.t.Services = []Service{{Name: "web", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}
	for i := range n {
		w.t.Sites = append(w.t.Sites, Place{Name: fmt.Sprintf("s%d", i)})
	}
	w.t = w.t.WithDefaults()
	return w
}

func (w *crowd) say(from Now, vantage, subject string, o steadycast.Outcome) {
	w.seq++
	w.c.Hear(from, steadycast.Observation{Vantage: vantage, Subject: subject, Service: "web", Seq: w.seq, Result: steadycast.Result{Outcome: o, Class: steadycast.Soft}})
	if w.views[vantage] == nil {
		w.views[vantage] = map[string]steadycast.Outcome{}
	}
	w.views[vantage][subject] = o
}

// all lets everybody say of everybody what is the case.
func (w *crowd) all(from Now, is func(vantage, subject string) steadycast.Outcome) {
	for _, p := range w.t.Sites {
		for _, v := range w.t.Vantages(p.Name) {
			w.say(from, v, p.Name, is(v, p.Name))
		}
	}
}

func names(xs []Ineligible) (ns []string) {
	for _, x := range xs {
		ns = append(ns, x.Vantage)
	}
	return ns
}

// TestIneligible: rule B3 as sentences.
func TestIneligible(t *testing.T) {
	const up, down, unknown = steadycast.Up, steadycast.Down, steadycast.Unknown
	for _, c := range []struct {
		what string
		is   func(vantage, subject string) steadycast.Outcome
		want []string
	}{
		{"all is well", func(v, s string) steadycast.Outcome { return up }, nil},
		{"one sees nothing up", func(v, s string) steadycast.Outcome {
			return map[bool]steadycast.Outcome{true: down, false: up}[v == "s3"]
		}, []string{"s3"}},
		{"one broken path silences nobody", func(v, s string) steadycast.Outcome {
			return map[bool]steadycast.Outcome{true: down, false: up}[v == "s3" && s == "s1"]
		}, nil},
		{"half is not more than half", func(v, s string) steadycast.Outcome {
			return map[bool]steadycast.Outcome{true: down, false: up}[v == "s3" && (s == "s1" || s == "s2")]
		}, nil},
		{"who cannot tell fails nothing", func(v, s string) steadycast.Outcome {
			return map[bool]steadycast.Outcome{true: unknown, false: up}[v == "s3"]
		}, nil},
		{"what most see down is down", func(v, s string) steadycast.Outcome {
			return map[bool]steadycast.Outcome{true: down, false: up}[s == "s1" || s == "s2" || s == "s4"]
		}, nil},
		{"the subject itself does not count", func(v, s string) steadycast.Outcome {
			return map[bool]steadycast.Outcome{true: down, false: up}[v == "s3" && (s == "s0" || s == "s1")]
		}, nil},
		{"two that see nothing up, of six", func(v, s string) steadycast.Outcome {
			return map[bool]steadycast.Outcome{true: down, false: up}[v == "s3" || v == "s5"]
		}, []string{"s3", "s5"}},
	} {
		w := newCrowd(6)
		w.all(0, c.is)
		if got := names(w.c.Ineligible(time.Second, w.t, "s0")); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v is ineligible, want %v", c.what, got, c.want)
		}
		if got := w.c.Ineligible(time.Minute, w.t, "s0"); len(got) > 0 {
			t.Errorf("%s: after a minute of silence %v is ineligible", c.what, got)
		}
	}
}

// TestIneligibleIsNeverHonest: whatever sites are down, and whatever fewer liars
// than a third say, nobody is ineligible who tells the truth.
func TestIneligibleIsNeverHonest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(4, 9).Draw(t, "sites")
		w := newCrowd(n)
		dead, liar := map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(0, n).Draw(t, "dead") {
			dead[w.t.Sites[rapid.IntRange(0, n-1).Draw(t, "dead site")].Name] = true
		}
		for range rapid.IntRange(0, (n-2)/3).Draw(t, "liars") {
			liar[w.t.Sites[rapid.IntRange(0, n-1).Draw(t, "liar")].Name] = true
		}
		w.all(0, func(v, s string) steadycast.Outcome {
			if liar[v] {
				return rapid.SampledFrom([]steadycast.Outcome{steadycast.Down, steadycast.Up, steadycast.Unknown}).Draw(t, "lie")
			}
			if dead[s] {
				return steadycast.Down
			}
			return steadycast.Up
		})
		subject := w.t.Sites[rapid.IntRange(0, n-1).Draw(t, "subject")].Name
		for _, x := range w.c.Ineligible(time.Second, w.t, subject) {
			if !liar[x.Vantage] {
				t.Fatalf("%s tells the truth and is ineligible: %s", x.Vantage, x.Reason)
			}
		}
	})
}

// TestPassing: only what is later than the evidence, fresh, and of who watches,
// speaks against a withdrawal.
func TestPassing(t *testing.T) {
	w := newCrowd(5)
	w.all(0, func(v, s string) steadycast.Outcome { return steadycast.Up })
	r := steadycast.Request{Site: "s0", Action: steadycast.Withdraw}
	r.Evidence = w.t.evidence("s0", "web", w.seq+1, steadycast.Result{Outcome: steadycast.Down})
	if got := w.c.Passing(time.Second, w.t, r); got != nil {
		t.Errorf("older than the evidence, and speaks against it: %v", got)
	}
	w.seq += 10
	w.say(time.Second, "s1", "s0", steadycast.Up)
	w.say(time.Second, "s2", "s0", steadycast.Down)
	w.say(time.Second, "zrh", "s0", steadycast.Up)
	w.say(time.Second, "s3", "s1", steadycast.Up)
	r.Evidence = r.Evidence[:4] // nothing of s4 is in it, which passed at 0
	got := w.c.Passing(2*time.Second, w.t, r)
	if len(got) != 1 || !slices.Equal(got[0].Vantages, []string{"s1", "s4"}) {
		t.Errorf("%v speak against it, want s1 (later) and s4 (not in it)", got)
	}
	if got := w.c.Passing(4*time.Second+1, w.t, r); len(got) != 1 || !slices.Equal(got[0].Vantages, []string{"s1"}) {
		t.Errorf("%v speak against it, want s1 alone: s4 is too old", got)
	}
	r.Action = steadycast.Return
	if got := w.c.Passing(2*time.Second, w.t, r); got != nil {
		t.Errorf("a return is spoken against by %v", got)
	}
}

// TestHear: what is repeated or came late changes nothing, and what the table no
// longer has is forgotten.
func TestHear(t *testing.T) {
	w := newCrowd(3)
	w.say(time.Second, "s1", "s0", steadycast.Up)
	late := steadycast.Observation{Vantage: "s1", Subject: "s0", Service: "web", Result: steadycast.Result{Outcome: steadycast.Down}}
	for _, x := range []struct {
		from Now
		seq  uint64
	}{{time.Second, 1}, {2 * time.Second, 0}, {0, 9}} {
		late.Seq = x.seq
		w.c.Hear(x.from, late)
		if l := w.c.targets[0].looks[0]; l.outcome != steadycast.Up {
			t.Errorf("one of %v with number %d replaced the newest", x.from, x.seq)
		}
	}
	late.Seq = 0
	w.c.Hear(12*time.Second, late)
	if l := w.c.targets[0].looks[0]; l.outcome != steadycast.Down {
		t.Error("a vantage that began its numbers again is not heard")
	}
	w.say(time.Second, "s2", "s1", steadycast.Up)
	w.say(time.Second, "zz", "s1", steadycast.Up)
	w.say(time.Second, "s2", "zz", steadycast.Up)
	w.c.Keep(w.t)
	if len(w.c.targets) != 2 || len(w.c.targets[1].looks) != 1 {
		t.Errorf("kept %+v", w.c.targets)
	}
}

// BenchmarkIneligible: 300 sites with 20 services, as the leader asks at each request.
func BenchmarkIneligible(b *testing.B) {
	w := newCrowd(300)
	w.t.Services = nil
	for i := range 20 {
		w.t.Services = append(w.t.Services, Service{Name: fmt.Sprintf("v%02d", i), Prefixes: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(i), 0}), 24)}})
	}
	w.t = w.t.WithDefaults()
	for _, p := range w.t.Sites {
		for _, v := range w.t.Vantages(p.Name) {
			for _, s := range w.t.Services {
				w.c.Hear(0, steadycast.Observation{Vantage: v, Subject: p.Name, Service: s.Name, Seq: 1, Result: steadycast.Result{Outcome: steadycast.Up}})
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		w.c.Ineligible(time.Second, w.t, "s7")
	}
}
