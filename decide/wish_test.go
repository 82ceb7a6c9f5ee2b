package decide

import (
	"crypto/ed25519"
	"crypto/sha256"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadycast/steadycast"
)

// keyOf is the key of a person in the tests, made of a word.
func keyOf(word string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(word))
	return ed25519.NewKeyFromSeed(seed[:])
}

// operatorOf reads NAME=ROLE[/KEYWORD].
func operatorOf(word string) steadycast.Operator {
	name, role, _ := strings.Cut(word, "=")
	role, key, ok := strings.Cut(role, "/")
	if !ok {
		key = name
	}
	o := steadycast.Operator{Name: name}
	if err := o.Role.UnmarshalText([]byte(role)); err != nil {
		panic(err)
	}
	copy(o.Key[:], keyOf(key).Public().(ed25519.PublicKey))
	return o
}

// charter reads FLEET NAME=ROLE….
func charter(args []string) *Charter {
	c := &Charter{Fleet: args[0]}
	for _, w := range args[1:] {
		c.Operators = append(c.Operators, operatorOf(w))
	}
	return c
}

// signing is how the next wish is signed: rightly, but for what is said.
type signing struct {
	by      string
	key     string // whose key, default that of by
	fleet   string
	epoch   uint64
	serial  int  // added to the right one
	ago     Time // before now
	altered bool
	context string
	swap    Kind
}

// newSigning reads NAME [WORD=VALUE…] COMMAND.
func newSigning(args []string) (*signing, string) {
	g := &signing{by: args[0], key: args[0]}
	args = args[1:]
	for ; len(args) > 0; args = args[1:] {
		k, v, ok := strings.Cut(args[0], "=")
		if args[0] == "altered" {
			g.altered, ok = true, true
		} else if !ok {
			break
		}
		n, _ := strconv.Atoi(v)
		d, _ := time.ParseDuration(v)
		switch k {
		case "key":
			g.key = v
		case "fleet":
			g.fleet = v
		case "epoch":
			g.epoch = uint64(n)
		case "serial":
			g.serial = n
		case "ago":
			g.ago = lt(d)
			if d < 0 {
				g.ago = -lt(-d)
			}
		case "context":
			g.context = "steadycast " + v + " 1"
		case "kind":
			g.swap = Kind(v)
		}
	}
	return g, strings.Join(args, " ")
}

// wishOf is what an unsigned entry says, as a wish that its signer would make.
func wishOf(s *state, e Entry, by string) Wish {
	w := Wish{Fleet: s.Fleet, Epoch: s.Fence.Epoch, By: by, Serial: 1, At: s.LT, Kind: e.Kind, Reason: e.Reason,
		Scope: e.Scope, Operator: e.Operator, Name: e.Name, Decision: e.Decision, Share: e.Share, Divert: e.Divert, Names: e.Names, Plan: e.Plan,
		Table: e.Table, Revision: e.Revision, Waive: e.Waive, Force: e.Force, ConfirmWithin: e.ConfirmWithin}
	if i, ok := s.operatorAt(by); ok {
		w.Serial = s.Operators[i].Serial + 1
	}
	if e.Order != nil {
		o := *e.Order
		o.Actor, o.Reason = "", ""
		w.Order = &o
	}
	return w
}

func (g *signing) sign(s *stage, e Entry) Entry {
	w := wishOf(&s.f.s, e, g.by)
	w.Serial += uint64(g.serial)
	w.At -= g.ago
	if g.fleet != "" {
		w.Fleet = g.fleet
	}
	if g.epoch != 0 {
		w.Epoch = g.epoch
	}
	signed, err := w.Sign(func(context string, text []byte) []byte {
		if g.context != "" {
			context = g.context
		}
		sig, err := keyOf(g.key).Sign(nil, text, &ed25519.Options{Context: context})
		if err != nil {
			s.t.Fatal(err)
		}
		return sig
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if g.altered {
		signed.Text = strings.Replace(signed.Text, `"site":"`, `"site":"x`, 1)
		signed.Text = strings.Replace(signed.Text, `"site":"xams"`, `"site":"fra"`, 1)
	}
	e = Entry{Kind: e.Kind, Schema: e.Schema, Rules: e.Rules, Epoch: e.Epoch, LT: e.LT, Proposer: e.Proposer, Decide: e.Decide, Signed: &signed}
	if g.swap != "" {
		e.Kind = g.swap
	}
	s.sent = e
	return e
}

// TestUnsignedChangesNothing: in a ledger that knows operators, a person's entry
// that nobody signed, or that was altered after he did in any one bit, changes
// the position and the time and nothing else. The same entry untouched does.
func TestUnsignedChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newStage(t)
		for _, line := range []string{
			"charter edge maria=admin joe=operator", "table sites=ams,fra,lon prefixes=192.0.2.0/24", "boot",
			"freeze: unsigned", "as maria order withdraw fra: disks", "as joe freeze lon: a while",
		} {
			s.play(line)
		}
		line := rapid.SampledFrom([]string{
			"order withdraw ams force: x", "order drain lon force for=1h: x", "order announce fra: x", "clear fra: x", "freeze: x",
			"freeze ams: x", "thaw lon: x", "operator eve=admin: x", "dismiss joe: x",
		}).Draw(rt, "wish")
		line = "as maria " + line
		before := *s.f
		twin := &Fleet{s: before.s.clone()}
		s.f = twin
		s.play(line)
		good := s.sent
		if beside(before.s) == beside(twin.s) {
			rt.Fatalf("%s changed nothing even as it was signed", line)
		}
		e := good
		switch rapid.IntRange(0, 3).Draw(rt, "fault") {
		case 0:
			e.Signed = nil
			w, err := good.Signed.Wish()
			if err != nil {
				rt.Fatal(err)
			}
			w.Into(&e)
		case 1:
			b := []byte(good.Signed.Text)
			b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
			e.Signed = &Signed{string(b), good.Signed.Signature}
		case 2:
			b := append([]byte(nil), good.Signed.Signature...)
			b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
			e.Signed = &Signed{good.Signed.Text, b}
		case 3:
			e.Signed = &Signed{good.Signed.Text, rapid.SliceOfN(rapid.Byte(), 0, 80).Draw(rt, "signature")}
		}
		e.LT += Time(rapid.IntRange(0, 1000).Draw(rt, "later"))
		f := &Fleet{s: before.s.clone()}
		r, err := f.Apply(e)
		if err != nil {
			rt.Fatal(err)
		}
		if r.Refused == nil && r.Invalid == "" {
			rt.Errorf("it was taken: %s", text(r))
		}
		if got, want := beside(f.s), beside(before.s); got != want {
			rt.Errorf("it changed the state\n%s\nto\n%s", want, got)
		}
		if len(r.Events) > 0 {
			rt.Errorf("it made events: %v", r.Events)
		}
	})
}

// beside is a state but for its position and its time.
func beside(s state) string {
	s.Fence, s.LT = steadycast.Fence{}, 0
	f := Fleet{s: s}
	return string(f.Snapshot())
}

// TestWishesCannotBePlayedAgain: whatever of all that was ever signed comes
// again, in whatever order, changes nothing; not after more was signed, not in
// another epoch, and not when its signer was dismissed and let in again.
func TestWishesCannotBePlayedAgain(t *testing.T) {
	s := newStage(t)
	var signed []Entry
	for _, line := range []string{
		"charter edge maria=admin joe=operator", "table sites=ams,fra,lon prefixes=192.0.2.0/24", "boot",
		"as maria order withdraw fra: one", "as joe freeze: two", "as maria order announce fra: three", "as joe thaw: four",
		"as maria dismiss joe: five", "as maria operator joe=operator: six",
	} {
		s.play(line)
		if s.sent.Signed != nil {
			signed = append(signed, s.sent)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		f := &Fleet{s: s.f.s.clone()}
		if rapid.Bool().Draw(rt, "another epoch") {
			e := s.entry(KindEpoch)
			e.Epoch, e.Actor, e.Reason = 2, "ann", "two burnt"
			if _, err := f.Apply(e); err != nil {
				rt.Fatal(err)
			}
		}
		before := beside(f.s)
		for range 5 {
			e := rapid.SampledFrom(signed).Draw(rt, "old")
			e.Epoch = f.Fence().Epoch
			r, err := f.Apply(e)
			if err != nil || r.Refused == nil && r.Before == nil {
				rt.Fatalf("%v %s", err, text(r))
			}
		}
		if after := beside(f.s); after != before {
			rt.Fatalf("before\n%s\nafter\n%s", before, after)
		}
	})
}

// FuzzSigned: no text and no signature panics or is taken but the one that was signed.
func FuzzSigned(f *testing.F) {
	s := newStage(nil)
	s.t = new(testing.T)
	for _, line := range []string{
		"charter edge maria=admin joe=operator", "table sites=ams,fra,lon prefixes=192.0.2.0/24", "boot", "as maria order withdraw fra: disks",
	} {
		s.play(line)
	}
	before := &Fleet{s: s.f.s.clone()}
	s.play("as maria order announce fra: back")
	good := *s.sent.Signed
	f.Add(good.Text, good.Signature, string(KindOrder))
	f.Add(`{"fleet":"edge","epoch":1,"by":"maria","serial":3,"at":0,"kind":"thaw","reason":"x","scope":{}}`, good.Signature, "thaw")
	f.Add(`{"by":"maria","kind":"dismiss","name":"maria"}`, []byte{}, "dismiss")
	f.Fuzz(func(t *testing.T, words string, signature []byte, kind string) {
		e := Entry{Kind: Kind(kind), Schema: Schema, Rules: RulesLevel, Epoch: 1, Signed: &Signed{words, signature}}
		m := &Fleet{s: before.s.clone()}
		if kb, ok := bodiesOf(e.Kind); !ok || kb.role == nobody && kb.need != 0 {
			return
		}
		r, err := m.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		right := words == good.Text && string(signature) == string(good.Signature) && e.Kind == KindOrder
		if taken := r.Refused == nil && r.Invalid == ""; taken != right || !right && beside(m.s) != beside(before.s) {
			t.Fatalf("taken %t: %s", taken, text(r))
		}
	})
}
