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
	return Entry{Kind: kind, Schema: Schema, Rules: RulesLevel, Epoch: max(s.f.Fence().Epoch, 1), LT: s.lt, Proposer: "test"}
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
	case "divert", "diverts", "path", "levels":
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
	case "says": // VANTAGE=up|down|unknown|ineligible|silent…, of whatever site asks; own is that site itself
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
	case "recover", "reconcile":
		return s.recovering(words[0], args, text)
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
