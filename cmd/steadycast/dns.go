package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/rto"
)

func newDNSCommand(c *cli) *cobra.Command {
	cmd := runDNS(c)
	cmd.AddCommand(newResolveCommand(c), newDNSStatusCommand(c), newModeCommand(c), newSwitchCommand(c))
	return cmd
}

// supposed is the state that a question is asked in.
type supposed struct {
	down, out, holds []string
	when             string
}

// any reports whether anything is supposed at all.
func (s supposed) any() bool { return len(s.down)+len(s.out)+len(s.holds) > 0 || s.when != "" }

func newResolveCommand(c *cli) *cobra.Command {
	var (
		table, typ, client string
		at                 uint64
		suppose            supposed
	)
	cmd := &cobra.Command{
		Use: "resolve NAME", Short: "The answer that one client is given, and every step to it", Args: cobra.ExactArgs(1),
		Long: `Asks this node's server of names what it answers a client now: which row of which
map the client is in, which method chose whom, which members were out and why,
and which table that is of. --at asks another revision of the fleet's table, in
the present state. Where a method draws by weight, it draws anew each time.

With --table it needs no daemon, and answers from that file: all sites are well
then, but for what --down, --out and --while suppose.`,
		Example: `  steadycast dns resolve www.gslb.example.com --client 203.0.113.7
  steadycast dns resolve www.gslb.example.com --table fleet.yaml --client 203.0.113.7
  steadycast dns resolve www.gslb.example.com --table fleet.yaml --client 10.1.2.0/24 --down web@ams --out fra`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		where, err := clientOf(client)
		if err != nil {
			return usageError(err)
		}
		switch {
		case table != "" && at != 0:
			return usageError(errors.New("--at asks the server of this node, and --table a file; give one"))
		case table == "" && suppose.any():
			return usageError(errors.New("--down, --out, --while and --when suppose a state, which needs a --table; the server answers by the real one"))
		case table == "":
			return c.resolveNow(cmd.Context(), args[0], typ, where, at)
		}
		fleet, ps := config.LoadTable(table)
		if err := ps.Err(); err != nil {
			for _, l := range ps.Lines() {
				fmt.Fprintln(c.err, printable(l))
			}
			return &exitError{code: exitUsage}
		}
		state, err := suppose.state(fleet)
		if err != nil {
			return usageError(err)
		}
		policy, problems := dnsfallback.NewPolicy(fleet.Revision, fleet.Placement, rto.Known(fleet))
		if len(problems) > 0 { // none but this: the rest was judged
			return usageError(fmt.Errorf("%s: %s", table, problems[0].Text))
		}
		maps, problems := dnsfallback.LoadMaps(nil, fleet.Maps)
		for _, p := range problems {
			fmt.Fprintf(c.err, "warning: %s: %s; as if there were no such map\n", p.Path, p.Text)
		}
		e, err := policy.Table(fleet.Revision, maps, state).Explain(args[0], typ, where)
		if err != nil {
			return usageError(err)
		}
		if c.json() {
			return c.printValue(e)
		}
		fmt.Fprint(c.out, renderAnswer(e))
		return nil
	}
	f := cmd.Flags()
	f.StringVar(&table, "table", "", "the fleet.yaml to answer from, instead of this node's server")
	f.Uint64Var(&at, "at", 0, "answer by this revision of the fleet's table; see steadycast revisions")
	f.StringVar(&typ, "type", "A", "type of record")
	f.StringVar(&client, "client", "0.0.0.0", "address or network of who asks")
	f.StringSliceVar(&suppose.down, "down", nil, "suppose that SERVICE@SITE is down")
	f.StringSliceVar(&suppose.out, "out", nil, "suppose that a person switched SITE, or NAME/MEMBER, out")
	f.StringSliceVar(&suppose.holds, "while", nil, "suppose that the condition that members name holds")
	f.StringVar(&suppose.when, "when", "", "suppose the time, as 2026-11-11T00:00:00Z; default now")
	return cmd
}

// clientOf reads an address or a network.
func clientOf(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("--client %q: write an address or a network, as 203.0.113.7 or 203.0.113.0/24", s)
	}
	return p, nil
}

// state is what was supposed of the table's sites.
func (s supposed) state(fleet config.Fleet) (dnsfallback.FleetState, error) {
	out := dnsfallback.FleetState{At: time.Now(), Sites: map[string]dnsfallback.SiteState{}, Members: map[string]dnsfallback.Forced{}}
	var sites []string
	for _, p := range fleet.Sites {
		if !p.Witness {
			sites = append(sites, p.Name)
			services := map[string]dnsfallback.ServiceState{}
			for _, x := range fleet.Services {
				services[x.Name] = dnsfallback.ServiceState{Judged: len(x.Prefixes) == 0}
			}
			out.Sites[p.Name] = dnsfallback.SiteState{Services: services}
		}
	}
	known := func(site string) error {
		if !slices.Contains(sites, site) {
			return fmt.Errorf("%q is not a site of the table; known: %s", site, strings.Join(sites, ", "))
		}
		return nil
	}
	for _, d := range s.down {
		service, site, ok := strings.Cut(d, "@")
		if !ok {
			return out, fmt.Errorf("--down %q: write SERVICE@SITE", d)
		}
		if err := known(site); err != nil {
			return out, fmt.Errorf("--down %s: %w", d, err)
		}
		if !slices.ContainsFunc(fleet.Services, func(x config.Service) bool { return x.Name == service }) {
			return out, fmt.Errorf("--down %s: %q is not a service of the table", d, service)
		}
		x := out.Sites[site].Services[service]
		x.V4, x.V6, x.Why = dnsfallback.Down, dnsfallback.Down, "supposed"
		out.Sites[site].Services[service] = x
	}
	off := dnsfallback.Forced{To: dnsfallback.Down, Why: "supposed"}
	for _, o := range s.out {
		if strings.Contains(o, "/") {
			out.Members[o] = off
			continue
		}
		if err := known(o); err != nil {
			return out, fmt.Errorf("--out %s: %w", o, err)
		}
		site := out.Sites[o]
		site.Forced = off
		out.Sites[o] = site
	}
	for _, w := range s.holds {
		if !slices.ContainsFunc(fleet.Conditions, func(c dnsfallback.Condition) bool { return c.Name == w }) {
			return out, fmt.Errorf("--while %s: the table has no such condition", w)
		}
		out.Members["condition/"+w] = dnsfallback.Forced{To: dnsfallback.Up, Why: "supposed"}
	}
	if s.when != "" {
		at, err := time.Parse(time.RFC3339, s.when)
		if err != nil {
			return out, fmt.Errorf("--when %q: write a time as 2026-11-11T00:00:00Z", s.when)
		}
		out.At = at
	}
	return out, nil
}

// renderAnswer prints the records, and below them how they came about.
func renderAnswer(e dnsfallback.Explanation) string {
	var b strings.Builder
	for _, r := range e.Records {
		fmt.Fprintln(&b, printable(r))
	}
	if len(e.Records) == 0 {
		fmt.Fprintf(&b, "no records (%s)\n", e.Rcode)
	}
	fmt.Fprintln(&b)
	for _, l := range e.Branch {
		fmt.Fprintf(&b, "  %s\n", printable(l))
	}
	if e.TTL != "" {
		fmt.Fprintf(&b, "  the shorter TTL: %s\n", e.TTL)
	}
	whom := "for everyone"
	if e.Network.IsValid() {
		whom = "for clients in " + e.Network.String()
	}
	fmt.Fprintf(&b, "  %s, by table %d, %s\n", e.Rcode, e.Version, whom)
	return b.String()
}
