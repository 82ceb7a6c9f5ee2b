package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/steadycast/steadycast/dnsfallback"
)

// DNS is what a server of names shows of one moment.
type DNS struct {
	Program string
	// Answering is false before the first table; what is of a table is then absent.
	Answering bool
	Counters  dnsfallback.Counters
	Given     []dnsfallback.Given
	Version   uint64
	Revision  uint64
	Since     time.Time
	Heard     time.Time
	Stale     bool
	Refused   bool
	// Tested is false until the first test of its own answers; Right is what that found.
	Tested, Right bool
	Mode          string
	Modes         []string
	Maps          []*dnsfallback.Map
}

// DNSHandler is [Handler] for a server of names.
func DNSHandler(now func() DNS, log *slog.Logger) http.Handler {
	return handler(log, &dnsCollector{now}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// ServeDNS is [Serve] for a server of names.
func ServeDNS(ctx context.Context, address string, now func() DNS, log *slog.Logger) {
	listenAndServe(ctx, address, DNSHandler(now, log), log)
}

type dnsCollector struct{ now func() DNS }

// Describe sends every metric of a server of names.
func (c *dnsCollector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range ofDNS {
		out <- m.desc
	}
}

// Collect sends the series of one moment.
func (c *dnsCollector) Collect(out chan<- prometheus.Metric) {
	s, d := sender{out: out, seen: map[string]bool{}}, c.now()
	s.put(dnsInfo, 1, d.Program, runtime.Version())
	s.put(dnsAnswering, truth(d.Answering))
	s.put(dnsStale, truth(d.Stale))
	s.put(dnsRefused, truth(d.Refused))
	s.moment(dnsHeard, d.Heard)
	states(&s, dnsMode, d.Mode, d.Modes)
	if d.Tested {
		s.put(dnsRight, truth(d.Right))
	}
	if !d.Answering {
		return
	}
	s.put(dnsVersion, float64(d.Version))
	s.put(dnsRevision, float64(d.Revision))
	s.moment(dnsSince, d.Since)
	for _, m := range d.Maps {
		s.put(dnsMapRows, float64(m.Rows), m.Name)
		s.moment(dnsMapChanged, m.Changed, m.Name)
	}
	n := &d.Counters
	for _, a := range n.Answers {
		s.put(dnsAnswers, float64(a.Count), a.Zone, a.Transport, a.Type, a.Rcode)
	}
	for _, g := range d.Given {
		s.put(dnsGiven, float64(g.Count), g.Choice, g.Member, g.Site)
	}
	s.latency(&n.UDP, "udp")
	s.latency(&n.TCP, "tcp")
	s.put(dnsDropped, float64(n.Dropped))
	s.put(dnsUnsent, float64(n.Unsent))
	s.put(dnsLimited, float64(n.Limited), "dropped")
	s.put(dnsLimited, float64(n.Slipped), "slipped")
	s.put(dnsCookies, float64(n.CookieNew), "new")
	s.put(dnsCookies, float64(n.CookieGood), "good")
	s.put(dnsCookies, float64(n.CookieBad), "bad")
	s.put(dnsSubnet, float64(n.Scoped), "network")
	s.put(dnsSubnet, float64(n.Located-min(n.Located, n.Scoped)), "all")
	s.put(dnsConnections, float64(n.Accepted), "accepted")
	s.put(dnsConnections, float64(n.TurnedAway), "turned_away")
	s.put(dnsConnections, float64(n.TimedOut), "timed_out")
}

func (s *sender) latency(l *dnsfallback.Latency, transport string) {
	buckets := make(map[float64]uint64, len(l.Bounds))
	var n uint64
	for i, c := range l.Counts {
		if n += c; i < len(l.Bounds) {
			buckets[l.Bounds[i].Seconds()] = n
		}
	}
	if x, err := prometheus.NewConstHistogram(dnsLatency.desc, n, l.Sum.Seconds(), buckets, transport); err == nil {
		s.out <- x
	}
}
