package sim

import (
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// strike makes a fault happen.
func (w *world) strike(f *fault) {
	w.judge.happen("fault " + f.kind.name)
	w.say("fault %s", *f)
	f.kind.strike(w, f)
}

// until ends what a fault began.
func (w *world) until(f *fault, end func()) { w.in(f.last, end) }

// illFor makes one service of a place ill in one of three ways, and returns the cure.
func (p *place) illFor(service int, how uint64) (cure func()) {
	x := &p.ill[service]
	n := &x.hard
	switch how % 4 {
	case 2:
		n = &x.soft
	case 3:
		n = &x.path
	}
	note := func() {
		switch {
		case x.hard+x.soft == 0:
			p.illAt[service] = never
		case p.illAt[service] == never:
			p.illAt[service] = p.w.now
		}
	}
	*n++
	note()
	return func() {
		*n--
		note()
	}
}

func (w *world) failService(f *fault) {
	p := w.places[f.a]
	w.until(f, p.illFor(int(f.x>>8%uint64(len(p.ill))), f.x))
}

func (w *world) flapService(f *fault) {
	p := w.places[f.a]
	end := w.now + f.last
	period := 2*time.Second + time.Duration(f.x>>16%20)*time.Second
	var turn func()
	turn = func() {
		if w.now >= end {
			return
		}
		cure := p.illFor(0, f.x)
		w.in(min(period, end-w.now), func() {
			cure()
			w.in(period, turn)
		})
	}
	turn()
}

func (w *world) failTogether(f *fault) {
	for _, p := range w.places {
		if f.x>>(p.s%48)&1 == 1 {
			w.until(f, p.illFor(0, f.x>>56))
		}
	}
}

// cuts cuts the links that are chosen, and joins them again.
func (w *world) cuts(f *fault, chosen func(from, to int) bool) {
	for i := range w.places {
		for k := range w.places {
			if i != k && chosen(i, k) {
				w.net.cut[i][k]++
				w.until(f, func() { w.net.cut[i][k]-- })
			}
		}
	}
}

func (w *world) splitNetwork(f *fault) {
	side := func(i int) uint64 { return f.x >> (i % 60) & 1 }
	w.cuts(f, func(from, to int) bool { return side(from) != side(to) })
}

func (w *world) muteOrDeafen(f *fault) {
	w.cuts(f, func(from, to int) bool { return f.x&1 == 0 && from == f.a || f.x&1 == 1 && to == f.a })
}

// slowLink keeps in flight what a sends to b, or to all, or what all send to a,
// or only all observations.
func (w *world) slowLink(f *fault) {
	late := 300*time.Millisecond + time.Duration(f.x>>8%19_700)*time.Millisecond
	if f.x%4 == 3 { // the whole stream of observations is behind
		for k := range w.places {
			w.net.stale[k] = max(late, 8*time.Second)
			w.until(f, func() { w.net.stale[k] = 0 })
		}
		return
	}
	for k := range w.places {
		from, to := f.a, k
		switch f.x % 4 {
		case 0:
			from, to = k, f.a
		case 1:
			to = f.b
			if d := w.leader(); d != nil && f.x>>33&1 == 1 {
				from = d.v.place // one voter lags behind the others
			}
		}
		if from != to {
			w.net.late[from][to] = late
			w.until(f, func() { w.net.late[from][to] = 0 })
		}
	}
}

// voterOf picks a voter; every other time the one that leads.
func (w *world) voterOf(f *fault) *voter {
	if d := w.leader(); d != nil && f.x&1 == 0 {
		return d.v
	}
	return w.voters[int(f.x>>1%uint64(len(w.voters)))]
}

func (w *world) crashVoter(f *fault) {
	if v := w.voterOf(f); v.up {
		v.crash()
		w.until(f, func() { v.revive() })
	}
}

// revive starts a voter that is down, if its host has power.
func (v *voter) revive() {
	if !v.up && v.formatted && v.w.places[v.place].up {
		v.start()
	}
}

func (w *world) stallVoter(f *fault) {
	v := w.voterOf(f)
	v.stalled = max(v.stalled, w.now+f.last/2)
}

// restoreBackup loses all voters and everything committed since now; a while
// after, a person recovers the ledger from what was kept: in a new epoch, frozen
// until it was looked at. No more than once, for it is a disaster.
func (w *world) restoreBackup(f *fault) {
	d := w.leader()
	if d == nil || d.v.view.Fence.Epoch == 0 || w.lost != nil || w.now+2*f.last+20*time.Second > w.calm {
		return
	}
	w.lost = d.v.fleet.Snapshot()
	w.in(2*f.last, func() {
		w.say("all voters are lost")
		for _, v := range w.voters {
			if v.up {
				v.crash()
			}
			v.formatted = false
		}
		w.in(6*time.Second, w.recover)
	})
}

// recover gives all voters one disk.
func (w *world) recover() {
	f := decide.NewFleet()
	must(f.Restore(w.lost))
	w.bendRecovery(f)
	index, term := uint64(0), uint64(0)
	for _, v := range w.voters {
		last, err := v.disk.LastIndex()
		must(err)
		hard, _, err := v.disk.InitialState()
		must(err)
		index, term = max(index, last), max(term, hard.GetTerm())
	}
	view := f.View()
	w.judge.recovered(view)
	w.say("the ledger is recovered at %v", view.Fence)
	for _, v := range w.voters {
		v.format(len(w.voters), index+1000, term+10, f.Snapshot())
		v.revive()
	}
	w.in(10*time.Second, func() { w.scoped(decide.KindThaw, decide.Scope{}) })
	w.hasten(0)
}

// hasten is a person who does not wait until the recovered ledger has heard the sites,
// and has one after the other drained.
func (w *world) hasten(k int) {
	if k == 24 {
		return
	}
	if p := w.sites()[k%len(w.sites())]; !p.witness && w.leader() != nil {
		w.order(steadycast.Order{Kind: steadycast.OrderDrain, Site: p.name, For: 20 * time.Second})
	}
	w.in(500*time.Millisecond, func() { w.hasten(k + 1) })
}

// passOnLate keeps one voter's followers at what was committed when it began.
func (w *world) passOnLate(f *fault) {
	v := w.voters[int(f.x>>1%uint64(len(w.voters)))]
	v.behind = min(w.now+4*f.last, w.calm)
	w.at(v.behind, func() {
		if v.up && w.now >= v.behind {
			v.shown = v.view
			v.tellFollowers()
		}
	})
}

// tellLies makes the liars: as many as a quorum can bear, all saying bad or good
// of everybody. Where sites share a group, the whole group lies as one.
func (w *world) tellLies(f *fault) {
	for _, p := range w.places {
		if p.selfish > 0 && w.ownVotes() {
			return
		}
		p.lies = honest
	}
	says := saysBad
	if f.x&3 == 0 {
		says = saysGood
	}
	shared := w.table.Sites[0].Group
	if group := w.table.Sites[1].Group; group == shared {
		for _, p := range w.places {
			if w.table.Sites[p.s].Group == group {
				p.lies = says
			}
		}
	} else {
		for i := range w.mayLie() {
			w.places[int(f.x>>(8+8*i)%uint64(len(w.places)))].lies = says
		}
	}
	w.until(f, func() {
		for _, p := range w.places {
			p.lies = honest
		}
	})
}

// ownVotes: a site's own check is a voice, for there are too few others.
func (w *world) ownVotes() bool { return len(w.sites())-1 < 4 }

// mayLie is one less than the least quorum that can judge a site.
func (w *world) mayLie() int {
	n := len(w.sites()) - 1
	if w.ownVotes() {
		n++
	}
	n = min(n, 9)
	return max(3, (6*n+9)/10) / 2
}

func (w *world) breakProbers(f *fault) {
	for i, p := range w.places {
		if f.x>>(i%48)&3 != 0 {
			p.broken++
			w.until(f, func() { p.broken-- })
		}
	}
}

func (w *world) breakOwnCheck(f *fault) {
	p := w.places[f.a]
	if w.ownVotes() { // then it is a liar like another, and one is all that may be
		for _, q := range w.places {
			if q.selfish > 0 || q.lies != honest {
				return
			}
		}
	}
	p.selfish++
	w.until(f, func() { p.selfish-- })
}

func (w *world) darken(f *fault) {
	if w.now >= w.blackout {
		w.judge.blackout = w.now
	}
	w.blackout = max(w.blackout, w.now+f.last)
}

func (w *world) restartAgent(f *fault) {
	p := w.places[f.a]
	if p.agent == nil {
		return
	}
	p.killAgent()
	off := 300*time.Millisecond + min(f.last, time.Duration(f.x%8)*time.Second)
	w.in(off, func() {
		if p.up && p.agent == nil {
			p.startAgent(off)
		}
	})
}

func (w *world) losePower(f *fault) {
	p := w.places[f.a]
	if !p.up {
		return
	}
	p.crash()
	starts := p.speaker.started
	w.in(10*time.Second, func() {
		if !p.up && p.speaker.started == starts {
			w.judge.holds(iLeave, !slices.Contains(p.speaker.out, true), "%s lost power 10 s ago and is still announced", p.name)
		}
	})
	for _, v := range w.voters {
		if v.place == p.i && v.up {
			v.crash()
		}
	}
	w.until(f, func() {
		if p.up {
			return
		}
		p.boot(f.last)
		for _, v := range w.voters {
			if v.place == p.i {
				v.revive()
			}
		}
	})
}

func (w *world) restartSpeaker(f *fault) {
	p := w.places[f.a]
	if !p.up || !p.speaker.up {
		return
	}
	p.speaker.stop(p)
	p.prove()
	w.in(min(f.last, 4*time.Second), func() {
		if p.up && !p.speaker.up {
			p.speaker.start(p)
		}
	})
}

func (w *world) loseSession(f *fault) {
	p := w.places[f.a]
	if !p.speaker.session {
		return
	}
	p.cutSession()
	w.until(f, p.healSession)
}

func (w *world) goRogue(f *fault) {
	p := w.places[f.a]
	if p.agent == nil || p.agent.site == nil {
		return
	}
	p.agent.client.askWithoutEvidence()
	w.in(6*time.Second, func() { w.restartAgent(f) }) // the bad version is rolled back
}

func (w *world) stepClock(f *fault) {
	w.voterOf(f).wall += time.Duration(int64(f.x>>8%7200)-3600) * time.Second
}
