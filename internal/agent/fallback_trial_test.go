package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
)

// sealing is a ledger with a table of some revision, that is on trial or was confirmed;
// or that came back after a trial, and has no seal of its own.
type sealing struct {
	ledger.Ledger
	revision         atomic.Uint64
	trial, confirmed atomic.Bool
	unsealed         atomic.Bool
}

func (l *sealing) View() decide.View {
	v := decide.View{Table: decide.Table{Revision: l.revision.Load()}}
	if l.trial.Load() {
		v.Trial = &decide.Trial{Revision: v.Table.Revision}
	}
	return v
}

func (l *sealing) Seal(context.Context) (s decide.Seal, err error) {
	if l.unsealed.Load() {
		return s, ledger.Invalid("no table with a seal is in force")
	}
	w := decide.Wish{Kind: decide.KindActivate, Revision: l.revision.Load()}
	if l.trial.Load() || l.confirmed.Load() {
		w.ConfirmWithin = 300_000
	}
	text, err := json.Marshal(w)
	s.Activate.Text = string(text)
	if l.confirmed.Load() {
		s.Confirm = &decide.Signed{Text: "yes"}
	}
	return s, err
}

// TestSealOfTrial: a table on trial takes no place on the disk, for nobody may use it:
// there the seal of the one before stays, also when that comes back; and once it is
// confirmed the confirmation is kept with it.
func TestSealOfTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, dir := &sealing{}, t.TempDir()
		a := &Agent{o: Options{Ledger: l, StateDir: dir, Logger: slog.New(slog.DiscardHandler)}, calls: make(chan func())}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for {
				select {
				case f := <-a.calls:
					f()
				case <-ctx.Done():
					return
				}
			}
		}()
		l.revision.Store(1)
		go a.watchSeal(ctx)
		kept := func(revision uint64, confirmed bool) {
			t.Helper()
			time.Sleep(2 * sealEvery)
			f, err := os.Open(sealFile(dir))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s, err := readSeal(f)
			if err != nil {
				t.Fatal(err)
			}
			w, err := s.Activate.Wish()
			if err != nil || w.Revision != revision || (s.Confirm != nil) != confirmed {
				t.Errorf("kept is %+v, %v; want revision %d, confirmed %t", s, err, revision, confirmed)
			}
		}
		kept(1, false)
		l.trial.Store(true)
		l.revision.Store(2)
		kept(1, false)
		l.unsealed.Store(true) // the trial runs out, and what was comes back as revision 3
		l.trial.Store(false)
		l.revision.Store(3)
		kept(1, false)
		l.unsealed.Store(false)
		l.trial.Store(true)
		l.revision.Store(4)
		kept(1, false)
		l.confirmed.Store(true)
		l.trial.Store(false)
		kept(4, true)
	})
}
