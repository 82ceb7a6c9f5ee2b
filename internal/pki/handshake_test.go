package pki

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTwoNodesMeet(t *testing.T) {
	f := newFleet(t, "prod_1")
	a, b := open(t, f.issue("fra", "fra-1", DefaultLife)), open(t, f.issue("ams", "ams-1", DefaultLife))
	for _, p := range []Purpose{Mesh, Ledger} {
		t.Run(p.ALPN("prod_1"), func(t *testing.T) {
			seen, serverErr, clientErr := shake(t, a.ServerConfig(p), b.ClientConfig(p, Identity{Site: "fra", Node: "fra-1"}))
			if serverErr != nil || clientErr != nil {
				t.Fatalf("server %v, client %v", serverErr, clientErr)
			}
			peer, err := a.PeerOf(p, seen)
			if err != nil || peer.Identity != (Identity{"prod_1", "ams", "ams-1"}) || !peer.Observe.Equal(b.Self().Observe) {
				t.Errorf("the peer is %v (%v)", peer, err)
			}
			if seen.Version != tls.VersionTLS13 || seen.NegotiatedProtocol != p.ALPN("prod_1") || seen.DidResume {
				t.Errorf("TLS %x, protocol %q, resumed %v", seen.Version, seen.NegotiatedProtocol, seen.DidResume)
			}
		})
	}
}

// Each kind of wrong certificate is refused by both ends, with its reason.
func TestRefusals(t *testing.T) {
	ours := newForeign(t, time.Hour)
	us := Identity{"prod", "fra", "fra-1"}
	good := open(t, ours.issue(us, nil))
	them := Identity{"prod", "ams", "ams-1"}
	other := newFleet(t, "other")
	constrained := newFleet(t, "prod")

	cases := []struct {
		name   string
		dir    string
		reason Reason
		text   string
	}{
		{"the same fleet by another authority", constrained.issue("ams", "ams-1", DefaultLife), UnknownAuthority, "no authority in ca.crt signed the certificate that says it is steadycast://prod/ams/ams-1"},
		{"another fleet by its own authority", other.issue("ams", "ams-2", DefaultLife), UnknownAuthority, "steadycast://other/ams/ams-2; this is fleet prod"},
		{"another fleet by our authority", ours.issue(Identity{"other", "ams", "ams-1"}, nil), WrongFleet, "steadycast://other/ams/ams-1 is of fleet other; this is fleet prod"},
		{"expired", ours.issue(them, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Minute), time.Now().Add(-time.Minute)
		}), Expired, "steadycast://prod/ams/ams-1 ended on "},
		{"not yet valid", ours.issue(them, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), NotYetValid, "one of the clocks is wrong"},
		{"no URI", ours.issue(them, func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, []string{"ams-1"} }), NoIdentity, "names no node"},
		{"a URI of another scheme", ours.issue(them, func(c *x509.Certificate) { c.URIs = []*url.URL{uri(t, "spiffe://prod/ams/ams-1")} }), NoIdentity, "names no node"},
		{"no observation key", ours.issue(them, func(c *x509.Certificate) { c.URIs = c.URIs[:1] }), NoIdentity, "has no observation key"},
		{"the observation key of another", ours.issue(them, func(c *x509.Certificate) { c.URIs = append(c.URIs[:1], us.uris(make([]byte, 32))[1]) }), NoIdentity, "binds the observation key of steadycast://prod/fra/fra-1"},
		{"two nodes", ours.issue(them, func(c *x509.Certificate) { c.URIs = append(c.URIs, uri(t, us.String())) }), NoIdentity, "allowed: one"},
		{"two observation keys", ours.issue(them, func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[1]) }), NoIdentity, "allowed: one"},
		{"a broken observation key", ours.issue(them, func(c *x509.Certificate) { c.URIs[1] = uri(t, them.String()+"/observe/c0ffee") }), NoIdentity, "whose key is not 32 octets"},
		{"a name that is none", ours.issue(them, func(c *x509.Certificate) { c.URIs[0] = uri(t, "steadycast://prod/Ams/ams%201") }), NoIdentity, "is not a name"},
		{"for other use", ours.issue(them, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection} }), Unfit, "cannot be used"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := good.Refusals()[c.reason]
			_, serverErr, clientErr := shake(t, good.ServerConfig(Mesh), stranger(t, c.dir, Mesh, "prod"))
			if reasonOf(serverErr) != c.reason || !strings.Contains(fmt.Sprint(serverErr), c.text) {
				t.Errorf("called by it: %v; want %s: …%s…", serverErr, c.reason, c.text)
			}
			if clientErr == nil {
				t.Error("the caller was let in")
			}
			pretender := &tls.Config{Certificates: []tls.Certificate{chain(t, c.dir)}, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2"}}
			_, _, clientErr = shake(t, pretender, good.ClientConfig(Mesh, Identity{}))
			if reasonOf(clientErr) != c.reason || !strings.Contains(fmt.Sprint(clientErr), c.text) {
				t.Errorf("calling it: %v; want %s: …%s…", clientErr, c.reason, c.text)
			}
			if got := good.Refusals()[c.reason] - before; got != 2 {
				t.Errorf("%d refusals were counted for %s; want 2", got, c.reason)
			}
			if _, err := good.Relayed(chain(t, c.dir).Certificate[0]); reasonOf(err) != c.reason {
				t.Errorf("relayed: %v; want %s", err, c.reason)
			}
		})
	}
}

// Our own authorities cannot speak for another fleet even where the key is used
// with another tool.
func TestAuthorityIsBoundToItsFleet(t *testing.T) {
	f := newFleet(t, "prod")
	good := open(t, f.issue("fra", "fra-1", DefaultLife))
	stolen := &foreign{t, f.key, f.cert}
	dir := stolen.issue(Identity{"other", "ams", "ams-1"}, nil)
	_, serverErr, _ := shake(t, good.ServerConfig(Mesh), stranger(t, dir, Mesh, "prod"))
	if reasonOf(serverErr) != Unfit {
		t.Errorf("got %v; want a refusal for %s", serverErr, Unfit)
	}
}

func TestOtherWaysToBeTurnedAway(t *testing.T) {
	f := newFleet(t, "prod")
	a, b := open(t, f.issue("fra", "fra-1", DefaultLife)), open(t, f.issue("ams", "ams-1", DefaultLife))
	t.Run("no certificate", func(t *testing.T) {
		_, serverErr, clientErr := shake(t, a.ServerConfig(Mesh), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if serverErr == nil || clientErr == nil {
			t.Errorf("server %v, client %v", serverErr, clientErr)
		}
	})
	t.Run("TLS 1.2", func(t *testing.T) {
		old := b.ClientConfig(Mesh, Identity{})
		old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		if _, serverErr, clientErr := shake(t, a.ServerConfig(Mesh), old); serverErr == nil || clientErr == nil {
			t.Errorf("server %v, client %v", serverErr, clientErr)
		}
	})
	t.Run("another node than called", func(t *testing.T) {
		_, _, clientErr := shake(t, a.ServerConfig(Mesh), b.ClientConfig(Mesh, Identity{Site: "gru", Node: "gru-1"}))
		if reasonOf(clientErr) != WrongPeer || !strings.Contains(clientErr.Error(), "steadycast://prod/fra/fra-1 answers where gru/gru-1 was called") {
			t.Errorf("got %v", clientErr)
		}
	})
	t.Run("the mesh where the ledger listens", func(t *testing.T) {
		if _, serverErr, clientErr := shake(t, a.ServerConfig(Ledger), b.ClientConfig(Mesh, Identity{})); serverErr == nil || clientErr == nil {
			t.Errorf("server %v, client %v", serverErr, clientErr)
		}
	})
	t.Run("the ledger of another fleet", func(t *testing.T) {
		wrong := b.ClientConfig(Ledger, Identity{})
		wrong.NextProtos = []string{Ledger.ALPN("other")}
		if _, serverErr, clientErr := shake(t, a.ServerConfig(Ledger), wrong); serverErr == nil || clientErr == nil {
			t.Errorf("server %v, client %v", serverErr, clientErr)
		}
	})
	t.Run("no protocol", func(t *testing.T) {
		mute := b.ClientConfig(Ledger, Identity{})
		mute.NextProtos, mute.VerifyConnection = nil, nil
		_, serverErr, _ := shake(t, a.ServerConfig(Ledger), mute)
		if reasonOf(serverErr) != WrongProtocol {
			t.Errorf("server %v; want %s", serverErr, WrongProtocol)
		}
	})
}

// Whom the refusal is about is told to the log, with the address.
func TestRefusalIsToldWithItsAddress(t *testing.T) {
	f := newFleet(t, "prod")
	var from net.Addr
	var why error
	dir := f.issue("fra", "fra-1", DefaultLife)
	c, err := Open(Settings{Dir: dir, Refused: func(addr net.Addr, err error) { from, why = addr, err }})
	if err != nil {
		t.Fatal(err)
	}
	other := newFleet(t, "prod").issue("ams", "ams-1", DefaultLife)
	shake(t, c.ServerConfig(Mesh), stranger(t, other, Mesh, "prod"))
	if from == nil || reasonOf(why) != UnknownAuthority {
		t.Errorf("told of %v: %v", from, why)
	}
}

// Time runs in a bubble: a certificate is good to its last moment, then no more;
// for the ledger a week longer, with an alarm at the one who accepts it.
func TestCertificatesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "prod")
		lasting := open(t, f.issue("fra", "fra-1", 10*DefaultLife))
		ending := open(t, f.issue("ams", "ams-1", 24*time.Hour))
		meet := func(p Purpose) (Reason, Reason) {
			t.Helper()
			_, serverErr, _ := shake(t, lasting.ServerConfig(p), ending.ClientConfig(p, Identity{}))
			_, _, clientErr := shake(t, ending.ServerConfig(p), lasting.ClientConfig(p, Identity{}))
			return reasonOf(serverErr), reasonOf(clientErr)
		}
		want := func(when string, mesh, ledger Reason, alarm string) {
			t.Helper()
			if s, c := meet(Mesh); s != mesh || c != mesh {
				t.Errorf("%s: mesh %q, %q; want %q", when, s, c, mesh)
			}
			if s, c := meet(Ledger); s != ledger || c != ledger {
				t.Errorf("%s: ledger %q, %q; want %q", when, s, c, ledger)
			}
			if got := strings.Join(lasting.Alarms(), "\n"); (alarm == "") != (got == "") || !strings.Contains(got, alarm) {
				t.Errorf("%s: alarms %q; want %q", when, got, alarm)
			}
		}
		want("new", "", "", "")
		time.Sleep(24 * time.Hour)
		want("at its last moment", "", "", "")
		time.Sleep(time.Second)
		want("a second later", Expired, "", "steadycast://prod/ams/ams-1 ended on 2000-01-02 00:00 UTC and is accepted until 2000-01-09 00:00 UTC")
		if got := strings.Join(ending.Alarms(), "\n"); !strings.Contains(got, "our own certificate ended on") {
			t.Errorf("its own alarms: %q", got)
		}
		time.Sleep(Grace - time.Second)
		want("a week later", Expired, "", "is accepted until")
		time.Sleep(time.Second)
		want("a second after that", Expired, Expired, "is accepted until")
		time.Sleep(time.Hour)
		want("an hour later", Expired, Expired, "")
	})
}

// A link that stands is judged again: its certificate may end, or be revoked,
// while it lasts.
func TestLastingLinkIsJudgedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "prod")
		dir := f.issue("fra", "fra-1", DefaultLife)
		a := open(t, dir)
		b, c := open(t, f.issue("ams", "ams-1", 24*time.Hour)), open(t, f.issue("gru", "gru-1", DefaultLife))
		first, _, _ := shake(t, a.ServerConfig(Mesh), b.ClientConfig(Mesh, Identity{}))
		second, _, _ := shake(t, a.ServerConfig(Mesh), c.ClientConfig(Mesh, Identity{}))
		for _, cs := range []tls.ConnectionState{first, second} {
			if _, err := a.PeerOf(Mesh, cs); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(25 * time.Hour)
		if _, err := a.PeerOf(Mesh, first); reasonOf(err) != Expired {
			t.Errorf("after its end: %v", err)
		}
		if _, err := f.Revoke("gru-1", time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := f.CopyTo(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(reread)
		if _, err := a.PeerOf(Mesh, second); reasonOf(err) != Revoked {
			t.Errorf("after it was revoked: %v", err)
		}
		if _, err := a.PeerOf(Mesh, tls.ConnectionState{}); reasonOf(err) != NoCertificate {
			t.Errorf("of no connection: %v", err)
		}
	})
}

// An authority that ends takes its certificates with it, a week later for the ledger;
// with a second authority in ca.crt the change is made in time.
func TestAuthorityEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := newForeign(t, 48*time.Hour), newForeign(t, DefaultLife)
		long := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(90 * 24 * time.Hour) }
		a, b := old.issue(Identity{"prod", "fra", "fra-1"}, long), old.issue(Identity{"prod", "ams", "ams-1"}, long)
		fresh := next.issue(Identity{"prod", "gru", "gru-1"}, long)
		both := append(encodeCert(old.cert.Raw), encodeCert(next.cert.Raw)...)
		for _, d := range []string{a, fresh} {
			put(t, filepath.Join(d, caCertFile), both)
		}
		ca, cb, cf := open(t, a), open(t, b), open(t, fresh)
		try := func(p Purpose, x, y *Credentials) Reason {
			_, serverErr, clientErr := shake(t, x.ServerConfig(p), y.ClientConfig(p, Identity{}))
			return cmp.Or(reasonOf(clientErr), reasonOf(serverErr))
		}
		if got := try(Mesh, ca, cb); got != "" {
			t.Errorf("in time: %q", got)
		}
		time.Sleep(72 * time.Hour)
		if got := [...]Reason{try(Mesh, ca, cb), try(Ledger, ca, cb), try(Mesh, ca, ca), try(Ledger, ca, cf)}; got != [...]Reason{Expired, "", Expired, ""} {
			t.Errorf("a day after its end: %q", got)
		}
		if got := try(Mesh, cf, cf); got != "" {
			t.Errorf("under the next authority: %q", got)
		}
		if got := strings.Join(ca.Alarms(), "\n"); !strings.Contains(got, "the authority any authority ended on") {
			t.Errorf("alarms: %q", got)
		}
		time.Sleep(Grace)
		if got := [...]Reason{try(Mesh, ca, cb), try(Ledger, ca, cb), try(Ledger, cf, cf)}; got != [...]Reason{Expired, Expired, ""} {
			t.Errorf("eight days after its end: %q", got)
		}
	})
}
