package decide

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// unit reads "SITE [PREFIX]"; the default is the first prefix.
func (s *stage) unit(args []string) steadycast.Unit {
	u := steadycast.Unit{Site: args[0], Prefix: s.f.View().Table.Services[0].Prefixes[0]}
	for _, w := range args[1:] {
		if p, err := netip.ParsePrefix(w); err == nil {
			u.Prefix = p
		}
	}
	return u
}

func (s *stage) verdict(args []string, reason string) []string {
	e := s.entry(KindVerdict)
	var state steadycast.State
	if err := state.UnmarshalText([]byte(args[1])); err != nil {
		s.t.Fatal(err)
	}
	class := steadycast.NoFailure
	if len(args) > 2 {
		if err := class.UnmarshalText([]byte(args[2])); err != nil {
			s.t.Fatal(err)
		}
	}
	for site := range strings.SplitSeq(args[0], "+") {
		e.Verdicts = append(e.Verdicts, steadycast.Verdict{Site: site, Service: "web", State: state, Class: class, Reason: reason})
	}
	return s.say(s.apply(e))
}

// request reads "SITE ACTION [CLASS] [PREFIX…]".
func (s *stage) request(site string, args []string, reason string) steadycast.Request {
	s.seq[site]++
	r := steadycast.Request{
		ID: steadycast.RequestID{Incarnation: 1, Seq: s.seq[site]}, Site: site, Service: "web", Reason: reason,
		Conditions: s.cond,
	}
	if err := r.Action.UnmarshalText([]byte(args[0])); err != nil {
		s.t.Fatal(err)
	}
	for _, w := range args[1:] {
		if p, err := netip.ParsePrefix(w); err == nil {
			r.Prefixes = append(r.Prefixes, p)
		} else if err := r.Class.UnmarshalText([]byte(w)); err != nil {
			s.t.Fatal(err)
		}
	}
	if r.Prefixes == nil {
		r.Prefixes = s.f.View().Table.Services[0].Prefixes
	}
	result := steadycast.Result{Outcome: steadycast.Up}
	if r.Action == steadycast.Withdraw {
		result = steadycast.Result{Outcome: steadycast.Down, Class: r.Class, Reason: reason}
	}
	r.Evidence = s.f.View().Table.evidence(site, "web", r.ID.Seq, result)
	for i := range r.Evidence {
		o := &r.Evidence[i]
		who := o.Vantage
		if who == o.Subject {
			who = "own"
		}
		if word, ok := s.said[who]; ok {
			s.say1(o, word)
		}
	}
	r.Evidence = slices.DeleteFunc(r.Evidence, func(o steadycast.Observation) bool { return s.said[o.Vantage] == "silent" })
	return r
}

// say1 changes what a vantage observed: up, down, unknown, or ineligible.
func (s *stage) say1(o *steadycast.Observation, word string) {
	o.Result = steadycast.Result{Reason: word}
	switch word {
	case "up":
		o.Result.Outcome = steadycast.Up
	case "down":
		o.Result.Outcome, o.Result.Class = steadycast.Down, steadycast.Soft
	case "ineligible":
		o.Result.Outcome, o.Ineligible = steadycast.Down, "2 of 3 anchors do not answer"
	}
}

// evidence is what everybody who watches site would say, were all of one opinion.
func (t Table) evidence(site, service string, seq uint64, r steadycast.Result) []steadycast.Observation {
	var os []steadycast.Observation
	for _, v := range append([]string{site}, t.Vantages(site)...) {
		os = append(os, steadycast.Observation{Vantage: v, Subject: site, Service: service, Seq: seq, Result: r})
	}
	return os
}

// ask reads "SITE[+SITE…] ACTION [CLASS] [PREFIX…]"; several sites make one batch.
func (s *stage) ask(args []string, reason string) []string {
	e := s.entry(KindDecide)
	e.Decide = &Decide{Seen: s.seen(), Loads: s.loads, Ineligible: s.barred, Passing: s.passes}
	for site := range strings.SplitSeq(args[0], "+") {
		e.Decide.Requests = append(e.Decide.Requests, s.request(site, args[1:], reason))
	}
	return s.say(s.apply(e))
}

func (s *stage) order(try bool, args []string, reason string) []string {
	o := steadycast.Order{Site: args[1], Actor: "ann", Reason: reason}
	if err := o.Kind.UnmarshalText([]byte(args[0])); err != nil {
		s.t.Fatal(err)
	}
	for _, w := range args[2:] {
		switch k, v, _ := strings.Cut(w, "="); k {
		case "for":
			o.For, _ = time.ParseDuration(v)
		case "force":
			o.Force = true
		default:
			o.Prefixes = append(o.Prefixes, netip.MustParsePrefix(w))
		}
	}
	e := s.entry(KindOrder)
	e.Order, e.Actor, e.Reason = &o, o.Actor, o.Reason
	e.Decide = &Decide{Seen: s.seen(), Loads: s.loads}
	if try {
		r, err := s.f.Try(e)
		if err != nil {
			s.t.Fatal(err)
		}
		return s.say(r)
	}
	return s.say(s.apply(e))
}
