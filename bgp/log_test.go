package bgp

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v3/pkg/log"
)

// GoBGP's words arrive one level down, in order of key, and neither Panic nor
// Fatal takes the process with it.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	l := &gobgpLog{}
	l.Error("before it has a logger", nil)
	l.to.Store(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	var logger log.Logger = l
	f := log.Fields{"Topic": "Peer", "Key": "127.0.0.1"}
	logger.Panic("p", f)
	logger.Fatal("f", f)
	logger.Error("e", f)
	logger.Warn("w", f)
	logger.Info("i", f)
	logger.Debug("d", f)
	logger.SetLevel(log.TraceLevel)
	if logger.GetLevel() != log.InfoLevel {
		t.Error("GoBGP would format each message it sends")
	}
	want := `level=ERROR msg="gobgp: p" Key=127.0.0.1 Topic=Peer
level=ERROR msg="gobgp: f" Key=127.0.0.1 Topic=Peer
level=WARN msg="gobgp: e" Key=127.0.0.1 Topic=Peer
level=DEBUG msg="gobgp: w" Key=127.0.0.1 Topic=Peer
level=DEBUG msg="gobgp: i" Key=127.0.0.1 Topic=Peer
`
	if out.String() != want {
		t.Errorf("%s", strings.TrimSpace(out.String()))
	}
}
