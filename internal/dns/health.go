package dns

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/steadycast/steadycast/internal/answers"
)

const (
	testEvery = time.Second
	// testPatience bounds one test of all addresses.
	testPatience = 2 * time.Second
)

// health is what the server says of itself. A stale one is up: it answers. The
// agent sees by the word that follows that its routes are to be less attractive.
type health struct {
	wrong string // "" while the answers are good
	stale string // "" while the state is fresh
}

func (h health) String() string {
	switch {
	case h.wrong != "":
		return "down " + h.wrong
	case h.stale != "":
		return "up " + answers.StaleWord + " " + h.stale
	}
	return "up its own answers are right"
}

// tell writes the health file. It is in the directory of the sockets, which does
// not outlive the machine, so nothing is synced.
func tell(path string, h health) error {
	next := path + ".new"
	if err := os.WriteFile(next, []byte(oneLine(h.String())+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// oneLine is at most 200 octets without a line end.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:197], "") + "…"
	}
	return s
}

// tester asks the server what a client would ask.
type tester interface{ SelfTest(context.Context) error }

// test asks twice before it believes that something is wrong: one datagram may be lost.
func test(ctx context.Context, s tester) (wrong string) {
	for range 2 {
		ctx, cancel := context.WithTimeout(ctx, testPatience)
		err := s.SelfTest(ctx)
		cancel()
		if err == nil {
			return ""
		}
		wrong = fmt.Sprintf("the server's own test: %v", err)
	}
	return wrong
}
