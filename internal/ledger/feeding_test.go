package ledger

import (
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// trickle gives an octet at a time, after a pause.
type trickle struct{ pause time.Duration }

func (t trickle) Read(b []byte) (int, error) {
	time.Sleep(t.pause)
	return copy(b[:1], "x"), nil
}

// TestFeeding: a line that takes long keeps the stream, as long as something of it
// arrives; silence ends it.
func TestFeeding(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		ends  bool
	}{{streamSilence - time.Second, false}, {streamSilence + time.Second, true}} {
		synctest.Test(t, func(t *testing.T) {
			var ended atomic.Bool
			quiet := time.AfterFunc(streamSilence, func() { ended.Store(true) })
			defer quiet.Stop()
			if _, err := io.ReadFull(&feeding{trickle{c.pause}, quiet}, make([]byte, 20)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if ended.Load() != c.ends {
				t.Errorf("octets %v apart: ended %v", c.pause, ended.Load())
			}
		})
	}
}
