package dnsfallback

import (
	"cmp"
	"fmt"
	"time"
)

// Zone is one entry of `zones:`: a zone that is delegated to the fleet's nodes.
type Zone struct {
	// Name of the zone, as example.com.
	Name string `yaml:"name"`
	// TTL of records that give none; default 5m. Whole seconds.
	TTL time.Duration `yaml:"ttl"`
	// SOA is the zone's start of authority.
	SOA SOA `yaml:"soa"`
	// NS are the names of the zone's servers. One inside the zone needs an address among the records.
	NS []string `yaml:"ns"`
	// Records are the static ones, one to a line as in a zone file (RFC 1035 §5.1):
	// owner, TTL if not the zone's, type, data. Names without a last dot are in the zone, @ is the zone itself.
	Records []string `yaml:"records"`
	// Names are those whose addresses depend on who asks and on the state of the fleet.
	Names []Steered `yaml:"names"`
}

// SOA is a start of authority (RFC 1035 §3.3.13). Its serial is the revision of the policy.
type SOA struct {
	// MName is the zone's first server; default the first of the zone's NS.
	MName string `yaml:"mname"`
	// RName is the mailbox of who is responsible, with a dot for the @; default hostmaster in the zone.
	RName string `yaml:"rname"`
	// TTL of the record; default 1h.
	TTL time.Duration `yaml:"ttl"`
	// Refresh, Retry and Expire are for secondaries; default 1h, 10m and 14d (336h).
	Refresh time.Duration `yaml:"refresh"`
	Retry   time.Duration `yaml:"retry"`
	Expire  time.Duration `yaml:"expire"`
	// Minimum bounds how long an absence is kept (RFC 2308 §4); default 1m.
	Minimum time.Duration `yaml:"minimum"`
}

// WithDefaults fills in what was not said.
func (z Zone) WithDefaults() Zone {
	z.TTL = cmp.Or(z.TTL, 5*time.Minute)
	if len(z.NS) > 0 {
		z.SOA.MName = cmp.Or(z.SOA.MName, z.NS[0])
	}
	z.SOA.RName = cmp.Or(z.SOA.RName, "hostmaster")
	z.SOA.TTL = cmp.Or(z.SOA.TTL, time.Hour)
	z.SOA.Refresh = cmp.Or(z.SOA.Refresh, time.Hour)
	z.SOA.Retry = cmp.Or(z.SOA.Retry, 10*time.Minute)
	z.SOA.Expire = cmp.Or(z.SOA.Expire, 14*24*time.Hour)
	z.SOA.Minimum = cmp.Or(z.SOA.Minimum, time.Minute)
	if z.Names != nil {
		names := make([]Steered, len(z.Names))
		for i, s := range z.Names {
			names[i] = s.withDefaults(z)
		}
		z.Names = names
	}
	return z
}

// Problem is one thing that is wrong with the settings. Path is where, as in the
// file: zones[0].records[3].
type Problem struct{ Path, Text string }

func (p Problem) String() string { return p.Path + ": " + p.Text }

// Problems collects them, so that all are told at once.
type problems []Problem

func (ps *problems) add(path, format string, args ...any) {
	*ps = append(*ps, Problem{path, fmt.Sprintf(format, args...)})
}

const maxTTL = 1<<31 - 1 // RFC 2181 §8

// seconds judges a time that goes onto the wire as a number of seconds.
func (ps *problems) seconds(path string, d time.Duration) uint32 {
	switch {
	case d < 0 || d > maxTTL*time.Second:
		ps.add(path, "%v is out of range; 0s to %ds (RFC 2181 §8)", d, maxTTL)
	case d%time.Second != 0:
		ps.add(path, "%v is not whole seconds, and DNS knows no others", d)
	}
	return uint32(d / time.Second)
}
