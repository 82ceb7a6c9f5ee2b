package agent

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/answers"
)

// The server of names is a process of its own. While it answers from old state it
// says so in its health file, and the service that announces its addresses is less
// attractive here. What it says of its answers themselves is for the service's check.

const (
	// namesEvery is how often the file is looked at.
	namesEvery = time.Second
	// namesFresh is how old it may be: a server writes it once a second.
	namesFresh = 10 * time.Second
)

// Names is the server of names that answers for a service of this node.
type Names struct {
	// Health is the file in which it says how it is; empty if there is none.
	Health string
	// Service is that of the table whose prefixes are its addresses.
	Service string
}

// staleNames reads why the server's answers are stale; "" while they are not, or
// nobody says anything: a server that is gone is its check's to see. What is not
// right may be old or not: then it goes on to be what it was.
func staleNames(path, was string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || time.Since(st.ModTime()).Abs() > namesFresh { // or from before the clock was set back
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return ""
	}
	if strings.HasPrefix(string(text), "down") {
		return was
	}
	return answers.Stale(string(text))
}

// watchNames tells the owner whenever the answers begin or cease to be stale, until
// ctx ends.
func (a *Agent) watchNames(ctx context.Context, n Names) {
	tick := time.NewTicker(namesEvery)
	defer tick.Stop()
	said := ""
	for {
		if why := staleNames(n.Health, said); (why == "") != (said == "") {
			said = why
			e := steadycast.Event{Kind: steadycast.EventRecovery, Service: n.Service, Reason: "the server of names no longer says that its answers are old"}
			in := decide.Outdated{Service: n.Service}
			if why != "" {
				e = steadycast.Event{Kind: steadycast.EventAlarm, Service: n.Service, Reason: "the server of names answers from old state: " + why}
				in.Reason = "its answers are of old state: " + why
			}
			select {
			case a.calls <- func() { a.step(in); a.say(e) }:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
