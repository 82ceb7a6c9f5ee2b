package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/config"
)

func newCapacityCommand(c *cli) *cobra.Command {
	var file, load string
	var without []string
	cmd := &cobra.Command{
		Use: "capacity", Short: "What each site carries and could, now and without some of them", GroupID: groupSee, Args: cobra.NoArgs,
		Long: `Shows for each site its load now, after those of --without are gone, the worst it
may come to, the red line and the limit. AFTER counts what the table's spill rows
send there; WORST adds all of which they say nothing, as the capacity guard does:
a failure that is not certain is refused above RED, a certain one above LIMIT.

The loads are those that the ledger's guard counts. With -f, or where a site
reports none, they are the table's; --load FILE has lines of SITE LOAD instead.`,
		Example: `  steadycast capacity --without fra --without ams
  steadycast capacity -f fleet.yaml --load evening.txt --without fra`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			now, err := c.present(cmd.Context(), file, load)
			if err != nil {
				return err
			}
			table := now.table
			var announcing []string
			for _, site := range table.Announcers() {
				if slices.ContainsFunc(table.PrefixesAt(site), func(p netip.Prefix) bool {
					return !slices.Contains(now.out, steadycast.Unit{Site: site, Prefix: p})
				}) {
					announcing = append(announcing, site)
				}
			}
			for _, w := range without {
				if err := mustAnnounce(&table, w); err != nil {
					return err
				}
			}
			page := capacityPage{Without: without, Red: table.Guards.CapacityRed, Sites: table.Burdens(now.loads, announcing, without), Movable: []movable{}}
			rest := slices.DeleteFunc(slices.Clone(announcing), func(s string) bool { return slices.Contains(without, s) })
			for _, w := range without {
				page.Movable = append(page.Movable, movable{w, table.Movable(now.loads, w, rest, page.Red)})
			}
			if c.json() {
				return c.printValue(page)
			}
			fmt.Fprint(c.out, renderCapacity(c.page, page))
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "node.yaml or fleet.yaml; default the table in force")
	cmd.Flags().StringVar(&load, "load", "", "current, table, or a file with lines of SITE LOAD")
	cmd.Flags().StringSliceVar(&without, "without", nil, "as if this site were gone; may be given again")
	return cmd
}

// mustAnnounce refuses a site that the table lets announce nothing.
func mustAnnounce(t *decide.Table, site string) error {
	known := t.Announcers()
	if slices.Contains(known, site) {
		return nil
	}
	return &exitError{code: exitNotFound, err: fmt.Errorf("no site %s announces; known: %s", site, strings.Join(known, ", "))}
}

// capacityPage is the answer of `steadycast capacity`.
type capacityPage struct {
	Without []string        `json:"without"`
	Red     int             `json:"red_percent"`
	Sites   []decide.Burden `json:"sites"`
	// Movable is what of each that is gone DNS could move with all others under the red line.
	Movable []movable `json:"movable"`
}

type movable struct {
	Site    string `json:"site"`
	Percent int    `json:"percent"`
}

func renderCapacity(s style, p capacityPage) string {
	var b strings.Builder
	b.WriteString(burdenTable(p.Sites, p.Red, p.Without).render(s))
	for _, m := range p.Movable {
		if i := slices.IndexFunc(p.Sites, func(x decide.Burden) bool { return x.Site == m.Site }); i >= 0 && !p.Sites[i].Known {
			fmt.Fprintln(&b, s.text(fmt.Sprintf("how many clients of %s could go elsewhere by DNS is not known: nor is its load", m.Site)))
			continue
		}
		fmt.Fprintln(&b, s.text(fmt.Sprintf("%d%% of the clients of %s could go elsewhere by DNS, all others at most at %d%%", m.Percent, m.Site, p.Red)))
	}
	return b.String()
}

// burdenTable is a line for each site, when those of without are gone. Where none
// is, the columns that only mean something then are left out.
func burdenTable(sites []decide.Burden, line int, without []string) *table {
	changed := len(without) > 0
	names := []string{"SITE", ">NOW", ">RED", ">LIMIT", "NOTE"}
	if changed {
		names = []string{"SITE", ">NOW", ">AFTER", ">WORST", ">RED", ">LIMIT", "NOTE"}
	}
	t := &table{columns: words(names...)}
	for _, x := range sites {
		figure := func(n, percent int64) cell {
			switch {
			case !x.Known:
				return cell{"?", yellow}
			case x.Capacity == 0:
				return cell{strconv.FormatInt(n, 10), plain}
			case percent > 100:
				return cell{fmt.Sprintf("%d (%d%%)", n, percent), red}
			case percent > int64(line):
				return cell{fmt.Sprintf("%d (%d%%)", n, percent), yellow}
			}
			return cell{fmt.Sprintf("%d (%d%%)", n, percent), plain}
		}
		row := []cell{{x.Site, plain}, figure(x.Load, x.Percent)}
		note := cell{}
		if changed && x.Gone {
			row = append(row, cell{"-", dim}, cell{"-", dim})
		} else if changed {
			row = append(row, figure(x.After, x.AfterPercent), figure(x.Most, x.MostPercent))
		}
		switch {
		case x.Gone && slices.Contains(without, x.Site):
			note = cell{"gone", dim}
		case x.Gone:
			note = cell{"announces nothing", dim}
		case !x.Known:
			note = cell{"nobody reports its load, or not lately", yellow}
		case x.Capacity == 0:
			note = cell{"states no capacity, so no guard asks", dim}
		case x.MostPercent > 100:
			note = cell{"may be over its limit", red}
		case x.MostPercent > int64(line):
			note = cell{"may be over the red line", yellow}
		}
		limit, at := cell{"-", dim}, cell{"-", dim}
		if x.Capacity > 0 {
			limit, at = cell{strconv.FormatInt(x.Capacity, 10), plain}, cell{fmt.Sprintf("%d%%", line), plain}
		}
		t.add(append(row, at, limit, note)...)
	}
	return t
}

// fleetNow is the table, and what is known of the sites.
type fleetNow struct {
	table  decide.Table
	loads  []decide.Load
	out    []steadycast.Unit
	frozen bool
}

// present reads the table and the loads from where the flags say: the daemon, or files.
func (c *cli) present(ctx context.Context, file, load string) (fleetNow, error) {
	cfg, err := c.configured(ctx, file)
	if err != nil {
		return fleetNow{}, err
	}
	now := fleetNow{table: cfg.Fleet.Table().WithDefaults()}
	if load == "" {
		load = "current"
		if file != "" {
			load = "table"
		}
	}
	switch load {
	case "table":
	case "current":
		client := c.client()
		defer client.Close()
		var l api.Loads
		if err := client.Get(ctx, "loads", nil, &l); err != nil {
			return now, err
		}
		now.loads, now.out, now.frozen = l.Loads, l.Out, l.Frozen
	default:
		now.loads, err = readLoads(load, cfg)
	}
	return now, err
}

// readLoads reads lines of SITE LOAD; an empty one, and what begins with #, is nothing.
func readLoads(path string, cfg *config.Config) ([]decide.Load, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usageError(err)
	}
	defer f.Close()
	var out []decide.Load
	var errs []error
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s:%d: %s", path, n, fmt.Sprintf(format, args...)))
		}
		if len(words) != 2 {
			bad("%q; write SITE LOAD, as fra 12000", lines.Text())
			continue
		}
		load, err := strconv.ParseInt(words[1], 10, 64)
		switch known := cfg.Fleet.Table().Announcers(); {
		case err != nil || load < 0:
			bad("%q is not a load; allowed: a whole number, 0 or more", words[1])
		case !slices.Contains(known, words[0]):
			bad("%q is not a site that announces; known: %s", words[0], strings.Join(known, ", "))
		case slices.ContainsFunc(out, func(l decide.Load) bool { return l.Site == words[0] }):
			bad("%s stands here twice", words[0])
		default:
			out = append(out, decide.Load{Site: words[0], Load: load})
		}
	}
	if err := errors.Join(append(errs, lines.Err())...); err != nil {
		return nil, usageError(err)
	}
	return out, nil
}
