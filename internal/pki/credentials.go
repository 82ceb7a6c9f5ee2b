package pki

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Settings say where a node's credentials are and whose they must be.
type Settings struct {
	// Dir is the directory that `steadycast pki issue` made.
	Dir string
	// Fleet, Site and Node are what node.yaml says this node is. The certificate
	// must say the same; an empty one is not compared.
	Fleet, Site, Node string
	// Clock is a file in the node's state directory that keeps the highest time
	// seen (see [Credentials.Now]); "" keeps none.
	Clock string
	// Refused, if set, is told of every peer that is turned away, for the log. It
	// must not block. addr is nil where it is not known.
	Refused func(addr net.Addr, err error)
}

// reread is how often, at most, the files are looked at.
const reread = time.Second

// Credentials are what a node proves itself with and judges others by. The
// files are looked at again whenever they are needed, at most once a second: a
// changed directory takes effect with the next handshake, and a broken one
// changes nothing but [Credentials.Alarms]. All methods may be called at once.
type Credentials struct {
	set     Settings
	current atomic.Pointer[state]

	mu      sync.Mutex
	looked  time.Time            // guarded by mu; monotonic
	stamps  []stamp              // guarded by mu; what current was read from
	trouble string               // guarded by mu; why what lies there now is not in force
	late    map[string]lateness  // guarded by mu; peers accepted outside their time, by node
	clock   clock                // guarded by mu
	refused map[Reason]uint64    // guarded by mu
	judged  map[judgedKey]judged // guarded by mu; emptied when the files change
}

type lateness struct {
	text string
	at   time.Time
}

// Open reads the credentials. A directory that is not whole, whose certificate
// is not this node's, or whose keys others may read, is an error.
func Open(set Settings) (*Credentials, error) {
	c := &Credentials{set: set, late: map[string]lateness{}, refused: map[Reason]uint64{}, judged: map[judgedKey]judged{}}
	stamps := c.stampAll()
	s, err := c.load(nil)
	if err != nil {
		return nil, err
	}
	c.stamps, c.looked = stamps, time.Now()
	c.current.Store(s)
	c.clock = openClock(set.Clock)
	return c, nil
}

// load reads the directory and compares it with what node.yaml says.
func (c *Credentials) load(before *state) (*state, error) {
	s, err := load(c.set.Dir, before)
	if err != nil {
		return nil, err
	}
	want := Identity{c.set.Fleet, c.set.Site, c.set.Node}
	if before != nil {
		want = before.self.Identity
	}
	if !s.self.matches(want) {
		return nil, fmt.Errorf("%s is the certificate of %s; this node is %s", filepath.Join(c.set.Dir, certFile), s.self, want)
	}
	return s, nil
}

// Self is who this node is.
func (c *Credentials) Self() Peer { return c.state().self }

// Leaf is this node's certificate in DER, which goes along with an observation
// that is relayed.
func (c *Credentials) Leaf() []byte { return c.state().leaf.Raw }

// Sign signs an observation with this node's key (Ed25519ctx, RFC 8032 §5.1).
func (c *Credentials) Sign(message []byte) []byte {
	return sign(c.state().observe, contextObservation, message)
}

// VerifyObservation reports whether the holder of key signed message with [Credentials.Sign].
func VerifyObservation(key ed25519.PublicKey, message, signature []byte) bool {
	return verify(key, contextObservation, message, signature) == nil
}

// Refusals counts the peers turned away, by reason.
func (c *Credentials) Refusals() map[Reason]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.refused)
}

// Alarms are what a person must know, in words, the most urgent first. They end
// by themselves.
func (c *Credentials) Alarms() []string {
	s := c.state()
	c.mu.Lock()
	defer c.mu.Unlock()
	now, _ := c.now(s)
	var out []string
	if s.revoked.has(s.leaf) {
		out = append(out, fmt.Sprintf("our own certificate %s is revoked: peers refuse it. Next: steadycast pki issue", s.self.Serial))
	}
	if e := expiry(s.leaf, now); e.Level > Fine {
		out = append(out, "our own certificate "+e.Text)
	}
	for _, ca := range s.authorities {
		if e := expiry(ca, now); e.Level > Fine {
			out = append(out, fmt.Sprintf("the authority %s %s", clip(ca.Subject.CommonName), e.Text))
		}
	}
	if c.trouble != "" {
		out = append(out, c.trouble+"; what was read before goes on")
	}
	if text := c.clock.alarm(time.Now()); text != "" {
		out = append(out, text)
	}
	for _, node := range slices.Sorted(maps.Keys(c.late)) {
		if time.Since(c.late[node].at) < time.Hour {
			out = append(out, c.late[node].text)
		} else {
			delete(c.late, node)
		}
	}
	return out
}

// stamp tells one edition of a file from another without reading it.
type stamp struct {
	inode    uint64
	size     int64
	modified time.Time
}

func (c *Credentials) stampAll() []stamp {
	var all []stamp
	for _, f := range []string{caCertFile, certFile, keyFile, observeFile, revokedFile} {
		var s stamp
		if st, err := os.Stat(filepath.Join(c.set.Dir, f)); err == nil {
			s.size, s.modified = st.Size(), st.ModTime()
			if sys, ok := st.Sys().(*syscall.Stat_t); ok {
				s.inode = sys.Ino
			}
		}
		all = append(all, s)
	}
	return all
}

// state is what is in force, after a look at the files if the last was a while ago.
func (c *Credentials) state() *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	s := c.current.Load()
	if now.Sub(c.looked) < reread {
		return s
	}
	c.looked = now
	stamps := c.stampAll()
	if slices.Equal(stamps, c.stamps) {
		c.trouble = ""
		return s
	}
	next, err := c.load(s)
	if err != nil {
		// The files may be half copied: they are read again until they are whole.
		c.trouble = err.Error()
		return s
	}
	c.stamps, c.trouble = stamps, ""
	clear(c.judged)
	c.current.Store(next)
	return next
}

// Reread looks at the files now, and returns why what lies there is not in force.
func (c *Credentials) Reread() error {
	c.mu.Lock()
	c.looked = time.Time{}
	c.mu.Unlock()
	c.state()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble != "" {
		return errors.New(c.trouble)
	}
	return nil
}

// check judges a chain now. A certificate that was judged within the last
// minute, by the same files, is judged by its own dates only: a node that asks
// something every second costs no signature each time.
func (c *Credentials) check(chain []*x509.Certificate, usage x509.ExtKeyUsage, grace time.Duration) (Peer, error) {
	s := c.state()
	var key judgedKey
	if len(chain) == 1 {
		key = judgedKey{sha256.Sum256(chain[0].Raw), usage}
	}
	c.mu.Lock()
	now, vague := c.now(s)
	before, ok := c.judged[key]
	c.mu.Unlock()
	if age := now.Sub(before.at); ok && len(chain) == 1 && age >= 0 && age < judgedFor && !now.Before(chain[0].NotBefore) && !now.After(chain[0].NotAfter) {
		return before.peer, nil
	}
	p, late, err := s.examine(chain, usage, grace, now, vague)
	if err != nil {
		return Peer{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock.learn(chain[0].NotBefore)
	switch {
	case late != "":
		if _, old := c.late[p.Node]; !old && len(c.late) >= maxLate {
			clear(c.late)
		}
		c.late[p.Node] = lateness{late, time.Now()}
	case len(chain) == 1 && c.current.Load() == s: // else the files have changed since
		if len(c.judged) >= maxJudged {
			clear(c.judged)
		}
		c.judged[key] = judged{p, now}
	}
	return p, nil
}

// judged is a certificate that was let in, and when.
type judged struct {
	peer Peer
	at   time.Time
}

type judgedKey struct {
	cert  [sha256.Size]byte
	usage x509.ExtKeyUsage
}

const (
	judgedFor = time.Minute
	// maxJudged bounds them: each node of a large fleet, a few times over.
	maxJudged = 2048
)

// maxLate bounds how many late peers are remembered by name.
const maxLate = 1024

// turnAway counts a refusal and tells of it.
func (c *Credentials) turnAway(addr net.Addr, err error) error {
	var r *Refusal
	if errors.As(err, &r) {
		c.mu.Lock()
		c.refused[r.Reason]++
		c.mu.Unlock()
	}
	if c.set.Refused != nil {
		c.set.Refused(addr, err)
	}
	return err
}
