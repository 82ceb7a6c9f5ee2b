package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// fault is one thing that goes wrong, drawn before the schedule begins.
type fault struct {
	n    int // its number in the plan
	kind *faultKind
	at   time.Duration
	last time.Duration // how long it lasts
	a, b int           // places, or voters
	x    uint64        // whatever else is drawn
}

func (f fault) String() string {
	return fmt.Sprintf("#%d %s at %.1fs for %.1fs, a=%d b=%d x=%#x", f.n, f.kind.name, f.at.Seconds(), f.last.Seconds(), f.a, f.b, f.x&0xffff)
}

// faultKind is one kind of fault. Weight is how often it is drawn.
type faultKind struct {
	name   string
	about  string
	weight int
	strike func(w *world, f *fault)
}

var faultKinds = []faultKind{
	{"service", "one service fails: refuses, times out, or is cut off from outside", 8, (*world).failService},
	{"flap", "one service fails and recovers, again and again", 2, (*world).flapService},
	{"together", "the services of many sites fail at once", 2, (*world).failTogether},
	{"partition", "the network falls into two parts", 3, (*world).splitNetwork},
	{"one-way", "one place is not heard, or hears nothing", 3, (*world).muteOrDeafen},
	{"slow", "what one place sends another is up to 20 s on its way", 3, (*world).slowLink},
	{"voter", "a voter dies and starts again", 3, (*world).crashVoter},
	{"stall", "the disk of a voter hangs, and the voter with it", 3, (*world).stallVoter},
	{"backup", "all voters are lost, and a person recovers the ledger from an older copy", 1, (*world).restoreBackup},
	{"behind", "a voter passes on late what is committed", 2, (*world).passOnLate},
	{"lie", "probers lie, fewer than a quorum", 4, (*world).tellLies},
	{"prober", "probers are broken, as many as it may be; their controls notice", 2, (*world).breakProbers},
	{"self", "a site's check of itself fails without reason", 1, (*world).breakOwnCheck},
	{"blackout", "no observation arrives anywhere", 1, (*world).darken},
	{"agent", "an agent dies and starts again", 4, (*world).restartAgent},
	{"restore-host", "a host is set back to an older copy of its disk", 2, (*world).restoreHost},
	{"power", "a host loses power, with agent, speaker and perhaps voter", 3, (*world).losePower},
	{"speaker", "a speaker is started anew", 1, (*world).restartSpeaker},
	{"upgrade", "people start some speakers anew, each after it was drained", 1, (*world).upgrade},
	{"session", "a BGP session is lost", 2, (*world).loseSession},
	{"rogue", "an agent asks to leave without any evidence", 1, (*world).goRogue},
	{"nonsense", "an entry without meaning reaches the log", 2, (*world).proposeNonsense},
	{"order", "a person withdraws, drains, announces, freezes, thaws, unlocks", 3, (*world).giveOrder},
	{"glass", "a site is cut off, and a person there withdraws or announces it by hand", 2, (*world).breakGlass},
	{"forgery", "whoever holds a voter writes orders there that nobody wished, or plays old ones again", 2, (*world).forge},
	{"table", "a new table is staged, acknowledged and activated; some nodes cannot carry it out, and some go back to an older one", 2, (*world).reviseTable},
	{"clock", "the wall clock of a voter is stepped", 1, (*world).stepClock},
}

// firstFault is when everything has come up.
const firstFault = 40 * time.Second

// drawPlan draws the faults of a schedule.
func drawPlan(w *world, dice *rand.Rand) []fault {
	var bag []*faultKind
	for i := range faultKinds {
		for _, name := range w.o.Faults {
			if k := &faultKinds[i]; k.name == name {
				for range k.weight {
					bag = append(bag, k)
				}
			}
		}
	}
	var plan []fault
	if len(bag) == 0 {
		return nil
	}
	span := func(least, most time.Duration) time.Duration {
		return least + time.Duration(dice.Int64N(int64(most-least)))
	}
	for at := firstFault; ; {
		at += span(time.Second, 14*time.Second)
		f := fault{
			n: len(plan), kind: bag[dice.IntN(len(bag))], at: at, last: span(2*time.Second, 45*time.Second),
			a: dice.IntN(len(w.places)), b: dice.IntN(len(w.places)), x: dice.Uint64(),
		}
		if at >= w.calm-time.Second {
			return plan
		}
		f.last = min(f.last, w.calm-at)
		plan = append(plan, f)
	}
}
