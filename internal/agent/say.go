package agent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/steadycast/steadycast"
)

// say tells what this node did or saw. At a site of several it says which one it is.
func (a *Agent) say(e steadycast.Event) {
	if e.Node == "" && a.named.Load() && (e.Site == "" || e.Site == a.o.Site) {
		e.Node = a.o.Node
	}
	a.utter(e)
}

// utter puts an event where people and machines find it: one line in the log, one
// place in the ring. It may be called from any goroutine and cannot fail.
func (a *Agent) utter(e steadycast.Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if e.Site == "" {
		e.Site = a.o.Site
	}
	Log(a.o.Logger, a.o.Events.Add(e))
}

// Log writes an event as one line.
func Log(l *slog.Logger, e steadycast.Event) {
	level := slog.LevelInfo
	if e.Kind == steadycast.EventAlarm {
		level = slog.LevelWarn
	}
	attrs := make([]slog.Attr, 0, 10)
	text := func(key, v string) {
		if v != "" {
			attrs = append(attrs, slog.String(key, v))
		}
	}
	text("site", e.Site)
	text("node", e.Node)
	text("service", e.Service)
	if e.Prefix.IsValid() {
		text("prefix", e.Prefix.String())
	}
	text("peer", e.Peer)
	text("from", e.From)
	text("to", e.To)
	text("guard", e.Guard)
	if e.Request != (steadycast.RequestID{}) {
		text("request", e.Request.String())
	}
	text("actor", e.Actor)
	text("reason", e.Reason)
	l.LogAttrs(context.Background(), level, string(e.Kind), attrs...)
}

// ledgerSaid is called from the ledger's own goroutine with the events of each
// entry. The machine tells its own site's verdicts and routes itself, in the
// order in which they happen here; what only the ledger knows is told from here.
func (a *Agent) ledgerSaid(events []steadycast.Event) {
	for _, e := range events {
		switch e.Kind {
		case steadycast.EventOrder, steadycast.EventFreeze, steadycast.EventAlarm, steadycast.EventRecovery, steadycast.EventConfig:
			if e.Site == "" || e.Site == a.o.Site {
				a.utter(e)
			}
		}
	}
}

// told says what changed at the routers and on the interfaces.
func (a *Agent) told(before, after steadycast.Actual) {
	old := map[string]steadycast.Peer{}
	for _, p := range before.Peers {
		old[p.Name] = p
	}
	anew := after.Restarted(&before)
	for _, p := range after.Peers {
		o, known := old[p.Name]
		if anew && p.LastError == "" {
			p.LastError = "the speaker started anew"
		}
		switch {
		case known && o.State == p.State:
		case p.Up():
			a.say(steadycast.Event{Kind: steadycast.EventPeer, Peer: p.Name, From: o.State, To: p.State,
				Reason: fmt.Sprintf("session with %v AS%d is up, hold time %v", p.Address, p.ASN, p.HoldTime)})
		case known && (o.Up() || o.State == "stuck" || p.State == "stuck"):
			a.say(steadycast.Event{Kind: steadycast.EventPeer, Peer: p.Name, From: o.State, To: p.State,
				Reason: fmt.Sprintf("session with %v: %s", p.Address, orElse(p.LastError, "no reason was given"))})
		}
	}
	was := map[string]steadycast.VIP{}
	for _, v := range before.VIPs {
		was[v.Address.String()] = v
	}
	for _, v := range after.VIPs {
		o, known := was[v.Address.String()]
		if known && o.Present == v.Present && o.Usable == v.Usable {
			continue
		}
		state := func(v steadycast.VIP) string {
			switch {
			case !v.Present:
				return "absent"
			case !v.Usable:
				return "unusable"
			}
			return "present"
		}
		e := steadycast.Event{Kind: steadycast.EventVIP, Prefix: v.Address, To: state(v), Reason: orElse(v.Error, "on "+v.Interface)}
		if known {
			e.From = state(o)
		}
		a.say(e)
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
