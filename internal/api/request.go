package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

const (
	maxBody   = 64 << 10
	maxReason = 500
	maxFor    = 366 * 24 * time.Hour
)

// OrderRequest is the body of POST /v1/orders.
type OrderRequest struct {
	Kind steadycast.OrderKind `json:"kind"`
	Site string               `json:"site"`
	// Node of a site of several; empty means the site.
	Node string `json:"node,omitempty"`
	// Prefixes it is about; empty means every prefix of the site.
	Prefixes []netip.Prefix `json:"prefixes,omitempty"`
	Reason   string         `json:"reason"`
	// For is how long it stands: 30m, 2h. Empty means until it is cleared.
	For string `json:"for,omitempty"`
	// Force passes floor and capacity, and is recorded.
	Force  bool `json:"force,omitempty"`
	DryRun bool `json:"dry_run,omitempty"`
}

// ScopeRequest is the body of POST /v1/orders/clear, /v1/freeze, /v1/thaw,
// /v1/unlock and /v1/resume. An empty site or prefix means every one.
type ScopeRequest struct {
	Site   string       `json:"site,omitempty"`
	Prefix netip.Prefix `json:"prefix,omitzero"`
	// Node of a site of several, for /v1/orders/clear alone.
	Node   string `json:"node,omitempty"`
	Reason string `json:"reason"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// ReloadRequest is the body of POST /v1/reload.
type ReloadRequest struct {
	DryRun bool `json:"dry_run,omitempty"`
}

// ClearRequest is the body of POST /v1/clear.
type ClearRequest struct {
	// What is crash_loop or fence.
	What string `json:"what"`
}

// ProbeRequest is the body of POST /v1/probe; FaultRequest of POST /v1/fault.
type ProbeRequest struct {
	Site    string `json:"site,omitempty"`
	Service string `json:"service,omitempty"`
}

// FaultRequest asks for a fault at a site of the demo, or at one of its nodes: SITE/NODE.
type FaultRequest struct {
	Site string `json:"site"`
	What string `json:"what"`
}

// Changed answers a change that was entered, or a dry run of one.
type Changed struct {
	DryRun bool         `json:"dry_run,omitempty"`
	Reply  decide.Reply `json:"reply"`
	// Follows says in sentences what happens next.
	Follows []string `json:"follows"`
}

// decode reads one strict JSON object: unknown fields, a second value and more
// than 64 KiB are refused; only what may hold a table is larger.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	most := int64(maxBody)
	switch into.(type) {
	case *decide.Signed, *decide.Wish:
		most = decide.MaxEntry
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		var big *http.MaxBytesError
		switch {
		case errors.As(err, &big):
			return usage("the request is over %d bytes", most)
		case errors.Is(err, io.EOF):
			return usage("the request has no body; send a JSON object")
		}
		return usage("the request is not understood: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return usage("the request has more than one JSON value")
	}
	return nil
}

func usage(format string, args ...any) *Error {
	return &Error{Code: CodeUsage, Message: fmt.Sprintf(format, args...)}
}

// query refuses parameters other than the allowed ones, and repeats of those.
func query(r *http.Request, allowed ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, usage("the query is not understood: %v", err)
	}
	for k, v := range q {
		if !slices.Contains(allowed, k) {
			if len(allowed) == 0 {
				return nil, usage("unknown parameter %q; none is taken here", k)
			}
			return nil, usage("unknown parameter %q; allowed: %s", k, strings.Join(allowed, ", "))
		}
		if len(v) > 1 {
			return nil, usage("parameter %q is given %d times", k, len(v))
		}
	}
	return q, nil
}

func queryPrefix(q url.Values) (netip.Prefix, error) {
	text := q.Get("prefix")
	if text == "" {
		return netip.Prefix{}, nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, usage("%q is not a prefix; write 192.0.2.0/24 or 2001:db8::/48", text)
	}
	if p != p.Masked() {
		return p, usage("%s has bits set behind its length; did you mean %s?", p, p.Masked())
	}
	return p, nil
}

// checkReason wants one line of plain text.
func checkReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return &Error{Code: CodeUsage, Message: "a change needs a reason", Next: `say why: --reason "rack swap, CHG-4411"`}
	case len(reason) > maxReason:
		return usage("the reason has %d bytes; at most %d", len(reason), maxReason)
	case strings.ContainsFunc(reason, unicode.IsControl):
		return usage("the reason has control characters; write one line of text")
	}
	return nil
}

// checkScope refuses sites and prefixes that do not exist.
func (s *Snapshot) checkScope(site string, prefixes ...netip.Prefix) error {
	names := s.siteNames()
	if site != "" && !slices.Contains(names, site) {
		return &Error{Code: CodeNotFound, Message: fmt.Sprintf("no site %q; sites: %s", site, orNone(names)), Next: "steadycast sites"}
	}
	for _, p := range prefixes {
		if !p.IsValid() {
			continue
		}
		found := false
		var have []string
		for _, v := range s.View.Units {
			if site == "" || v.Unit.Site == site {
				found = found || v.Unit.Prefix == p
				if !slices.Contains(have, v.Unit.Prefix.String()) {
					have = append(have, v.Unit.Prefix.String())
				}
			}
		}
		if !found {
			where := "no site announces"
			if site != "" {
				where = site + " does not serve"
			}
			return &Error{Code: CodeNotFound, Message: fmt.Sprintf("%s %s; prefixes: %s", where, p, orNone(have)), Next: "steadycast status"}
		}
	}
	return nil
}

func orNone(words []string) string {
	const most = 12
	switch {
	case len(words) == 0:
		return "none"
	case len(words) > most:
		return strings.Join(words[:most], ", ") + fmt.Sprintf(" and %d more", len(words)-most)
	}
	return strings.Join(words, ", ")
}

// order checks the request and makes an order of it.
func (q *OrderRequest) order(s *Snapshot, who Caller) (steadycast.Order, error) {
	var none steadycast.Order
	if q.Kind == steadycast.OrderNone {
		return none, usage("kind is missing; allowed: withdraw, drain, announce")
	}
	if q.Site == "" {
		return none, usage("site is missing")
	}
	if err := checkReason(q.Reason); err != nil {
		return none, err
	}
	if err := s.checkScope(q.Site, q.Prefixes...); err != nil {
		return none, err
	}
	if err := s.checkNode(q.Site, q.Node); err != nil {
		return none, err
	}
	o := steadycast.Order{Kind: q.Kind, Site: q.Site, Node: q.Node, Prefixes: q.Prefixes, Actor: who.String(), Reason: q.Reason, Force: q.Force}
	if q.For != "" {
		d, err := time.ParseDuration(q.For)
		switch {
		case err != nil:
			return none, usage("for: %q is not a duration; write 30m, 2h", q.For)
		case d < time.Second || d > maxFor:
			return none, usage("for: %s is out of range; 1s to %dh", d, maxFor/time.Hour)
		}
		o.For = d
	}
	if o.For > 0 && o.Kind == steadycast.OrderAnnounce && !o.Force {
		return none, usage("for: announce hands back to the checks and leaves nothing that could end; only a pinned route has a time: --force")
	}
	return o, nil
}
