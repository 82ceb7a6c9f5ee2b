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
	e.asked, e.askedAt, e.remembered = set, time.Now(), false
	e.lost = false
	outside := e.admit()
	set = e.newest
	e.wantVIPs(set.VIPs)
	if e.loopOver != nil {
		e.unsaved = true
		e.keep()
		reply <- refuse("crash_loop", "%s", e.alarms["crash_loop"])
		return
	}
	now := without(set, e.given)
	added := len(set.Routes) > len(now.Routes)
	if !added || now.Path != e.given.Path || !slices.EqualFunc(now.Routes, e.given.Routes, equalRoutes) {
		if err := e.announce(now); err != nil {
			reply <- refuse("invalid", "set %d.%d: %v", set.Incarnation, set.Version, err)
			return
		}
	}
	e.unsaved = true
	if len(outside) > 0 {
		reply <- refuse("allow", "%s", e.alarms["allow"])
	} else {
		e.waiting = append(e.waiting, reply)
	}
	if !added {
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
	case now == before && !equalSets(set, e.asked):
		return refuse("stale", "the set is numbered %d.%d like another one that was carried out; a changed set needs a new number", now.Incarnation, now.Version)
	}
	for i, r := range set.Routes {
		if !r.Prefix.IsValid() || r.Prefix != r.Prefix.Masked() || r.Prefix.Addr().Is4In6() {
			return refuse("invalid", "routes[%d].prefix: %v cannot be announced; a prefix has no bits set beyond its length", i, r.Prefix)
		}
		if i > 0 && comparePrefix(set.Routes[i-1].Prefix, r.Prefix) >= 0 {
			return refuse("invalid", "routes[%d].prefix: %v comes after %v; each prefix stands once, in order", i, r.Prefix, set.Routes[i-1].Prefix)
		}
	}
	for i, v := range set.VIPs {
		if !v.IsValid() {
			return refuse("invalid", "vips[%d]: not an address with a length", i)
		}
	}
	return nil
}

// allowed is set less the routes that node.yaml does not allow this node,
// whatever its agent says. The rest is carried out: a withdrawal must not fail
// for what another route has wrong.
func (e *engine) allowed(set steadycast.RouteSet) (_ steadycast.RouteSet, outside []netip.Prefix) {
	routes := set.Routes
	set.Routes = make([]steadycast.Route, 0, len(routes))
	for _, r := range routes {
		within := func(a netip.Prefix) bool { return a.Bits() <= r.Prefix.Bits() && a.Contains(r.Prefix.Addr()) }
		if slices.ContainsFunc(e.allow, within) || r.Stance == steadycast.Backup && slices.ContainsFunc(e.asBackup, within) {
			set.Routes = append(set.Routes, r)
		} else {
			outside = append(outside, r.Prefix)
		}
	}
	return set, outside
}

// admit makes newest of what was asked, and says what it leaves out.
func (e *engine) admit() (outside []netip.Prefix) {
	if e.newest, outside = e.allowed(e.asked); len(outside) == 0 {
		e.alarm("allow", "")
		return nil
	}
	e.alarm("allow", fmt.Sprintf("not announced, for bgp.allow of node.yaml (bgp.allow_backup for a backup) does not have it: %v (%d such prefixes); the rest of the set is carried out", outside[0], len(outside)))
	return outside
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
	// The sessions get numbers of ours: what they hold may be told again under
	// one number of the agent's (depreferred, drained), or after the fence was cleared.
	e.told++
	own := set
	own.Incarnation, own.Version, own.Fence = e.starts.Total, e.told, steadycast.Fence{}
	e.numbers[e.told] = mark{set.Fence, set.Incarnation, set.Version}
	if err := e.out.Apply(own); err != nil {
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
		t.intent = &intentBody{Mark: e.high, At: e.askedAt.Round(0), Set: e.asked, Path: e.path}
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
	newer := e.unsaved || !slices.Equal(e.vipsGiven, e.vipsWanted)
	e.unsaved = e.unsaved || r.disk != nil // whatever is done next, the intent comes to disk first
	if newer {
		e.keep()
		return
	}
	e.settle(r.disk)
}

// rewriteEvery is the pause between two tries of a disk that fails.
const rewriteEvery = 2 * time.Second

// settle announces what waited for the keeper, or says why it does not.
func (e *engine) settle(disk error) {
	if e.stop != nil || e.loopOver != nil {
		return
	}
	if disk != nil {
		e.rewrite = time.After(rewriteEvery) // the agent sends nothing before something changes
		held := len(e.newest.Routes) - len(e.given.Routes)
		text := fmt.Sprintf("the intent cannot be written: %v; withdrawals are carried out, nothing new is announced", disk)
		if held > 0 {
			text += fmt.Sprintf(" (%d new prefixes are held back)", held)
		}
		e.alarm("disk", text)
		e.answer(refuse("disk", "%s", text))
		return
	}
	e.rewrite = nil
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
		slices.EqualFunc(a.Routes, b.Routes, equalRoutes) && slices.Equal(a.VIPs, b.VIPs) && a.Path == b.Path && a.Overlap == b.Overlap
}

func equalRoutes(a, b steadycast.Route) bool {
	sameMED := a.MED == b.MED || a.MED != nil && b.MED != nil && *a.MED == *b.MED
	return a.Prefix == b.Prefix && a.Stance == b.Stance && sameMED && a.Permit == b.Permit && a.Reason == b.Reason &&
		slices.Equal(a.Communities, b.Communities) && slices.Equal(a.LargeCommunities, b.LargeCommunities)
}
