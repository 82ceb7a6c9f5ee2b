package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/config"
)

// difference is what a table would change of the one in force: the settings, what
// follows of them for routes and answers, and the guard that would stand in its way.
type difference struct {
	Revision uint64   `json:"revision"`
	Changes  []string `json:"changes"`
	effects
	// Guards that would refuse it now, the first of them; empty if none would, or none
	// could be asked.
	Guards []steadycast.GuardAnswer `json:"guards"`
}

// effects are what follows of a table, for the world.
type effects struct {
	Routes  []routeEffect            `json:"routes"`
	Answers []dnsfallback.Difference `json:"answers"`
}

// routeEffect is what changes at one site.
type routeEffect struct {
	Site string `json:"site"`
	// More are prefixes that it may announce, Gone those that it may no longer, Otherwise
	// those that are announced in another way.
	More      []string `json:"more,omitempty"`
	Gone      []string `json:"gone,omitempty"`
	Otherwise []string `json:"otherwise,omitempty"`
}

func (r routeEffect) String() string {
	var parts []string
	for _, x := range []struct {
		what string
		of   []string
	}{
		{"not announced any more: ", r.Gone}, {"announced, once its checks pass and a permit is given: ", r.More}, {"announced in another way: ", r.Otherwise},
	} {
		if len(x.of) > 0 {
			parts = append(parts, x.what+strings.Join(x.of, ", "))
		}
	}
	return r.Site + ": " + strings.Join(parts, "; ")
}

// effectsOf tells what going from one table to another changes in the world.
func effectsOf(active, next decide.Table) effects {
	return effects{Routes: routeEffects(active.WithDefaults(), next.WithDefaults()), Answers: answerEffects(active, next)}
}

func routeEffects(active, next decide.Table) []routeEffect {
	sites := active.Announcers()
	for _, s := range next.Announcers() {
		if !slices.Contains(sites, s) {
			sites = append(slices.Clip(sites), s)
		}
	}
	out := []routeEffect{}
	for _, site := range sites {
		r := routeEffect{Site: site}
		was, is := active.PrefixesAt(site), next.PrefixesAt(site)
		for _, p := range was {
			if !slices.Contains(is, p) {
				r.Gone = append(r.Gone, p.String())
			}
		}
		for _, p := range is {
			a, b := active.PrefixPolicy(p), next.PrefixPolicy(p)
			switch {
			case !slices.Contains(was, p):
				r.More = append(r.More, p.String())
			case !slices.Equal(a.Communities, b.Communities) || !slices.Equal(a.LargeCommunities, b.LargeCommunities) || !equalOrNil(a.MED, b.MED):
				r.Otherwise = append(r.Otherwise, p.String())
			}
		}
		if len(r.More)+len(r.Gone)+len(r.Otherwise) > 0 {
			out = append(out, r)
		}
	}
	return out
}

func equalOrNil[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// answerEffects compares what clients are answered while every site is well. Where
// clients are is looked up in what this machine has of the maps.
func answerEffects(active, next decide.Table) []dnsfallback.Difference {
	was, _ := config.FleetIn(active)
	is, _ := config.FleetIn(next)
	side := func(f config.Fleet) dnsfallback.Side {
		policy, _ := dnsfallback.NewPolicy(0, f.Placement, dnsfallback.Known{}) // nil where there is no zone; the rest was judged
		return dnsfallback.Side{Policy: policy}
	}
	where, _ := dnsfallback.LoadMaps(nil, is.Maps)
	out := dnsfallback.Compare(side(was), side(is), where)
	if out == nil {
		out = []dnsfallback.Difference{}
	}
	return out
}

func (c *cli) printEffects(e effects) {
	if len(e.Routes) > 0 {
		fmt.Fprintln(c.out, "routes:")
		c.follows(texts(e.Routes))
	}
	if len(e.Answers) > 0 {
		fmt.Fprintln(c.out, "answers, while all is well:")
		c.follows(texts(e.Answers))
	}
}

func texts[T fmt.Stringer](list []T) (out []string) {
	for _, x := range list {
		out = append(out, x.String())
	}
	return out
}

func newDiffCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "diff FLEET.YAML|REVISION", Short: "What a table would change of the one in force: routes, answers, guards", GroupID: groupConfigure, Args: cobra.ExactArgs(1),
		Long: `Compare a table with the one in force: every setting that differs and what its change
does; the routes that come and go, by site; the names that are answered otherwise, by
members and for how many of 256 sample client networks; and the guard that would
refuse the table now. Nothing is staged and no node is asked.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			client := c.client()
			defer client.Close()
			active, err := fetchTable(cmd.Context(), client, 0)
			if err != nil {
				return err
			}
			next, err := tableNamed(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			d := difference{Revision: active.Revision, Changes: tableChanges(active, next), Guards: []steadycast.GuardAnswer{}}
			if d.Changes == nil {
				d.Changes = []string{}
			}
			d.effects = effectsOf(active, next)
			asked := false
			if len(d.Changes) > 0 {
				if d.Guards, asked, err = stageGuards(cmd.Context(), client, next); err != nil {
					return err
				}
			}
			if c.json() {
				return c.printValue(d)
			}
			if len(d.Changes) == 0 {
				fmt.Fprintf(c.out, "nothing differs from revision %d, which is in force\n", active.Revision)
				return nil
			}
			fmt.Fprintf(c.out, "against revision %d, which is in force:\n", active.Revision)
			c.follows(d.Changes)
			c.printEffects(d.effects)
			switch {
			case len(d.Guards) > 0:
				fmt.Fprintln(c.out, "guards:")
				var b strings.Builder
				c.page.guards(&b, d.Guards)
				fmt.Fprint(c.out, b.String())
			case asked:
				fmt.Fprintln(c.out, "guards: none would refuse it now; the nodes are asked when it is staged")
			}
			return nil
		},
	}
}

// tableNamed is a table by its revision, or from a file.
func tableNamed(ctx context.Context, client *api.Client, name string) (decide.Table, error) {
	if n, err := strconv.ParseUint(name, 10, 64); err == nil {
		return fetchTable(ctx, client, n)
	}
	fleet, ps := config.LoadTable(name)
	if ps.Err() != nil {
		return decide.Table{}, &exitError{exitUsage, ps}
	}
	return fleet.Table(), nil
}

// stageGuards asks what would refuse the table, were it staged now; asked is false
// where there is no fleet whose ledger could say.
func stageGuards(ctx context.Context, client *api.Client, next decide.Table) (refuse []steadycast.GuardAnswer, asked bool, err error) {
	refuse = []steadycast.GuardAnswer{}
	authority, err := ledgerAuthority(ctx, client)
	if err != nil || len(authority.Operators) == 0 {
		return refuse, false, err
	}
	next.Revision = 0
	var got api.Changed
	err = client.Post(ctx, "try", decide.Wish{Kind: decide.KindStage, Table: &next, Reason: "diff"}, &got)
	var e *api.Error
	switch {
	case errors.As(err, &e) && e.Guard != "":
		return append(refuse, steadycast.GuardAnswer{Guard: e.Guard, Text: e.Message, Override: e.Override}), true, nil
	case err == nil && got.Reply.Refused != nil:
		return append(refuse, *got.Reply.Refused), true, nil
	}
	return refuse, err == nil, err
}
