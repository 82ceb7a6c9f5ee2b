package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// changeFlags are those that every change takes; a change uses the ones it has
// registered.
type changeFlags struct {
	local    bool
	reason   string
	key      string
	dryRun   bool
	yes      bool
	force    bool
	lasting  time.Duration
	until    string
	service  string
	site     string
	wait     time.Duration
	prefixes []string
}

const defaultWait = 30 * time.Second

func (f *changeFlags) common(fs *pflag.FlagSet) {
	fs.StringVar(&f.reason, "reason", "", "why, for the record (required)")
	fs.BoolVar(&f.dryRun, "dry-run", false, "ask every guard, say what would follow, change nothing")
	fs.StringVar(&f.key, "key", "", "file of the operator's key to sign with, where the ledger knows operators\n(STEADYCAST_KEY; default the one beside the --socket of a demo, or operator.key\nin ~/.config/steadycast)")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask; needed without a terminal")
}

func (f *changeFlags) waiting(fs *pflag.FlagSet) {
	fs.DurationVar(&f.wait, "wait", 0, "return when it is proven at every peer that is up and, where packets are counted,\nthe clients have gone; exit 6 when the time is over")
	fs.Lookup("wait").NoOptDefVal = defaultWait.String()
}

// check finds mistakes that need no daemon. Prefixes may stand behind the site
// or be given with --prefix.
func (f *changeFlags) check(args []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	if len(args) > 1 {
		f.prefixes = append(f.prefixes, args[1:]...)
	}
	for _, text := range f.prefixes {
		p, err := parsePrefix(text)
		if err != nil {
			return nil, usageError(err)
		}
		out = append(out, p)
	}
	switch {
	case strings.TrimSpace(f.reason) == "":
		return nil, usageError(errors.New(`--reason is missing: a change says why. Next: the same with --reason "rack swap, CHG-4411"`))
	case f.lasting < 0:
		return nil, usageError(fmt.Errorf("--for: %s is negative", f.lasting))
	case f.wait < 0:
		return nil, usageError(fmt.Errorf("--wait: %s is negative", f.wait))
	}
	return out, nil
}

// ends settles how long an order stands: --for, or --until by the clock of this
// machine, which is only read here.
func (f *changeFlags) ends(now time.Time) error {
	if f.until == "" {
		return nil
	}
	if f.lasting != 0 {
		return usageError(errors.New("--for and --until say the same; give one"))
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04", "2006-01-02T15:04", "15:04"} {
		at, err := time.ParseInLocation(layout, f.until, now.Location())
		if err != nil {
			continue
		}
		if layout == "15:04" { // the next time the clock shows it
			at = time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), 0, 0, now.Location())
			if !at.After(now) {
				at = at.AddDate(0, 0, 1)
			}
		}
		if f.lasting = at.Sub(now).Round(time.Second); f.lasting < time.Second {
			return usageError(fmt.Errorf("--until: %s is over", f.until))
		}
		return nil
	}
	return usageError(fmt.Errorf("--until: %q is not a time; allowed: 15:04, 2006-01-02 15:04, 2006-01-02T15:04:05Z", f.until))
}

// ofService adds the prefixes of a service at a site to those that are named.
func (c *cli) ofService(ctx context.Context, f *changeFlags, site string, prefixes []netip.Prefix) ([]netip.Prefix, error) {
	if f.service == "" {
		return prefixes, nil
	}
	client := c.client()
	defer client.Close()
	t, err := fetchTable(ctx, client, 0)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range t.Services {
		if site != "" && len(s.Sites) > 0 && !slices.Contains(s.Sites, site) {
			continue
		}
		if s.Name == f.service {
			return append(prefixes, s.Prefixes...), nil
		}
		names = append(names, s.Name)
	}
	return nil, &exitError{exitNotFound, fmt.Errorf("%s has no service %q; services: %s", site, f.service, strings.Join(names, ", "))}
}

// change is one change to be entered: where it is posted, its body with or
// without dry run and force, and what there is to wait for.
type change struct {
	verb string // as typed
	path string
	site string
	node string // of a site of several, where it is about that one alone
	body func(dryRun, force bool) any
	// wish is the same as a person signs it; without body, there is only this.
	wish func(force bool) decide.Wish
	// done tells from the real state whether a unit is where it should be; nil if
	// there is nothing to wait for.
	done     func(*api.Unit) bool
	prefixes []netip.Prefix
	// signed, if set, is told what was signed and entered.
	signed *decide.Signed
	// pins: --force is no guard's override here, it makes the change lasting.
	pins bool
}

// target is what it is about, as typed: SITE, or SITE/NODE.
func (ch *change) target() string { return decide.Scope{Site: ch.site, Node: ch.node}.Target() }

// perform walks one change: a rehearsal where a person must be asked or a guard
// is overridden, the question, the entry, and the wait.
func (c *cli) perform(ctx context.Context, f *changeFlags, ch change) error {
	client := c.client()
	defer client.Close()
	if f.dryRun {
		return c.rehearse(ctx, client, f, ch)
	}
	var person io.WriteCloser
	if !f.yes {
		var ok bool
		if person, ok = c.person(); !ok {
			return usageError(fmt.Errorf("%s needs a person's yes and there is no terminal to ask on. Next: the same with --yes, or with --dry-run first", ch.verb))
		}
		defer person.Close()
	}
	switch {
	case f.force && ch.pins:
		fmt.Fprintln(c.err, "--force pins the route: announced whatever its checks say; recorded with your name")
	case f.force:
		if err := c.overridden(ctx, client, f, ch); err != nil {
			return err
		}
	}
	if !f.yes {
		if err := c.ask(ctx, client, person, f, ch); err != nil {
			return err
		}
	}
	start := time.Now()
	got, err := c.enter(ctx, client, f, ch)
	if err != nil {
		return c.refused(err)
	}
	if c.json() {
		if err := c.printValue(got); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(c.out, "%s: entered as %s\n", strings.TrimSpace(ch.verb+" "+ch.target()), got.Reply.Fence)
		c.follows(got.Follows)
	}
	if f.wait > 0 && ch.done != nil {
		return c.waitProven(ctx, client, f.wait, start, ch, got.Reply.Fence)
	}
	return nil
}

// rehearse asks the guards and prints all they say.
func (c *cli) rehearse(ctx context.Context, client *api.Client, f *changeFlags, ch change) error {
	got, err := c.tryOut(ctx, client, f, ch, f.force)
	if err != nil {
		return c.refused(err)
	}
	if c.json() {
		return c.printValue(got)
	}
	fmt.Fprintln(c.out, "dry run: nothing was changed")
	c.answers(&got.Reply)
	fmt.Fprintln(c.out, "what would follow:")
	c.follows(got.Follows)
	return nil
}

// refused prints every guard's answer, and hands the refusal on.
func (c *cli) refused(err error) error {
	var e *api.Error
	if errors.As(err, &e) && e.Reply != nil {
		if c.json() {
			c.printValue(e)
		} else {
			c.answers(e.Reply)
		}
	}
	return err
}

func (c *cli) answers(r *decide.Reply) {
	var b strings.Builder
	c.page.rulings(&b, r.Rulings, true)
	if len(r.Rulings) == 0 && r.Refused != nil {
		c.page.guards(&b, []steadycast.GuardAnswer{*r.Refused})
	}
	io.WriteString(c.out, b.String())
}

func (c *cli) follows(lines []string) {
	for _, l := range lines {
		for i, part := range wrap(c.page.text(c.command(l)), c.page.width-4) {
			lead := "  " + c.page.pick("→", "-") + " "
			if i > 0 {
				lead = "    "
			}
			fmt.Fprintln(c.out, lead+part)
		}
	}
}

// overridden names the guard that --force is about to pass, by asking without it.
func (c *cli) overridden(ctx context.Context, client *api.Client, f *changeFlags, ch change) error {
	_, err := c.tryOut(ctx, client, f, ch, false)
	var e *api.Error
	switch {
	case err == nil:
		fmt.Fprintln(c.err, "--force is not needed: no guard refuses")
	case !errors.As(err, &e) || e.Code != api.CodeRefused:
		return err
	case e.Override == "":
		return c.refused(err)
	default:
		fmt.Fprintf(c.err, "--force overrides %s; %s; recorded with your name\n", printable(strings.TrimPrefix(e.Message, "refused by ")), printable(cost(e.Override)))
	}
	return nil
}

// ask shows what would happen and waits for a person's answer. Overriding a
// guard takes the name of the site, so that no habit of typing y does it.
func (c *cli) ask(ctx context.Context, client *api.Client, person io.Writer, f *changeFlags, ch change) error {
	plan, err := c.tryOut(ctx, client, f, ch, f.force)
	if err != nil {
		return c.refused(err)
	}
	if !c.json() {
		c.answers(&plan.Reply)
		c.follows(plan.Follows)
	}
	want := "y"
	if f.force && ch.site != "" {
		want = ch.target()
		what := "site"
		if ch.node != "" {
			what = "node"
		}
		fmt.Fprintf(person, "type the %s's name, %s, to go on: ", what, want)
	} else {
		fmt.Fprintf(person, "%s: go on? [y/N] ", strings.TrimSpace(ch.verb+" "+ch.target()))
	}
	line, _ := bufio.NewReader(io.LimitReader(c.in, 256)).ReadString('\n')
	got := strings.TrimSpace(line)
	if got == want || want == "y" && (strings.EqualFold(got, "yes") || got == "Y") {
		return nil
	}
	return &exitError{exitFailed, errors.New("nothing was changed")}
}

// waitProven polls the site until every unit of the change is where it should
// be and the wire proves it. When the time is over the action goes on.
func (c *cli) waitProven(ctx context.Context, client *api.Client, limit time.Duration, start time.Time, ch change, fence steadycast.Fence) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	missing, next := "no word from the site yet", "steadycast status "+ch.site
	pause := 20 * time.Millisecond
	told := ""
	for {
		var got api.Units
		err := client.Get(wait, "units", query("site", ch.site, "node", ch.node), &got)
		var e *api.Error
		switch {
		case errors.As(err, &e):
			return err
		case err != nil && wait.Err() == nil:
			missing = err.Error()
		case err == nil:
			var of steadycast.Unit
			if cut := unheard(&got, &ch, fence); cut != nil { // nobody will ever prove it
				return &exitError{exitTimeout, fmt.Errorf("not proven: the cut of %s has failed: %s. Next: %s", cut.Unit, strings.Join(cut.Why, "; "), c.command("steadycast cuts "+cut.Unit.Site))}
			}
			if missing, of = unproven(&got, &ch, fence); missing == "" {
				fmt.Fprintf(c.err, "proven after %s: every peer that is up has acknowledged\n", latency(time.Since(start)))
				return nil
			}
			if got.Fence.Compare(fence) >= 0 && missing != told && !c.json() { // step by step
				fmt.Fprintf(c.err, "%s %s\n", latency(time.Since(start)), printable(missing))
				told = missing
			}
			if of.Site != "" {
				next = "steadycast why " + of.String()
			}
		}
		select {
		case <-wait.Done():
			over := "after " + api.Span(limit)
			if ctx.Err() != nil {
				over = "when interrupted"
			}
			return &exitError{exitTimeout, fmt.Errorf("not proven %s: %s; the action goes on. Next: %s", over, missing, c.command(next))}
		case <-time.After(pause):
			pause = min(pause*2, 250*time.Millisecond)
		}
	}
}

// unproven says what is missing and of which unit, or nothing.
func unproven(got *api.Units, ch *change, fence steadycast.Fence) (missing string, of steadycast.Unit) {
	if len(got.Units) == 0 {
		return "no word from the site yet", of
	}
	for i := range got.Units {
		u := &got.Units[i]
		if !(steadycast.Order{Prefixes: ch.prefixes}).Covers(u.Unit.Prefix) {
			continue
		}
		switch {
		case got.Fence.Compare(fence) < 0:
			return "the site has not acted on it yet", u.Unit
		case !ch.done(u) && len(u.Why) > 0:
			return u.Unit.String() + ": " + u.Why[0], u.Unit
		case !ch.done(u):
			return u.Unit.String() + " is not there yet", u.Unit
		case !u.Proven:
			return u.Unit.String() + ": " + u.Unproven, u.Unit
		case u.Cut != nil && !u.Wanted && (u.Cut.Measured && u.Cut.State == decide.CutInProgress || u.Cut.State == decide.CutFailed) && len(u.Cut.Why) > 0:
			return fmt.Sprintf("%s: the cut is %s: %s", u.Unit, u.Cut.State, u.Cut.Why[0]), u.Unit
		}
	}
	return "", of
}

// unheard is the cut of a unit of the change that failed because nothing is heard of
// its site; nil where there is none.
func unheard(got *api.Units, ch *change, fence steadycast.Fence) *api.Cut {
	for i := range got.Units {
		u := &got.Units[i]
		if u.Cut != nil && u.Cut.Unheard && u.Cut.Fence.Compare(fence) >= 0 && (steadycast.Order{Prefixes: ch.prefixes}).Covers(u.Unit.Prefix) {
			return u.Cut
		}
	}
	return nil
}

func newOrderCommand(c *cli, kind steadycast.OrderKind, short, long string) *cobra.Command {
	f := &changeFlags{}
	cmd := &cobra.Command{
		Use: kind.String() + " SITE[/NODE] [PREFIX…]", Short: short, Long: long, GroupID: groupChange, Args: cobra.MinimumNArgs(1),
		Example: fmt.Sprintf("  steadycast %s fra --reason \"rack swap, CHG-4411\" --for 2h --wait", kind),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefixes, err := f.check(args)
			site, node, wrong := targetOf(args[0])
			if err == nil {
				err = cmp.Or(wrong, f.ends(time.Now()))
			}
			if err == nil {
				prefixes, err = c.ofService(cmd.Context(), f, site, prefixes)
			}
			if err != nil {
				return err
			}
			if f.local {
				return c.breakGlass(cmd.Context(), f, kind, site, node, prefixes)
			}
			lasting := ""
			if f.lasting > 0 {
				lasting = f.lasting.String()
			}
			return c.perform(cmd.Context(), f, change{
				verb: kind.String(), path: "orders", site: site, node: node, prefixes: prefixes, pins: kind == steadycast.OrderAnnounce,
				wish: func(force bool) decide.Wish {
					return decide.Wish{Kind: decide.KindOrder, Order: &steadycast.Order{Kind: kind, Site: site, Node: node, Prefixes: prefixes, For: f.lasting, Force: force}}
				},
				body: func(dryRun, force bool) any {
					return api.OrderRequest{Kind: kind, Site: site, Node: node, Prefixes: prefixes, Reason: f.reason, For: lasting, Force: force, DryRun: dryRun}
				},
				done: func(u *api.Unit) bool {
					return u.Wanted == (kind == steadycast.OrderAnnounce)
				},
			})
		},
		ValidArgsFunction: c.completeTargets,
	}
	lasting, force := "end by itself after this long, for example 2h; default: until undrain", "pass the guards that a person may override; they are named and recorded"
	if kind == steadycast.OrderAnnounce {
		cmd.Example = "  steadycast announce fra --reason \"line card replaced, CHG-4411\"\n" +
			"  steadycast announce fra --reason \"the check is wrong, CHG-4412\" --force --for 2h"
		lasting, force = "with --force: end by itself after this long, for example 2h; default: until undrain", "pin the route: announced whatever its checks say"
	}
	fs := cmd.Flags()
	f.common(fs)
	f.waiting(fs)
	fs.DurationVar(&f.lasting, "for", 0, lasting)
	if kind != steadycast.OrderDrain {
		fs.BoolVar(&f.local, "local", false, "this node's own site, or of several nodes this node alone, while no ledger is heard:\nby whoever may write to the socket; told to the ledger when it is back")
	}
	fs.StringVar(&f.until, "until", "", "end by itself at this time, for example 18:30 or \"2026-05-04 06:00\"")
	fs.StringVar(&f.service, "service", "", "of the prefixes of this service only")
	fs.BoolVar(&f.force, "force", false, force)
	fs.StringArrayVar(&f.prefixes, "prefix", nil, "of this prefix only; may be repeated")
	return cmd
}

// newScopeCommand makes undrain, freeze, thaw, unlock and resume, which differ
// in whether a site must be named and whether there is something to wait for.
func newScopeCommand(c *cli, verb, path string, kind decide.Kind, short string, needSite bool, done func(*api.Unit) bool) *cobra.Command {
	f := &changeFlags{}
	use, args := verb+" [SITE [PREFIX]]", cobra.MaximumNArgs(2)
	if needSite {
		use, args = verb+" SITE [PREFIX]", cobra.RangeArgs(1, 2)
	}
	complete, nodes := c.completeSites, kind == decide.KindOrderClear
	if nodes {
		use, complete = verb+" SITE[/NODE] [PREFIX]", c.completeTargets
	}
	cmd := &cobra.Command{
		Use: use, Short: short, GroupID: groupChange, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			prefixes, err := f.check(args)
			if err != nil {
				return err
			}
			var prefix netip.Prefix
			if len(prefixes) > 0 {
				prefix = prefixes[0]
			}
			site, node, err := targetOf(arg(args, 0))
			switch {
			case err != nil:
				return err
			case node != "" && !nodes:
				return usageError(fmt.Errorf("%s is about sites, and %s is one node. Next: the same with %s", verb, args[0], site))
			case f.local:
				return c.breakGlass(cmd.Context(), f, steadycast.OrderNone, site, node, nil)
			}
			if len(args) == 0 && f.site != "" {
				site = f.site
			} else if f.site != "" && f.site != args[0] {
				return usageError(fmt.Errorf("%s is named, and --site %s: give one", args[0], f.site))
			}
			if len(prefixes) > 1 {
				return usageError(fmt.Errorf("%s takes one prefix, or none for all", verb))
			}
			return c.perform(cmd.Context(), f, change{
				verb: verb, path: path, site: site, node: node, prefixes: prefixes, done: done,
				wish: func(bool) decide.Wish {
					return decide.Wish{Kind: kind, Scope: &decide.Scope{Site: site, Prefix: prefix, Node: node}}
				},
				body: func(dryRun, _ bool) any {
					return api.ScopeRequest{Site: site, Node: node, Prefix: prefix, Reason: f.reason, DryRun: dryRun}
				},
			})
		},
		ValidArgsFunction: complete,
	}
	f.common(cmd.Flags())
	if done != nil {
		f.waiting(cmd.Flags())
	}
	cmd.Flags().StringArrayVar(&f.prefixes, "prefix", nil, "of this prefix only")
	if kind == decide.KindOrderClear {
		cmd.Flags().BoolVar(&f.local, "local", false, "end what was done here by --local and the ledger does not have yet")
	}
	if !needSite {
		cmd.Flags().StringVar(&f.site, "site", "", "of this site only; the same as SITE")
	}
	return cmd
}

// targetOf reads SITE or SITE/NODE.
func targetOf(text string) (site, node string, err error) {
	site, node, of := strings.Cut(text, "/")
	if of && (site == "" || node == "" || strings.Contains(node, "/")) {
		return "", "", usageError(fmt.Errorf("%q is neither a site nor one node of it; write SITE or SITE/NODE", text))
	}
	return site, node, nil
}

// changeCommands are all that enter something into the ledger.
func changeCommands(c *cli) []*cobra.Command {
	announced := func(u *api.Unit) bool { return u.Wanted }
	return []*cobra.Command{
		newOrderCommand(c, steadycast.OrderWithdraw, "Take a site's routes away now", "Take a site's routes away now, and keep them away until undrain or --for ends.\nThe other sites' floors and capacity are asked first. Of SITE/NODE, that node's go as\nsoon as min_nodes of its siblings promise to stay, and the site stays in; the last\nnode takes the site along, and the site's guards."),
		newOrderCommand(c, steadycast.OrderDrain, "Take a site's routes away gently, for maintenance", "Let no name lead to a site, wait until no cache does either, mark its routes with\nGSHUT (RFC 8326), wait, then take them away, and keep them away until undrain or\n--for ends. --wait 10m tells each step. Of SITE/NODE, that node alone: its siblings\npromise to stay, GSHUT, drain_wait, gone; names stay as they are."),
		newScopeCommand(c, "undrain", "orders/clear", decide.KindOrderClear, "End the orders over a site, or one node of it: the checks decide again", true, announced),
		newOrderCommand(c, steadycast.OrderAnnounce, "Hand a site's routes back to its checks, or pin them with --force", "End the orders and locks over a site's routes and forgive what their return owes to\ncooldown and budgets: they are announced as soon as the checks are well. With --force they are\npinned instead: announced whatever the checks say, until undrain or --for ends.\nSITE/NODE is about one node, which announces only while its site does."),
		newDivertCommand(c),
		newUndivertCommand(c),
		newShareCommand(c),
		newPlanCommand(c),
		newAnswerCommand(c, decide.KindApprove, "Say yes to what automation would do, in mode approve", "Let a decision be carried out that waits for a person. The site asks again at once, and\nevery guard is asked again with what is true then. A yes holds for ten minutes."),
		newAnswerCommand(c, decide.KindReject, "Say no to it", "Keep a decision that waits from being carried out, for an hour or until what calls for\nit has ended."),
		newScopeCommand(c, "freeze", "freeze", decide.KindFreeze, "Stop automation, everywhere or at one site; people's orders still work", false, nil),
		newScopeCommand(c, "thaw", "thaw", decide.KindThaw, "Let automation go on", false, nil),
		newScopeCommand(c, "unlock", "unlock", decide.KindUnlock, "Clear the lock of a site that came and went too often", true, nil),
		newScopeCommand(c, "resume", "resume", decide.KindResume, "Let a site that is well and on hold return", true, announced),
	}
}
