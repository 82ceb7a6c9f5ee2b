package ledger

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"sync"
	"testing"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// pen is an operator's key in a test, made of his name.
func pen(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func operator(name string, role steadycast.Role) steadycast.Operator {
	o := steadycast.Operator{Name: name, Role: role}
	copy(o.Key[:], pen(name).Public().(ed25519.PublicKey))
	return o
}

// signs makes the next wish of an operator, as the view has it.
func signs(t testing.TB, v decide.View, by string, kind decide.Kind, body func(*decide.Wish)) decide.Signed {
	t.Helper()
	w, ok := v.Authority().Wish(by, kind, "test")
	if !ok {
		t.Fatalf("the ledger knows no %s", by)
	}
	body(&w)
	s, err := w.Sign(func(context string, text []byte) []byte {
		sig, err := pen(by).Sign(nil, text, &ed25519.Options{Context: context})
		if err != nil {
			t.Fatal(err)
		}
		return sig
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func withdraw(site string) func(*decide.Wish) {
	return func(w *decide.Wish) {
		w.Order = &steadycast.Order{Kind: steadycast.OrderWithdraw, Site: site, Force: true}
	}
}

// TestSignedOverVoters: in a fleet an order counts by its signature, whichever
// node carries it and however often, and by nothing else.
func TestSignedOverVoters(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil, "ams", "fra", "lon")
	first := c.voter("ams-1")
	if err := first.Init(t.Context(), policy(c.sites...), "ann", "begin", operator("joe", steadycast.Mover)); err == nil {
		t.Fatal("a ledger began that nobody may change")
	}
	if !first.State().Empty {
		t.Fatal("what was refused has left voters behind")
	}
	if err := first.Init(t.Context(), policy(c.sites...), "ann", "begin", operator("maria", steadycast.Admin), operator("joe", steadycast.Mover)); err != nil {
		t.Fatal(err)
	}
	var clients []*Client
	for _, s := range c.sites {
		clients = append(clients, c.client(s, nil))
	}
	cl := clients[0]
	until(t, "the view", func() bool { return len(cl.View().Operators) == 2 })

	// A node's certificate alone moves nothing.
	if r, err := cl.Order(t.Context(), steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "ams", Actor: "ann", Reason: "x", Force: true}); err != nil || r.Refused == nil || r.Refused.Guard != decide.AuthorityGuard {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := cl.Do(t.Context(), decide.KindFreeze, decide.Scope{}, "ann", "x"); err != nil || r.Refused == nil || r.Refused.Guard != decide.AuthorityGuard {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := cl.SetTable(t.Context(), policy("ams"), "ann", "x"); err != nil || r.Refused == nil || r.Refused.Guard != decide.AuthorityGuard {
		t.Fatalf("%+v %v", r, err)
	}
	before, _ := c.agree()

	// What would come of it may be asked without a key.
	if r, err := cl.Rehearse(t.Context(), decide.Wish{Kind: decide.KindFreeze, By: "joe", Reason: "x", Scope: &decide.Scope{}}); err != nil || r.Refused != nil || len(r.Events) != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	if at, _ := c.agree(); at != before {
		t.Fatalf("a rehearsal was written: %s, then %s", before, at)
	}

	// The same paper, carried by all nodes at once, is one order.
	s := signs(t, cl.View(), "joe", decide.KindOrder, withdraw("fra"))
	var wait sync.WaitGroup
	replies := make([]decide.Reply, len(clients))
	for i, x := range clients {
		wait.Go(func() {
			var err error
			if replies[i], err = x.Carry(t.Context(), s); err != nil || replies[i].Refused != nil {
				t.Errorf("%+v %v", replies[i], err)
			}
		})
	}
	wait.Wait()
	fresh := 0
	for _, r := range replies {
		if r.Before == nil {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("entered %d times", fresh)
	}
	v := cl.View()
	if len(v.Orders) != 1 || v.Orders[0].Order.Actor != "joe" || v.Orders[0].Order.Reason != "test" {
		t.Errorf("orders: %+v", v.Orders)
	}

	// What a guard refused is spent: it cannot be played when the guard would pass.
	thaw := signs(t, v, "joe", decide.KindThaw, func(w *decide.Wish) { w.Scope = &decide.Scope{} })
	if r, err := cl.Carry(t.Context(), thaw); err != nil || r.Refused == nil || r.Refused.Guard != "freeze" {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := cl.Carry(t.Context(), signs(t, cl.View(), "joe", decide.KindFreeze, func(w *decide.Wish) { w.Scope = &decide.Scope{} })); err != nil || r.Refused != nil {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := cl.Carry(t.Context(), thaw); err != nil || r.Refused == nil || r.Refused.Guard != decide.AuthorityGuard {
		t.Fatalf("%+v %v", r, err)
	}

	// A node may say of its own site, and of no other, what was done there by hand.
	byHand := steadycast.Order{Kind: steadycast.OrderWithdraw, Site: "lon", Actor: "ann (uid 0)", Reason: "smoke"}
	if _, err := cl.Local(t.Context(), byHand); !isForbidden(err) {
		t.Fatalf("ams said what was done at lon: %v", err)
	}
	byHand.Site = "ams"
	for range 2 {
		if _, err := cl.Local(t.Context(), byHand); err != nil {
			t.Fatal(err)
		}
	}
	if os := cl.View().Orders; len(os) != 2 || os[1].Order.Actor != "ann (uid 0) at ams-9" || !os[1].Order.Force {
		t.Fatalf("%+v", os)
	}

	// The guards of a lost leader's successor are the same.
	lead := c.leader()
	c.stop(lead.opts.Node)
	late := signs(t, cl.View(), "maria", decide.KindDismiss, func(w *decide.Wish) { w.Name = "joe" })
	if r, err := cl.Carry(t.Context(), late); err != nil || r.Refused != nil {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := cl.Carry(t.Context(), s); err != nil || r.Refused == nil || r.Refused.Guard != decide.AuthorityGuard {
		t.Fatalf("%+v %v", r, err)
	}
	c.agree()
}

func isForbidden(err error) bool {
	_, yes := errors.AsType[Forbidden](err)
	return yes
}

// TestSignedLocally: a node's own ledger can be given operators too; the desk
// writes what a guard refused, and not what nobody signed.
func TestSignedLocally(t *testing.T) {
	l, err := Open("", policy("ams", "fra", "lon"), Options{Fleet: "test", Node: "n1", Operators: []steadycast.Operator{operator("maria", steadycast.Admin)}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.View().Fence
	good := signs(t, l.View(), "maria", decide.KindThaw, func(w *decide.Wish) { w.Scope = &decide.Scope{} })
	bad := good
	bad.Signature = pen("joe").Public().(ed25519.PublicKey)
	for range 3 {
		if r, err := l.Carry(t.Context(), bad); err != nil || r.Refused == nil {
			t.Fatalf("%+v %v", r, err)
		}
		if _, err := l.Carry(t.Context(), decide.Signed{Text: "{}"}); err == nil {
			t.Fatal("nothing was taken for something")
		}
	}
	if l.View().Fence != at {
		t.Errorf("what nobody signed fills the log: %s, then %s", at, l.View().Fence)
	}
	if r, err := l.Carry(t.Context(), good); err != nil || r.Refused == nil || r.Refused.Guard != "freeze" || l.View().Fence == at {
		t.Errorf("%+v %v", r, err)
	}
	at = l.View().Fence
	if r, err := l.Carry(t.Context(), good); err != nil || r.Before == nil || *r.Before != at || l.View().Fence != at {
		t.Errorf("%+v %v", r, err)
	}
}
