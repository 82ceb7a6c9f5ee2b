package api

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Level is how things stand, in one word.
type Level string

// The levels, from best to worst.
const (
	LevelOK       Level = "ok"       // as wanted, or as a person ordered
	LevelDegraded Level = "degraded" // something is not as it should be
	LevelCritical Level = "critical" // a prefix is under its floor, or nobody announces it
)

// Summary is the verdict on everything in one sentence, and what to do next.
type Summary struct {
	Level Level `json:"level"`
	// Sentence: "3 of 5 sites announce 192.0.2.0/24"; Mark: "held by a guard".
	Sentence string `json:"sentence"`
	Mark     string `json:"mark"`
	// Next is one command, accepted as it stands.
	Next string `json:"next"`
}

// Tally counts the units of one prefix.
type Tally struct {
	Prefix netip.Prefix `json:"prefix"`
	Sites  int          `json:"sites"`
	// Announcing is what is proven; Unknown are sites not heard.
	Announcing int `json:"announcing"`
	Unknown    int `json:"unknown"`
	// Starting have never announced; Changing announce, not proven everywhere;
	// Ordered are gone by a person's order.
	Starting int `json:"starting"`
	Changing int `json:"changing"`
	Ordered  int `json:"ordered"`
	Floor    int `json:"floor"`
}

// Tallies counts rows per prefix, in order of the view.
func Tallies(v *decide.View, rows []Row) []Tally {
	at := map[netip.Prefix]int{}
	out := make([]Tally, len(v.Prefixes))
	for i, p := range v.Prefixes {
		out[i] = Tally{Prefix: p.Prefix, Floor: p.Floor}
		at[p.Prefix] = i
	}
	for _, r := range rows {
		i, ok := at[r.Unit.Prefix]
		if !ok {
			i = len(out)
			at[r.Unit.Prefix] = i
			out = append(out, Tally{Prefix: r.Unit.Prefix})
		}
		t := &out[i]
		t.Sites++
		switch {
		case r.State.Announces():
			t.Announcing++
		case r.State == NotHeard:
			t.Unknown++
		case r.State == Starting:
			t.Starting++
		case r.State == Announcing:
			t.Changing++
		case r.Order != nil:
			t.Ordered++
		}
	}
	return out
}

// Summarize judges the whole snapshot, given its rows and tallies.
func (s *Snapshot) Summarize(rows []Row, tallies []Tally) Summary {
	sum := Summary{Level: LevelOK, Mark: "all well", Next: "steadycast events -f"}
	sum.Sentence = sentence(rows, tallies)
	if len(rows) == 0 {
		sum.say(LevelDegraded, "nothing to announce", "steadycast events")
		if s.Mode == "fleet" && s.View.Table.Revision == 0 {
			sum.say(LevelDegraded, "no table yet", "steadycast ledger members")
		}
	}
	// From the mildest to the worst: a later one replaces what an earlier one said.
	for _, judge := range []func(*Summary, []Row, []Tally){
		s.judgeOrders, s.judgeTrial, s.judgeChanging, s.judgePaths, s.judgeTrouble, s.judgeDaemon, s.judgeWaiting,
		s.judgeFreeze, s.judgeHeld, s.judgeFloor,
	} {
		judge(&sum, rows, tallies)
	}
	return sum
}

func (s *Summary) say(l Level, mark, next string) {
	if s.Level != LevelCritical {
		s.Level = l
	}
	s.Mark, s.Next = mark, next
}

func sentence(rows []Row, tallies []Tally) string {
	if len(rows) == 0 {
		return "no prefix is to be announced"
	}
	if one := rows[0].Unit.Site; rows[len(rows)-1].Unit.Site == one {
		n, unknown := 0, 0
		for _, r := range rows {
			switch {
			case r.State.Announces():
				n++
			case r.State == NotHeard:
				unknown++
			}
		}
		if unknown > 0 {
			return fmt.Sprintf("it is not known what %s announces", one)
		}
		if len(rows) == 1 {
			if n == 1 {
				return fmt.Sprintf("%s announces %s", one, rows[0].Unit.Prefix)
			}
			return fmt.Sprintf("%s does not announce %s", one, rows[0].Unit.Prefix)
		}
		return fmt.Sprintf("%s announces %d of %d prefixes", one, n, len(rows))
	}
	t := worstTally(tallies)
	out := fmt.Sprintf("%d of %d sites announce %s", t.Announcing, t.Sites, t.Prefix)
	if t.Unknown > 0 {
		out += fmt.Sprintf(", %d unknown", t.Unknown)
	}
	return out
}

// worstTally is the prefix nearest to its floor; the first one of equals.
func worstTally(ts []Tally) Tally {
	worst := ts[0]
	for _, t := range ts[1:] {
		if t.Announcing-t.Floor < worst.Announcing-worst.Floor {
			worst = t
		}
	}
	return worst
}

func first(rows []Row, states ...Showing) *Row {
	for i := range rows {
		for _, st := range states {
			if rows[i].State == st {
				return &rows[i]
			}
		}
	}
	return nil
}

func whyCommand(r *Row) string {
	return fmt.Sprintf("steadycast why %s %s", r.Unit.Site, r.Unit.Prefix)
}

func undrainCommand(r *Row) string {
	target := r.Unit.Site
	if r.Order == nil && len(r.NodeOrders) > 0 {
		target = r.NodeOrders[0].Order.Target()
	}
	return fmt.Sprintf("steadycast undrain %s --reason TEXT", target)
}

func (s *Snapshot) judgeOrders(sum *Summary, rows []Row, _ []Tally) {
	for i := range rows {
		if r := &rows[i]; r.Order != nil || len(r.NodeOrders) > 0 {
			sum.say(LevelOK, "as ordered", undrainCommand(r))
			return
		}
	}
}

func (s *Snapshot) judgeChanging(sum *Summary, rows []Row, _ []Tally) {
	if r := first(rows, Leaving); r != nil && r.Order != nil {
		sum.say(LevelOK, "changing", whyCommand(r))
	}
	// Not proven is never as it should be, whoever ordered it.
	if r := first(rows, Announcing, Withdrawing); r != nil {
		sum.say(LevelDegraded, "changing", whyCommand(r))
	}
	if i := slices.IndexFunc(rows, func(r Row) bool { return r.moving }); i >= 0 {
		sum.say(LevelDegraded, "changing", whyCommand(&rows[i]))
	}
}

func (s *Snapshot) judgeTrouble(sum *Summary, rows []Row, _ []Tally) {
	for i := range rows {
		r := &rows[i]
		switch {
		case r.State == Starting, r.State == Returning:
			sum.say(LevelDegraded, string(r.State), whyCommand(r))
		case r.amiss > 0 && r.State.Announces() && r.Order == nil,
			r.State == Withdrawn && r.Order == nil, r.State == Lost, r.State == Depreferred, r.State == NotHeard:
			sum.say(LevelDegraded, "degraded", whyCommand(r))
			return
		}
	}
}

func (s *Snapshot) judgeDaemon(sum *Summary, _ []Row, _ []Tally) {
	if s.Config.LastError != "" {
		sum.say(LevelDegraded, "configuration refused", "steadycast reload --dry-run")
	}
	for _, site := range s.Sites {
		for _, p := range site.Actual.Peers {
			if !p.Up() {
				sum.say(LevelDegraded, "BGP session down", "steadycast peers")
			}
		}
	}
	if len(s.Alarms) > 0 {
		next := "steadycast events"
		if strings.HasPrefix(s.Alarms[0].Next, "steadycast ") {
			next = s.Alarms[0].Next
		}
		sum.say(LevelDegraded, "alarm", next)
	}
	if s.LedgerLost != "" {
		sum.say(LevelDegraded, "no ledger: nothing changes", "steadycast events")
	}
}

func (s *Snapshot) judgeWaiting(sum *Summary, rows []Row, _ []Tally) {
	for _, d := range s.View.Decisions {
		if d.Answer == steadycast.Waiting {
			sum.say(LevelDegraded, "waits for a yes", fmt.Sprintf("steadycast approve %d --reason TEXT", d.Number))
		}
	}
	if r := first(rows, OnHold); r != nil {
		sum.say(LevelDegraded, "on hold", fmt.Sprintf("steadycast resume %s --reason TEXT", r.Unit.Site))
	}
	if r := first(rows, Locked); r != nil {
		sum.say(LevelDegraded, "locked", fmt.Sprintf("steadycast unlock %s --reason TEXT", r.Unit.Site))
	}
}

func (s *Snapshot) judgeFreeze(sum *Summary, _ []Row, _ []Tally) {
	if len(s.View.Freezes) > 0 {
		sum.say(LevelDegraded, "frozen", "steadycast thaw"+scopeArgs(s.View.Freezes[0].Scope)+" --reason TEXT")
	}
}

func (s *Snapshot) judgeHeld(sum *Summary, rows []Row, _ []Tally) {
	if r := first(rows, Held); r != nil && s.LedgerLost != "" {
		sum.say(LevelDegraded, "held: no ledger to ask", whyCommand(r))
	} else if r != nil {
		sum.say(LevelDegraded, "held by a guard", whyCommand(r))
	}
}

func (s *Snapshot) judgeFloor(sum *Summary, rows []Row, ts []Tally) {
	for _, t := range ts {
		possible := t.Announcing + t.Unknown
		if t.Sites == 0 || possible > 0 && possible >= t.Floor {
			continue
		}
		level, mark, next := LevelCritical, "under the floor", sum.Next
		if possible == 0 {
			mark = "nobody announces"
			if t.Sites == 1 && someAnnounce(ts) {
				mark = "partly out"
			}
			// Everything gone because people said so is what they wanted.
			if t.Ordered == t.Sites && t.Floor == 0 {
				continue
			}
		}
		switch coming := t.Starting + t.Changing; {
		case coming == 0 || possible+coming < t.Floor:
		case t.Starting == 0:
			continue // said by judgeChanging
		case slices.ContainsFunc(s.View.Decisions, func(d decide.Decision) bool { return d.Answer == steadycast.Waiting }):
			continue // said by judgeWaiting: it starts with a person's yes
		default:
			level, mark = LevelDegraded, "starting"
		}
		// What is out by itself is looked at first; what a person took out they can bring back.
		for i := len(rows) - 1; i >= 0; i-- {
			if r := &rows[i]; r.Unit.Prefix == t.Prefix && !r.State.Announces() && r.Order != nil {
				next = undrainCommand(r)
			}
		}
		for i := len(rows) - 1; i >= 0; i-- {
			if r := &rows[i]; r.Unit.Prefix == t.Prefix && !r.State.Announces() && r.Order == nil {
				next = whyCommand(r)
			}
		}
		sum.say(level, mark, next)
		return
	}
}

func someAnnounce(ts []Tally) bool {
	return slices.ContainsFunc(ts, func(t Tally) bool { return t.Announcing > 0 })
}

func scopeArgs(sc decide.Scope) string {
	out := ""
	if sc.Site != "" {
		out += " " + sc.Site
	}
	if sc.Prefix.IsValid() {
		out += " --prefix " + sc.Prefix.String()
	}
	return out
}
