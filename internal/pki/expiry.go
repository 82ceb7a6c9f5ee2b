package pki

import (
	"crypto/x509"
	"fmt"
	"time"
)

// Level is how near the end of a certificate is.
type Level uint8

const (
	// Fine: more than 30 days and a third of its life are left.
	Fine Level = iota
	// Soon: renew it.
	Soon
	// Urgent: less than 7 days, or a tenth of its life.
	Urgent
	// Over: it has ended.
	Over
)

func (l Level) String() string {
	switch l {
	case Soon:
		return "soon"
	case Urgent:
		return "urgent"
	case Over:
		return "expired"
	default:
		return "ok"
	}
}

// MarshalText writes the word of String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Expiry is how long a certificate still holds.
type Expiry struct {
	Level Level
	Left  time.Duration // negative once it is over
	Text  string
}

// expiry judges the end of a certificate. Short-lived ones are not alarmed about all the
// time: the thresholds are 30 days and 7 days, but at most a third and a tenth of
// its life.
func expiry(c *x509.Certificate, now time.Time) Expiry {
	const day = 24 * time.Hour
	life := c.NotAfter.Sub(c.NotBefore)
	e := Expiry{Left: c.NotAfter.Sub(now)}
	switch {
	case e.Left < 0:
		e.Level = Over
		e.Text = fmt.Sprintf("ended on %s. Next: steadycast pki renew", date(c.NotAfter))
		return e
	case e.Left < min(7*day, life/10):
		e.Level = Urgent
	case e.Left < min(30*day, life/3):
		e.Level = Soon
	}
	e.Text = fmt.Sprintf("ends on %s, in %s", date(c.NotAfter), left(e.Left))
	if e.Level > Fine {
		e.Text += ". Next: steadycast pki renew"
	}
	return e
}

// left writes a duration as people say it.
func left(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return fmt.Sprintf("%d minutes", d/time.Minute)
}

// Expiry is the judgement of this node's own certificate.
func (c *Credentials) Expiry() Expiry {
	return expiry(c.state().leaf, c.Now())
}
