package decide

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
)

var update = flag.Bool("update-fleet", false, "write what the fleet machine really says into testdata/fleet")

// TestFleetText plays the scripts in testdata/fleet. A line at the margin is a
// command or a comment; what the machine said to it is indented below. They are
// meant to be read.
func TestFleetText(t *testing.T) {
	files, err := filepath.Glob("testdata/fleet/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			stage := newStage(t)
			for line := range strings.Lines(string(want)) {
				if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
					continue
				}
				got.WriteString(line)
				line = strings.TrimSpace(line)
				if line == "" || strings.HasPrefix(line, "#") {
					continue
				}
				for _, out := range stage.play(line) {
					got.WriteString("    " + out + "\n")
				}
			}
			if got.String() == string(want) {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s says otherwise (run with -update-fleet and read the change):\n%s", file, firstDifference(string(want), got.String()))
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b := "(end)", "(end)"
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, a, b)
		}
	}
	return "no line differs"
}

// stage is a fleet machine with just enough around it: a clock, sites that
// announce what their phase says unless they are hidden, and request numbers.
type stage struct {
	t      *testing.T
	f      *Fleet
	lt     Time
	seq    map[string]uint64
	hidden []string
	cond   []steadycast.Condition
	said   map[string]string // by vantage, where it is not of the site's opinion
	barred []Ineligible      // whom the proposer does not take
	passes []Passing         // and what it heard pass
	loads  []Load
	last   []Answer
	as     *signing // who signs what follows, if anybody
	sent   Entry    // what was signed last
	fleet  *Charter // for the genesis
	forced bool
	kind   Kind   // of the entry that carries the next table
	plans  []Plan // of the next table
	// applied hears every entry after it was applied, if set.
	applied func(Entry)
}

func newStage(t *testing.T) *stage {
	return &stage{t: t, f: NewFleet(), seq: map[string]uint64{}}
}

func (s *stage) entry(kind Kind) Entry {
	return Entry{Kind: kind, Schema: Schema, Rules: RulesLevel, Epoch: 1, LT: s.lt, Proposer: "test"}
}

// apply applies one entry, through its written form, and gives what it said.
func (s *stage) apply(e Entry) Reply {
	s.t.Helper()
	if s.as != nil {
		e = s.as.sign(s, e)
	}
	b, err := e.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	back, err := DecodeEntry(b)
	if err != nil {
		s.t.Fatal(err)
	}
	tried, err := s.f.Try(back)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := s.f.Apply(back)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.applied != nil {
		s.applied(back)
	}
	if text(tried) != text(r) {
		s.t.Errorf("Try said something else than Apply:\n%s\n%s", text(tried), text(r))
	}
	return r
}

func (s *stage) seen() []Seen {
	v := s.f.View()
	var seen []Seen
	for _, p := range v.Prefixes {
		x := Seen{Prefix: p.Prefix}
		for _, u := range v.Units {
			// Whoever returns may be seen announcing before it is proven.
			if u.Unit.Prefix != p.Prefix || u.Phase == steadycast.Out || slices.Contains(s.hidden, u.Unit.Site) {
				continue
			}
			x.Announcing = append(x.Announcing, u.Unit.Site)
			if s.f.s.health(u.Unit).ok {
				x.Healthy = append(x.Healthy, u.Unit.Site)
			}
		}
		seen = append(seen, x)
	}
	return seen
}

func (s *stage) play(line string) []string {
	line, text, _ := strings.Cut(line, ": ")
	words := strings.Fields(line)
	if d, err := time.ParseDuration(words[0]); err == nil {
		s.lt += lt(d)
		return s.say(s.apply(s.entry(KindTick)))
	}
	args := words[1:]
	switch words[0] {
	case "charter":
		s.fleet = charter(args)
		return nil
	case "as":
		var rest string
		s.as, rest = newSigning(args)
		defer func() { s.as = nil }()
		if text != "" {
			rest += ": " + text
		}
		return s.play(rest)
	case "again":
		return s.say(s.apply(s.sent))
	case "stage":
		s.kind = KindStage
		defer func() { s.kind = "" }()
		return s.table(args)
	case "ack": // SITE[=REFUSAL]
		e := s.entry(KindAck)
		for _, w := range args {
			site, no, refused := strings.Cut(w, "=")
			k := Ack{Site: site, Node: site + "-1", Refusal: no}
			if s.f.s.Staged != nil {
				k.Revision = s.f.s.Staged.Table.Revision
			}
			if !refused {
				k.Changes = []string{"nothing"}
			}
			if what, empties := strings.CutPrefix(no, "empties:"); empties {
				k.Refusal, k.Emptied = "", []string{what}
			}
			e.Acks = append(e.Acks, k)
		}
		return s.say(s.apply(e))
	case "activate": // REVISION [force] [waive=SITE,…] [within=SPAN]
		e := s.entry(KindActivate)
		e.Actor, e.Reason, e.Decide = "ann", text, &Decide{Seen: s.seen()}
		e.Revision, _ = strconv.ParseUint(args[0], 10, 64)
		for _, w := range args[1:] {
			if v, ok := strings.CutPrefix(w, "waive="); ok {
				e.Waive = strings.Split(v, ",")
			}
			if v, ok := strings.CutPrefix(w, "within="); ok {
				e.ConfirmWithin, _ = time.ParseDuration(v)
			}
			e.Force = e.Force || w == "force"
		}
		return s.say(s.apply(e))
	case "confirm": // REVISION
		e := s.entry(KindConfirm)
		e.Actor, e.Reason = "ann", text
		e.Revision, _ = strconv.ParseUint(args[0], 10, 64)
		return s.say(s.apply(e))
	case "revert": // REVISION
		e := s.entry(KindRevert)
		e.Actor, e.Decide = "auto", &Decide{Seen: s.seen()}
		e.Revision, _ = strconv.ParseUint(args[0], 10, 64)
		return s.say(s.apply(e))
	case "config": // the newest N changes of the table that are remembered
		var out []string
		for _, p := range s.f.History() {
			if e := p.Event; e.Kind == steadycast.EventConfig {
				out = append(out, fmt.Sprintf("%s: %s: %s", arrow(e.From, e.To), e.Actor, e.Reason))
			}
		}
		n, _ := strconv.Atoi(args[0])
		return out[max(len(out)-n, 0):]
	case "restored": // the machine goes on from its snapshot
		twin := NewFleet()
		if err := twin.Restore(s.f.Snapshot()); err != nil {
			s.t.Fatal(err)
		}
		s.f = twin
		return nil
	case "revisions":
		var out []string
		for _, r := range s.f.View().Revisions {
			_, kept := s.f.Revision(r.Revision)
			out = append(out, fmt.Sprintf("revision %d by %s: %s, kept %t", r.Revision, r.Actor, r.Reason, kept))
		}
		return out
	case "approve", "reject":
		e := s.entry(Kind(words[0]))
		e.Actor, e.Reason = "ann", text
		e.Decision, _ = strconv.ParseUint(args[0], 10, 64)
		if e.Kind == KindApprove {
			e.Decide = &Decide{Seen: s.seen()}
		}
		return s.say(s.apply(e))
	case "operator":
		e := s.entry(KindOperator)
		o := operatorOf(args[0])
		e.Actor, e.Reason, e.Operator = "ann", text, &o
		return s.say(s.apply(e))
	case "divert", "diverts":
		return s.diverting(words[0], args, text)
	case "share", "shares", "ramp", "drains", "shed":
		return s.moves(words[0], args, text)
	case "dismiss":
		e := s.entry(KindDismiss)
		e.Actor, e.Reason, e.Name = "ann", text, args[0]
		return s.say(s.apply(e))
	case "table":
		return s.table(args)
	case "boot":
		for _, site := range s.f.View().Table.Announcers() {
			s.play("verdict " + site + " healthy")
			s.play("ask " + site + " return")
			for _, p := range s.f.View().Table.PrefixesAt(site) {
				s.play("in " + site + " " + p.String())
			}
		}
		return s.view()
	case "verdict":
		return s.verdict(args, text)
	case "ask":
		return s.ask(args, text)
	case "repeat", "older": // the newest request again, or one with an id before it
		e := s.entry(KindDecide)
		e.Decide = &Decide{Requests: []steadycast.Request{s.request(args[0], args[1:], "")}, Seen: s.seen()}
		s.seq[args[0]]--
		e.Decide.Requests[0].ID.Seq = s.seq[args[0]]
		if words[0] == "older" {
			e.Decide.Requests[0].ID.Seq--
		}
		return s.say(s.apply(e))
	case "why":
		var out []string
		for _, a := range s.last {
			for _, r := range a.Rulings {
				for _, g := range r.Guards {
					out = append(out, g.String())
				}
			}
		}
		return out
	case "says": // VANTAGE=up|down|unknown|ineligible|silent…, of whatever site asks
		s.said = map[string]string{}
		for _, w := range args {
			name, word, _ := strings.Cut(w, "=")
			s.said[name] = word
		}
		return nil
	case "barred": // VANTAGE…: the reason that the leader has
		s.barred = nil
		for _, w := range args {
			s.barred = append(s.barred, Ineligible{Vantage: w, Reason: text})
		}
		return nil
	case "passes": // SITE VANTAGE…: the leader hears them pass
		s.passes = nil
		if len(args) > 0 {
			s.passes = []Passing{{Subject: args[0], Service: "web", Vantages: args[1:]}}
		}
		return nil
	case "condition": // up|down|unknown, of what web requires; nothing: the site says nothing
		s.cond = nil
		if len(args) > 0 {
			c := steadycast.Condition{Service: "web", Text: text}
			if err := c.Outcome.UnmarshalText([]byte(args[0])); err != nil {
				s.t.Fatal(err)
			}
			s.cond = []steadycast.Condition{c}
		}
		return nil
	case "hide":
		s.hidden = args
		return nil
	case "loads":
		s.loads = nil
		for _, w := range args {
			site, n, _ := strings.Cut(w, "=")
			n, age, _ := strings.Cut(n, "@")
			load, err := strconv.ParseInt(n, 10, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			sec, _ := strconv.ParseInt(age, 10, 64)
			s.loads = append(s.loads, Load{site, load, sec})
		}
		return nil
	case "in":
		e := s.entry(KindIn)
		u := s.unit(args)
		e.Return = &ReturnProof{Unit: u, ID: s.f.s.unit(u.Site, u.Prefix).Return}
		return s.say(s.apply(e))
	case "lost", "found":
		e := s.entry(Kind(words[0]))
		e.Units = []steadycast.Unit{s.unit(args)}
		return s.say(s.apply(e))
	case "giveup":
		e := s.entry(KindVoid)
		e.Give = &GiveUpEntry{Site: args[0], ID: steadycast.RequestID{Incarnation: 1, Seq: s.seq[args[0]]}, Units: []steadycast.Unit{s.unit(args)}}
		return s.say(s.apply(e))
	case "local": // what a node says that a person did there
		e := s.entry(KindLocal)
		o := steadycast.Order{Site: args[1], Actor: "ann at " + args[1] + "-1", Reason: text}
		if err := o.Kind.UnmarshalText([]byte(args[0])); err != nil {
			s.t.Fatal(err)
		}
		for _, w := range args[2:] {
			o.Prefixes = append(o.Prefixes, netip.MustParsePrefix(w))
		}
		e.Order, e.Actor, e.Reason, e.Decide = &o, o.Actor, o.Reason, &Decide{Seen: s.seen()}
		return s.say(s.apply(e))
	case "order", "try":
		return s.order(words[0] == "try", args, text)
	case "clear", "freeze", "thaw", "unlock", "resume":
		kind := Kind(words[0])
		if kind == "clear" {
			kind = KindOrderClear
		}
		e := s.entry(kind)
		e.Actor, e.Reason, e.Scope = "ann", text, &Scope{}
		for _, w := range args {
			if p, err := netip.ParsePrefix(w); err == nil {
				e.Scope.Prefix = p
			} else {
				e.Scope.Site = w
			}
		}
		return s.say(s.apply(e))
	case "view":
		return s.view()
	case "silent", "heard", "gone":
		return s.silence(words[0], args)
	case "came", "cuts":
		return s.remembering(words[0], args, text)
	case "plan", "tell", "node", "plans":
		return s.planning(words[0], args, text)
	}
	s.t.Fatalf("no such command: %s", line)
	return nil
}

func (s *stage) table(args []string) []string {
	t := Table{Revision: s.f.View().Table.Revision + 1, Services: []Service{{Name: "web"}}}
	if t.Revision > 1 {
		t = s.f.View().Table
		t.Revision++
		t.Services = slices.Clone(t.Services)
	}
	dur := func(v string) time.Duration {
		d, err := time.ParseDuration(v)
		if err != nil {
			s.t.Fatal(err)
		}
		return d
	}
	num := func(v string) int {
		n, err := strconv.Atoi(v)
		if err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	for _, w := range args {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "sites":
			t.Sites = nil
			for site := range strings.SplitSeq(v, ",") {
				// NAME[:CAPACITY[:LOAD]]
				parts := strings.Split(site, ":")
				p := Place{Name: parts[0]}
				if len(parts) > 1 {
					p.Capacity = int64(num(parts[1]))
				}
				if len(parts) > 2 {
					p.Load = int64(num(parts[2]))
				}
				t.Sites = append(t.Sites, p)
			}
			t.Services[0].Sites = nil
		case "spill": // FROM>TO:PERCENT
			from, to, _ := strings.Cut(v, ">")
			to, percent, _ := strings.Cut(to, ":")
			i := slices.IndexFunc(t.Sites, func(p Place) bool { return p.Name == from })
			t.Sites = slices.Clone(t.Sites)
			t.Sites[i].Spill = append(slices.Clone(t.Sites[i].Spill), Spill{Site: to, Percent: num(percent)})
		case "paths": // SITE:NAME/…
			site, names, _ := strings.Cut(v, ":")
			i := slices.IndexFunc(t.Sites, func(p Place) bool { return p.Name == site })
			t.Sites = slices.Clone(t.Sites)
			if t.Sites[i].Paths = nil; names != "" {
				t.Sites[i].Paths = strings.Split(names, "/")
			}
		case "group":
			for i := range t.Sites {
				t.Sites[i].Group = v
			}
		case "witness":
			t.Sites = append(t.Sites, Place{Name: v, Witness: true})
		case "prefixes":
			t.Services[0].Prefixes = nil
			for p := range strings.SplitSeq(v, ",") {
				t.Services[0].Prefixes = append(t.Services[0].Prefixes, netip.MustParsePrefix(p))
			}
		case "force":
			defer func() { s.forced = false }()
			s.forced = true
		case "mode":
			t.Services[0].Mode = v
		case "shed":
			t.Shed = &Shed{Services: []string{v}}
		case "ttl":
			t.Services[0].TTL = dur(v)
		case "ramp": // DWELL, or off
			if t.Ramp = nil; v != "off" {
				t.Ramp = &Ramp{Dwell: dur(v), Latency: 200 * time.Millisecond}
			}
		case "ramp_steps": // PERCENT/…, behind ramp=
			for _, p := range strings.Split(v, "/") {
				t.Ramp.Steps = append(t.Ramp.Steps, num(p))
			}
		case "only_new":
			for i := range t.Services {
				t.Services[i].OnlyNew, _ = time.ParseDuration(v)
			}
		case "return":
			t.Services[0].Return = v
		case "require_withdraw":
			t.Services[0].Require.Withdraw = v
		case "require_return":
			t.Services[0].Require.Return = v
		case "floor":
			n := num(v)
			for _, p := range t.Services[0].Prefixes {
				t.Prefixes = append(t.Prefixes, Prefix{Prefix: p, Floor: &n})
			}
		case "cooldown":
			t.Guards.Cooldown = dur(v)
		case "site_budget":
			t.Guards.SiteBudget = num(v)
		case "lock_cycles":
			t.Guards.LockCycles = num(v)
		case "fleet_budget":
			t.Guards.FleetBudget = num(v)
		case "breaker_window":
			t.Guards.BreakerWindow = dur(v)
		default:
			s.t.Fatalf("no such key: %s", w)
		}
	}
	if s.plans != nil {
		t.Plans = s.plans
	}
	e := s.entry(KindTable)
	if t.Revision == 1 {
		e.Kind, e.Charter = KindGenesis, s.fleet
	} else {
		e.Decide = &Decide{Seen: s.seen()}
		if s.kind != "" {
			e.Kind, t.Revision = s.kind, 0
		}
	}
	e.Table, e.Actor, e.Reason, e.Force = &t, "ann", "test", s.forced
	return s.say(s.apply(e))
}

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
		if word, ok := s.said[o.Vantage]; ok && o.Vantage != o.Subject {
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

func (s *stage) say(r Reply) []string {
	var out []string
	if r.Invalid != "" {
		out = append(out, "invalid: "+r.Invalid)
	}
	if r.Refused != nil {
		out = append(out, "refused whole: "+r.Refused.String())
	}
	if r.Before != nil {
		out = append(out, "entered before, at "+r.Before.String())
	}
	if r.Revision != 0 {
		out = append(out, fmt.Sprintf("staged as revision %d", r.Revision))
	}
	if r.Answers != nil {
		s.last = r.Answers
	}
	for _, a := range r.Answers {
		if a.Stale {
			out = append(out, a.Site+": stale")
		}
		for _, u := range a.Rulings {
			out = append(out, ruling(u))
		}
	}
	for _, u := range r.Rulings {
		out = append(out, ruling(u))
	}
	for _, ev := range r.Events {
		switch ev.Kind {
		case steadycast.EventPermit, steadycast.EventRefused, steadycast.EventConfig, steadycast.EventProof:
			continue // the answer says it
		}
		out = append(out, fmt.Sprintf("%s: %s", ev.Kind, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s", ev.Site, prefixText(ev.Prefix), arrow(ev.From, ev.To), ev.Reason)), " ")))
	}
	return out
}

func ruling(r Ruling) string {
	head := r.Unit.Site + " " + prefixText(r.Unit.Prefix)
	g, refused := r.Refusal()
	switch {
	case r.Permit != nil && refused:
		head += ": " + r.Permit.Action.String() + ", because " + g.String()
	case r.Permit != nil:
		head += ": permit to " + r.Permit.Action.String()
	case refused:
		head += ": " + g.String()
	default:
		head += ": accepted"
	}
	if g.RetryAfter > 0 {
		head += fmt.Sprintf(" (again in %s)", g.RetryAfter)
	}
	return head
}

func arrow(from, to string) string {
	if from == "" && to == "" {
		return ""
	}
	return from + "→" + to
}

func prefixText(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}

func (s *stage) view() []string {
	var out []string
	v := s.f.View()
	for _, u := range v.Units {
		line := u.Unit.String() + " " + u.Phase.String()
		for _, flag := range []struct {
			on   bool
			text string
		}{
			{!u.Ever, "never announced"}, {u.Lost, "lost"}, {u.Depreferred, "depreferred by " + u.Guard},
			{u.Locked, "locked"}, {u.OnHold, "on hold"}, {u.Recalled, "recalled"},
			{u.Order != steadycast.OrderNone, "order " + u.Order.String()},
			{u.Frozen != "", "frozen by " + u.Frozen}, {u.Breaker != "", "breaker: " + u.Breaker},
			{u.CooldownLeftMS > 0, fmt.Sprintf("cooldown %s", wait(Time(u.CooldownLeftMS)))},
			{u.BudgetUsed > 0, fmt.Sprintf("budget %d of %d", u.BudgetUsed, u.BudgetLimit)},
			{u.Cycles > 0, fmt.Sprintf("%d cycles", u.Cycles)},
		} {
			if flag.on {
				line += " · " + flag.text
			}
		}
		out = append(out, line)
	}
	for _, o := range v.Orders {
		what := "all"
		if len(o.Order.Prefixes) > 0 {
			what = list(o.Order.Prefixes)
		}
		line := fmt.Sprintf("order %s %s %s: %s", o.Order.Kind, o.Order.Site, what, o.Order.Reason)
		if o.Until != 0 {
			line += fmt.Sprintf(" (%s left)", wait(Time(o.LeftMS)))
		}
		out = append(out, line)
	}
	for _, d := range v.Decisions {
		out = append(out, fmt.Sprintf("decision %d to %s %s, %s (%s left)", d.Number, d.Action, d.Unit, d.Answer, wait(Time(d.LeftMS))))
	}
	return out
}
