package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/role"
)

// While there is no ledger a node goes on by the table that it has. Where
// `fallback_url` names a place, it looks there for a newer one, which admins signed:
// so a wrong check can be mended although no majority can be brought together. Such
// a table changes what this node looks at, and nothing of what is announced: that
// takes permits. The ledger's own is followed again as soon as it is heard.

const (
	// sealEvery is how often a seal is looked for: the ledger's after a new table, that
	// of fallback_url while there is none.
	sealEvery = 30 * time.Second
	// fetchTimeout bounds one look at fallback_url as a whole.
	fetchTimeout = 10 * time.Second
	// headerMost bounds what a server may say before the body, in bytes.
	headerMost = 16 << 10
)

// sealFile is where the newest seal is kept. It is what to put at fallback_url.
func sealFile(dir string) string { return filepath.Join(dir, "table.seal.json") }

// watchSeal keeps the seal of the table in force on disk, and looks for a newer one
// elsewhere while the ledger is lost.
func (a *Agent) watchSeal(ctx context.Context) {
	look := time.NewTicker(sealEvery)
	defer look.Stop()
	type version struct {
		edition
		trial bool // what ends it is part of the seal
	}
	var kept version
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		lost := false
		if a.do(ctx, func() { lost = a.ledgerLost }) != nil {
			return
		}
		var err error
		v := a.o.Ledger.View()
		switch now := (version{editionOf(v), v.Trial != nil}); {
		case lost:
			err = a.fallBack(ctx)
		case now != kept:
			if err = a.keepSeal(ctx); err == nil {
				kept = now
			}
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != said && text != "" {
			a.o.Logger.Warn("the signed table", "error", err)
		}
		said = text
	}
}

// keepSeal puts the seal of the ledger's table on disk. One that nobody signed as a
// whole has none, which is no fault, and one on trial is of no use to anybody; then
// the last one stays. So after a trial that ran out it is that of the table which
// came back.
func (a *Agent) keepSeal(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, errandTimeout)
	defer cancel()
	s, err := a.o.Ledger.Seal(call)
	if _, none := errors.AsType[ledger.Invalid](err); none {
		return nil
	}
	if err != nil || s.OnTrial() {
		return err
	}
	return a.writeSeal(s)
}

func (a *Agent) writeSeal(s decide.Seal) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return role.WriteFile(sealFile(a.o.StateDir), append(b, '\n'), 0o640)
}

// fallBack uses a newer table that admins signed: what this node kept, which it may
// have fetched before a restart, or what is at fallback_url.
func (a *Agent) fallBack(ctx context.Context) error {
	var failed error
	for _, from := range []func(context.Context) (decide.Seal, error){a.keptSeal, a.fetchSeal} {
		s, err := from(ctx)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			failed = err
			continue
		}
		v := a.o.Ledger.View()
		sealed, err := s.Open(a.o.Fleet, v.Operators)
		if err != nil {
			failed = fmt.Errorf("not used: %w", err)
			continue
		}
		used := false
		if err := a.do(ctx, func() { used, failed = a.adopt(sealed) }); err != nil {
			return err
		}
		if used {
			return a.writeSeal(s)
		}
	}
	return failed
}

func (a *Agent) keptSeal(context.Context) (s decide.Seal, err error) {
	f, err := os.Open(sealFile(a.o.StateDir))
	if err != nil {
		return s, err
	}
	defer f.Close()
	return readSeal(f)
}

// fetchSeal asks fallback_url.
func (a *Agent) fetchSeal(ctx context.Context) (decide.Seal, error) {
	if a.o.FallbackURL == "" {
		return decide.Seal{}, os.ErrNotExist
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	s, err := fetch(ctx, a.o.FallbackURL)
	if err != nil {
		return s, fmt.Errorf("fallback_url: %w", err)
	}
	return s, nil
}

// fetch gets a seal over HTTP. The server is believed nothing: not that it ends, nor
// where else to go; what counts is signed.
func fetch(ctx context.Context, url string) (s decide.Seal, err error) {
	transport := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: headerMost, TLSHandshakeTimeout: fetchTimeout}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return s, err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode != http.StatusOK:
		return s, fmt.Errorf("the server answers %s", res.Status)
	case res.ContentLength > decide.MaxSeal:
		return s, fmt.Errorf("%d bytes; at most %d", res.ContentLength, decide.MaxSeal)
	}
	return readSeal(res.Body)
}

// readSeal reads exactly one seal, strictly.
func readSeal(r io.Reader) (s decide.Seal, err error) {
	b, err := io.ReadAll(io.LimitReader(r, decide.MaxSeal+1))
	switch {
	case err != nil:
		return s, err
	case len(b) > decide.MaxSeal:
		return s, fmt.Errorf("more than %d bytes", decide.MaxSeal)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("not a signed table: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return s, errors.New("not a signed table: something follows it")
	}
	return s, nil
}

// adopt looks by a signed table from now on, if it is newer than the one that this
// node acts on and there is no ledger to follow.
func (a *Agent) adopt(s decide.Sealed) (used bool, err error) {
	v := a.o.Ledger.View()
	acting := v.Table.Revision
	if a.pulled {
		acting = max(acting, a.acting)
	}
	t := s.Table
	switch {
	case !a.ledgerLost || !s.Newer(v.Fence.Epoch, acting):
		return false, nil
	case !slices.Equal(t.PrefixesAt(a.o.Site), v.Table.PrefixesAt(a.o.Site)):
		return false, fmt.Errorf("revision %d waits for the ledger: it announces other prefixes here, which takes permits", t.Revision)
	}
	p, err := a.derive(t)
	if err == nil {
		err = a.use(a.fitting(p))
	}
	if err != nil {
		return false, fmt.Errorf("revision %d of the table cannot be carried out here, the plan before goes on: %w", t.Revision, err)
	}
	a.acting, a.pulled = t.Revision, true
	a.say(steadycast.Event{Kind: steadycast.EventConfig, Actor: s.By[len(s.By)-1],
		Reason: fmt.Sprintf("revision %d of the table, signed by %s, says what is looked at here while there is no ledger", t.Revision, s.By[0])})
	return true, nil
}
