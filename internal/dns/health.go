package dns

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// HealthFile is where a server says how its own answers are, in the form that
// checks of kind file read: up, or down and why, written anew once a second. What
// was not written for some seconds is unknown there.
func HealthFile(runDir string) string { return filepath.Join(runDir, "dns.health") }

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

// staleWord stands behind up while the answers are of old state.
const staleWord = "stale:"

func (h health) String() string {
	switch {
	case h.wrong != "":
		return "down " + h.wrong
	case h.stale != "":
		return "up " + staleWord + " " + h.stale
	}
	return "up its own answers are right"
}

// Stale reads why a server's answers are stale from the content of its health
// file; "" while they are not.
func Stale(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if _, why, ok := strings.Cut(line, "up "+staleWord+" "); ok {
		return why
	}
	return ""
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
