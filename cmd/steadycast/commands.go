package main

import "github.com/spf13/cobra"

// commands lists every command, in the order of help within each group.
func commands(c *cli) []*cobra.Command {
	cobra.EnableCommandSorting = false
	all := []*cobra.Command{
		newStatusCommand(c), newSitesCommand(c), newWhyCommand(c), newRoutesCommand(c), newPeersCommand(c),
		newChecksCommand(c), newDecisionsCommand(c), newGuardsCommand(c), newCapacityCommand(c), newCutsCommand(c), newRTOCommand(c), newHistoryCommand(c), newEventsCommand(c), newVersionCommand(c),
		newCheckCommand(c), newReloadCommand(c), newDiffCommand(c), newApplyCommand(c), newConfirmCommand(c), newRevisionsCommand(c), newRollbackCommand(c), newPKICommand(c), newOperatorCommand(c),
		newRunCommand(c), newSpeakerCommand(c), newAgentCommand(c), newLedgerCommand(c), newDNSCommand(c), newDemoCommand(c), newSimulateCommand(c),
		newFaultCommand(c, "kill", "Kill the service of a demo's site or node", "the service of %s is killed"),
		newFaultCommand(c, "heal", "Bring the service of a demo's site back", "the service of %s is back"),
		newFaultCommand(c, "slow", "Make the service of a demo's site answer late", "the service of %s answers late"),
		newFaultCommand(c, "fast", "Make it answer in time again", "the service of %s answers in time"),
	}
	return append(all, changeCommands(c)...)
}
