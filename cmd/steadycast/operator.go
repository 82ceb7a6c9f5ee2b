package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

func newOperatorCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "operator", Short: "Show and change who may sign orders and tables", GroupID: groupConfigure, Args: cobra.NoArgs,
		Long: `Operators are the people whose signature the fleet's ledger takes, each with a
role: a viewer moves nothing; an operator gives orders; an admin also changes the
table and the operators. The first is given at steadycast ledger init.

  steadycast pki operator joe --role operator > joe.pub     on joe's machine
  steadycast operator add joe.pub --reason "new colleague"  by an admin`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newOperatorListCommand(c), newOperatorAddCommand(c), newOperatorDismissCommand(c))
	return cmd
}

func newOperatorListCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Who may sign, as the ledger has it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := show(cmd.Context(), c, "authority", nil, renderAuthority)
			return err
		},
	}
}

func renderAuthority(s style, a *decide.Authority) string {
	if len(a.Operators) == 0 {
		return "This ledger is one node's own: whoever may write to the socket gives orders.\n"
	}
	t := &table{columns: words("NAME", "ROLE", ">LAST ENTRY", "KEY")}
	for _, o := range a.Operators {
		t.add(cell{text: o.Operator.Name}, cell{text: o.Operator.Role.String()}, cell{text: strconv.FormatUint(o.Serial, 10)}, cell{text: o.Operator.String(), ink: dim})
	}
	return t.render(s)
}

// readOperator reads a file with an operator's public half, as `pki operator` prints it.
func readOperator(path string) (o steadycast.Operator, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return o, usageError(err)
	}
	if err := o.UnmarshalText(b); err != nil {
		return o, usageError(fmt.Errorf("%s: %w", path, err))
	}
	return o, nil
}

func newOperatorAddCommand(c *cli) *cobra.Command {
	f := &changeFlags{}
	var word string
	cmd := &cobra.Command{
		Use: "add FILE --reason WHY", Short: "Let an operator in, or give one another role or key", Args: cobra.ExactArgs(1),
		Long: "Let in the operator whose public half is in FILE, as `steadycast pki operator`\nprints it. One of the same name gets the role and the key in FILE instead.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := f.check(nil); err != nil {
				return err
			}
			o, err := readOperator(args[0])
			if err != nil {
				return err
			}
			if word != "" {
				if err := o.Role.UnmarshalText([]byte(word)); err != nil {
					return usageError(fmt.Errorf("--role: %w", err))
				}
			}
			return c.perform(cmd.Context(), f, change{
				verb: "operator add " + o.Name,
				wish: func(bool) decide.Wish { return decide.Wish{Kind: decide.KindOperator, Operator: &o} },
			})
		},
	}
	f.common(cmd.Flags())
	cmd.Flags().StringVar(&word, "role", "", "viewer, operator or admin (default as in FILE)")
	return cmd
}

func newOperatorDismissCommand(c *cli) *cobra.Command {
	f := &changeFlags{}
	cmd := &cobra.Command{
		Use: "dismiss NAME --reason WHY", Short: "Take nothing any more of what an operator signs", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := f.check(nil); err != nil {
				return err
			}
			return c.perform(cmd.Context(), f, change{
				verb: "operator dismiss " + args[0],
				wish: func(bool) decide.Wish { return decide.Wish{Kind: decide.KindDismiss, Name: args[0]} },
			})
		},
		ValidArgsFunction: c.completeOperators,
	}
	f.common(cmd.Flags())
	return cmd
}

func (c *cli) completeOperators(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), completePatience)
		defer cancel()
		client := api.NewClient(c.socket)
		defer client.Close()
		if a, err := ledgerAuthority(ctx, client); err == nil {
			for _, o := range a.Operators {
				names = append(names, o.Operator.Name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
