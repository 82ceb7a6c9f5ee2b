package sim

// invariant is a statement that no schedule may break.
type invariant struct{ name, text string }

// The invariants, by their place in the list.
const (
	iFloor = iota
	iHealthyFloor
	iFleetBudget
	iSiteBudget
	iOneGrant
	iReplicas
	iEvidence
	iAlone
	iTime
	iReturn
	iLeave
	iCounted
	iFence
	iTable
	iBlackout
	iLock
	iDeath
	iForced
	iNonsense
	iRestart
	iAttributes
	iBreaker
	iCooldown
	iHand
	iStaged
	iAuthority
	iMode
	iLoad
	iNodes
	iRecovery
	nInvariants
)

var invariants = [nInvariants]invariant{
	iFloor:        {"I1", "a permitted withdrawal leaves the floor announcing, but for sites lost against their will just now; no more sites than that are ever out on purpose"},
	iHealthyFloor: {"I1h", "and the healthy floor healthy"},
	iFleetBudget:  {"I2", "no more automatic withdrawals than the fleet's budget in any window less permit_ttl and drift"},
	iSiteBudget:   {"I2s", "nor than a site's"},
	iOneGrant:     {"I3", "each automatic withdrawal has one committed grant of its own id and incarnation, used once and within permit_ttl of first asking"},
	iReplicas:     {"I4", "replicas agree on answers and state at every index, also after a snapshot"},
	iEvidence:     {"I5", "with fewer liars than a quorum, none leaves unless an honest vantage among its evidence saw it fail within the evidence's age, and it is still held to fail"},
	iAlone:        {"I6", "without a ledger or an order no route leaves; every route that changes has somebody who decided so"},
	iTime:         {"I7", "ledger time never passes faster than real time"},
	iReturn:       {"I8", "after the faults every healthy site that nobody holds back announces, as attractive as ever"},
	iLeave:        {"I9", "a hard failure with a leader and open guards is withdrawn or depreferred within 10 s, where the others can carry it"},
	iCounted:      {"I10", "what the ledger counts in announces, or was lost against its will"},
	iFence:        {"I11", "positions in the ledger only grow, and no set rests on a lower one than the set before"},
	iTable:        {"I12", "no set mixes two revisions of the table, or goes back to an older"},
	iBlackout:     {"I13", "without observations nothing is withdrawn"},
	iLock:         {"I14", "after lock_cycles cycles automation leaves the unit alone until a person unlocks it"},
	iLoad:         {"I15", "no leave has a site carry more than the red line, or for a certain failure more than it can, with all who left before counted in"},
	iDeath:        {"I16", "the death of an agent or a voter changes no route"},
	iForced:       {"I17", "an order in force has an actor and a reason"},
	iNonsense:     {"I18", "entries without meaning change nothing and stop no replica"},
	iRestart:      {"I20", "what restarts announces only what its phase allows, after three passing local rounds"},
	iAttributes:   {"I21", "a change of attributes is not a withdrawal"},
	iBreaker:      {"breaker", "of sites that fell into trouble together no more leave than the breaker's limit"},
	iCooldown:     {"cooldown", "no automatic withdrawal follows an automatic return within the cooldown"},
	iHand:         {"by-hand", "what a person orders at a node without a ledger is so on the wire within a second, and stays until the ledger has it"},
	iStaged:       {"staged", "a table comes into force by the word of every site that announces, or of a person who goes without it"},
	iAuthority:    {"authority", "what only a person may wish is carried out if one signed it who may, for this ledger, lately, and once"},
	iNodes:        {"nodes", "a node of a site of several leaves by itself while min_nodes others announce, and when somebody saw it fail; its site leaves whole, by one permit"},
	iRecovery:     {"recovery", "the recovery of the ledger from an older copy moves no route: what an agent that knows of it moves by an order or a phase, a person or a permit has moved since"},
	iMode:         {"mode", "where the mode is observe automation moves nothing, where it is approve nothing without a person's yes"},
}

// Invariants lists the name and the statement of each.
func Invariants() [][2]string {
	var all [][2]string
	for _, i := range invariants {
		all = append(all, [2]string{i.name, i.text})
	}
	return all
}
