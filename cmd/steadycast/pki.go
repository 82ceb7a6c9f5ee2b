package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/internal/pki"
)

// The commands about certificates work on directories, and need no daemon: they
// are for the machine that keeps the authority's key.

func newPKICommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "pki", Short: "Make, prolong, show and revoke the certificates of a fleet", GroupID: groupConfigure,
		Long: `Keep the private certificate authority of a fleet: a directory on an
operator's machine. ca.key in it is the fleet; keep it off the nodes.

  steadycast pki init --fleet prod              the authority, in ./ca
  steadycast pki issue fra fra-1                ./fra-1, to copy to the node's tls.dir
  steadycast pki renew fra-1                    the same keys: only node.crt travels
  steadycast pki revoke fra-1 --copy-to ams-1   then copy revoked.crl to every node
  steadycast pki operator maria --role admin    a key to sign orders with

A running node takes changed files within a second of the next need.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPKIInit(c), newPKIIssue(c), newPKIRenew(c), newPKIShow(c), newPKIRevoke(c), newPKIOperator(c))
	return cmd
}

// authorityFlag names the authority's directory.
func authorityFlag(f *pflag.FlagSet, dir *string) {
	f.StringVar(dir, "ca", "ca", "directory of the authority")
}

// life is a flag for how long a certificate holds: a duration, or days.
type life time.Duration

var days = regexp.MustCompile(`^[0-9]{1,5}d$`)

func (l *life) String() string { return strconv.Itoa(int(time.Duration(*l)/(24*time.Hour))) + "d" }
func (l *life) Type() string   { return "duration" }

func (l *life) Set(text string) error {
	if days.MatchString(text) {
		n, err := strconv.Atoi(strings.TrimSuffix(text, "d"))
		*l = life(time.Duration(n) * 24 * time.Hour)
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a time; allowed: 365d, 36h", text)
	}
	*l = life(d)
	return nil
}

func lifeFlag(f *pflag.FlagSet, l *life) {
	*l = life(pki.DefaultLife)
	f.Var(l, "for", "how long it holds, as 365d or 36h")
}

// fault gives an error of package pki its exit code: what the person must
// choose differently is a mistake in the command line.
func fault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pki.ErrUnknown), errors.Is(err, fs.ErrNotExist):
		return &exitError{exitNotFound, err}
	}
	return err
}

func newPKIInit(c *cli) *cobra.Command {
	var dir, fleet string
	cmd := &cobra.Command{
		Use: "init --fleet NAME", Short: "Make the authority of a fleet", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if fleet == "" {
				return usageError(errors.New("--fleet is missing: the authority speaks for one fleet only. Next: the same with --fleet NAME, as node.yaml has it"))
			}
			if _, err := pki.Init(dir, fleet, time.Now()); err != nil {
				return err
			}
			return c.said(map[string]string{"fleet": fleet, "dir": dir}, "the authority of fleet %s is in %s\nca.key there is the whole fleet: keep a copy of it, and none on a node\nNext: steadycast pki issue SITE NODE --ca %s\n", fleet, dir, dir)
		},
	}
	authorityFlag(cmd.Flags(), &dir)
	cmd.Flags().StringVar(&fleet, "fleet", "", "name of the fleet, as node.yaml has it (required)")
	return cmd
}

func newPKIIssue(c *cli) *cobra.Command {
	var dir, out string
	var lasting life
	cmd := &cobra.Command{
		Use: "issue SITE NODE", Short: "Make the certificate and keys of a node", Args: cobra.ExactArgs(2),
		Long: "Make a directory with all that a node needs: ca.crt, node.crt, node.key,\nobserve.key and revoked.crl. It holds private keys: copy it by a safe way and\nremove it here.",
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				out = args[1]
			}
			a, err := pki.OpenAuthority(dir)
			if err != nil {
				return fault(err)
			}
			p, err := a.Issue(pki.Identity{Site: args[0], Node: args[1]}, out, time.Duration(lasting), time.Now())
			if err != nil {
				return err
			}
			return c.said(issued(p, out), "%s: %s until %s\nNext: copy it to the node, then remove it here\n", out, p, p.Expires.UTC().Format(time.DateOnly))
		},
	}
	authorityFlag(cmd.Flags(), &dir)
	lifeFlag(cmd.Flags(), &lasting)
	cmd.Flags().StringVar(&out, "out", "", "directory to make (default NODE)")
	return cmd
}

func newPKIRenew(c *cli) *cobra.Command {
	var dir string
	var lasting life
	cmd := &cobra.Command{
		Use: "renew DIR…", Short: "Prolong certificates; the keys stay", Args: cobra.MinimumNArgs(1),
		Long: "Prolong the node.crt in each DIR, which needs to hold nothing else. The node's\nkeys stay with the node; the new node.crt is no secret. A running node takes it\nwithout a restart.",
		RunE: func(_ *cobra.Command, dirs []string) error {
			a, err := pki.OpenAuthority(dir)
			if err != nil {
				return fault(err)
			}
			var all []map[string]string
			var text strings.Builder
			for _, d := range dirs {
				p, err := a.Renew(d, time.Duration(lasting), time.Now())
				if err != nil {
					_ = c.said(all, "%s", text.String())
					return fault(err)
				}
				all = append(all, issued(p, d))
				fmt.Fprintf(&text, "%s: %s until %s\n", d, p, p.Expires.UTC().Format(time.DateOnly))
			}
			return c.said(all, "%sNext: copy node.crt to each node\n", text.String())
		},
	}
	authorityFlag(cmd.Flags(), &dir)
	lifeFlag(cmd.Flags(), &lasting)
	return cmd
}

func newPKIShow(c *cli) *cobra.Command {
	var alarm bool
	cmd := &cobra.Command{
		Use: "show PATH…", Short: "Show certificates: a file, a node's directory, or the authority's", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, paths []string) error {
			var all []pki.Shown
			for _, p := range paths {
				got, err := pki.Show(p, time.Now())
				if err != nil {
					return fault(err)
				}
				all = append(all, got...)
			}
			if c.json() {
				if err := c.printValue(all); err != nil {
					return err
				}
			} else if _, err := io.WriteString(c.out, renderCertificates(c.page, all)); err != nil {
				return err
			}
			for _, s := range all {
				if alarm && s.Bad() {
					return &exitError{code: exitDegraded}
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&alarm, "exit-code", false, "exit 7 if one is revoked, ends within 7 days, or cannot be used")
	return cmd
}

func newPKIRevoke(c *cli) *cobra.Command {
	var dir string
	var copies []string
	cmd := &cobra.Command{
		Use: "revoke NODE|SERIAL", Short: "End every certificate of a node, or one", Args: cobra.ExactArgs(1),
		Long: "Put a node's certificates on the list of revoked ones, revoked.crl. A node knows\nof it once the new list lies in its directory; links that stand end within ten\nseconds then.",
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := pki.OpenAuthority(dir)
			if err != nil {
				return fault(err)
			}
			ended, err := a.Revoke(args[0], time.Now())
			if err != nil {
				return fault(err)
			}
			for _, d := range copies {
				if err := a.CopyTo(d); err != nil {
					return fault(err)
				}
			}
			all := []map[string]string{}
			text := "nothing new: it was revoked before\n"
			if len(ended) > 0 {
				text = ""
			}
			for _, p := range ended {
				all = append(all, issued(p, ""))
				text += fmt.Sprintf("revoked: %s %s\n", p.Serial, p)
			}
			if len(copies) == 0 {
				text += "Next: copy " + filepath.Join(dir, "revoked.crl") + " to every node\n"
			}
			return c.said(all, "%s", text)
		},
	}
	authorityFlag(cmd.Flags(), &dir)
	cmd.Flags().StringArrayVar(&copies, "copy-to", nil, "a node's directory that gets the new list; may be given again")
	return cmd
}

func newPKIOperator(c *cli) *cobra.Command {
	var out, word string
	cmd := &cobra.Command{
		Use: "operator NAME --role ROLE", Short: "Make a key that an operator signs orders with", Args: cobra.ExactArgs(1),
		Long: "Make an Ed25519 key. Its private half is written to a file that only you may\nread; its public half is printed, to be trusted by the ledger: the first with\n`steadycast ledger init --operator`, later ones by an admin with\n`steadycast operator add`.",
		RunE: func(_ *cobra.Command, args []string) error {
			var role steadycast.Role
			if err := role.UnmarshalText([]byte(word)); err != nil {
				return usageError(fmt.Errorf("--role: %w", err))
			}
			if out == "" {
				out = args[0] + ".key"
			}
			pen, err := pki.NewPen(out, args[0], role)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.err, "the private key is in %s; the public half is:\n", out)
			return c.said(map[string]string{"name": pen.Name, "role": pen.Role.String(), "public": pen.String(), "file": out}, "%s\n", pen.String())
		},
	}
	cmd.Flags().StringVar(&word, "role", "", "viewer, operator or admin (required)")
	cmd.Flags().StringVar(&out, "out", "", "file to write (default NAME.key)")
	return cmd
}

// issued is a certificate in the answer of -o json.
func issued(p pki.Peer, dir string) map[string]string {
	m := map[string]string{"fleet": p.Fleet, "site": p.Site, "node": p.Node, "serial": p.Serial, "expires": p.Expires.UTC().Format(time.RFC3339)}
	if dir != "" {
		m["dir"] = dir
	}
	return m
}

// said prints what was done: v for -o json, else the words.
func (c *cli) said(v any, format string, args ...any) error {
	if c.json() {
		return c.printValue(v)
	}
	_, err := fmt.Fprintf(c.out, format, args...)
	return err
}

// renderCertificates shows what is to be done first, in words and colour.
func renderCertificates(s style, all []pki.Shown) string {
	t := &table{columns: words("KIND", "NAME", "SERIAL", "STATE", "NOTE")}
	for _, x := range all {
		state, i, note := x.Level.String(), green, x.Text
		switch {
		case x.Problem != "":
			state, i, note = "unusable", red, x.Problem
		case x.Revoked:
			state, i = "revoked", red
		case x.Level == pki.Over || x.Level == pki.Urgent:
			i = red
		case x.Level == pki.Soon:
			i = yellow
		}
		serial := x.Serial
		if len(serial) > 12 {
			serial = serial[:12] + "…"
		}
		t.add(cell{x.Kind, plain}, cell{x.Name, plain}, cell{serial, dim}, cell{state, i}, cell{note, plain})
	}
	return t.render(s)
}
