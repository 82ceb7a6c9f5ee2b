package mesh

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
)

var up, down = steadycast.Up, steadycast.Down

func TestObservationsArrive(t *testing.T) {
	inWorld(t, []string{"fra", "ams", "gru", "vot!"}, func(t *testing.T, w *world) {
		fra, ams, gru, vot := w.nodes["fra"], w.nodes["ams"], w.nodes["gru"], w.nodes["vot"]
		ams.say("fra", 1, up, 200*time.Millisecond)
		got := fra.take()
		if len(got) != 1 {
			t.Fatalf("fra heard %v", got)
		}
		h := got[0]
		if o := h.Observation; o.Vantage != "ams" || o.Subject != "fra" || o.Seq != 1 || o.Result.Outcome != up || o.Result.Reason != "said" || h.Node != "ams-1" || h.Via != "" {
			t.Errorf("fra heard %+v", h)
		}
		if at, ok := fra.Issued(h.Observation.Nonce); !ok || !at.Equal(h.Issued) {
			t.Errorf("the nonce %d was issued %v, %v; heard %v", h.Observation.Nonce, at, ok, h.Issued)
		}
		if peer, err := fra.creds.Relayed(h.Cert); err != nil || peer.Node != "ams-1" {
			t.Errorf("the certificate is of %v (%v)", peer, err)
		} else if said, err := h.Proof.Open(peer.Observe, "fra-1"); err != nil || len(said) != 1 || !slices.Contains(said[0].Nonces, h.Observation.Nonce) || said[0].Observation.Seq != 1 {
			t.Errorf("the proof says %+v (%v)", said, err)
		}
		equal(t, "the voter, the first time", seqs(vot.take(), "ams-1"), []uint64{1})
		if got := gru.take(); len(got) != 0 {
			t.Errorf("gru heard what is not about it: %v", got)
		}

		// The voter is told changes at once, and the rest by digest.
		for seq := uint64(2); seq <= 5; seq++ {
			ams.say("fra", seq, up, 0)
		}
		equal(t, "fra", seqs(fra.take(), "ams-1"), []uint64{2, 3, 4, 5})
		equal(t, "the voter between digests", seqs(vot.take(), "ams-1"), nil)
		ams.say("fra", 6, down, 0)
		equal(t, "the voter at a change", seqs(vot.take(), "ams-1"), []uint64{6})
		ams.say("fra", 7, down, 0)
		time.Sleep(DefaultDigest)
		equal(t, "the voter by digest", seqs(vot.take(), "ams-1"), []uint64{7})
		time.Sleep(DefaultDigest)
		equal(t, "the voter, with nothing new", seqs(vot.take(), "ams-1"), nil)

		// What a site says of itself only the voters hear.
		fra.say("fra", 1, up, 0)
		equal(t, "the voter about a site's own", seqs(vot.take(), "fra-1"), []uint64{1})
		for _, n := range []*node{fra, ams, gru} {
			if s := n.Peers(); s.Drops[NotForUs]+s.Drops[Repeated]+s.Drops[Stale] != 0 {
				t.Errorf("%s dropped %v", s.Name, s.Drops)
			}
			for _, l := range n.Peers().Links {
				if l.State != LinkUp || l.Dropped != 0 {
					t.Errorf("%s: %+v", n.self.Node, l)
				}
			}
		}
	})
}

// However long the way and the round, an observation never looks younger than
// it is: its age is from before its round began.
func TestAgeIsNeverTooYoung(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		took := []time.Duration{0, 999 * time.Millisecond, time.Second, 2500 * time.Millisecond, 0, 300 * time.Millisecond}
		var began []time.Time
		for i := range 40 {
			ams.say("fra", uint64(i+1), up, took[i%len(took)])
			began = append(began, time.Now().Add(-took[i%len(took)]))
			time.Sleep(137 * time.Millisecond)
		}
		got := fra.take()
		if len(got) < 35 {
			t.Errorf("only %d of 40 were heard", len(got))
		}
		for _, h := range got {
			slack := began[h.Observation.Seq-1].Sub(h.Issued)
			if slack < 0 || slack > pulse {
				t.Errorf("seq %d: its age counts from %s before its round began; want 0 to %s", h.Observation.Seq, slack, pulse)
			}
		}
	})
}

// What TCP delivers after a cut is as old as it is, not as new as it looks.
func TestHeldBackIsOld(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		w.cut("192.0.2.2", "192.0.2.1")
		ams.say("fra", 1, down, 0)
		said := time.Now()
		time.Sleep(8 * time.Second)
		if got := fra.take(); len(got) != 0 {
			t.Fatalf("heard through a cut: %v", got)
		}
		w.join("192.0.2.2", "192.0.2.1")
		got := fra.take()
		if len(got) != 1 || got[0].Issued.After(said) {
			t.Fatalf("heard %+v; want one from before %v", got, said)
		}
	})
}

// A vantage that restarts is heard at once, though it counts from one again;
// what it said before is not heard again.
func TestVantageRestarts(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		ams.say("fra", 41, up, 0)
		equal(t, "before", seqs(fra.take(), "ams-1"), []uint64{41})
		ams.stop()
		ams.start(Options{Incarnation: 2})
		if err := ams.SetPeers([]Peer{fra.as()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		ams.say("fra", 1, up, 0)
		ams.say("fra", 1, up, 0)
		equal(t, "after", seqs(fra.take(), "ams-1"), []uint64{1})
		if n := fra.Peers().Drops[Repeated]; n != 1 {
			t.Errorf("%d repeats", n)
		}
		// One that lost its count of starts must wait until the old words are too
		// old to be believed, and no longer.
		ams.stop()
		ams.start(Options{Incarnation: 1})
		if err := ams.SetPeers([]Peer{fra.as()}); err != nil {
			t.Fatal(err)
		}
		heard := uint64(0)
		for seq := uint64(1); seq <= 80 && heard == 0; seq++ {
			time.Sleep(time.Second)
			ams.say("fra", seq, up, 0)
			if got := seqs(fra.take(), "ams-1"); len(got) > 0 {
				heard = seq
			}
		}
		if heard < 55 || heard > 70 {
			t.Errorf("heard again after %d s; want about %s", heard, keep)
		}
	})
}

// as is this node as a peer of others.
func (n *node) as() Peer {
	for _, other := range n.w.nodes {
		for _, l := range other.Peers().Links {
			if l.Name == n.self.Node {
				return l.Peer
			}
		}
	}
	return Peer{Name: n.self.Node, Site: n.self.Site, Node: n.self.Node, Addr: netip.MustParseAddrPort(n.host + ":443")}
}

// A reader that restarts knows no nonce of before, and a vantage says nothing to
// it until it has heard a new one.
func TestReaderRestarts(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		at := ams.as()
		fra.stop()
		ams.say("fra", 1, up, 0)
		fra.start(Options{Incarnation: 2})
		if err := fra.SetPeers([]Peer{at}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		if l := ams.link("fra-1"); l.State != LinkUp {
			t.Errorf("the link is %+v", l)
		}
		ams.say("fra", 2, up, 0)
		equal(t, "after", seqs(fra.take(), "ams-1"), []uint64{2})
	})
}

// A dead reader is called again and again, ever more slowly; when it is back,
// within the longest wait.
func TestReconnect(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		fra.stop()
		synctest.Wait()
		if l := ams.link("fra-1"); l.State != LinkDown || l.Error == "" {
			t.Errorf("the link is %+v", l)
		}
		was := ams.link("fra-1").Calls
		time.Sleep(10 * time.Minute)
		calls := ams.link("fra-1").Calls - was
		if mean := 10 * time.Minute / time.Duration(calls); mean < 5*time.Second || mean > 12*time.Second {
			t.Errorf("%d calls in 10 minutes: one each %s; want about half of %s", calls, mean, backoffMost)
		}
		if l := ams.link("fra-1"); !strings.Contains(l.Error, "refused") {
			t.Errorf("the link is %+v", l)
		}
		fra.start(Options{Incarnation: 2})
		time.Sleep(backoffMost + 3*time.Second)
		if l := ams.link("fra-1"); l.State != LinkUp {
			t.Errorf("the link is %+v", l)
		}
	})
}

func TestBackoff(t *testing.T) {
	for failures := range 80 {
		limit := backoffMost
		if failures < 6 {
			limit = min(limit, backoffBase<<failures)
		}
		var sum, most time.Duration
		const draws = 2000
		for range draws {
			d := backoff(failures)
			sum, most = sum+d, max(most, d)
			if d < 0 || d >= limit {
				t.Fatalf("after %d failures: %s; want 0 to %s", failures, d, limit)
			}
		}
		// Full jitter: evenly drawn, so that the mean is half of the limit.
		if mean := sum / draws; mean < limit*45/100 || mean > limit*55/100 || most < limit*9/10 {
			t.Errorf("after %d failures: mean %s, most %s of %s", failures, mean, most, limit)
		}
	}
}

// A reader that answers and then falls silent each time is called as slowly as a
// dead one: a call that lasted long has not stood.
func TestSilentReaderIsCalledSlowly(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		fra.stop()
		l := w.listen(fra.host) // takes calls, and never says a word
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			<-ctx.Done()
			l.Close()
		}()
		go func() {
			for {
				if _, err := l.Accept(); err != nil {
					return
				}
			}
		}()
		time.Sleep(time.Minute)
		was := ams.link("fra-1").Calls
		time.Sleep(10 * time.Minute)
		// Each lasts five seconds, the limit of a handshake, and then a wait.
		if calls := ams.link("fra-1").Calls - was; calls < 30 || calls > 70 {
			t.Errorf("%d calls in 10 minutes; want about 48", calls)
		}
	})
}

// What nobody takes is dropped, oldest first, and counted.
func TestQueueIsBounded(t *testing.T) {
	q := newQueue()
	for i := range depth + 10 {
		q.push(encode(kindReport, []byte{byte(i >> 8), byte(i)}))
	}
	if waiting, dropped := q.state(); waiting != depth || dropped != 10 {
		t.Errorf("%d wait, %d dropped", waiting, dropped)
	}
	if f := q.poll(); int(f[5])<<8+int(f[6]) != 10 {
		t.Errorf("the oldest is %v; want 10", f)
	}
	q.clear()
	if waiting, dropped := q.state(); waiting != 0 || dropped != depth+9 {
		t.Errorf("%d wait, %d dropped", waiting, dropped)
	}
}

func TestBadPeersChangeNothing(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra := w.nodes["fra"]
		good := w.nodes["ams"].as()
		for what, alter := range map[string]func(*Peer){
			"peers[1]: the name \"ams\" is not":          func(p *Peer) { p.Name = "ams" },
			"peers[1]: the name \"ams-1/a/b\" is not":    func(p *Peer) { p.Name = "ams-1/a/b" },
			"peers[1]: the name \"ams-1/\" is not":       func(p *Peer) { p.Name = "ams-1/" },
			"peers[1]: the name \"ams-11\" is not":       func(p *Peer) { p.Name = "ams-11" },
			"peers[1]: ams-1 is named twice":             func(p *Peer) {},
			"peers[1] ams-1: invalid AddrPort is not an": func(p *Peer) { p.Addr = netip.AddrPort{} },
		} {
			bad := good
			alter(&bad)
			if err := fra.SetPeers([]Peer{good, bad}); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%v; want %q", err, what)
			}
		}
		if l := fra.link("ams-1"); l.State != LinkUp {
			t.Errorf("the link is %+v", l)
		}
		if err := fra.SetPeers(nil); err != nil || len(fra.Peers().Links) != 0 {
			t.Errorf("%v, %v", err, fra.Peers().Links)
		}
		synctest.Wait()
		if got := w.nodes["ams"].Peers().Callers; len(got) != 0 {
			t.Errorf("ams is still called: %v", got)
		}
	})
}
