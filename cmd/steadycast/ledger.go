package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/ledger"
	"github.com/steadycast/steadycast/internal/role"
	"github.com/steadycast/steadycast/internal/voter"
)

func newLedgerCommand(c *cli) *cobra.Command {
	cmd := daemonCommand("ledger", "Hold one vote of the fleet's ledger",
		`Runs a voter of the fleet's ledger: one of 3, 5 or 7 processes, each in a
failure domain of its own, that together give or refuse permits. It waits until
a ledger is begun (ledger init) or it is taken into one (ledger join); it never
begins one by itself. Its end moves no route.

  SIGTERM   hand over, then end
  SIGUSR1   write the state to the log

It ends by itself, so that another can lead: with 70 when its disk hangs or the
ledger does not move, 74 when the disk is full or refuses, 65 when it is given
what this version does not understand.`,
		func(cmd *cobra.Command, load loader) error {
			cfg, log, flush, err := load.first("ledger")
			if err != nil {
				return err
			}
			defer flush()
			opts, err := voterOptions(cfg, log)
			if err != nil {
				return err
			}
			opts.Voter.Exit = func(code int) {
				flush()
				os.Exit(code)
			}
			return role.Run(cmd.Context(), role.Spec{Name: "ledger", Logger: log}, func(ctx context.Context, p *role.Process) error {
				return voter.Run(ctx, p, opts)
			})
		})
	cmd.AddCommand(newLedgerInitCommand(c), newLedgerJoinCommand(c), newLedgerLeaveCommand(c), newLedgerMembersCommand(c), newLedgerRecoverCommand(c))
	return cmd
}

// voterOptions are a voter's by its node.yaml.
func voterOptions(cfg *config.Config, log *slog.Logger) (voter.Options, error) {
	n := cfg.Node
	if n.Mode != "fleet" {
		return voter.Options{}, usageError(fmt.Errorf("%s says mode: %s; a voter needs mode: fleet, with ledger.peers", cfg.File, n.Mode))
	}
	creds, err := credentials(cfg, "ledger", log)
	if err != nil {
		return voter.Options{}, err
	}
	o := voter.Options{Socket: n.LedgerSocket, Credentials: creds, Logger: log, Voter: ledger.VoterOptions{
		Fleet: n.Fleet, Node: n.Node, Dir: filepath.Join(n.StateDir, "voter"), Listen: n.Ledger.Listen,
		TLS: voter.TLS(creds), MaxRTT: n.Ledger.MaxRTT, Log: log,
	}}
	for _, p := range n.Ledger.Peers {
		o.Voter.Peers = append(o.Voter.Peers, ledger.Peer{Node: p.Node, Address: p.Address, Domain: p.FailureDomain})
		if p.Node == n.Node {
			o.Voter.Advertise, o.Mesh = p.Address, p.Mesh
		}
	}
	return o, nil
}

// voterFlags are those of the commands that change who votes.
type voterFlags struct {
	file, reason string
	yes          bool
}

func (f *voterFlags) register(fs *pflag.FlagSet, changes bool) {
	fs.StringVarP(&f.file, "config", "c", defaultConfig, "path of node.yaml of the voter on this host")
	if changes {
		fs.StringVar(&f.reason, "reason", "", "why, for the record (required)")
	}
}

// load reads node.yaml; a reason is required where something changes.
func (f *voterFlags) load(fs *pflag.FlagSet, changes bool) (*config.Config, error) {
	if changes && strings.TrimSpace(f.reason) == "" {
		return nil, usageError(errors.New("--reason is missing; it is kept and shown to whoever asks why"))
	}
	cfg, ps := config.Load(config.Options{File: f.file, Flags: fs})
	if ps.Err() != nil {
		return nil, &exitError{exitUsage, ps}
	}
	return cfg, nil
}

// actor is the person at this terminal, as the kernel knows him.
func actor() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}

// voterError gives an unreachable voter its exit code.
func voterError(err error) error {
	if gone, ok := errors.AsType[*voter.Unreachable](err); ok {
		return &exitError{exitUnreachable, fmt.Errorf("%w; does `steadycast ledger` run here? Another socket is given with ledger_socket in node.yaml", gone)}
	}
	return err
}

const ledgerPatience = 2 * time.Minute

func newLedgerInitCommand(c *cli) *cobra.Command {
	var f voterFlags
	var operators []string
	cmd := &cobra.Command{
		Use: "init FLEET.YAML --operator FILE --reason WHY", Short: "Begin the fleet's ledger: once, on one of its voters", Args: cobra.ExactArgs(1),
		Long: `Begins the ledger with the voters of ledger.peers in node.yaml, on one of them,
once. All must run and hold nothing; the set must be 3, 5 or 7 voters, no two in
one failure domain. The table in FLEET.YAML becomes the first policy.

From then on orders and tables count by an operator's signature only. The first
operator is given here, an admin, by the public half of a key that steadycast pki
operator makes; later ones are let in by admins.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := f.load(cmd.Flags(), true)
			if err != nil {
				return err
			}
			fleet, ps := config.LoadTable(args[0])
			if ps.Err() != nil {
				return &exitError{exitUsage, ps}
			}
			if len(operators) == 0 {
				return usageError(errors.New("--operator is missing: nobody could give orders. Next: steadycast pki operator NAME --role admin > NAME.pub, then the same with --operator NAME.pub"))
			}
			var first []steadycast.Operator
			for _, path := range operators {
				o, err := readOperator(path)
				if err != nil {
					return err
				}
				first = append(first, o)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), ledgerPatience)
			defer cancel()
			if err := voter.NewAdmin(cfg.Node.LedgerSocket).Init(ctx, fleet.Table(), first, actor(), f.reason); err != nil {
				return voterError(err)
			}
			fmt.Fprintf(c.out, "the ledger of fleet %s has begun, with %d voters. Next: steadycast ledger members -c %s\n", cfg.Node.Fleet, len(cfg.Node.Ledger.Peers), f.file)
			return nil
		},
	}
	f.register(cmd.Flags(), true)
	cmd.Flags().StringArrayVar(&operators, "operator", nil, "file with the public half of an admin's key (required); may be repeated")
	return cmd
}

func newLedgerJoinCommand(c *cli) *cobra.Command {
	var f voterFlags
	var replaced []string
	cmd := &cobra.Command{
		Use: "join NODE… [--replaces NODE,…] --reason WHY", Short: "Give more nodes a vote, or replace voters", Args: cobra.MinimumNArgs(1),
		Long: `Takes nodes in as voters, on the host of the voter that leads. Each must be in
ledger.peers of its node.yaml, run, and hold nothing. What comes of it must be a
safe set again, so from three voters two join at once, or one replaces another.
A change that was broken off is finished by asking for it again.`,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return c.changeVoters(cmd, &f, nodes, replaced)
		},
	}
	f.register(cmd.Flags(), true)
	cmd.Flags().StringSliceVar(&replaced, "replaces", nil, "voters that lose their vote in the same change")
	return cmd
}

func newLedgerLeaveCommand(c *cli) *cobra.Command {
	var f voterFlags
	cmd := &cobra.Command{
		Use: "leave NODE… --reason WHY", Short: "Take the vote from nodes", Args: cobra.MinimumNArgs(1),
		Long: `Takes the vote from nodes, on the host of the voter that leads. What is left must
be a safe set, so from five voters two leave at once. The state of a node that
left is of no use any more; remove it before it joins again.`,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return c.changeVoters(cmd, &f, nil, nodes)
		},
	}
	f.register(cmd.Flags(), true)
	return cmd
}

func (c *cli) changeVoters(cmd *cobra.Command, f *voterFlags, in, out []string) error {
	cfg, err := f.load(cmd.Flags(), true)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), ledgerPatience)
	defer cancel()
	members, err := voter.NewAdmin(cfg.Node.LedgerSocket).Change(ctx, in, out, actor(), f.reason)
	if err != nil {
		return voterError(err)
	}
	if c.json() {
		return c.printValue(members)
	}
	var names []string
	for _, m := range members {
		names = append(names, m.Node)
	}
	fmt.Fprintf(c.out, "%d voters: %s\n", len(names), strings.Join(names, ", "))
	return nil
}

func newLedgerMembersCommand(c *cli) *cobra.Command {
	var f voterFlags
	cmd := &cobra.Command{
		Use: "members", Short: "Show the voters, and what each says", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.load(cmd.Flags(), false)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), ledgerPatience)
			defer cancel()
			s, err := voter.NewAdmin(cfg.Node.LedgerSocket).Members(ctx)
			if err != nil {
				return voterError(err)
			}
			if c.json() {
				return c.printValue(s)
			}
			fmt.Fprint(c.out, renderMembers(c.page, s))
			return nil
		},
	}
	f.register(cmd.Flags(), false)
	return cmd
}

// renderMembers is the table of `ledger members`.
func renderMembers(s style, survey ledger.Survey) string {
	t := &table{columns: words("NODE", "ADDRESS", "DOMAIN", "VOTE", "STATE", "POSITION", ">TERM", ">FREE MB", ">RTT MS", "NOTE")}
	for _, v := range survey.Voters {
		vote := "no"
		if v.Voter {
			vote = "yes"
		}
		row := []cell{{text: v.Node}, {text: v.Address}, {text: v.Domain}, {text: vote}}
		switch st := v.State; {
		case st == nil:
			row = append(row, cell{"silent", red}, cell{}, cell{}, cell{}, cell{}, cell{text: v.Error})
		default:
			rtt, note := "", ""
			if v.RTTMicros > 0 {
				rtt = fmt.Sprintf("%.1f", float64(v.RTTMicros)/1000)
			}
			if st.Empty {
				note = "holds nothing"
			}
			row = append(row, cell{text: st.Role}, cell{text: st.Fence.String()}, cell{text: fmt.Sprint(st.Term)}, cell{text: fmt.Sprint(st.Free >> 20)}, cell{text: rtt}, cell{text: note})
		}
		t.add(row...)
	}
	out := t.render(s)
	if !slices.ContainsFunc(survey.Voters, func(v ledger.SurveyState) bool { return v.State == nil || !v.State.Empty }) {
		var b strings.Builder
		s.labelled(&b, "Next", bold, "steadycast ledger init FLEET.YAML --operator FILE --reason TEXT")
		out += b.String()
	}
	if survey.Problem != "" {
		var b strings.Builder
		s.labelled(&b, "Unsafe", red, survey.Problem)
		out += b.String()
	}
	var said []string // all voters hear the same, but for one that is cut off
	for _, v := range survey.Voters {
		if v.State == nil {
			continue
		}
		for _, x := range v.State.Skewed {
			if text := x.String(); !slices.Contains(said, text) {
				said = append(said, text)
				var b strings.Builder
				s.labelled(&b, "Alarm", red, text)
				out += b.String()
			}
		}
	}
	return out
}

func newLedgerRecoverCommand(c *cli) *cobra.Command {
	var f voterFlags
	cmd := &cobra.Command{
		Use: "recover --reason WHY --yes", Short: "Go on with one voter, when most are lost for good", Args: cobra.NoArgs,
		Long: `Makes a ledger of one voter out of what this one holds, when more than half of
the voters are lost for good. Stop this voter first; it refuses while enough
others answer to go on, or one that knows more.

What the others had committed last may be missing. So the ledger goes on in a new
epoch and frozen, and moves no route by that: what each site announces it hears
from the site, floors count nobody before that, and an order that it holds binds
again only where it is carried out anyway. Others are listed as from before the
recovery: give them anew or end them (undrain). Then steadycast thaw. Then take
two others in, empty (ledger join), because one voter survives no loss. Voters
that were lost and come back are turned away until they join empty.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.load(cmd.Flags(), true)
			if err != nil {
				return err
			}
			if !f.yes {
				return usageError(errors.New("this gives up whatever the lost voters alone knew. If they are lost for good, repeat with --yes"))
			}
			log := slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
			opts, err := voterOptions(cfg, log)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), ledgerPatience)
			defer cancel()
			done, err := ledger.Recover(ctx, opts.Voter, actor(), f.reason)
			if err != nil {
				return err
			}
			if c.json() {
				return c.printValue(done)
			}
			fmt.Fprintf(c.out, "recovered at %s, going on at %s, frozen; without %s. No route moves by this. Next: start this voter, compare, steadycast thaw, and steadycast ledger join two others\n",
				done.Was, done.Is, strings.Join(done.Excluded, ", "))
			for i := range done.Orders {
				fmt.Fprintf(c.out, "order over %s, in force again if it is carried out anyway, else until it is given anew or ended: %s\n",
					done.Orders[i].Order.Target(), api.OrderText(&done.Orders[i]))
			}
			return nil
		},
	}
	f.register(cmd.Flags(), true)
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "they are lost for good")
	return cmd
}
