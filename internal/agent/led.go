package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// Whom this node's server of names leads where is told to the ledger with the beats;
// see decide.Led for what it is good for. The server counts from when it began;
// here that becomes a count of the last while.

const (
	ledEvery  = time.Second
	ledWithin = time.Second
)

// askLed asks the server of names behind a socket.
func askLed(socket string) (ask func(context.Context) (api.Led, error), done func()) {
	c := api.NewClient(socket)
	return func(ctx context.Context) (l api.Led, err error) {
		err = c.Get(ctx, "dns/led", nil, &l)
		return l, err
	}, c.Close
}

// ledRecently are the counts of a window that ended at an instant.
type ledRecently struct {
	counts []decide.Led
	at     time.Time
}

// ledSample is what the server had counted at an instant.
type ledSample struct {
	at time.Time
	api.Led
}

// watchLed asks once a second until ctx ends. While the server does not answer, what
// it said last grows old.
func (a *Agent) watchLed(ctx context.Context) {
	tick := time.NewTicker(ledEvery)
	defer tick.Stop()
	var samples []ledSample // of one start of the server, oldest first, no more than a window needs
	said := ""
	for {
		ask, cancel := context.WithTimeout(ctx, ledWithin)
		now, err := a.o.Led(ask)
		cancel()
		if err == nil {
			said = ""
			samples = a.ledSampled(samples, ledSample{time.Now(), now})
		} else if text := err.Error(); text != said && ctx.Err() == nil {
			said = text
			a.o.Logger.Warn("whom this node's server of names leads where is not known", "why", text)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ledSampled adds a sample and, once the samples span a window, keeps what was counted in it.
func (a *Agent) ledSampled(samples []ledSample, x ledSample) []ledSample {
	if len(samples) > 0 && !samples[0].Began.Equal(x.Began) {
		samples = nil
	}
	samples = append(samples, x)
	for len(samples) > 1 && x.at.Sub(samples[1].at) >= decide.LedWindow {
		samples = samples[1:]
	}
	if x.at.Sub(samples[0].at) < decide.LedWindow {
		return samples
	}
	r := ledRecently{at: x.at}
	for _, l := range x.Led.Led {
		was := uint64(0)
		if i := slices.IndexFunc(samples[0].Led.Led, func(o api.LedTo) bool { return o.Site == l.Site && o.Service == l.Service }); i >= 0 {
			was = samples[0].Led.Led[i].Count
		}
		if l.Count > was {
			r.counts = append(r.counts, decide.Led{Site: l.Site, Service: l.Service, Count: int64(min(l.Count-was, 1<<32))})
		}
	}
	slices.SortFunc(r.counts, func(a, b decide.Led) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Service, b.Service))
	})
	a.led.Store(&r)
	return samples
}

// ledTold is what a beat says of it; nil where there is no server of names, or it was
// never heard for long enough.
func (a *Agent) ledTold() *decide.LedTold {
	r := a.led.Load()
	if r == nil {
		return nil
	}
	view := a.o.Ledger.View()
	return &decide.LedTold{AgeSeconds: int64(max(time.Since(r.at), 0) / time.Second), Led: view.LedWorth(r.counts)}
}
