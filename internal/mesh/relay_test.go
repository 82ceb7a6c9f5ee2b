package mesh

import (
	"bytes"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// hosts of the worlds below, in the order of their sites.
const hostFra, hostAms, hostVot, hostVox = "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"

// talk lets a vantage observe once a second, and returns what the reader heard,
// with the greatest age at which it came and the longest time without any.
func talk(w *world, from, to *node, first uint64, seconds int) (heard []Heard, oldest, gap time.Duration) {
	last := time.Now()
	for i := range seconds {
		from.say(to.self.Site, first+uint64(i), up, 0)
		time.Sleep(time.Second)
		for _, h := range to.take() {
			if h.Node != from.self.Node {
				continue
			}
			heard = append(heard, h)
			oldest = max(oldest, time.Since(h.Issued))
			gap = max(gap, time.Since(last)-time.Second)
			last = time.Now()
		}
	}
	return heard, oldest, max(gap, time.Since(last))
}

// Whichever direction of the direct way is lost, or both, the observations go
// through a voter, fresh; and directly again when it is back.
func TestRelay(t *testing.T) {
	for name, cuts := range map[string][][2]string{
		"to the reader":   {{hostAms, hostFra}},
		"from the reader": {{hostFra, hostAms}},
		"both":            {{hostAms, hostFra}, {hostFra, hostAms}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, []string{"fra", "ams", "vot!", "vox!"}, func(t *testing.T, w *world) {
				fra, ams := w.nodes["fra"], w.nodes["ams"]
				_, oldest, gap := talk(w, ams, fra, 1, 5)
				if oldest > 3*time.Second || gap > time.Second {
					t.Errorf("directly: up to %s old, a gap of %s", oldest, gap)
				}
				for _, c := range cuts {
					w.cut(c[0], c[1])
				}
				heard, oldest, gap := talk(w, ams, fra, 6, 40)
				// While the old stream still takes them, some come both ways.
				if via := heard[len(heard)-1].Via; len(heard) < 36 || via == "" || oldest > 6*time.Second || gap > 4*time.Second {
					t.Errorf("cut: %d of 40, the last via %q, up to %s old, a gap of %s", len(heard), via, oldest, gap)
				}
				if s := ams.link("fra-1").State; s == LinkUp {
					t.Errorf("cut: the link is %s", s)
				}
				// One voter fails: the other carries.
				via := heard[len(heard)-1].Via
				for _, n := range []*node{w.nodes["vot"], w.nodes["vox"]} {
					if n.self.Node == via {
						n.stop()
					}
				}
				heard, _, gap = talk(w, ams, fra, 46, 20)
				if len(heard) < 14 || gap > 6*time.Second || heard[len(heard)-1].Via == via {
					t.Errorf("without %s: %d of 20 heard, a gap of %s", via, len(heard), gap)
				}
				for _, c := range cuts {
					w.join(c[0], c[1])
				}
				time.Sleep(2 * backoffMost)
				fra.take()
				heard, oldest, gap = talk(w, ams, fra, 66, 5)
				if len(heard) != 5 || heard[0].Via != "" || oldest > 3*time.Second || gap > time.Second {
					t.Errorf("joined: %d of 5, via %q, up to %s old, a gap of %s", len(heard), heard[0].Via, oldest, gap)
				}
				if n := fra.Peers().Drops; n[Forged]+n[AsAnother]+n[NotForUs] != 0 {
					t.Errorf("drops: %v", n)
				}
			})
		})
	}
}

// A vantage that has never reached its subject directly learns its nonces from a
// voter.
func TestRelayFromTheStart(t *testing.T) {
	inWorld(t, []string{"fra", "ams", "vot!"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		w.cut(hostAms, hostFra)
		ams.stop()
		ams.start(Options{Incarnation: 2})
		if err := ams.SetPeers([]Peer{fra.as(), w.nodes["vot"].as()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		fra.take()
		heard, oldest, _ := talk(w, ams, fra, 1, 10)
		if len(heard) < 7 || oldest > 4*time.Second {
			t.Errorf("%d of 10, up to %s old", len(heard), oldest)
		}
	})
}

// With no way at all nothing is heard, and the loss is counted; nothing old is
// taken for new afterwards.
func TestNoWay(t *testing.T) {
	inWorld(t, []string{"fra", "ams", "vot!"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		for _, h := range []string{hostAms, hostVot} {
			w.cut(h, hostFra)
			w.cut(hostFra, h)
		}
		heard, _, _ := talk(w, ams, fra, 1, 60)
		if len(heard) != 0 {
			t.Errorf("heard %v", heard)
		}
		if l := ams.link("fra-1"); l.Lost < 20 {
			t.Errorf("the link is %+v", l)
		}
		for _, h := range []string{hostAms, hostVot} {
			w.join(h, hostFra)
			w.join(hostFra, h)
		}
		joined := time.Now()
		heard, oldest, _ := talk(w, ams, fra, 61, 40)
		if len(heard) == 0 {
			t.Fatal("nothing is heard when the way is back")
		}
		for _, h := range heard {
			if h.Observation.Seq < 61 && h.Issued.After(joined) {
				t.Errorf("old words look new: %+v", h)
			}
		}
		_ = oldest
	})
}

// A voter that lies can drop and delay. What it changes is not let in; what it
// makes up in another's name is not let in; and who is no voter does not relay.
func TestRelayCannotForge(t *testing.T) {
	inWorld(t, []string{"fra", "ams", "vot!"}, func(t *testing.T, w *world) {
		fra, ams, vot := w.nodes["fra"], w.nodes["ams"], w.nodes["vot"]
		nonce := fra.in.newest()
		echo := map[string][]uint64{"fra-1": {nonce}}
		good, err := seal(ams.creds, one("ams", "fra", 1, echo))
		if err != nil {
			t.Fatal(err)
		}
		own, err := seal(vot.creds, one("ams", "fra", 1, echo))
		if err != nil {
			t.Fatal(err)
		}
		old, err := seal(ams.creds, one("ams", "fra", 1, map[string][]uint64{"fra-1": {nonce ^ 1}}))
		if err != nil {
			t.Fatal(err)
		}
		stranger := newFleet(t).credentials("ams", "ams-1")
		strange, err := seal(stranger, one("ams", "fra", 1, echo))
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.Replace(good, []byte(`"down"`), []byte(`"up"  `), 1)
		if bytes.Equal(changed, good) {
			t.Fatal("nothing was changed")
		}
		down := func(from *node, cert []byte, s Signed) []Heard {
			from.caller("fra-1").q.push(encodeNamed(kindForward, cert, s))
			return fra.take()
		}
		for _, c := range []struct {
			name string
			from *node
			cert []byte
			s    Signed
			want Drop
		}{
			{"changed words", vot, ams.creds.Leaf(), changed, Forged},
			{"its own words as another's", vot, ams.creds.Leaf(), own, Forged},
			{"its own words in another's name", vot, vot.creds.Leaf(), own, AsAnother},
			{"a stranger's", vot, stranger.Leaf(), strange, Forged},
			{"no certificate", vot, nil, good, Forged},
			{"half a certificate", vot, ams.creds.Leaf()[:200], good, Forged},
			{"an old echo", vot, ams.creds.Leaf(), old, Stale},
		} {
			before := fra.Peers().Drops[c.want]
			if got := down(c.from, c.cert, c.s); len(got) != 0 {
				t.Errorf("%s: heard %+v", c.name, got)
			}
			if n := fra.Peers().Drops[c.want] - before; n != 1 {
				t.Errorf("%s: %d dropped as %s; all: %v", c.name, n, c.want, fra.Peers().Drops)
			}
		}
		if got := down(ams, ams.creds.Leaf(), good); len(got) != 0 {
			t.Errorf("relayed by who is no voter: %+v", got)
		}
		if got := down(vot, ams.creds.Leaf(), good); len(got) != 1 || got[0].Via != "vot-1" || got[0].Node != "ams-1" {
			t.Errorf("the unchanged words: %+v", got)
		}
	})
}

// caller is the stream on which a reader called this node.
func (n *node) caller(reader string) *caller {
	n.Mesh.mu.Lock()
	defer n.Mesh.mu.Unlock()
	return n.callers[reader]
}

// Who is no voter passes nothing on, and a voter says when it has no way.
func TestNoRoute(t *testing.T) {
	inWorld(t, []string{"fra", "ams", "vot!"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		lone := Peer{Name: "gru-1", Site: "gru", Node: "gru-1", Addr: netip.MustParseAddrPort("192.0.2.77:443")}
		if err := ams.SetPeers([]Peer{fra.as(), w.nodes["vot"].as(), lone}); err != nil {
			t.Fatal(err)
		}
		ams.desk.hear("gru-1", "", 7, time.Now())
		for seq := range uint64(10) {
			time.Sleep(time.Second)
			ams.say("gru", seq+1, up, 0)
			synctest.Wait()
		}
		l := ams.link("gru-1")
		if l.Relayed < 2 || l.Relayed > 3 || l.Lost < 7 {
			t.Errorf("the link is %+v; want one try each %s, and the rest lost", l, silence/2)
		}
		if got := w.nodes["vot"].Peers().Callers; len(got) != 2 {
			t.Errorf("the voter is called by %+v", got)
		}
	})
}

// A voter that lies about a reader's nonces spoils neither the direct way nor
// that through another voter.
func TestVoterLiesAboutNonces(t *testing.T) {
	inWorld(t, []string{"fra", "ams", "vot!", "vox!"}, func(t *testing.T, w *world) {
		fra, ams, vot := w.nodes["fra"], w.nodes["ams"], w.nodes["vot"]
		lie := func() { vot.caller("ams-1").q.push(encodeJSON(kindThird, third{"fra-1", draw()})) }
		var heard []uint64
		round := func(seq uint64) {
			lie()
			synctest.Wait()
			ams.say("fra", seq, up, 0)
			heard = append(heard, seqs(fra.take(), "ams-1")...)
			time.Sleep(time.Second)
		}
		for seq := uint64(1); seq <= 5; seq++ {
			round(seq)
		}
		equal(t, "directly", heard, []uint64{1, 2, 3, 4, 5})
		w.cut(hostAms, hostFra)
		w.cut(hostFra, hostAms)
		heard = nil
		for seq := uint64(6); seq <= 35; seq++ {
			round(seq)
		}
		if len(heard) < 25 {
			t.Errorf("only %d of 30 were relayed: %v", len(heard), heard)
		}
	})
}

// A voter that takes everything and passes nothing on does not silence a vantage.
func TestVoterPassesNothingOn(t *testing.T) {
	for _, liar := range []string{hostVot, hostVox} {
		inWorld(t, []string{"fra", "ams", "vot!", "vox!"}, func(t *testing.T, w *world) {
			fra, ams := w.nodes["fra"], w.nodes["ams"]
			w.cut(hostAms, hostFra)
			w.cut(hostFra, hostAms)
			w.cut(liar, hostFra) // its link to the reader stands still, and it says nothing of it
			heard, _, _ := talk(w, ams, fra, 1, 30)
			if len(heard) < 24 {
				t.Errorf("only %d of 30 were heard past %s", len(heard), liar)
			}
		})
	}
}
