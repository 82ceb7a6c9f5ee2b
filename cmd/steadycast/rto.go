package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/rto"
)

func newRTOCommand(c *cli) *cobra.Command {
	var file string
	var private bool
	cmd := &cobra.Command{
		Use: "rto [SERVICE]", Short: "How long a failover takes by the present settings, where the time goes, and what each setting would buy", GroupID: groupSee, Args: cobra.MaximumNArgs(1),
		Long: `Adds up, for each way in which a service or its site fails, what passes until
clients are served elsewhere: detection, confirmation, the ledger's permit, BGP or
the TTL of answers, and the client's next try. Typical is the mean over when the
fault strikes, worst is the bound. Below stands what each setting, one step
tighter, would save, and what that costs.

Without -f the table is the one in force, as the daemon says; hold_time and
max_rtt are then those of a node with the defaults. -f names a node.yaml or a
fleet.yaml, and needs no daemon.`,
		Example: `  steadycast rto
  steadycast rto web -f /etc/steadycast/node.yaml --private`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := c.configured(cmd.Context(), file)
			if err != nil {
				return err
			}
			pages := []rtoPage{}
			var known []string
			for _, s := range cfg.Fleet.Services {
				known = append(known, s.Name)
				if name := arg(args, 0); name != "" && name != s.Name {
					continue
				}
				f := rto.Of(cfg.Fleet, cfg.Node, s)
				f.Private = private
				pages = append(pages, rtoPage{f, f.Accounts()})
			}
			if len(pages) == 0 && len(args) > 0 {
				return &exitError{code: exitNotFound, err: fmt.Errorf("no service %s; known: %s", args[0], orElse(strings.Join(known, ", "), "none"))}
			}
			if c.json() {
				return c.printValue(pages)
			}
			for i, p := range pages {
				if i > 0 {
					fmt.Fprintln(c.out)
				}
				fmt.Fprint(c.out, renderRTO(c.page, p))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "node.yaml or fleet.yaml; default the table in force")
	cmd.Flags().BoolVar(&private, "private", false, "the prefixes are announced inside one's own network only")
	return cmd
}

// configured is what a file says, or, without one, what the daemon follows.
func (c *cli) configured(ctx context.Context, file string) (*config.Config, error) {
	if file != "" {
		cfg, ps := config.Either(file)
		return cfg, c.told(ps)
	}
	client := c.client()
	defer client.Close()
	var t decide.Table
	if err := client.Get(ctx, "table", nil, &t); err != nil {
		return nil, err
	}
	if t.Source == "" { // of a solo node, whose checks stand in its own file
		return config.Around(config.FleetOf(t.WithDefaults()), ""), nil
	}
	const name = "the table in force"
	fleet, ps := config.ParseTable(name, []byte(t.Source))
	return config.Around(fleet, name), c.told(ps)
}

// told says what is wrong with a file, if anything.
func (c *cli) told(ps config.Problems) error {
	if ps.Err() == nil {
		return nil
	}
	for _, l := range ps.Lines() {
		fmt.Fprintln(c.err, printable(l))
	}
	return &exitError{code: exitUsage}
}

// rtoPage is one service's account.
type rtoPage struct {
	Facts    rto.Facts     `json:"facts"`
	Accounts []rto.Account `json:"accounts"`
}

// renderRTO is the page of `steadycast rto` for one service.
func renderRTO(s style, p rtoPage) string {
	var b strings.Builder
	for i, a := range p.Accounts {
		if i > 0 {
			b.WriteByte('\n')
		}
		by := "by its route"
		if a.Path == rto.Answer {
			by = "by the answers for " + p.Facts.Name
		}
		fmt.Fprintln(&b, s.paint(bold, s.text(fmt.Sprintf("%s, %s: %s", p.Facts.Service, a.Fault, a.Fault.Says()))))
		if a.Never != "" {
			s.labelled(&b, "", yellow, by+": "+a.Never)
			continue
		}
		t := &table{columns: words("STAGE", ">TYPICAL", ">WORST", "WHY")}
		for _, x := range a.Stages {
			t.add(cell{x.Name, plain}, cell{rough(x.Typical), plain}, cell{rough(x.Worst), plain}, cell{x.Why, dim})
		}
		t.add(cell{"total", bold}, cell{rough(a.Typical), bold}, cell{rough(a.Worst), bold}, cell{by, bold})
		b.WriteString(t.render(s))
		for i, g := range a.Gains {
			label := ""
			if i == 0 {
				label = "would save"
			}
			s.labelled(&b, label, plain, fmt.Sprintf("%s, worst %s: %s %s → %s (%s)", rough(g.Typical), rough(g.Worst), g.Setting, g.From, g.To, g.Cost))
		}
	}
	return b.String()
}

// rough writes a duration with as many digits as matter.
func rough(d time.Duration) string {
	unit := time.Millisecond
	switch {
	case d >= 10*time.Second:
		unit = time.Second
	case d >= time.Second:
		unit = 10 * time.Millisecond
	}
	text := d.Round(unit).String()
	if d >= time.Minute && d.Round(unit)%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}
