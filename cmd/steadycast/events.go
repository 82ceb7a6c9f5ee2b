package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/api"
)

func newEventsCommand(c *cli) *cobra.Command {
	var follow, lines bool
	var site, kind string
	var after string
	cmd := &cobra.Command{
		Use: "events", Short: "What happened, and with -f what happens", GroupID: groupSee, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			client := c.client()
			defer client.Close()
			put := func(e steadycast.Event) error {
				if lines || c.json() {
					b, err := json.Marshal(e)
					if err == nil {
						_, err = fmt.Fprintf(c.out, "%s\n", b)
					}
					return err
				}
				_, err := io.WriteString(c.out, renderEvent(c.page, &e))
				return err
			}
			err := c.events(ctx, client, after, follow, query("site", site, "kind", kind), put)
			if errors.Is(err, syscall.EPIPE) || follow && ctx.Err() != nil {
				return nil
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted; come back by itself after a restart")
	cmd.Flags().BoolVar(&lines, "json", false, "one JSON object per line")
	cmd.Flags().StringVar(&kind, "kind", "", "of this kind only: verdict, request, permit, refused, route, proof, order, …")
	cmd.Flags().StringVar(&after, "after", "", "begin behind the event with this id")
	c.siteFlag(cmd, &site)
	return cmd
}

// events reads the stream, and when following comes back after a lost daemon:
// at once first, then every second. A daemon that never answered is an error.
func (c *cli) events(ctx context.Context, client *api.Client, after string, follow bool, q map[string][]string, put func(steadycast.Event) error) error {
	answered, said := false, false
	for {
		last, err := client.Events(ctx, after, follow, q, func(e steadycast.Event) error {
			answered, said = true, false
			return put(e)
		})
		after = last
		var gone *api.Unreachable
		lost := errors.As(err, &gone)
		answered = answered || lost && errors.Is(err, io.EOF)
		if !follow || !lost || !answered || ctx.Err() != nil {
			return err
		}
		if !said {
			fmt.Fprintf(c.err, "steadycast: the daemon at %s left; waiting for it\n", c.socket)
			said = true
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
