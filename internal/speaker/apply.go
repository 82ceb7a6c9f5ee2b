package speaker

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// diskPatience is how long an apply waits for the disk before it answers that
// the new prefixes still wait. The agent's next set must not wait behind it.
const diskPatience = 250 * time.Millisecond

// apply takes up set and answers on reply, which has room for one.
//
// What the set takes away or changes is done at once: a withdrawal waits for
// neither disk nor address. What it adds is announced when the intent is on disk and
// the addresses were put on the host.
func (e *engine) apply(set steadycast.RouteSet, reply chan error) {
	if r := e.refusal(set); r != nil {
		e.log.Warn("set refused", "inc", set.Incarnation, "version", set.Version, "fence", set.Fence, "code", r.Code, "reason", r.Text)
		reply <- r
		return
	}
	e.high = mark{set.Fence, set.Incarnation, set.Version}
	e.newest, e.newestAt, e.remembered = set, time.Now(), false
	e.lost = false
	if e.loopOver != nil {
		e.unsaved = true
		e.keep()
		reply <- refuse("crash_loop", "%s", e.alarms["crash_loop"])
		return
	}
	if err := e.announce(without(set, e.given)); err != nil {
		reply <- refuse("invalid", "set %d.%d: %v", set.Incarnation, set.Version, err)
		return
	}
	e.unsaved = true
	e.wantVIPs(set.VIPs)
	e.waiting = append(e.waiting, reply)
	if len(set.Routes) == len(e.given.Routes) { // nothing new: done
		e.answer(nil)
	} else if e.patience == nil {
		e.patience = time.After(diskPatience)
	}
	e.keep()
}

// refusal says why set must not be taken up.
func (e *engine) refusal(set steadycast.RouteSet) *Refused {
	before, now := e.high, mark{set.Fence, set.Incarnation, set.Version}
	switch {
	case e.stop != nil:
		return refuse("stopping", "the speaker is stopping; no set is taken up any more")
	case now.Fence.Compare(before.Fence) < 0:
		return refuse("fence", "the set rests on ledger position %v, older than %v which was carried out: the ledger was restored or the agent is stale; `steadycast reload --clear-fence` accepts it", now.Fence, before.Fence)
	case now.Incarnation < before.Incarnation, now.Incarnation == before.Incarnation && now.Version < before.Version:
		return refuse("stale", "the set is %d.%d, older than %d.%d which was carried out; the agent must continue from there", now.Incarnation, now.Version, before.Incarnation, before.Version)
	case now == before && !equalSets(set, e.newest):
		return refuse("stale", "the set is numbered %d.%d like another one that was carried out; a changed set needs a new number", now.Incarnation, now.Version)
	}
	seen := make(map[netip.Prefix]bool, len(set.Routes))
	for i, r := range set.Routes {
		if !r.Prefix.IsValid() || r.Prefix != r.Prefix.Masked() || seen[r.Prefix] {
			return refuse("invalid", "routes[%d].prefix: %v must be a masked prefix that stands once in the set", i, r.Prefix)
		}
		seen[r.Prefix] = true
	}
	for i, v := range set.VIPs {
		if !v.IsValid() {
			return refuse("invalid", "vips[%d]: not an address with a length", i)
		}
	}
	return nil
}

// without is set less what is not announced already: what may be done at once.
func without(set, given steadycast.RouteSet) steadycast.RouteSet {
	had := make(map[netip.Prefix]bool, len(given.Routes))
	for _, r := range given.Routes {
		had[r.Prefix] = true
	}
	routes := set.Routes
	set.Routes = make([]steadycast.Route, 0, len(routes))
	for _, r := range routes {
		if had[r.Prefix] {
			set.Routes = append(set.Routes, r)
		}
	}
	return set
}

// announce tells the sessions the whole state, unless they know it.
func (e *engine) announce(set steadycast.RouteSet) error {
	if equalSets(set, e.given) {
		return nil
	}
	if err := e.out.Apply(set); err != nil {
		return err
	}
	e.given = set
	return nil
}

// wantVIPs adds addresses now, and lets unwanted ones outlive their routes: to
// remove an address together with its route loses the packets under way.
func (e *engine) wantVIPs(vips []netip.Prefix) {
	e.vipsWanted = slices.Clone(e.vipsWanted)
	keep := map[netip.Prefix]bool{}
	for _, v := range vips {
		keep[v] = true
		if !slices.Contains(e.vipsWanted, v) {
			e.vipsWanted = append(e.vipsWanted, v)
		}
	}
	e.trimVIPs = nil
	if slices.ContainsFunc(e.vipsWanted, func(v netip.Prefix) bool { return !keep[v] }) {
		e.trimVIPs = time.After(e.cfg.AfterWithdraw)
	}
}

// keep gives the keeper what there is to do, or goes on if there is nothing.
func (e *engine) keep() {
	if e.busy {
		return // keptTask comes back here
	}
	var t task
	if e.unsaved && e.cfg.StateDir != "" {
		t.intent = &intentBody{Mark: e.high, At: e.newestAt.Round(0), Set: e.newest}
	}
	// Before the first set nothing is known of what is wanted; after it the
	// addresses of an earlier process may have to go, so nil counts as said.
	if e.vipsGiven == nil && !e.remembered || !slices.Equal(e.vipsGiven, e.vipsWanted) {
		t.host, t.vips = e.vips, e.vipsWanted
		e.vipsGiven = append([]netip.Prefix{}, e.vipsWanted...)
	}
	e.unsaved = false
	if t.intent == nil && t.host == nil {
		e.settle(nil)
		return
	}
	e.busy = true
	e.kept.tasks <- t
}

func (e *engine) keptTask(r result) {
	e.busy = false
	if r.vip != nil { // each address says in Actual what is wrong with it, and is tried again
		e.log.Error("service addresses are not as wanted", "err", r.vip)
	}
	if e.stop != nil {
		return
	}
	if e.unsaved || !slices.Equal(e.vipsGiven, e.vipsWanted) {
		e.keep() // a newer set came meanwhile
		return
	}
	e.settle(r.disk)
}

// settle announces what waited for the keeper, or says why it does not.
func (e *engine) settle(disk error) {
	if e.stop != nil || e.loopOver != nil {
		return
	}
	if disk != nil {
		held := len(e.newest.Routes) - len(e.given.Routes)
		text := fmt.Sprintf("the intent cannot be written: %v; withdrawals are carried out, nothing new is announced", disk)
		if held > 0 {
			text += fmt.Sprintf(" (%d new prefixes are held back)", held)
		}
		e.alarm("disk", text)
		e.answer(refuse("disk", "%s", text))
		return
	}
	e.alarm("disk", "")
	if e.lost { // what waited is no longer anyone's wish
		e.answer(ErrLost)
		return
	}
	if err := e.announce(e.newest); err != nil {
		e.answer(refuse("invalid", "set %d.%d: %v", e.newest.Incarnation, e.newest.Version, err))
		return
	}
	e.answer(nil)
}

func (e *engine) stillWaiting() {
	e.patience = nil
	held := len(e.newest.Routes) - len(e.given.Routes)
	e.answer(refuse("disk", "the disk has not taken the intent for %v; withdrawals are carried out, %d new prefixes wait for it", diskPatience, held))
	e.alarm("disk", fmt.Sprintf("the disk is slow: %d new prefixes wait for the intent to be written", held))
}

// answer tells everyone who waits for an apply.
func (e *engine) answer(err error) {
	for _, w := range e.waiting {
		w <- err
	}
	e.waiting, e.patience = nil, nil
}

// applyAndWait is apply for callers outside the loop.
func (e *engine) applyAndWait(ctx context.Context, set steadycast.RouteSet) error {
	reply := make(chan error, 1)
	if err := e.do(ctx, func() { e.apply(set, reply) }); err != nil {
		return err
	}
	select {
	case err := <-reply:
		return err
	case <-e.ended:
		return ErrLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

// equalSets compares by content.
func equalSets(a, b steadycast.RouteSet) bool {
	return a.Incarnation == b.Incarnation && a.Version == b.Version && a.Fence == b.Fence &&
		slices.EqualFunc(a.Routes, b.Routes, equalRoutes) && slices.Equal(a.VIPs, b.VIPs)
}

func equalRoutes(a, b steadycast.Route) bool {
	sameMED := a.MED == b.MED || a.MED != nil && b.MED != nil && *a.MED == *b.MED
	return a.Prefix == b.Prefix && a.Stance == b.Stance && sameMED && a.Permit == b.Permit && a.Reason == b.Reason &&
		slices.Equal(a.Communities, b.Communities) && slices.Equal(a.LargeCommunities, b.LargeCommunities)
}
