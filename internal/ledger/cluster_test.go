package ledger

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/loopback"
)

// authority signs certificates of nodes.
type authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t, key, cert, x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

// node is what a node of the fleet is given.
func (a *authority) node(fleet, site, node string) TLS {
	return a.issue("steadycast://"+fleet+"/"+site+"/"+node, time.Hour)
}

func (a *authority) issue(uri string, life time.Duration) TLS {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: uri},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if uri != "" {
		u, err := url.Parse(uri)
		if err != nil {
			a.t.Fatal(err)
		}
		template.URIs = []*url.URL{u}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pair := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	return TLS{
		Server: func(string) *tls.Config { return &tls.Config{Certificates: pair, ClientCAs: a.pool} },
		Client: func(string) *tls.Config { return &tls.Config{Certificates: pair, RootCAs: a.pool} },
	}
}

// wires is the network of a test: links between nodes that can be cut, one way
// or both. A cut link loses everything without a word, as a filter does.
type wires struct {
	mu   sync.Mutex
	cuts map[[2]string]bool
	// far is how long bytes take one way.
	far time.Duration
}

func (w *wires) cut(from, to string, yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cuts == nil {
		w.cuts = map[[2]string]bool{}
	}
	w.cuts[[2]string{from, to}] = yes
}

func (w *wires) isCut(from, to string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts[[2]string{from, to}]
}

// dialFrom opens links from one node; who says whose an address is.
func (w *wires) dialFrom(from string, who func(address string) string) Dialer {
	return func(ctx context.Context, address string) (net.Conn, error) {
		to := who(address)
		if w.isCut(from, to) || w.isCut(to, from) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c, err := dialTCP(ctx, address)
		if err != nil {
			return nil, err
		}
		if w.far > 0 {
			c = newFar(c, w.far)
		}
		return &wire{c, w, from, to}, nil
	}
}

// wire is a link of which either direction may be cut. What would be written to
// a cut one is held back, and lost if the link is closed first.
type wire struct {
	net.Conn
	w        *wires
	from, to string
}

func (c *wire) Write(b []byte) (int, error) {
	if c.w.isCut(c.from, c.to) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *wire) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.w.isCut(c.to, c.from) {
			return n, err
		}
	}
}

// far is a connection whose other end is some time away.
type far struct {
	net.Conn
	delay time.Duration
	out   chan late
	in    *io.PipeReader
	done  chan struct{}
	once  sync.Once
}

type late struct {
	at time.Time
	b  []byte
}

func newFar(c net.Conn, delay time.Duration) *far {
	r, w := io.Pipe()
	f := &far{Conn: c, delay: delay, out: make(chan late, 1024), in: r, done: make(chan struct{})}
	back := make(chan late, 1024)
	go f.carry(f.out, func(b []byte) error { _, err := c.Write(b); return err })
	go f.carry(back, func(b []byte) error { _, err := w.Write(b); return err })
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			if n > 0 {
				back <- late{time.Now().Add(delay), slices.Clone(buf[:n])}
			}
			if err != nil {
				w.CloseWithError(err)
				return
			}
		}
	}()
	return f
}

func (f *far) carry(from <-chan late, put func([]byte) error) {
	for {
		select {
		case l := <-from:
			wait := time.NewTimer(time.Until(l.at))
			select {
			case <-wait.C:
			case <-f.done:
			}
			wait.Stop()
			if put(l.b) != nil {
				return
			}
		case <-f.done:
			return
		}
	}
}

func (f *far) Write(b []byte) (int, error) {
	select {
	case f.out <- late{time.Now().Add(f.delay), slices.Clone(b)}:
		return len(b), nil
	case <-f.done:
		return 0, net.ErrClosed
	}
}

func (f *far) Read(b []byte) (int, error) { return f.in.Read(b) }

func (f *far) Close() error {
	f.once.Do(func() { close(f.done); f.in.Close() })
	return f.Conn.Close()
}

// patient is a MaxRTT with which a busy machine that stands still for a second
// is no reason to elect anew.
const patient = 250 * time.Millisecond

// cluster is a ledger of voters in this process, over real sockets and disks.
type cluster struct {
	t     testing.TB
	ca    *authority
	wires *wires
	peers []Peer
	sites []string
	dirs  map[string]string
	books map[string]*logbook
	exits map[string]chan int
	tweak func(*VoterOptions)

	mu     sync.Mutex
	voters map[string]*Voter
}

// newCluster starts voters of these sites, none of which holds anything.
func newCluster(t testing.TB, tweak func(*VoterOptions), sites ...string) *cluster {
	t.Helper()
	c := &cluster{
		t: t, ca: newAuthority(t), wires: &wires{}, sites: sites, tweak: tweak,
		dirs: map[string]string{}, books: map[string]*logbook{}, exits: map[string]chan int{}, voters: map[string]*Voter{},
	}
	for _, s := range sites {
		c.peers = append(c.peers, Peer{Node: s + "-1", Address: loopback.Own(t).String(), Domain: s})
		c.dirs[s+"-1"] = filepath.Join(t.TempDir(), s)
		c.books[s+"-1"] = &logbook{}
	}
	for _, p := range c.peers {
		c.start(p.Node)
	}
	t.Cleanup(c.close)
	return c
}

// begun is newCluster with a ledger for all sites of the voters.
func begun(t testing.TB, tweak func(*VoterOptions), sites ...string) *cluster {
	t.Helper()
	c := newCluster(t, tweak, sites...)
	c.init()
	return c
}

func (c *cluster) init() {
	c.t.Helper()
	if err := c.voter(c.peers[0].Node).Init(c.t.Context(), policy(c.sites...), "ann", "begin"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) who(address string) string {
	i := slices.IndexFunc(c.peers, func(p Peer) bool { return p.Address == address })
	if i < 0 {
		return ""
	}
	return c.peers[i].Node
}

func (c *cluster) options(node string) VoterOptions {
	p := c.peers[slices.IndexFunc(c.peers, func(p Peer) bool { return p.Node == node })]
	exit := make(chan int, 1)
	c.mu.Lock()
	c.exits[node] = exit
	c.mu.Unlock()
	o := VoterOptions{
		Fleet: "test", Node: node, Dir: c.dirs[node], Listen: p.Address, Peers: c.peers,
		MaxRTT: patient,
		TLS:    c.ca.node("test", p.Domain, node), LeastFree: 1 << 20, Ballast: 1 << 20,
		Log:  slog.New(slog.NewTextHandler(c.books[node], nil)),
		Exit: func(code int) { exit <- code },
		Dial: c.wires.dialFrom(node, c.who),
	}
	if c.tweak != nil {
		c.tweak(&o)
	}
	return o
}

func (c *cluster) start(node string) *Voter {
	c.t.Helper()
	o := c.options(node)
	o.Listener = loopback.Listen(c.t, netip.MustParseAddrPort(o.Listen))
	v, err := OpenVoter(o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.voters[node] = v
	c.mu.Unlock()
	return v
}

func (c *cluster) stop(node string) {
	c.t.Helper()
	v := c.voter(node)
	c.mu.Lock()
	delete(c.voters, node)
	c.mu.Unlock()
	if err := v.Close(); err != nil {
		c.t.Errorf("closing %s: %v", node, err)
	}
}

func (c *cluster) voter(node string) *Voter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.voters[node]
}

func (c *cluster) all() []*Voter {
	c.mu.Lock()
	defer c.mu.Unlock()
	var vs []*Voter
	for _, p := range c.peers {
		if v := c.voters[p.Node]; v != nil {
			vs = append(vs, v)
		}
	}
	return vs
}

func (c *cluster) close() {
	for _, v := range c.all() {
		c.stop(v.opts.Node)
	}
	if c.t.Failed() {
		for node, b := range c.books {
			for _, l := range b.all() {
				c.t.Logf("%s: %s", node, l)
			}
		}
	}
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after a minute not yet: %s", what)
		}
	}
}

// leader waits for one that serves, not among those left out.
func (c *cluster) leader(but ...string) *Voter {
	c.t.Helper()
	var found *Voter
	until(c.t, "a leader that serves", func() bool {
		for _, v := range c.all() {
			if slices.Contains(but, v.opts.Node) || v.raft.State() != raft.Leader {
				continue
			}
			ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
			_, err := v.TryDo(ctx, decide.KindFreeze, decide.Scope{}, "ann", "are you there")
			cancel()
			if err == nil {
				found = v
				return true
			}
		}
		return false
	})
	return found
}

// agree waits until all running voters are at one position, with one state.
func (c *cluster) agree() (steadycast.Fence, string) {
	c.t.Helper()
	var at steadycast.Fence
	var hash string
	until(c.t, "one state on all voters", func() bool {
		for i, v := range c.all() {
			f, h := v.Hash()
			if i > 0 && f != at {
				return false
			}
			if i > 0 && h != hash {
				c.t.Fatalf("at %s the voters have decided differently", at)
			}
			at, hash = f, h
		}
		return true
	})
	return at, hash
}

// freeze writes one entry, whose reason says which.
func freeze(ctx context.Context, l Ledger, reason string) error {
	r, err := l.Do(ctx, decide.KindFreeze, decide.Scope{Site: "fra"}, "ann", reason)
	if err == nil && r.Refused != nil {
		err = errors.New(r.Refused.Text)
	}
	return err
}

// frozen is the reason of the last freeze.
func frozen(l Ledger) string {
	if f := l.View().Freezes; len(f) > 0 {
		return f[len(f)-1].Reason
	}
	return ""
}

func TestThreeVoters(t *testing.T) {
	t.Parallel()
	c := begun(t, nil, "ams", "fra", "lon")
	lead := c.leader()
	for i := range 10 {
		if err := freeze(t.Context(), lead, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	at, hash := c.agree()
	if at.Index < 11 || len(hash) != 64 {
		t.Errorf("%s %s", at, hash)
	}
	for _, v := range c.all() {
		if frozen(v) != "9" {
			t.Errorf("%s has %q", v.opts.Node, frozen(v))
		}
		if v != lead {
			until(t, v.opts.Node+" to know who leads", func() bool { p, _ := v.leaderPeer(); return p.Node == lead.opts.Node })
			err := freeze(t.Context(), v, "no")
			if not, ok := errors.AsType[*NotLeader](err); !ok || not.Leader.Node != lead.opts.Node {
				t.Errorf("%s, which follows: %v", v.opts.Node, err)
			}
		}
	}
}

// knock opens a connection and says something over it, as a client does that
// checks nothing itself; nil if the other end kept it open.
func knock(t testing.TB, id TLS, fleet, protocol, address string) error {
	t.Helper()
	raw, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	cfg := id.Client(protocol).Clone()
	cfg.NextProtos, cfg.InsecureSkipVerify = []string{protocol}, true
	conn := tls.Client(raw, cfg)
	if err := conn.Handshake(); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err = conn.Read(make([]byte, 1)) // in TLS 1.3 a refusal comes after the handshake
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return nil
	}
	return err
}
