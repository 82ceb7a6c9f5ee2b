package bgp

import (
	"context"
	"errors"
	"log/slog"

	"github.com/steadycast/steadycast"
)

// Options are what a Speaker needs besides its settings.
type Options struct {
	// Logger hears one line per transition; default slog.Default().
	Logger *slog.Logger
	// OnChange is called whenever what Actual returns has changed; many changes
	// make one call. It must not block.
	OnChange func()
	// Started counts the speaker's starts; it comes back in Actual.
	Started uint64
}

// Speaker holds the BGP sessions of one node.
type Speaker struct{}

// New checks the settings, opens what they ask for and starts dialling.
func New(s Settings, o Options) (*Speaker, error) { return nil, errors.New("bgp: being built") }

// Apply sets everything this node announces.
func (s *Speaker) Apply(set steadycast.RouteSet) error { return nil }

// Actual returns what really left on the wire: an immutable snapshot.
func (s *Speaker) Actual() steadycast.Actual { return steadycast.Actual{} }

// Plan says what Reconfigure would do.
func (s *Speaker) Plan(next Settings) []Change { return nil }

// Reconfigure moves to next, touching only what differs.
func (s *Speaker) Reconfigure(next Settings) error { return nil }

// Stop closes every session with Cease/Administrative Shutdown and reason.
func (s *Speaker) Stop(ctx context.Context, reason string) error { return nil }

// WithDefaults returns s with every default filled in.
func (s Settings) WithDefaults() Settings { return s }

// Problems returns everything wrong with s; none means New can use it.
func (s Settings) Problems() []Problem { return nil }
