package decide

import (
	"cmp"

	"github.com/steadycast/steadycast"
)

// service is one service at this site: its jury, and the verdict so far.
type service struct {
	conf  Service
	jury  jury
	tally tally // the newest count
	// ramped counts the step that it is in, while it returns.
	ramped Ramped

	state   steadycast.State
	since   Now
	class   steadycast.Class
	reason  string
	settled bool // was Healthy before: what Suspect falls back to
	quiet   Now  // the last bad round, from which hold_up counts
	// failedHere is the same of this node's own check, where it has siblings.
	failedHere Now

	held   bool   // too little evidence now
	rounds int    // observations heard while held, in a row
	told   bool   // people and the ledger know that it is held
	why    string // it is held

	mayLeave, mayReturn condition // what `require:` came to

	fast     bool // the pace last asked for
	answered bool // the first withdrawal request since Unhealthy was concluded
	reported Now  // when the ledger was last told
	loud     bool // the ledger should be told at the end of this step
}

// facts are everything one transition may rest on.
type facts struct {
	bad, good  int
	failingFor Now                // since a quorum began to fail
	quietFor   Now                // since the last bad round
	local      steadycast.Outcome // the site's own check, where it is no voice of the quorum alone
	certain    bool               // fall_certain certain local failures in a row
	ledger     bool               // it is known what the ledger holds
	in         bool               // a unit of the service is In there
}

// heldLimit is how many inconclusive rounds in a row make Held worth telling.
const heldLimit = 3

// next is the chart of a service's verdict: the state after one more look at the
// facts, and why. Held is not in it: while too little is known, it is not asked.
// A dot is no change; suspect* was not healthy before. The chart's test writes
// and compares it, for the default numbers:
//
//	                                            unknown     healthy     suspect     suspect*    unhealthy   recovering
//	neither bad nor good                        ·           ·           ·           ·           ·           ·
//	1 bad                                       suspect     suspect     ·           ·           ·           unhealthy
//	fall_certain bad for down_for, certain here suspect     suspect     unhealthy   unhealthy   ·           unhealthy
//	fall bad, not for down_for                  suspect     suspect     ·           ·           ·           unhealthy
//	fall bad for down_for                       suspect     suspect     unhealthy   unhealthy   ·           unhealthy
//	fall bad for down_for, fine here            suspect     suspect     ·           ·           ·           unhealthy
//	2×fall bad for down_for, fine here          suspect     suspect     unhealthy   unhealthy   ·           unhealthy
//	rise good, ledger not known                 ·           ·           healthy     ·           recovering  ·
//	1 good                                      recovering  ·           ·           ·           ·           ·
//	2 good                                      recovering  ·           healthy     recovering  ·           ·
//	2 good, counted in                          ·           ·           healthy     ·           ·           ·
//	resume_rounds good, counted in              healthy     ·           healthy     healthy     recovering  ·
//	3 good                                      recovering  ·           healthy     recovering  recovering  ·
//	rise good, not for hold_up                  recovering  ·           healthy     recovering  recovering  ·
//	rise good for hold_up                       recovering  ·           healthy     recovering  recovering  healthy
//	rise good for hold_up, failing here         recovering  ·           healthy     recovering  recovering  ·
func (sv *service) next(f facts) (steadycast.State, string) {
	switch sv.state {
	case steadycast.Healthy:
		return sv.fromHealthy(f)
	case steadycast.Suspect:
		return sv.fromSuspect(f)
	case steadycast.Unhealthy:
		return sv.fromUnhealthy(f)
	case steadycast.Recovering:
		return sv.fromRecovering(f)
	default:
		return sv.fromUnknown(f)
	}
}

// fromUnknown: a failure is a suspicion as ever; passing means more where the
// ledger counts the site In, for then it only resumes.
func (sv *service) fromUnknown(f facts) (steadycast.State, string) {
	if f.bad >= 1 {
		return steadycast.Suspect, sv.failing(f)
	}
	return sv.firstPassing(f)
}

func (sv *service) firstPassing(f facts) (steadycast.State, string) {
	switch {
	case !f.ledger || f.good < 1:
		return sv.state, ""
	case !f.in:
		return steadycast.Recovering, sv.passing(f) + "; the ledger does not count it in, so rise and hold_up come first"
	case f.good >= sv.conf.Health.ResumeRounds && len(sv.conf.Prefixes) == 0:
		return steadycast.Healthy, sv.passing(f) + "; it announces nothing, so nothing is to come back"
	case f.good >= sv.conf.Health.ResumeRounds:
		return steadycast.Healthy, sv.passing(f) + "; it was announced before"
	default:
		return sv.state, ""
	}
}

func (sv *service) fromHealthy(f facts) (steadycast.State, string) {
	if f.bad >= 1 {
		return steadycast.Suspect, sv.failing(f)
	}
	return sv.state, ""
}

func (sv *service) fromSuspect(f facts) (steadycast.State, string) {
	switch {
	case f.bad >= sv.fall(f) && f.failingFor >= *sv.conf.Health.DownFor:
		return steadycast.Unhealthy, sv.failing(f)
	case f.good < 2:
		return sv.state, ""
	case sv.settled:
		return steadycast.Healthy, sv.passing(f)
	default:
		return sv.firstPassing(f)
	}
}

// recoverRounds are the passing rounds that end Unhealthy.
const recoverRounds = 3

func (sv *service) fromUnhealthy(f facts) (steadycast.State, string) {
	if f.good >= recoverRounds {
		return steadycast.Recovering, sv.passing(f)
	}
	return sv.state, ""
}

func (sv *service) fromRecovering(f facts) (steadycast.State, string) {
	h := sv.conf.Health
	switch {
	case f.bad >= 1:
		return steadycast.Unhealthy, "failed again while recovering: " + sv.failing(f)
	case f.good >= h.Rise && f.quietFor >= h.HoldUp && f.local != steadycast.Down:
		return steadycast.Healthy, sv.passing(f) + ", none failed for " + seconds(f.quietFor)
	default:
		return sv.state, ""
	}
}

// fall is how many failing rounds in a row it takes: fewer when the site's own
// check is certain, twice as many when only others see the failure (that may be
// the path to here, not the service).
func (sv *service) fall(f facts) int {
	switch h := sv.conf.Health; {
	case f.certain:
		return h.FallCertain
	case f.local == steadycast.Up:
		return 2 * h.Fall
	default:
		return h.Fall
	}
}

// facts gathers what is known now.
func (s *Site) facts(now Now, sv *service) facts {
	own := sv.jury.self()
	f := facts{
		bad: sv.tally.bad, good: sv.tally.good,
		quietFor: now - sv.quiet,
		certain:  own.raw.hard >= sv.conf.Health.FallCertain,
		ledger:   s.committed,
	}
	if sv.state == steadycast.StateUnknown || sv.state == steadycast.Suspect && !sv.settled {
		f.in = len(sv.conf.Prefixes) == 0 || s.anyIn(sv) // nobody else asks
	}
	if f.bad > 0 {
		f.failingFor = now - sv.tally.since
	}
	if own.speaks() {
		f.local = own.last.Result.Outcome
	}
	return f
}

// judge takes the newest count and makes every transition that it allows.
func (s *Site) judge(now Now, sv *service) {
	sv.tally = sv.jury.count()
	if !sv.tally.enough || s.doubts(now) != "" {
		s.hold(now, sv, false)
		return
	}
	s.unhold(sv)
	if sv.tally.bad > 0 {
		sv.quiet = now
	}
	for {
		to, why := sv.next(s.facts(now, sv))
		if to == sv.state {
			return
		}
		s.become(now, sv, to, why)
	}
}

// become makes one transition and says so.
func (s *Site) become(now Now, sv *service, to steadycast.State, why string) {
	from := sv.state
	sv.state, sv.since, sv.reason, sv.loud = to, now, why, true
	switch to {
	case steadycast.Healthy:
		sv.settled = true
	case steadycast.Unhealthy:
		sv.answered = false
	case steadycast.Recovering:
		if from != steadycast.Unhealthy {
			sv.quiet = now // hold_up counts from the first look
		}
	}
	sv.class = steadycast.NoFailure
	if to.Troubled() {
		sv.class = steadycast.Soft
		if own := sv.jury.self(); own.fresh && own.raw.hard > 0 {
			sv.class = steadycast.Hard
		}
	}
	s.note(steadycast.Event{
		Kind: steadycast.EventVerdict, Service: sv.conf.Name,
		From: from.String(), To: to.String(), Reason: why,
	})
}

// hold starts every count again and leaves the state as it is. It is told once
// it is certain to be more than one inconclusive round: at once when voices fell
// silent, else after heldLimit rounds.
func (s *Site) hold(now Now, sv *service, silent bool) {
	sv.jury.adjourn()
	sv.held = true
	sv.why = cmp.Or(s.doubts(now), sv.lacking())
	if !silent {
		sv.rounds++
	}
	if sv.told || sv.state == steadycast.StateUnknown || !silent && sv.rounds < heldLimit {
		return
	}
	sv.told, sv.loud = true, true
	s.note(steadycast.Event{
		Kind: steadycast.EventVerdict, Service: sv.conf.Name,
		From: sv.state.String(), To: "held", Reason: sv.why + "; the state stands and nothing changes",
	})
}

func (s *Site) unhold(sv *service) {
	sv.held, sv.rounds, sv.why = false, 0, ""
	if !sv.told {
		return
	}
	sv.told, sv.loud = false, true
	s.note(steadycast.Event{
		Kind: steadycast.EventVerdict, Service: sv.conf.Name,
		From: "held", To: sv.state.String(), Reason: "there is enough evidence again",
	})
}

// verdict is what the ledger and people are told.
func (s *Site) verdict(sv *service) steadycast.Verdict {
	return steadycast.Verdict{
		Site: s.name, Service: sv.conf.Name, State: sv.state, Held: sv.held,
		Class: sv.class, Reason: sv.reason, Bad: sv.tally.bad, Good: sv.tally.good, Since: sv.since,
	}
}

// judgeAgain looks once more at a service of which nothing was known, because
// the ledger has said whether it was announced before.
func (s *Site) judgeAgain(now Now, sv *service) {
	if sv.tally.enough {
		s.judge(now, sv)
	}
}
