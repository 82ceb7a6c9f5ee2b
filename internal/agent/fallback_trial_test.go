package agent

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/ledger"
)

// sealing is a ledger whose table is on trial until it is confirmed.
type sealing struct {
	ledger.Ledger
	confirmed atomic.Bool
}

func (l *sealing) View() decide.View {
	v := decide.View{Table: decide.Table{Revision: 2}}
	if !l.confirmed.Load() {
		v.Trial = &decide.Trial{Revision: 2}
	}
	return v
}

func (l *sealing) Seal(context.Context) (s decide.Seal, err error) {
	if l.confirmed.Load() {
		s.Confirm = &decide.Signed{Text: "yes"}
	}
	return s, nil
}

// TestSealOfConfirmedTable: the confirmation of a table that was on trial is kept with
// its seal, for without it nobody may use the table.
func TestSealOfConfirmedTable(t *testing.T) {
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
		go a.watchSeal(ctx)
		kept := func() decide.Seal {
			t.Helper()
			f, err := os.Open(sealFile(dir))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s, err := readSeal(f)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		time.Sleep(2 * sealEvery)
		if s := kept(); s.Confirm != nil {
			t.Fatalf("kept is %+v", s)
		}
		l.confirmed.Store(true)
		time.Sleep(2 * sealEvery)
		if s := kept(); s.Confirm == nil {
			t.Error("the confirmation is not kept")
		}
	})
}
