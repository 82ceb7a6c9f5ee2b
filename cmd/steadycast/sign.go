package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/pki"
)

// Where the ledger knows operators, this command signs what it enters, and the
// daemon only carries it. The key never leaves this process.

// signTries bounds how often a wish is signed anew because another of the same
// operator's came in between.
const signTries = 3

// enter enters a change: signed, or on the word of whoever may write to the
// socket where the ledger is a node's own.
func (c *cli) enter(ctx context.Context, client *api.Client, f *changeFlags, ch change) (got api.Changed, err error) {
	authority, err := ledgerAuthority(ctx, client)
	if err != nil {
		return got, err
	}
	if len(authority.Operators) == 0 {
		if ch.body == nil {
			w := ch.wish(f.force)
			w.Reason = f.reason
			err = client.Post(ctx, "enter", w, &got)
			return got, err
		}
		err = client.Post(ctx, ch.path, ch.body(false, f.force), &got)
		return got, err
	}
	pen, err := c.openPen(f.key)
	if err != nil {
		return got, err
	}
	w := ch.wish(f.force)
	for try := 1; ; try++ {
		frame, known := authority.Wish(pen.Name, w.Kind, strings.TrimSpace(f.reason))
		if !known {
			return got, &exitError{exitRefused, fmt.Errorf("the ledger of fleet %s knows no operator %s. Next: an admin enters: steadycast operator add %s.pub", authority.Fleet, pen.Name, pen.Name)}
		}
		w.Fleet, w.Epoch, w.By, w.Serial, w.At, w.Reason = frame.Fleet, frame.Epoch, frame.By, frame.Serial, frame.At, frame.Reason
		signed, err := w.Sign(pen.Sign)
		if err != nil {
			return got, usageError(err)
		}
		if ch.signed != nil {
			*ch.signed = signed
		}
		err = client.Post(ctx, "carry", signed, &got)
		var refused *api.Error
		if try == signTries || !errors.As(err, &refused) || refused.Guard != decide.AuthorityGuard {
			return got, err
		}
		if authority, err = ledgerAuthority(ctx, client); err != nil {
			return got, refused
		}
		if now, _ := authority.Wish(pen.Name, w.Kind, frame.Reason); now.Serial == w.Serial && now.Epoch == w.Epoch && now.At == w.At {
			return got, refused // it says no to what is as new as can be
		}
	}
}

// tryOut asks what would come of a change. What is tried is not signed: it could
// be entered then.
func (c *cli) tryOut(ctx context.Context, client *api.Client, f *changeFlags, ch change, force bool) (got api.Changed, err error) {
	if ch.body != nil {
		err = client.Post(ctx, ch.path, ch.body(true, force), &got)
		return got, err
	}
	w := ch.wish(force)
	w.Reason = f.reason
	err = client.Post(ctx, "try", w, &got)
	return got, err
}

// ledgerAuthority asks what there is to know before signing. A daemon that does
// not know the question is older, and its ledger has no operators.
func ledgerAuthority(ctx context.Context, client *api.Client) (a decide.Authority, err error) {
	err = client.Get(ctx, "authority", nil, &a)
	return a, err
}

// keyBeside is where the demo leaves the key for those who name its socket.
func keyBeside(socket string) string { return strings.TrimSuffix(socket, ".sock") + ".key" }

// keyPath is where an operator's key is looked for.
func (c *cli) keyPath(flag string) string {
	path := cmp.Or(flag, os.Getenv("STEADYCAST_KEY"))
	if path != "" {
		return path
	}
	if beside := keyBeside(c.socket); c.socket != defaultSocket {
		if _, err := os.Stat(beside); err == nil {
			return beside
		}
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "operator.key"
	}
	return filepath.Join(dir, "steadycast", "operator.key")
}

// openPen reads the key that signs.
func (c *cli) openPen(flag string) (*pki.Pen, error) {
	path := c.keyPath(flag)
	pen, err := pki.OpenPen(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usageError(fmt.Errorf("this ledger takes what an operator signs, and there is no key at %s. Next: the same with --key FILE, or make one: steadycast pki operator NAME --role operator, and have an admin let it in", path))
	case err != nil:
		return nil, usageError(err)
	}
	return pen, nil
}
