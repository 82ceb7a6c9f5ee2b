package main

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/dns"
)

// dnsSocket is the file name of the server's socket.
const dnsSocket = "dns.sock"

// atDNS has this run of the command line ask the server of names instead of the
// agent: its socket stands beside the agent's, unless --socket names it.
func (c *cli) atDNS() {
	if dir, file := filepath.Split(c.socket); file == "agent.sock" {
		c.socket = dir + dnsSocket
	}
}

// resolveNow asks this node's server of names.
func (c *cli) resolveNow(ctx context.Context, name, typ string, client netip.Prefix, revision uint64) error {
	c.atDNS()
	q := query("name", name, "type", typ, "client", client.String())
	if revision != 0 {
		q.Set("revision", strconv.FormatUint(revision, 10))
	}
	_, err := show(ctx, c, "dns/resolve", q, func(_ style, r *dns.Resolved) string {
		text := renderAnswer(r.Explanation) + fmt.Sprintf("  revision %d of the fleet's table, at %s of the ledger, mode %s, at %s\n", r.Revision, r.Position, r.Mode, r.Node)
		if r.Stale != "" {
			text += "  stale: " + printable(r.Stale) + "\n"
		}
		return text
	})
	return err
}

func newDNSStatusCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "How this node's server of names stands: its table, state, maps and mode", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.atDNS()
			_, err := show(cmd.Context(), c, "dns/status", url.Values{}, renderDNSStatus)
			return err
		},
	}
}

// renderDNSStatus prints what a server says of itself, what is wrong first.
func renderDNSStatus(s style, d *dns.Status) string {
	var b strings.Builder
	now := time.Now()
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", key, printable(fmt.Sprintf(format, args...)))
	}
	ago := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return api.Span(now.Sub(t)) + " ago"
	}
	switch {
	case !d.Answering:
		fmt.Fprintf(&b, "%s does not answer yet: the fleet's table and state are not known.\n", printable(d.Node))
	case d.Wrong != "":
		fmt.Fprintf(&b, "%s answers, and not rightly.\n", printable(d.Node))
	case d.Stale != "":
		fmt.Fprintf(&b, "%s answers from old state.\n", printable(d.Node))
	default:
		fmt.Fprintf(&b, "%s answers.\n", printable(d.Node))
	}
	for _, w := range []struct{ key, text string }{{"wrong", d.Wrong}, {"stale", d.Stale}, {"refused", d.Refused}} {
		if w.text != "" {
			line(w.key, "%s", w.text)
		}
	}
	mode := d.Mode
	if d.Why != "" {
		mode += ": " + d.Why
	}
	line("mode", "%s", mode)
	if d.Answering {
		line("table", "version %d of revision %d, at %s of the ledger, made %s", d.Version, d.Revision, d.Position, ago(d.Since))
	}
	line("ledger", "heard %s", ago(d.Heard))
	for _, x := range d.Sites {
		word := x.Word
		if x.Why != "" {
			word += ": " + x.Why
		}
		line("site", "%s %s", x.Site, word)
	}
	if d.Answering {
		at := make([]string, len(d.Addresses))
		for i, a := range d.Addresses {
			at[i] = a.String()
		}
		line("at", "%s", strings.Join(at, " "))
		line("zones", "%s", strings.Join(d.Zones, " "))
	}
	for _, m := range d.Maps {
		line("map", "%s: %d rows of %s, changed %s", m.Name, m.Rows, m.File, ago(m.Changed))
	}
	line("answers", "%d since %s; %d dropped, %d over the limit", d.Answers, d.Started.Format(time.DateTime), d.Dropped, d.Limited)
	return b.String()
}
