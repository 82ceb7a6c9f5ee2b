package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/pki"
)

// TestFleetRefuses lets the holder of an operator's or a node's key, and people
// with none, loose on a fleet of nine processes: each is refused with its reason,
// and the routers hear nothing of any of it.
func TestFleetRefuses(t *testing.T) {
	t.Parallel()
	f := newEdge(t)
	f.begin("vic.pub", f.pen("vic", steadycast.Viewer))
	f.allIn()
	moved := f.updates()

	// People.
	f.pen("eve", steadycast.Admin) // whom nobody let in
	withdraw := []string{"withdraw", "fra", "--force", "--yes", "--reason", "x"}
	f.refused("knows no operator eve", "eve", withdraw...)
	f.refused("vic is viewer; this takes operator", "vic", withdraw...)
	text, err := os.ReadFile(filepath.Join(f.dir, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(f.dir, "ran")
	for _, x := range []struct{ key, old, new, want string }{
		{"maria", "kind: file, target: /proc/self/cwd/health, file: {max_age: 1h}", "kind: exec, exec: {argv: [/usr/bin/touch, " + ran + "]}", `"/usr/bin/touch" is not among exec: of`},
		{"maria", "[192.0.2.80/32]", "[192.0.2.80/32, 203.0.113.81/32]", "203.0.113.81/32 is outside bgp.allow"},
		{"vic", "max_age: 1h", "max_age: 2h", "vic is viewer; this takes admin"},
	} {
		f.write("next.yaml", strings.Replace(string(text), x.old, x.new, 1))
		f.refused(x.want, x.key, "apply", filepath.Join(f.dir, "next.yaml"), "--yes", "--reason", "x")
	}

	// Nodes with a certificate that is not good, at each door.
	ca, err := pki.OpenAuthority(filepath.Join(f.dir, "ca"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.Init(filepath.Join(f.dir, "other"), "edge", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issue := func(a *pki.Authority, site string, began time.Time) tls.Certificate {
		dir := filepath.Join(t.TempDir(), site)
		if _, err := a.Issue(pki.Identity{Site: site, Node: site + "-9"}, dir, 24*time.Hour, began); err != nil {
			t.Fatal(err)
		}
		return pair(t, dir)
	}
	now := time.Now()
	stolen := issue(ca, "fra", now)
	revoked := issue(ca, "lon", now)
	if _, err := ca.Revoke("lon-9", now); err != nil {
		t.Fatal(err)
	}
	for _, n := range f.nodes {
		if err := ca.CopyTo(filepath.Join(n.dir, "pki")); err != nil {
			t.Fatal(err)
		}
	}
	ams := f.node("ams")
	for port, p := range map[uint16]pki.Purpose{7481: pki.LedgerCalls, 7482: pki.Mesh, 7483: pki.Mesh} {
		at := netip.AddrPortFrom(ams.at.Addr(), port).String()
		if err := knock(at, stolen, p); err != nil {
			t.Errorf("port %d does not let in a good certificate: %v", port, err)
		}
		for what, c := range map[string]tls.Certificate{
			"another authority's": issue(other, "lon", now), "expired": issue(ca, "lon", now.Add(-14*24*time.Hour)), "of no node": {},
		} {
			if knock(at, c, p) == nil {
				t.Errorf("port %d lets in a certificate %s", port, what)
			}
		}
		f.until(fmt.Sprintf("port %d turns the revoked away", port), func() bool { return knock(at, revoked, p) != nil })
	}
	for _, why := range []string{"no authority in ca.crt signed", "expired", "is revoked"} {
		f.until("ams says: "+why, func() bool { return ams.log.count("a node is turned away", why) > 0 })
	}

	// A good certificate of fra, in the hands of somebody else.
	thief := &http.Client{Timeout: soon, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: client(stolen, pki.LedgerCalls)}}
	lon, fra := steadycast.Unit{Site: "lon", Prefix: anycastPrefix}, steadycast.Unit{Site: "fra", Prefix: anycastPrefix}
	down := steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard, Reason: "refused"}
	forged := func(seq uint64, signed func(vantage string) *steadycast.Signed) map[string]any {
		r := steadycast.Request{ID: steadycast.RequestID{Incarnation: 1 << 20, Seq: seq}, Site: "fra", Prefixes: []netip.Prefix{anycastPrefix}, Action: steadycast.Withdraw, Service: "web", Class: steadycast.Hard}
		for _, v := range []string{"ams", "fra", "lon"} {
			r.Evidence = append(r.Evidence, steadycast.Observation{Vantage: v, Subject: "fra", Service: "web", Seq: 1 << 40, Result: down, Signed: signed(v)})
		}
		return map[string]any{"request": r}
	}
	for _, x := range []struct {
		what, path string
		body       any
		status     int
		want       string
	}{
		{"a verdict on another", "report", map[string]any{"verdicts": []steadycast.Verdict{{Site: "lon", Service: "web", State: steadycast.Unhealthy}}}, 403, "speaks for site fra, not for lon"},
		{"a request of another", "ask", map[string]any{"request": steadycast.Request{ID: steadycast.RequestID{Incarnation: 1, Seq: 1}, Site: "lon"}}, 403, "speaks for site fra, not for lon"},
		{"a beat of another's unit", "beat", map[string]any{"beat": decide.Beat{Site: "fra", Announcing: []steadycast.Unit{fra, lon}}}, 403, "speaks for site fra, not for lon"},
		{"another's word on a table", "ack", decide.Ack{Revision: 2, Site: "fra", Node: "fra-1"}, 403, "speaks for itself, not for node fra-1"},
		{"an order that nobody signed", "order", map[string]any{"order": steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "lon", Force: true, Actor: "maria", Reason: "x"}}, 200, "nobody has signed it"},
		{"more than is read", "report", strings.Repeat("x", decide.MaxEntry), 400, "too large"},
		{"a word of a later version", "report", map[string]any{"verdicts": nil, "moods": 1}, 400, `unknown field \"moods\"`},
		{"a start after all starts", "ask", map[string]any{"request": steadycast.Request{ID: steadycast.RequestID{Incarnation: 1<<64 - 1}, Site: "fra"}}, 422, "more than a node can have"},
		{"evidence that nobody signed", "ask", forged(1, func(string) *steadycast.Signed { return nil }), 200, "its observation is not signed"},
		{"evidence signed by itself", "ask", forged(2, func(string) *steadycast.Signed {
			return &steadycast.Signed{Report: []byte("x"), Cert: stolen.Certificate[0]}
		}), 200, "its observation is signed by fra-9 of site fra"},
		{"evidence signed by the revoked", "ask", forged(3, func(string) *steadycast.Signed {
			return &steadycast.Signed{Report: []byte("x"), Cert: revoked.Certificate[0]}
		}), 200, "is revoked"},
	} {
		body, err := json.Marshal(x.body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := thief.Post("https://"+netip.AddrPortFrom(ams.at.Addr(), 7481).String()+"/v1/"+x.path, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Errorf("%s: %v", x.what, err)
			continue
		}
		said, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != x.status || !strings.Contains(string(said), x.want) {
			t.Errorf("%s: %d %s, want %d %q", x.what, res.StatusCode, said, x.status, x.want)
		}
		if strings.Contains(string(said), `"permit":{`) {
			t.Errorf("%s is permitted: %s", x.what, said)
		}
	}

	if got := f.updates(); got != moved {
		t.Errorf("%d UPDATEs, of which there should be none\n%s", got-moved, f.said())
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program was run that no node.yaml names")
	}
	f.allIn()

	// The thief counted fra's starts far ahead, as a node does that was made anew
	// from a backup. Its agent finds out, goes on from there, and
	// fra leaves when it must.
	victim := f.node("fra")
	victim.serve(false)
	f.until("fra's agent finds out", func() bool {
		return victim.log.count("the ledger knows requests of this node's start 1048576", "starting again from there") > 0
	})
	if err := victim.roles["agent"].Wait(); err == nil {
		t.Error("the agent ends as if all were well")
	}
	victim.start("agent") // as a supervisor does
	f.out("fra")
}

// pen makes a key of a person's, and returns the public half.
func (f *edge) pen(name string, role steadycast.Role) string {
	f.Helper()
	p, err := pki.NewPen(filepath.Join(f.dir, name+".key"), name, role)
	if err != nil {
		f.Fatal(err)
	}
	return p.String() + "\n"
}

// refused runs a command that must fail, and must say why. Who is whose key signs.
func (f *edge) refused(why, who string, args ...string) {
	f.Helper()
	args = append(args, "--socket", filepath.Join(f.node("ams").dir, "agent.sock"), "--key", filepath.Join(f.dir, who+".key"))
	if out, err := f.command(args...); err == nil || !strings.Contains(out, why) {
		f.Errorf("%v by %s: %v, want %q\n%s", args[:2], who, err, why, out)
	}
}

func pair(t *testing.T, dir string) tls.Certificate {
	t.Helper()
	c, err := tls.LoadX509KeyPair(filepath.Join(dir, "node.crt"), filepath.Join(dir, "node.key"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// client is for somebody who asks no server who it is.
func client(c tls.Certificate, p pki.Purpose) *tls.Config {
	cfg := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{p.ALPN("edge")}, MinVersion: tls.VersionTLS13}
	if c.Certificate != nil {
		cfg.Certificates = []tls.Certificate{c}
	}
	return cfg
}

// knock connects, and reads the first byte of HTTP/2's greeting (RFC 9113 §3.4):
// who is turned away learns it only there (RFC 8446 §4.4.2).
func knock(at string, c tls.Certificate, p pki.Purpose) error {
	conn, err := tls.Dial("tcp", at, client(c, p))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(soon))
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}
