package speaker

import (
	"log/slog"
	"time"

	"github.com/steadycast/steadycast/bgp"
)

// Config is what a speaker's process needs to know. Zero durations mean the defaults.
type Config struct {
	// Node is this node's name; a state file of another node is not believed.
	Node string
	// Socket is the path of the unix socket; its mode is 0660 and Group (a name, may be empty) owns it.
	Socket, Group string
	// StateDir holds the intent and the count of starts.
	StateDir string
	// AgentLost is keep (default) or deprefer, done AgentLostAfter (60s) without an agent.
	AgentLost      string
	AgentLostAfter time.Duration
	// StopDrain is how long routes carry the drain marks before they are withdrawn; default 3s.
	StopDrain time.Duration
	// AfterWithdraw is how long an address outlives its route; default 500ms.
	AfterWithdraw time.Duration
	// StopTimeout bounds the whole stop; default 15s.
	StopTimeout time.Duration
	// Load reads the settings again; called at start and at each reload. Its
	// error lists every problem.
	Load   func() (bgp.Settings, bgp.VIPSettings, error)
	Logger *slog.Logger
}

// WithDefaults fills what was left out.
func (c Config) WithDefaults() Config {
	or := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.AgentLost == "" {
		c.AgentLost = "keep"
	}
	or(&c.AgentLostAfter, time.Minute)
	or(&c.StopDrain, 3*time.Second)
	or(&c.AfterWithdraw, 500*time.Millisecond)
	or(&c.StopTimeout, 15*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
