package demo

import (
	"fmt"
	"strings"

	"github.com/steadycast/steadycast/decide"
)

// Scenario is a fault, what should follow at the router, and what should not.
type Scenario struct {
	Name  string
	About string
	run   func(*stage) error
	// forces: people's orders in it go below the floor.
	forces bool
	// adjust changes the policy for it; may be nil.
	adjust func(*decide.Table)
	// patient: the client waits for an answer as long as it takes; lost is only what
	// nobody will answer.
	patient bool
	// Sites are the fewest in which it can be played; 0 is 3.
	Sites int
	// nodes that each site must have at least; 0 is 1.
	nodes int
	// owns: each site has an address of its own, covered by the others.
	owns bool
}

// Scenarios in the order in which they are best watched.
var Scenarios = []Scenario{
	{Name: "crash", About: "a service dies: its site leaves, and comes back after the service does", run: crash},
	{Name: "flap", About: "a service dies again and again: one withdrawal, one return, not one for each death", run: flap},
	{Name: "slow", About: "a service answers too late: its site leaves on soft evidence", run: slow},
	{Name: "all-fail", About: "every service dies in one moment: a shared cause, so nothing leaves", run: allFail},
	{Name: "one-by-one", About: "services die one after another: the first site leaves, the floor keeps the rest, less attractive", run: oneByOne},
	{Name: "partition-minority", About: "a site is cut off from the others: it keeps announcing, and the others leave less easily", run: partitionMinority},
	{Name: "partition-majority", About: "the voters lose each other and a service dies: nothing leaves until they are together again", run: partitionMajority},
	{Name: "lying-vantage", About: "one site says that the others are down: nothing moves; and it cannot hide a real failure", run: lyingVantage},
	{Name: "blackout", About: "no site sees another or the world any more: nothing moves", run: blackout},
	{Name: "leader-loss", About: "the voter that leads stops in the moment of a failure: another gives the permit", run: leaderLoss},
	{Name: "node", About: "a node of two dies: it leaves alone, and the site stays; then both: the site leaves by permit", run: nodeDies, nodes: 2},
	{Name: "site-gone", About: "a whole site loses its power: its route ends with its session, and names lead away on what the others see", run: siteGone, Sites: 4},
	{Name: "backup", About: "a client keeps a dead site's own address: the others, who covered it, answer", run: backup, owns: true, patient: true},
	{Name: "plan", About: "a plan moves the clients and the writer of a site, step by step: fence, promote, DNS, routes", run: planScenario},
	{Name: "plan-rollback", About: "and is taken back at its last step: the old writer first, then everything at once", run: planRollback},
	{Name: "force-withdraw", About: "a person withdraws one site, is refused the next by the floor, and forces it", run: forceWithdraw, forces: true},
	{Name: "drain", About: "a person drains a site, works on it and has it back: names first, then routes, and nothing is lost", run: drained, adjust: gently, patient: true},
	{Name: "ramp", About: "a service dies and comes back: as backup first, then with 5, 20, 50 and 100 % of its clients", run: ramped, adjust: gently, patient: true},
	{Name: "bad-table", About: "a table forgets a site, on trial, and the voter that leads is lost: the table before comes back by itself", run: badTable},
}

// Names of all scenarios.
func Names() []string {
	var names []string
	for _, s := range Scenarios {
		names = append(names, s.Name)
	}
	return names
}

// Find returns the scenario of that name.
func Find(name string) (Scenario, error) {
	for _, s := range Scenarios {
		if s.Name == name {
			return s, nil
		}
	}
	return Scenario{}, fmt.Errorf("no scenario %q; there are: %s", name, strings.Join(Names(), ", "))
}
