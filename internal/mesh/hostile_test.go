package mesh

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/pki"
)

// hand is a caller that writes its frames by hand.
type hand struct {
	t     *testing.T
	creds *pki.Credentials
	w     *io.PipeWriter
	resp  *http.Response
	err   error
	nonce uint64 // the first that the reader issued
	stop  func()
}

// call opens a stream to a node with whatever it is given first.
func (w *world) call(t *testing.T, creds *pki.Credentials, to *node, first ...[]byte) *hand {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	tr := &http.Transport{Protocols: protocols, DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		c, err := w.dialer("192.0.2.200")(ctx, network, to.host+":443")
		if err != nil {
			return nil, err
		}
		return tls.Client(c, creds.ClientConfig(pki.Mesh, pki.Identity{})), nil
	}}
	r, pw := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://peer"+streamPath, r)
	if err != nil {
		t.Fatal(err)
	}
	h := &hand{t: t, creds: creds, w: pw}
	h.stop = func() { cancel(); pw.Close(); synctest.Wait(); tr.CloseIdleConnections() }
	go func() {
		for _, f := range first {
			pw.Write(f)
		}
	}()
	if h.resp, h.err = tr.RoundTrip(req); h.err == nil && h.resp.StatusCode == http.StatusOK {
		k, b, err := readFrame(h.resp.Body, new([]byte))
		var n tick
		if err != nil || k != kindNonce || json.Unmarshal(b, &n) != nil {
			t.Fatalf("the first frame is %c %q (%v)", k, b, err)
		}
		h.nonce = n.Nonce
	}
	return h
}

// greet calls as the node that the credentials are of.
func (w *world) greet(t *testing.T, creds *pki.Credentials, to *node) *hand {
	t.Helper()
	h := w.call(t, creds, to, encodeJSON(kindHello, hello{creds.Self().Node}))
	if h.err != nil || h.resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", h.resp, h.err)
	}
	return h
}

// ended reads until the reader ends the stream.
func (h *hand) ended() bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(io.Discard, h.resp.Body)
	}()
	select {
	case <-done:
		return true
	case <-time.After(3 * time.Second):
		return false
	}
}

func (h *hand) seal(r report) Signed {
	h.t.Helper()
	s, err := seal(h.creds, r)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func one(vantage, subject string, seq uint64, echo map[string][]uint64) report {
	return report{Inc: 1, Said: []said{{steadycast.Observation{Vantage: vantage, Subject: subject, Service: "web", Seq: seq, Result: steadycast.Result{Outcome: down, Class: steadycast.Hard}}, echo}}}
}

// Each kind of false witness is dropped, with its reason, and moves nothing; the
// honest word after it is heard.
func TestFalseWitness(t *testing.T) {
	inWorld(t, []string{"fra", "gru"}, func(t *testing.T, w *world) {
		fra := w.nodes["fra"]
		mallory := w.credentials("ams", "ams-1")
		h := w.greet(t, mallory, fra)
		defer h.stop()
		echo := map[string][]uint64{"fra-1": {h.nonce}}
		gru, err := seal(w.nodes["gru"].creds, one("gru", "fra", 1, echo))
		if err != nil {
			t.Fatal(err)
		}
		sealed := h.seal(one("ams", "fra", 1, echo))
		flipped := bytes.Clone(sealed)
		flipped[len(flipped)-20] ^= 1
		endless := one("ams", "fra", 1, echo)
		endless.Said[0].Observation.Service = strings.Repeat("x", 40_000)
		both := one("ams", "fra", 1, echo)
		both.Said = append(both.Said, one("gru", "fra", 1, echo).Said...)
		for _, c := range []struct {
			name string
			s    Signed
			want Drop
		}{
			{"as another site", h.seal(one("gru", "fra", 1, echo)), AsAnother},
			{"as itself and another site", h.seal(both), AsAnother},
			{"as the subject itself", h.seal(one("fra", "fra", 1, echo)), AsAnother},
			{"as no site", h.seal(one("", "fra", 1, echo)), AsAnother},
			{"the words of another, signed by it", gru, Forged},
			{"words changed after signing", flipped, Forged},
			{"no words", h.seal(report{Inc: 1}), Forged},
			{"only a signature", sealed[:64], Forged},
			{"half a signature", sealed[:30], Forged},
			{"nothing", nil, Forged},
			{"words that are none", append(mallory.Sign([]byte("{")), '{'), Forged},
			{"about another site", h.seal(one("ams", "gru", 1, echo)), NotForUs},
			{"about no site", h.seal(one("ams", "", 1, echo)), NotForUs},
			{"about a site with an endless name", h.seal(one("ams", strings.Repeat("x", 40_000), 1, echo)), Unfit},
			{"about a service with an endless name", h.seal(endless), Unfit},
			{"no echo", h.seal(one("ams", "fra", 1, nil)), NoEcho},
			{"an echo for another reader", h.seal(one("ams", "fra", 1, map[string][]uint64{"gru-1": {h.nonce}})), NoEcho},
			{"a nonce that never was", h.seal(one("ams", "fra", 1, map[string][]uint64{"fra-1": {h.nonce + 1, 0}})), Stale},
		} {
			before := fra.Peers().Drops[c.want]
			h.w.Write(encode(kindReport, c.s))
			if got := fra.take(); len(got) != 0 {
				t.Errorf("%s: heard %+v", c.name, got)
			}
			if n := fra.Peers().Drops[c.want] - before; n != 1 {
				t.Errorf("%s: %d dropped as %s; all drops: %v", c.name, n, c.want, fra.Peers().Drops)
			}
		}
		h.w.Write(encode(kindReport, sealed))
		equal(t, "the honest word", seqs(fra.take(), "ams-1"), []uint64{1})

		// Replayed, and out of order.
		for _, s := range []Signed{sealed, h.seal(one("ams", "fra", 5, echo)), h.seal(one("ams", "fra", 4, echo)), sealed, h.seal(one("ams", "fra", 6, echo))} {
			h.w.Write(encode(kindReport, s))
		}
		equal(t, "in order", seqs(fra.take(), "ams-1"), []uint64{5, 6})
		if n := fra.Peers().Drops[Repeated]; n != 3 {
			t.Errorf("%d repeats; want 3", n)
		}
	})
}

// A replay long after is too old by its nonce, though nobody remembers it any more.
func TestReplayMuchLater(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra := w.nodes["fra"]
		h := w.greet(t, w.credentials("gru", "gru-1"), fra)
		defer h.stop()
		s := h.seal(one("gru", "fra", 1, map[string][]uint64{"fra-1": {h.nonce}}))
		h.w.Write(encode(kindReport, s))
		equal(t, "at first", seqs(fra.take(), "gru-1"), []uint64{1})
		stale := uint64(0)
		for range 3 * remembered {
			time.Sleep(time.Second)
			h.w.Write(encode(kindReport, s))
		}
		if got := fra.take(); len(got) != 0 {
			t.Errorf("heard again: %v", got)
		}
		if stale = fra.Peers().Drops[Stale]; stale < 2*remembered {
			t.Errorf("%d were stale", stale)
		}
	})
}

// What is no stream of frames ends the stream, and only that stream.
func TestBrokenStreams(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		gru := w.credentials("gru", "gru-1")
		greeting := encodeJSON(kindHello, hello{"gru-1"})
		huge := binary.BigEndian.AppendUint32(nil, maxFrame+1)
		for name, first := range map[string][]byte{
			"no greeting":               encode(kindNonce, []byte("{}")),
			"a greeting that is none":   encode(kindHello, []byte("{")),
			"the name of another":       encodeJSON(kindHello, hello{"ams-1"}),
			"a name of nobody":          encodeJSON(kindHello, hello{""}),
			"a name too long":           encodeJSON(kindHello, hello{"gru-1/" + strings.Repeat("x", maxName)}),
			"a frame of nothing":        {0, 0, 0, 0},
			"a frame that is too large": huge,
		} {
			h := w.call(t, gru, fra, first)
			if h.err != nil || h.resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %v (%v); want 400", name, h.resp, h.err)
			}
			h.stop()
		}
		for name, rest := range map[string][]byte{
			"a frame of nothing":        {0, 0, 0, 0},
			"a frame that is too large": huge,
			"a nonce that is none":      encode(kindNonce, []byte("7")),
			"a relay without a name":    encode(kindRelay, []byte{9, 9, 9}),
			"an empty relay":            encode(kindRelay),
		} {
			h := w.greet(t, gru, fra)
			h.w.Write(rest)
			if !h.ended() {
				t.Errorf("%s: the stream goes on", name)
			}
			h.stop()
		}
		// Silence ends it too; a frame of an unknown kind does not.
		h := w.greet(t, gru, fra)
		h.w.Write(encode('?', []byte("of a later version")))
		if h.ended() {
			t.Error("an unknown kind ended the stream")
		}
		time.Sleep(silence)
		synctest.Wait()
		for _, c := range fra.Peers().Callers {
			if c.Name == "gru-1" {
				t.Errorf("a silent caller stays: %+v", c)
			}
		}
		h.stop()
		_ = greeting
		if l := ams.link("fra-1"); l.State != LinkUp || l.Calls > 2 {
			t.Errorf("another link suffered: %+v", l)
		}
	})
}

// Rubbish of any kind never panics, and is never heard.
func TestRubbish(t *testing.T) {
	inWorld(t, []string{"fra!", "ams"}, func(t *testing.T, w *world) {
		fra := w.nodes["fra"]
		gru := w.credentials("gru", "gru-1")
		rng := rand.New(rand.NewPCG(1, 2))
		kinds := []kind{kindNonce, kindHello, kindReport, kindRelay, kindForward, kindThird, kindNoRoute}
		for range 50 {
			h := w.greet(t, gru, fra)
			for range 20 {
				junk := make([]byte, rng.IntN(200))
				for i := range junk {
					junk[i] = byte(rng.Uint32())
				}
				f := encode(kinds[rng.IntN(len(kinds))], junk)
				if rng.IntN(10) == 0 {
					f = f[:rng.IntN(len(f))]
				}
				if _, err := h.w.Write(f); err != nil {
					break
				}
			}
			h.stop()
		}
		if got := fra.take(); len(got) != 0 {
			t.Errorf("heard %v", got)
		}
	})
}

// One certificate may be several readers, but not any number.
func TestReadersOfOneNode(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra := w.nodes["fra"]
		gru := w.credentials("gru", "gru-1")
		var hands []*hand
		for i := range callersPerNode + 2 {
			h := w.call(t, gru, fra, encodeJSON(kindHello, hello{"gru-1/" + string(rune('a'+i))}))
			want := http.StatusOK
			if i >= callersPerNode {
				want = http.StatusTooManyRequests
			}
			if h.err != nil || h.resp.StatusCode != want {
				t.Errorf("call %d: %v (%v); want %d", i, h.resp, h.err, want)
			}
			hands = append(hands, h)
		}
		// The same name again takes the place of the older stream.
		again := w.call(t, gru, fra, encodeJSON(kindHello, hello{"gru-1/a"}))
		if again.resp.StatusCode != http.StatusOK || !hands[0].ended() {
			t.Errorf("the older stream goes on beside %v", again.resp.Status)
		}
		for _, h := range append(hands, again) {
			h.stop()
		}
	})
}

// A certificate that is revoked while its links stand ends them, both ways.
func TestRevokedLinksEnd(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		if len(fra.Peers().Callers) != 1 || fra.link("ams-1").State != LinkUp {
			t.Fatalf("not linked: %+v", fra.Peers())
		}
		if _, err := w.Revoke("ams-1", time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := w.CopyTo(w.dir("fra", "fra-1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(judgeEvery*pulse + 5*time.Second)
		synctest.Wait()
		s := fra.Peers()
		if len(s.Callers) != 0 || fra.link("ams-1").State == LinkUp || !strings.Contains(fra.link("ams-1").Error, "is revoked") {
			t.Errorf("after it was revoked: %+v", s)
		}
		if s.Refused[pki.Revoked] == 0 {
			t.Errorf("refused: %v", s.Refused)
		}
		ams.say("fra", 1, down, 0)
		if got := fra.take(); len(got) != 0 {
			t.Errorf("heard from the revoked: %v", got)
		}
	})
}

// A node in the place of another, with a good certificate of its own, is not
// spoken to.
func TestAnotherAnswers(t *testing.T) {
	inWorld(t, []string{"fra", "ams", "gru"}, func(t *testing.T, w *world) {
		fra := w.nodes["fra"]
		p := w.nodes["ams"].as()
		p.Addr = w.nodes["gru"].as().Addr
		if err := fra.SetPeers([]Peer{p}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if l := fra.link("ams-1"); l.State != LinkDown || !strings.Contains(l.Error, "steadycast://prod/gru/gru-1 answers where ams/ams-1 was called") {
			t.Errorf("the link is %+v", l)
		}
	})
}

// A fleet with the same name by another authority is another fleet.
func TestStrangersAreNotLetIn(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra := w.nodes["fra"]
		other := newFleet(t).credentials("ams", "ams-1")
		h := w.call(t, other, fra, encodeJSON(kindHello, hello{"ams-1"}))
		if h.err == nil {
			t.Errorf("let in: %v", h.resp.Status)
		}
		h.stop()
		// And nobody without a certificate is told anything.
		for _, path := range []string{streamPath, "/", "/metrics"} {
			c, err := w.dialer("192.0.2.200")(t.Context(), "tcp", fra.host+":443")
			if err != nil {
				t.Fatal(err)
			}
			tc := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			tc.Write([]byte("GET " + path + " HTTP/1.1\r\n\r\n"))
			if b, err := io.ReadAll(tc); err == nil || len(b) > 0 {
				t.Errorf("%s answers %q (%v)", path, b, err)
			}
			c.Close()
		}
	})
}

// A certificate that is renewed does not disturb a link.
func TestRenewalDisturbsNothing(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		was := ams.link("fra-1").Calls
		if _, err := w.Renew(w.dir("ams", "ams-1"), pki.DefaultLife, time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(w.dir("ams", "ams-1"), "node.crt")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * judgeEvery * pulse)
		ams.say("fra", 1, up, 0)
		equal(t, "after", seqs(fra.take(), "ams-1"), []uint64{1})
		if l := ams.link("fra-1"); l.Calls != was || l.State != LinkUp {
			t.Errorf("the link is %+v", l)
		}
	})
}

// Other requests go over the same links, and know whose they are.
func TestOtherRequests(t *testing.T) {
	inWorld(t, []string{"fra", "ams"}, func(t *testing.T, w *world) {
		fra, ams := w.nodes["fra"], w.nodes["ams"]
		fra.stop()
		fra.start(Options{Incarnation: 2, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p, ok := PeerOf(r.Context())
			json.NewEncoder(w).Encode([]any{p.Node, ok, r.URL.Path})
		})})
		time.Sleep(backoffMost)
		c := ams.Client("fra-1")
		c.Timeout = 5 * time.Second
		resp, err := c.Get("https://peer/ledger/1/beat")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := strings.TrimSpace(string(b)); err != nil || got != `["ams-1",true,"/ledger/1/beat"]` {
			t.Errorf("%s (%v)", got, err)
		}
		if ams.Client("gru-1") != nil {
			t.Error("a client of nobody")
		}
	})
}

// TestVerify: what a vantage signed is read from its report, whatever a request
// says of it, with its age by the nonces of the voter that is asked; what is
// forged, signed by another, or of unknown age is refused with the reason.
func TestVerify(t *testing.T) {
	inWorld(t, []string{"fra", "gru", "nrt!"}, func(t *testing.T, w *world) {
		nrt := w.nodes["nrt"]
		w.nodes["gru"].say("fra", 1, steadycast.Down, 0)
		time.Sleep(time.Second)
		heard := w.nodes["fra"].take()
		if len(heard) != 1 || heard[0].Observation.Signed == nil {
			t.Fatalf("%+v", heard)
		}
		claimed := heard[0].Observation
		claimed.Result = steadycast.Result{Outcome: steadycast.Up} // as the subject would like it to be
		time.Sleep(2 * time.Second)
		signed, age, err := nrt.Verify(claimed)
		if err != nil || signed.Result.Outcome != steadycast.Down || signed.Signed != nil || age < 3*time.Second || age > 5*time.Second {
			t.Errorf("%+v %v %v", signed, age, err)
		}
		change := func(f func(*steadycast.Observation)) steadycast.Observation {
			o, s := claimed, *claimed.Signed
			s.Report, s.Cert = bytes.Clone(s.Report), bytes.Clone(s.Cert)
			o.Signed = &s
			f(&o)
			return o
		}
		for _, c := range []struct {
			o    steadycast.Observation
			want string
		}{
			{change(func(o *steadycast.Observation) { o.Signed = nil }), "is not signed"},
			{change(func(o *steadycast.Observation) { o.Vantage = "fra" }), "signed by gru-1 of site gru"},
			{change(func(o *steadycast.Observation) { o.Seq = 2 }), "does not say what the request says"},
			{change(func(o *steadycast.Observation) { o.Subject = "nrt" }), "does not say what the request says"},
			{change(func(o *steadycast.Observation) { o.Signed.Report[len(o.Signed.Report)-3] ^= 1 }), "is forged"},
			{change(func(o *steadycast.Observation) { o.Signed.Report = nil }), "is forged"},
			{change(func(o *steadycast.Observation) { o.Signed.Cert = o.Signed.Cert[1:] }), "certificate is refused"},
			{change(func(o *steadycast.Observation) { o.Signed.Cert = w.nodes["fra"].creds.Leaf() }), "signed by fra-1"},
		} {
			if _, _, err := nrt.Verify(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		}
		if _, _, err := w.nodes["gru"].Verify(claimed); err == nil || !strings.Contains(err.Error(), "echoes no nonce") {
			t.Errorf("a reader that it does not echo says %v", err)
		}
		time.Sleep(remembered * time.Second)
		if _, _, err := nrt.Verify(claimed); err == nil || !strings.Contains(err.Error(), "echoes no nonce") {
			t.Errorf("a minute later: %v", err)
		}
	})
}
