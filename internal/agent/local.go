package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
	"github.com/steadycast/steadycast/internal/role"
)

// Breaking the glass: while there is no ledger to ask, a person at the node may
// withdraw or announce its own site. It is on disk before it is done, shown as an
// alarm while it stands, and told to the ledger as soon as that is heard again;
// from then on it is an order like any other.

// localOrder is what a person did here.
type localOrder struct {
	Schema int              `json:"schema"`
	Order  steadycast.Order `json:"order"`
	Since  time.Time        `json:"since"`
}

func localFile(dir string) string { return filepath.Join(dir, "local-order.json") }

// recallLocal reads what stands from before, nil if nothing does. A file that
// cannot be used is kept beside, and said.
func recallLocal(dir string) (*localOrder, error) {
	path := localFile(dir)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var l localOrder
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err == nil && (l.Schema != stateSchema || l.Order.Kind == steadycast.OrderNone) {
		err = fmt.Errorf("schema %d, order %s", l.Schema, l.Order.Kind)
	}
	if err != nil {
		if os.Rename(path, path+".bad") == nil {
			return nil, fmt.Errorf("%s is not readable (%w); kept as %s.bad: if this site was withdrawn or announced by --local, do it again", path, err, path)
		}
		return nil, fmt.Errorf("%s is not readable (%w)", path, err)
	}
	return &l, nil
}

// BreakGlass does what a person at this node wants of its own site while there is
// no ledger; an order of kind none ends what was done.
func (a *Agent) BreakGlass(ctx context.Context, o steadycast.Order) error {
	var failed error
	err := a.do(ctx, func() { failed = a.breakGlass(o) })
	return errors.Join(err, failed)
}

func (a *Agent) breakGlass(o steadycast.Order) error {
	if o.Site != a.o.Site {
		return &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("--local is for this node's own site, %s; not for %s", a.o.Site, o.Site)}
	}
	if err := a.mine(&o); err != nil {
		return err
	}
	if o.Kind == steadycast.OrderNone {
		if a.local == nil {
			return &api.Error{Code: api.CodeNotFound, Message: "nothing was done here by --local"}
		}
		if err := a.forgetLocal(); err != nil {
			return err
		}
		a.say(steadycast.Event{Kind: steadycast.EventOrder, Site: o.Site, Actor: o.Actor, From: "local", To: "automatic", Reason: o.Reason})
		return nil
	}
	if l := a.o.Ledger; a.noLedger() == "" {
		return &api.Error{Code: api.CodeRefused, Guard: "local",
			Message: fmt.Sprintf("the ledger is heard, at %s, and takes orders: --local is for when it is not", l.View().Fence),
			Next:    "the same without --local"}
	}
	for _, p := range o.Prefixes {
		if !slices.Contains(a.plan.Load().Table.PrefixesAt(a.o.Site), p) {
			return &api.Error{Code: api.CodeNotFound, Message: fmt.Sprintf("%s does not serve %s", a.o.Site, p)}
		}
	}
	l := &localOrder{Schema: stateSchema, Order: o, Since: time.Now()}
	if a.o.StateDir != "" {
		b, err := json.MarshalIndent(l, "", "  ")
		if err == nil {
			err = role.WriteFile(localFile(a.o.StateDir), append(b, '\n'), 0o640)
		}
		// A full disk must not stand in the way of a person who breaks the glass.
		if err != nil {
			a.say(steadycast.Event{Kind: steadycast.EventAlarm, Reason: fmt.Sprintf("the local order is not on disk, and is lost with this process: %v", err)})
		}
	}
	a.local, a.localAt = l, steadycast.Fence{}
	a.step(decide.Local{Order: &l.Order})
	a.say(steadycast.Event{Kind: steadycast.EventOrder, Site: o.Site, Actor: o.Actor, To: "local " + o.Kind.String(), Reason: o.Reason})
	return nil
}

// mine refuses what is about more than this node, or about another: of a site of
// several each has a socket of its own, and nothing here reaches further.
func (a *Agent) mine(o *steadycast.Order) error {
	me := steadycast.Order{Site: a.o.Site, Node: a.o.Node}.Target()
	switch several := a.several(); {
	case several && o.Node == "" && o.Kind == steadycast.OrderNone:
		o.Node = a.o.Node
	case several && o.Node != a.o.Node:
		return &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("%s has several nodes, and --local is for the one whose socket this is, %s; not for %s", a.o.Site, me, o.Target()), Next: "the same with " + me}
	case !several && o.Node != "":
		return &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("%s has one node: what is ordered of it is ordered of the site", a.o.Site), Next: "the same with " + a.o.Site}
	}
	return nil
}

// several: the site has more nodes than this one.
func (a *Agent) several() bool {
	p, _ := a.plan.Load().Table.Place(a.o.Site)
	return len(p.Nodes) > 1
}

// noLedger says why there is no ledger to ask, "" if there is.
func (a *Agent) noLedger() string {
	if l, ok := a.o.Ledger.(remote); ok {
		if err := l.Lost(); err != nil {
			return err.Error()
		}
		return ""
	}
	return a.site.Explain().LedgerLost
}

func (a *Agent) forgetLocal() error {
	if a.o.StateDir != "" {
		if err := os.Remove(localFile(a.o.StateDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	a.local, a.localAt = nil, steadycast.Fence{}
	a.step(decide.Local{})
	return nil
}

// reconcile tells the ledger what a person did here without it, until it has
// that; it is called once a second and with each new state of the ledger.
func (a *Agent) reconcile() {
	switch {
	case a.local == nil || a.noLedger() != "":
		return
	case a.localAt != steadycast.Fence{}:
		// What is committed stands in the view before what was done here is let go,
		// or the route would flap.
		if a.o.Ledger.View().Fence.Compare(a.localAt) < 0 {
			return
		}
		if err := a.forgetLocal(); err == nil {
			a.say(steadycast.Event{Kind: steadycast.EventOrder, Site: a.o.Site, From: "local", To: "ledger", Reason: "the ledger has what was done here without it"})
		}
		return
	}
	o, told := a.local.Order, a.local
	if a.several() { // also what was done before the site had more
		o.Node = a.o.Node
	}
	a.errand.send(func(ctx context.Context) {
		r, err := a.o.Ledger.Local(ctx, o)
		if err != nil {
			return // once more in a second
		}
		select {
		case a.calls <- func() {
			if a.local == told {
				a.localAt = r.Fence
			}
			a.reconcile()
		}:
		case <-ctx.Done():
		}
	})
}

// localAlarm says what stands here by --local.
func (a *Agent) localAlarm() string {
	l := a.local
	if l == nil {
		return ""
	}
	return fmt.Sprintf("by hand and without the ledger: %s ordered %s %s ago: %s", l.Order.Actor, l.Order.Kind, time.Since(l.Since).Truncate(time.Second), l.Order.Reason)
}
