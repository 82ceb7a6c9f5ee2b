package speaker

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/steadycast/steadycast/bgp"
)

// plan reads the settings and says what they would change.
func (e *engine) plan(ctx context.Context) (Plan, error) {
	settings, vips, err := e.cfg.Load() // outside the loop: a file may be slow
	if err != nil {
		return Plan{}, refuse("settings", "%v", err)
	}
	var p Plan
	var refused error
	err = e.do(ctx, func() {
		p = e.planFor(settings, vips)
		refused = e.fixed(vips)
	})
	if err != nil {
		return p, err
	}
	return p, refused
}

// fixed refuses what cannot change while this process runs.
func (e *engine) fixed(vips bgp.VIPSettings) error {
	if was, is := e.vipConf.WithDefaults().Mark, vips.WithDefaults().Mark; was != is {
		return refuse("settings", "vip.mark: %d cannot become %d while the speaker runs, since its addresses carry the old one; restart it", was, is)
	}
	return nil
}

// reload reads the settings, says beforehand what they change, and carries
// them out. Whatever is wrong with them, the old ones stay whole.
func (e *engine) reload(ctx context.Context) (Plan, error) {
	settings, vips, err := e.cfg.Load()
	if err != nil {
		return Plan{}, refuse("settings", "%v", err)
	}
	var p Plan
	var failed error
	err = e.do(ctx, func() {
		p = e.planFor(settings, vips)
		failed = e.reconfigure(p, settings, vips)
	})
	if err != nil {
		return p, err
	}
	return p, failed
}

func (e *engine) planFor(settings bgp.Settings, vips bgp.VIPSettings) (p Plan) {
	for _, c := range e.out.Plan(settings) {
		if c.Kind != bgp.ChangeNone {
			p.Neighbors = append(p.Neighbors, c)
		}
	}
	if was, is := e.vipConf.WithDefaults(), vips.WithDefaults(); was != is {
		p.Notes = append(p.Notes, fmt.Sprintf("addresses: %s on %s becomes %s on %s", was.Manage, was.Interface, is.Manage, is.Interface))
	}
	for _, list := range []struct {
		key     string
		was, is []netip.Prefix
	}{{"bgp.allow", e.allow, settings.Allow}, {"bgp.allow_backup", e.asBackup, settings.AllowBackup}} {
		gone, come := minus(list.was, list.is), minus(list.is, list.was)
		if len(gone)+len(come) == 0 {
			continue
		}
		note := list.key + ":"
		if len(come) > 0 {
			note += fmt.Sprintf(" %v may be announced", come)
		}
		if len(gone) > 0 {
			note += fmt.Sprintf(" %v may no longer", gone)
		}
		p.Notes = append(p.Notes, note)
	}
	return p
}

// minus are the prefixes of a that b lacks.
func minus(a, b []netip.Prefix) (out []netip.Prefix) {
	for _, p := range a {
		if !slices.Contains(b, p) {
			out = append(out, p)
		}
	}
	return out
}

func (e *engine) reconfigure(p Plan, settings bgp.Settings, vips bgp.VIPSettings) error {
	if e.stop != nil {
		return ErrStopping
	}
	if err := e.fixed(vips); err != nil {
		return err
	}
	was, is := e.vipConf.WithDefaults(), vips.WithDefaults()
	for _, c := range p.Neighbors {
		e.log.Info("reload: will change", "neighbor", c.Neighbor, "change", c.Kind, "why", c.Reason)
	}
	for _, n := range p.Notes {
		e.log.Info("reload: will change", "what", n)
	}
	// The new addresses are opened first: if that fails nothing has changed yet.
	next := e.vips
	if was != is {
		var err error
		if next, err = e.make.vips(vips, e.vipOptions()); err != nil {
			return refuse("settings", "vip: %v", err)
		}
	}
	if err := e.out.Reconfigure(settings); err != nil {
		if next != e.vips {
			next.Close()
		}
		return refuse("settings", "%v", err)
	}
	e.reallow(settings.Allow, settings.AllowBackup)
	if next != e.vips {
		e.vips.Close()
		e.vips, e.vipConf, e.vipsGiven = next, vips, nil
	} else if err := e.vips.Repair(); err != nil { // a person's wish brings back what others removed
		e.log.Error("service addresses are not as wanted", "err", err)
	}
	if !e.remembered && e.asked.Routes != nil {
		e.keep()
	}
	e.wake()
	return nil
}

// reallow looks at what was asked with another allow-list. What it no longer
// has was withdrawn by the sessions; what it has now is announced with the rest.
func (e *engine) reallow(allow, asBackup []netip.Prefix) {
	e.allow, e.asBackup = allow, asBackup
	if e.remembered {
		return
	}
	e.admit()
	kept, _ := e.allowed(e.given)
	if err := e.announce(kept); err != nil {
		e.log.Error("routes cannot be told again after the reload", "err", err)
	}
}
