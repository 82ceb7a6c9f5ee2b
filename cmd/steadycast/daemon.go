package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/bgp"
	"github.com/steadycast/steadycast/internal/agent"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/pki"
	"github.com/steadycast/steadycast/internal/role"
	"github.com/steadycast/steadycast/internal/speaker"
	"github.com/steadycast/steadycast/internal/voter"
)

const defaultConfig = "/etc/steadycast/node.yaml"

// daemonCommand is a command that runs as a role of a node: it takes -c and the
// settings that node.yaml lets environment and flags replace.
func daemonCommand(use, short, long string, run func(cmd *cobra.Command, load loader) error) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: use + " -c node.yaml", Short: short, Long: long, GroupID: groupDaemon, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return notAtOnce(cmd.ErrOrStderr(), time.Sleep, run(cmd, func() (*config.Config, config.Problems) {
				return config.Load(config.Options{File: file, Flags: cmd.Flags()})
			}))
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", cmp.Or(os.Getenv("STEADYCAST_CONFIG"), defaultConfig), "path of node.yaml (also STEADYCAST_CONFIG)")
	config.AddFlags(cmd.Flags())
	return cmd
}

// mendPause is how long a daemon whose settings are wrong waits before it ends,
// where a service manager will start it again.
const mendPause = 5 * time.Second

// notAtOnce says what is wrong with the settings, and waits before a manager hears
// of it: until somebody has mended the file, each new start would only say the
// same. Once it is mended the next start is a good one, and nobody is needed for it.
func notAtOnce(out io.Writer, wait func(time.Duration), err error) error {
	if exitCode(err) != exitUsage || os.Getenv("NOTIFY_SOCKET") == "" {
		return err
	}
	fmt.Fprintln(out, "steadycast:", err)
	wait(mendPause)
	return &exitError{code: exitUsage}
}

type loader func() (*config.Config, config.Problems)

// first loads for the first time and makes the logger of a role's process: under
// `run` several write to one stream.
func (l loader) first(name string) (*config.Config, *slog.Logger, func(), error) {
	cfg, problems := l()
	if problems.Err() != nil {
		return nil, nil, nil, &exitError{exitUsage, problems}
	}
	log, flush, err := role.NewLog(role.LogOptions{Level: cfg.Node.Log.Level, Format: cfg.Node.Log.Format})
	if err != nil {
		return nil, nil, nil, err
	}
	log = log.With("role", name)
	for _, line := range problems.Lines() {
		log.Warn("configuration", "problem", line)
	}
	return cfg, log, flush, nil
}

// credentials are what this node proves itself with to others. Each role keeps the
// floor of its clock in a file of its own.
func credentials(cfg *config.Config, role string, log *slog.Logger) (*pki.Credentials, error) {
	n := cfg.Node
	return pki.Open(pki.Settings{
		Dir: n.TLS.Dir, Fleet: n.Fleet, Site: n.Site, Node: n.Node, Clock: filepath.Join(n.StateDir, role+"-clock"),
		Refused: func(from net.Addr, err error) { log.Warn("a node is turned away", "from", from, "why", err) },
	})
}

func newSpeakerCommand(*cli) *cobra.Command {
	return daemonCommand("speaker", "Hold the BGP sessions and addresses of this node",
		`Runs the speaker: BGP sessions, service addresses, and the last intent on disk.
It announces nothing until an agent that judged anew tells it to, and keeps its
routes while the agent is restarted.

  SIGTERM   drain: GSHUT, wait, withdraw, wait, remove addresses, close; again: at once
  SIGHUP    read node.yaml again; a bad file changes nothing
  SIGUSR1   write the state to the log`,
		func(cmd *cobra.Command, load loader) error {
			cfg, log, flush, err := load.first("speaker")
			if err != nil {
				return err
			}
			defer flush()
			n := cfg.Node
			return role.Run(cmd.Context(), role.Spec{Name: "speaker", Logger: log}, func(ctx context.Context, p *role.Process) error {
				return speaker.Run(ctx, p, speaker.Config{
					Node: n.Node, Socket: n.SpeakerSocket, Group: n.SocketGroup, StateDir: n.StateDir,
					AgentLost: n.AgentLost, AgentLostAfter: n.AgentLostAfter,
					StopDrain: n.Stop.Drain, AfterWithdraw: n.Stop.AfterWithdraw, StopTimeout: n.Stop.Timeout,
					Logger: log,
					Load: func() (bgp.Settings, bgp.VIPSettings, error) {
						cfg, problems := load()
						if err := problems.Err(); err != nil {
							return bgp.Settings{}, bgp.VIPSettings{}, err
						}
						return cfg.Node.BGP, cfg.Node.VIP, nil
					},
				})
			})
		})
}

func newAgentCommand(*cli) *cobra.Command {
	return daemonCommand("agent", "Probe, judge, and tell the speaker what to announce",
		`Runs the agent: checks, verdicts, guards, orders, the API and metrics. Stopping
or killing it moves no route: the speaker keeps what it was told.

With mode: fleet it follows the table and the permits of the fleet's ledger, looks
at the other sites, and hears what they see of its own. Until there is a table
it probes and announces nothing. Without the speaker's role it is a witness.

  SIGTERM   end; routes stay
  SIGHUP    read the configuration again; a bad file changes nothing
  SIGUSR1   write the state to the log`,
		func(cmd *cobra.Command, load loader) error {
			cfg, log, flush, err := load.first("agent")
			if err != nil {
				return err
			}
			defer flush()
			opts := agent.DaemonOptions{Config: cfg, Load: load, Logger: log, Version: buildVersion()}
			if cfg.Node.Mode == "fleet" {
				if opts.Credentials, err = credentials(cfg, "agent", log); err != nil {
					return err
				}
				opts.LedgerTLS = voter.TLS(opts.Credentials)
			}
			return role.Run(cmd.Context(), role.Spec{Name: "agent", Logger: log}, func(ctx context.Context, p *role.Process) error {
				return agent.Daemon(ctx, p, opts)
			})
		})
}
