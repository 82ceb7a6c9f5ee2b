// Command steadycast keeps shared anycast prefixes announced from the sites
// that can serve them. One binary is the daemons, the command line and the demo.
//
// The commands that look and change speak with a running daemon over its unix
// socket and keep nothing themselves. What is shown is rendered by pure
// functions (render_*.go) from the daemon's answer; what is asked and how it
// ends is in the command's own file.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/steadycast/steadycast/internal/api"
)

func main() {
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute runs one command line and returns its exit code.
func execute(args []string, in io.Reader, out, errOut io.Writer) int {
	c := &cli{in: in, out: out, err: errOut}
	root := newRoot(c)
	root.SetArgs(joinWait(args))
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	if !c.started && !hasCode(err) {
		err = usageError(c.explainUsage(root, args, err))
	}
	if text := c.complaint(err); text != "" {
		fmt.Fprintln(errOut, "steadycast: "+text)
	}
	return exitCode(err)
}

// joinWait makes --wait 60s one word, as --wait=60s: since --wait may stand alone, the
// parser takes what follows it for a SITE or a PREFIX, which a duration never is.
func joinWait(args []string) []string {
	out := make([]string, 0, len(args))
	for _, a := range args {
		if last := len(out) - 1; last >= 0 && out[last] == "--wait" && !slices.Contains(out, "--") {
			if _, err := time.ParseDuration(a); err == nil {
				out[last] += "=" + a
				continue
			}
		}
		out = append(out, a)
	}
	return out
}

// The groups of commands, as help shows them.
const (
	groupSee       = "see"
	groupChange    = "change"
	groupConfigure = "configure"
	groupDaemon    = "daemon"
	groupLab       = "lab"
)

func newRoot(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:   "steadycast",
		Short: "Keep shared anycast prefixes announced from the sites that can serve them",
		Long: `steadycast keeps shared anycast prefixes announced from the sites that can
serve them, and only from those.

Exit codes: 0 ok, 1 failed, 2 usage or configuration, 3 refused by a guard,
4 no such object, 5 daemon unreachable, 6 wait timed out (the action goes on),
7 degraded (status --exit-code).`,
		SilenceUsage:       true,
		SilenceErrors:      true,
		DisableSuggestions: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.settle(); err != nil {
				return usageError(err)
			}
			c.started = true
			return nil
		},
	}
	root.AddGroup(
		&cobra.Group{ID: groupSee, Title: "See:"},
		&cobra.Group{ID: groupChange, Title: "Change:"},
		&cobra.Group{ID: groupConfigure, Title: "Configure:"},
		&cobra.Group{ID: groupDaemon, Title: "Run:"},
		&cobra.Group{ID: groupLab, Title: "Lab:"},
	)
	root.SetHelpCommandGroupID(groupSee)
	root.SetCompletionCommandGroupID(groupConfigure)
	c.flags(root.PersistentFlags())
	root.AddCommand(commands(c)...)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	strictHelp(root)
	strictParents(root)
	return root
}

// strictParents has commands that only hold others refuse a word that is none of
// them: without this they show their help, and end well.
func strictParents(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		strictParents(sub)
	}
	cmd.SuggestionsMinimumDistance = 2 // explainUsage asks for suggestions itself: two letters may differ
	if !cmd.HasParent() || !cmd.HasSubCommands() || cmd.Runnable() {
		return
	}
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// strictHelp has help refuse a word that is no command: by itself it says so, and
// ends well.
func strictHelp(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.Name() != "help" {
			continue
		}
		cmd.Args = func(_ *cobra.Command, words []string) error {
			of, rest, err := root.Find(words)
			if err == nil && len(rest) > 0 && of.HasSubCommands() {
				err = cobra.NoArgs(of, rest)
			}
			return err
		}
	}
}

// explainUsage makes one sentence of a mistake in the command line.
func (c *cli) explainUsage(root *cobra.Command, args []string, err error) error {
	cmd, rest, findErr := root.Find(args)
	if findErr != nil && len(rest) > 0 {
		word := rest[0]
		for _, a := range args {
			if !strings.HasPrefix(a, "-") && strings.Contains(findErr.Error(), fmt.Sprintf("%q", a)) {
				word = a
				break
			}
		}
		text := fmt.Sprintf("unknown command %q", word)
		if near := root.SuggestionsFor(word); len(near) > 0 {
			return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, " or "))
		}
		return fmt.Errorf("%s. Next: steadycast --help", text)
	}
	if cmd == nil {
		cmd = root
	}
	text := strings.TrimSuffix(err.Error(), ".")
	var value *pflag.InvalidValueError
	var absent *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		text = misread(value)
	case errors.As(err, &absent) && absent.GetSpecifiedShortnames() == "":
		if near := nearFlags(cmd, absent.GetSpecifiedName()); len(near) > 0 {
			return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, " or "))
		}
	case strings.HasPrefix(text, "unknown command "):
		word, _, _ := strings.Cut(strings.TrimPrefix(text, `unknown command "`), `"`)
		if near := cmd.SuggestionsFor(word); len(near) > 0 {
			return fmt.Errorf("unknown command %q; did you mean %s?", word, strings.Join(near, " or "))
		}
	case strings.Contains(text, "arg(s)"): // counts alone do not say which
		n := cmd.Flags().NArg()
		text = fmt.Sprintf("%d arguments are not what it takes. Write: %s", n, cmd.UseLine())
		if n == 1 {
			text = "1 argument is not what it takes. Write: " + cmd.UseLine()
		}
	}
	return fmt.Errorf("%s. Next: %s --help", text, cmd.CommandPath())
}

// misread says what a flag takes, where the parser of numbers would speak of itself.
func misread(e *pflag.InvalidValueError) string {
	f, why := e.GetFlag(), fmt.Sprint(errors.Unwrap(e))
	if !strings.HasPrefix(why, "strconv.") && !strings.HasPrefix(why, "time: ") {
		return fmt.Sprintf("--%s: %s", f.Name, why)
	}
	what := "true or false"
	switch f.Value.Type() {
	case "int", "uint", "int64", "uint64":
		what = "a whole number"
	case "float64":
		what = "a number"
	case "duration":
		what = "a duration, as 90s or 2h"
	}
	return fmt.Sprintf("--%s: %q is not %s", f.Name, e.GetValue(), what)
}

// nearFlags are the flags of a command that a mistyped one may have meant.
func nearFlags(cmd *cobra.Command, word string) (near []string) {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	for _, name := range names.SuggestionsFor(word) {
		near = append(near, "--"+name)
	}
	return near
}

// cost is what passing a guard means, without the command that does it: that
// stands under Next, whole.
func cost(override string) string {
	if _, what, ok := strings.Cut(override, "--force: "); ok {
		return what
	}
	if strings.HasPrefix(override, "steadycast ") {
		return "what the guard says is set aside"
	}
	return override
}

// complaint is what is said of an error: what, why, and what to do now.
func (c *cli) complaint(err error) string {
	text := err.Error()
	if text == "" {
		return ""
	}
	var refusal *api.Error
	var gone *api.Unreachable
	switch {
	case errors.As(err, &refusal):
		if refusal.Override != "" {
			text += ". Override: --force; " + cost(refusal.Override)
		}
		if refusal.Next != "" {
			text += ". Next: " + c.command(refusal.Next)
		}
	case errors.As(err, &gone):
		switch {
		case errors.Is(err, os.ErrPermission):
			text += "; run it as root, or join the group of the socket"
		case errors.Is(err, os.ErrNotExist), strings.Contains(text, "connection refused"):
			who := "agent"
			if filepath.Base(gone.Socket) == dnsSocket {
				who = "server of names"
			}
			text += "; is the " + who + " running? Another socket is given with --socket"
		}
	}
	if why, next, ok := strings.Cut(text, "Next: steadycast "); ok && !strings.HasPrefix(next, "--socket ") {
		text = why + "Next: " + c.command("steadycast "+next)
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = printable(l)
	}
	return strings.Join(lines, "\n")
}
