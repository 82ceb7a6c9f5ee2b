package mesh

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

var epoch = time.Unix(1_000_000, 0)

// The book against a naive one that forgets nothing: it tells the true time of
// each of the last 64 nonces, and nothing of any other.
func TestBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Book
		type entry struct {
			nonce uint64
			at    time.Time
		}
		var all []entry
		now := epoch
		for range rapid.IntRange(0, 200).Draw(t, "issues") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			n := rapid.Uint64Range(1, 1<<60).Draw(t, "nonce")
			for _, e := range all {
				if e.nonce == n {
					n = 0 // the caller draws 64 random bits; a draw that repeats is another test
				}
			}
			if n == 0 {
				continue
			}
			b.Issue(n, now)
			all = append(all, entry{n, now})
			if b.Newest() != n {
				t.Fatalf("the newest is %d; want %d", b.Newest(), n)
			}
		}
		for i, e := range all {
			at, ok := b.Issued(e.nonce)
			if known := i >= len(all)-remembered; ok != known || ok && !at.Equal(e.at) {
				t.Fatalf("issue %d of %d: %v, %v; want %v, %v", i, len(all), at, ok, e.at, known)
			}
		}
		if _, ok := b.Issued(0); ok {
			t.Fatal("0 is a nonce")
		}
		if _, ok := b.Issued(1<<60 + rapid.Uint64Range(1, 99).Draw(t, "other")); ok {
			t.Fatal("one that was never issued has a time")
		}
	})
}

// An echo at t is one that had arrived by t, and no later one had; heard by two
// ways it keeps the first time.
func TestEcho(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e echo
		first := map[uint64]time.Time{}
		now := epoch
		n := rapid.IntRange(0, remembered).Draw(t, "nonces")
		for i := range n {
			now = now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * time.Millisecond)
			nonce := uint64(i + 1)
			if i > 0 && rapid.Bool().Draw(t, "again") {
				nonce = rapid.Uint64Range(1, uint64(i)).Draw(t, "which")
			}
			if _, ok := first[nonce]; !ok {
				first[nonce] = now
			}
			e.hear(nonce, now)
		}
		at := epoch.Add(time.Duration(rapid.IntRange(-1000, 130_000).Draw(t, "at")) * time.Millisecond)
		var want uint64
		for nonce, when := range first {
			if !when.After(at) && (want == 0 || when.After(first[want])) {
				want = nonce
			}
		}
		if got := e.at(at); got != want {
			t.Fatalf("at %v: %d; want %d of %v", at, got, want, first)
		}
	})
}

// Together: whatever the delays of nonces and words, an age is never below the
// truth, and with every way one second long not much above it.
func TestAgeBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Book
		var e echo
		began := epoch.Add(time.Duration(rapid.IntRange(5000, 60_000).Draw(t, "began")) * time.Millisecond)
		delay := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(0, 1000).Draw(t, name)) * time.Millisecond
		}
		for i := range 60 {
			at := epoch.Add(time.Duration(i) * time.Second)
			b.Issue(uint64(i+1), at)
			e.hear(uint64(i+1), at.Add(delay("way")))
		}
		read := began.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "took")) * time.Millisecond).Add(delay("back"))
		at, ok := b.Issued(e.at(began))
		if !ok {
			t.Fatal("no echo")
		}
		if age, truth := read.Sub(at), read.Sub(began); age < truth || age > truth+3*time.Second {
			t.Fatalf("age %s; in truth %s", age, truth)
		}
	})
}

// Seen against a naive rule: of each node and pair, only what is newer by
// (incarnation, sequence) than all before is fresh.
func TestSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s seen
		type key struct {
			node string
			a    about
		}
		best := map[key][2]uint64{}
		when := map[key]time.Time{}
		now := epoch
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "s")) * time.Second)
			k := key{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "node"), about{rapid.SampledFrom([]string{"x", "y"}).Draw(t, "subject"), "web"}}
			inc, seq := rapid.Uint64Range(1, 3).Draw(t, "inc"), rapid.Uint64Range(0, 6).Draw(t, "seq")
			old, ok := best[k]
			want := fresh
			if ok && now.Sub(when[k]) <= keep && (inc < old[0] || inc == old[0] && seq <= old[1]) {
				want = repeat
			}
			if got := s.take(k.node, k.a, inc, seq, now, keep); got != want {
				t.Fatalf("%v (%d, %d) after %v: %d; want %d", k, inc, seq, old, got, want)
			}
			if want == fresh {
				best[k], when[k] = [2]uint64{inc, seq}, now
			}
		}
	})
}

// One vantage can fill only its own share of memory, and only for a while.
func TestSeenIsBounded(t *testing.T) {
	var s seen
	name := func(i int) about { return about{strings.Repeat("x", i%7) + string(rune(i)), "web"} }
	for i := range subjects {
		if got := s.take("a", name(i), 1, 1, epoch, keep); got != fresh {
			t.Fatalf("%d: %d", i, got)
		}
	}
	if got := s.take("a", about{"more", "web"}, 1, 1, epoch, keep); got != tooMany {
		t.Errorf("one more: %d", got)
	}
	if got := s.take("b", about{"more", "web"}, 1, 1, epoch, keep); got != fresh {
		t.Errorf("of another node: %d", got)
	}
	if got := s.take("a", about{"more", "web"}, 1, 1, epoch.Add(keep+1), keep); got != fresh {
		t.Errorf("later: %d", got)
	}
	s.forget(epoch.Add(3*keep), keep)
	if len(s.last) != 0 {
		t.Errorf("%d nodes are remembered", len(s.last))
	}
}

func TestFramesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream bytes.Buffer
		var want [][]byte
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			c := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "content")
			stream.Write(encode(kindReport, c))
			want = append(want, c)
		}
		cut := rapid.IntRange(0, stream.Len()).Draw(t, "cut")
		whole := stream.Len()
		stream.Truncate(cut)
		var buf []byte
		for i := 0; ; i++ {
			k, b, err := readFrame(&stream, &buf)
			if err != nil {
				if cut == whole && (i != len(want) || !errors.Is(err, io.EOF)) {
					t.Fatalf("frame %d of %d: %v", i, len(want), err)
				}
				return
			}
			if k != kindReport || !bytes.Equal(b, want[i]) {
				t.Fatalf("frame %d: %c %x; want %x", i, k, b, want[i])
			}
		}
	})
}

func FuzzFrame(f *testing.F) {
	f.Add(encode(kindReport, []byte("x")))
	f.Add(encodeNamed(kindRelay, []byte("fra-1"), Signed("x")))
	f.Add([]byte{0, 1, 0, 1, 'O'})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			k, c, err := readFrame(r, new([]byte))
			if err != nil {
				return
			}
			if len(c) >= maxFrame {
				t.Fatalf("a frame of %d octets", len(c))
			}
			name, s, err := decodeNamed(c)
			if err == nil && len(name)+len(s)+2 != len(c) {
				t.Fatalf("%c: %d and %d of %d", k, len(name), len(s), len(c))
			}
		}
	})
}

// What travels is bounded, and stays text.
func TestBrief(t *testing.T) {
	deep := steadycast.Tree{Text: "and"}
	for range 40 {
		deep.Kids = append(deep.Kids, steadycast.Tree{Text: "x"})
	}
	small := steadycast.Tree{Text: "web"}
	o := brief(steadycast.Observation{Result: steadycast.Result{Reason: strings.Repeat("é", 600), Why: &deep}})
	if r := o.Result.Reason; len(r) > maxReason+3 || !strings.HasSuffix(r, "é…") || o.Result.Why != nil {
		t.Errorf("%d octets, ends %q, %v", len(r), r[len(r)-9:], o.Result.Why)
	}
	if o := brief(steadycast.Observation{Result: steadycast.Result{Reason: "short", Why: &small}}); o.Result.Reason != "short" || o.Result.Why == nil {
		t.Errorf("%+v", o)
	}
}

// A machine that slept knows nothing of how old things are.
func TestStoodStill(t *testing.T) {
	c := newFleet(t).credentials("ams", "ams-1")
	var heard []Heard
	in := newInbox("fra-1", "fra", false, func(h Heard) { heard = append(heard, h) })
	var slept time.Duration
	now := time.Now()
	in.clocks = func() (with, without time.Duration) { return now.Sub(begun) + slept, now.Sub(begun) }
	say := func(seq, nonce uint64) Drop {
		s, err := seal(c, one("ams", "fra", seq, map[string][]uint64{"fra-1": {nonce}}))
		if err != nil {
			t.Fatal(err)
		}
		return in.accept(c.Self(), c.Leaf(), "", s, now)
	}
	in.issue(7, now)
	now = now.Add(time.Second)
	if d := say(1, 7); d != "" {
		t.Errorf("awake: %s", d)
	}
	now, slept = now.Add(10*time.Second), 900*time.Millisecond
	if d := say(2, 7); d != "" {
		t.Errorf("after a jitter of the clocks: %s", d)
	}
	slept += time.Hour
	if d := say(3, 7); d != Stale {
		t.Errorf("after an hour's sleep: %q; want %s", d, Stale)
	}
	in.issue(8, now)
	if d := say(3, 8); d != "" {
		t.Errorf("with a nonce from after it: %s", d)
	}
	slept += time.Hour
	in.issue(9, now)
	if d := say(4, 8); d != Stale {
		t.Errorf("after a sleep that the next nonce noticed: %q; want %s", d, Stale)
	}
	if len(heard) != 3 {
		t.Errorf("%d heard", len(heard))
	}
}

// The kernel has both clocks, and they agree while nobody sleeps.
func TestClocksAgree(t *testing.T) {
	var s stillness
	for range 1000 {
		if s.look(clocks()) {
			t.Fatal("slept in a test")
		}
	}
	if with, _ := clocks(); with <= 0 {
		t.Error("no CLOCK_BOOTTIME")
	}
}
