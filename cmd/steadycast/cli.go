package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/steadycast/steadycast/internal/api"
)

const defaultSocket = "/run/steadycast/agent.sock"

// cli is one run of the command line: its streams, global flags, and what the
// terminal can show. One goroutine uses it.
type cli struct {
	in       io.Reader
	out, err io.Writer

	socket    string
	output    string
	color     string
	noUnicode bool

	// started is set once flags and arguments were understood.
	started bool
	// named is set when --socket was given, so that commands shown carry it.
	named bool
	page  style
}

func (c *cli) flags(f *pflag.FlagSet) {
	socket := os.Getenv("STEADYCAST_SOCKET")
	if socket == "" {
		socket = defaultSocket
	}
	f.StringVar(&c.socket, "socket", socket, "unix socket of the daemon (STEADYCAST_SOCKET)")
	f.StringVarP(&c.output, "output", "o", "table", "table or json")
	f.StringVar(&c.color, "color", "auto", "auto, always or never (NO_COLOR)")
	f.BoolVar(&c.noUnicode, "no-unicode", false, "use ASCII symbols only")
}

// settle checks the global flags and learns what the terminal can do.
func (c *cli) settle() error {
	if c.output != "table" && c.output != "json" {
		return fmt.Errorf("--output: %q; allowed: table, json", c.output)
	}
	tty, width := terminal(c.out)
	color, err := colored(c.color, tty, os.Getenv)
	if err != nil {
		return err
	}
	c.page = style{color: color, unicode: !c.noUnicode, width: width, command: c.command}
	c.named = c.socket != defaultSocket && c.socket != os.Getenv("STEADYCAST_SOCKET")
	return nil
}

// colored decides on colour: NO_COLOR of any value but the empty one, and a
// dumb terminal, turn it off unless it is asked for (https://no-color.org).
func colored(mode string, tty bool, env func(string) string) (bool, error) {
	switch mode {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
		return tty && env("NO_COLOR") == "" && env("TERM") != "dumb", nil
	}
	return false, fmt.Errorf("--color: %q; allowed: auto, always, never", mode)
}

// terminal says whether w is one, and how wide a page should be: at most 100.
func terminal(w io.Writer) (tty bool, width int) {
	const most, least = 100, 40
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false, most
	}
	cols, _, err := term.GetSize(int(f.Fd()))
	if err != nil || cols <= 0 {
		return true, most
	}
	return true, min(max(cols, least), most)
}

// person opens the terminal to ask a person on, whatever stdout and stderr are
// redirected to. There is none when stdin is not a terminal: a script does not
// answer questions.
func (c *cli) person() (io.WriteCloser, bool) {
	f, ok := c.in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, false
	}
	tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	return tty, err == nil
}

// command makes a command that is shown work for this user as it stands: with
// the socket, when another than the usual one is in use.
func (c *cli) command(text string) string {
	if !c.named {
		return text
	}
	return strings.ReplaceAll(text, "steadycast ", "steadycast --socket "+c.socket+" ")
}

func (c *cli) json() bool { return c.output == "json" }

// client returns a client of the socket.
func (c *cli) client() *api.Client { return api.NewClient(c.socket) }

// show asks for a path and prints the answer: as it came for -o json, else as
// render makes it.
func show[T any](ctx context.Context, c *cli, path string, q url.Values, render func(style, *T) string) (*T, error) {
	client := c.client()
	defer client.Close()
	raw, err := client.Raw(ctx, path, q)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, fmt.Errorf("the daemon at %s answers in an unknown way (%w); is it of the same version?", c.socket, err)
	}
	if c.json() {
		return v, c.printJSON(raw)
	}
	_, err = io.WriteString(c.out, render(c.page, v))
	return v, err
}

func (c *cli) printJSON(raw []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := c.out.Write(b.Bytes())
	return err
}

func (c *cli) printValue(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.printJSON(b)
}

// completePatience is how long the shell waits for names.
const completePatience = time.Second

// completeSites offers the names of sites to the shell; nothing if no daemon
// answers at once.
func (c *cli) completeSites(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(args, false)
}

// completeTargets gives them, and of sites of several nodes each node: SITE/NODE.
func (c *cli) completeTargets(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(args, true)
}

func (c *cli) complete(args []string, nodes bool) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completePatience)
	defer cancel()
	client := c.client()
	defer client.Close()
	var sites api.Page[api.SiteRow]
	if client.Get(ctx, "sites", nil, &sites) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, r := range sites.Items {
		names = append(names, r.Site)
		for _, n := range r.Names {
			if nodes {
				names = append(names, r.Site+"/"+n)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// query drops empty values, so that defaults stay the daemon's.
func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}
