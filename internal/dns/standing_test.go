package dns

import (
	"log/slog"
	"testing"
	"time"

	"github.com/steadycast/steadycast/internal/answers"
	"github.com/steadycast/steadycast/internal/config"
)

// TestHeardAgain: news after a silence never takes a server further down than the
// silence did, and it stays where it was until the ledger has been heard for a while;
// a ledger that comes and goes meanwhile is a silence that goes on.
func TestHeardAgain(t *testing.T) {
	source := newSource()
	k := &keeper{
		node:   config.Node{DNS: config.DNS{StaleAfter: time.Minute, MinimalAfter: 30 * time.Minute, NoResponse: time.Hour}},
		source: source, log: slog.New(slog.DiscardHandler), freshFor: time.Hour,
	}
	source.commit(view(t, 1, table))
	look := func(lost time.Duration) {
		source.lose(lost)
		k.hear()
		k.watch()
	}
	expect := func(what string, mode answers.Mode, silent bool) {
		t.Helper()
		if is := k.stand(time.Now()); is.Mode != mode || is.Silent != silent {
			t.Errorf("%s: %+v; want %v, silent %v", what, is, mode, silent)
		}
	}
	look(0)
	expect("heard from the start", answers.Normal, false)
	for _, c := range []struct {
		lost   time.Duration
		mode   answers.Mode
		silent bool
	}{{2 * time.Minute, answers.Frozen, false}, {40 * time.Minute, answers.Minimal, false}, {2 * time.Hour, answers.Minimal, true}} {
		look(c.lost)
		expect("unheard for "+c.lost.String(), c.mode, c.silent)
		look(0)
		expect("heard just now, after "+c.lost.String(), c.mode, c.silent)
		look(16 * time.Second)
		expect("lost once more, after "+c.lost.String(), c.mode, c.silent)
		look(0)
		k.freshFor = 0
		look(0)
		expect("heard for long enough, after "+c.lost.String(), answers.Normal, false)
		k.freshFor = time.Hour
	}
}
