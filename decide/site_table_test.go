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

var updateSite = flag.Bool("update", false, "write what the site machine really does into testdata/site")

// TestSiteScenarios runs the stories in testdata/site: a line that begins with
// ">" is a command, what follows it until the next is what the site did. The
// commands are explained in testdata/site/README.
func TestSiteScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/site/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %d stories in testdata/site: %v", len(files), err)
	}
	for _, file := range files {
		if filepath.Base(file) == "chart.txt" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playStory(t, string(text))
			if *updateSite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("the site does something else than the story says; run with -update and read the difference.\n%s", lineDiff(string(text), got))
			}
		})
	}
}

// lineDiff names the first line that differs, with some of what follows.
func lineDiff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := 0; i < max(len(w), len(g)); i++ {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			cut := func(s []string) string { return strings.Join(s[min(i, len(s)):min(i+6, len(s))], "\n") }
			return fmt.Sprintf("line %d\nwant:\n%s\ngot:\n%s", i+1, cut(w), cut(g))
		}
	}
	return "no difference"
}

// story is one site and a script's idea of the world around it.
type story struct {
	t     *testing.T
	b     strings.Builder
	line  int
	o     SiteOptions
	site  *Site
	now   Now
	seq   uint64
	view  View
	asked *steadycast.Request
	set   steadycast.RouteSet
	act   steadycast.Actual
}

func playStory(t *testing.T, text string) string {
	st := &story{t: t}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		st.line = i + 1
		switch {
		case strings.HasPrefix(line, ">"):
			st.b.WriteString(line + "\n")
			st.command(splitWords(line[1:]))
		case strings.HasPrefix(line, "  "):
		default:
			st.b.WriteString(line + "\n")
		}
	}
	return st.b.String()
}

// splitWords splits at spaces, but not within double quotes, which it removes.
func splitWords(s string) []string {
	var ws []string
	for len(s) > 0 {
		if s = strings.TrimLeft(s, " "); s == "" {
			break
		}
		var w string
		if s[0] == '"' {
			w, s, _ = strings.Cut(s[1:], `"`)
		} else if i := strings.IndexByte(s, ' '); i >= 0 {
			w, s = s[:i], s[i:]
		} else {
			w, s = s, ""
		}
		ws = append(ws, w)
	}
	return ws
}

func (st *story) fail(format string, args ...any) {
	st.t.Helper()
	st.t.Fatalf("line %d: %s", st.line, fmt.Sprintf(format, args...))
}

func (st *story) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		st.fail("%v", err)
	}
	return d
}

func (st *story) command(ws []string) {
	switch ws[0] {
	case "site":
		st.build(ws[1:])
		return
	case "explain":
		st.explain()
		return
	case "beat":
		b := st.site.Beat()
		fmt.Fprintf(&st.b, "  beat announcing=%v returned=%v dead_through=%v\n", b.Announcing, b.Returned, b.DeadThrough)
		for _, r := range b.Ramps {
			fmt.Fprintf(&st.b, "  beat ramp %s since %s: passed=%d failed=%d slow=%d\n", r.Service, r.Step, r.Passed, r.Failed, r.Slow)
		}
		return
	}
	st.advance(st.duration(ws[0]))
	verb, args := ws[1], ws[2:]
	switch verb {
	case "obs":
		st.obs(args)
	case "commit":
		st.commit(args)
	case "grant", "deprefer", "refuse", "stale":
		st.answer(verb, args)
	case "proved":
		st.proved(args)
	case "seen":
		st.step(Viewed{Name: args[0], Prefix: netip.MustParsePrefix(args[1]), Outcome: outcomeOf(args[2]), From: st.now})
	case "elsewhere":
		st.step(Elsewhere{Name: args[0], Prefix: netip.MustParsePrefix(args[1]), Outcome: outcomeOf(args[2]), From: st.now})
	case "speaker":
		st.step(SpeakerLost{Reason: args[0]})
	case "ledger":
		st.step(LedgerLost{Reason: args[0]})
	case "tick":
		st.step(Tick{})
	case "load":
		n, _ := strconv.ParseInt(args[0], 10, 64)
		st.step(Loaded{Load: n, From: st.now})
	case "names": // SERVICE REASON…
		st.step(Outdated{Service: args[0], Reason: strings.Join(args[1:], " ")})
	case "outdated":
		st.step(Outdated{Reason: strings.Join(args, " ")})
	case "unfenced":
		st.step(Unfenced{})
	default:
		st.fail("unknown command %q", verb)
	}
}

// advance ticks at every instant the site asks for, up to at.
func (st *story) advance(at Now) {
	for {
		w, ok := st.site.Wake()
		if !ok || w > at {
			break
		}
		if w < st.now {
			st.fail("Wake is in the past: %v < %v", w, st.now)
		}
		st.now = w
		effects := st.site.Step(w, Tick{})
		if again, ok := st.site.Wake(); ok && again <= w {
			st.fail("Wake does not move on from %v", w)
		}
		if len(effects) > 0 {
			fmt.Fprintf(&st.b, "  at %v\n", w)
			st.show(effects)
		}
	}
	st.now = max(st.now, at)
}

func (st *story) step(in Input) { st.show(st.site.Step(st.now, in)) }

func (st *story) build(ws []string) {
	var t Table
	h := Health{}
	o := SiteOptions{Name: ws[0], Node: ws[0] + "-1", Incarnation: 1, Off: -1}
	sv := map[string]*Service{}
	var names []string
	var mode string
	var require Require
	t.Sites = []Place{{Name: ws[0]}}
	for _, w := range ws[1:] {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "solo":
			o.Solo = true
		case "others":
			for _, n := range strings.Split(v, ",") {
				n, group, _ := strings.Cut(n, "@")
				t.Sites = append(t.Sites, Place{Name: n, Group: group})
			}
		case "witness":
			t.Sites = append(t.Sites, Place{Name: v, Witness: true})
		case "service":
			name, ps, announces := strings.Cut(v, ":")
			s := &Service{Name: name}
			for p := range strings.SplitSeq(ps, "+") {
				if !announces {
					break
				}
				s.Prefixes = append(s.Prefixes, netip.MustParsePrefix(p))
			}
			sv[name], names = s, append(names, name)
		case "any":
			t.Prefixes = append(t.Prefixes, Prefix{Prefix: netip.MustParsePrefix(v), Needs: NeedsAny})
		case "require":
			a, expr, _ := strings.Cut(v, ":")
			if a == "withdraw" {
				require.Withdraw = expr
			} else {
				require.Return = expr
			}
		case "mode":
			mode = v
		case "fall":
			h.Fall, _ = strconv.Atoi(v)
		case "rise":
			h.Rise, _ = strconv.Atoi(v)
		case "hold_up":
			h.HoldUp = st.duration(v)
		case "down_for":
			d := st.duration(v)
			h.DownFor = &d
		case "off":
			o.Off = st.duration(v)
		case "ramp":
			t.Ramp = &Ramp{Latency: st.duration(v)}
		case "patience":
			t.Drain = &Drain{Residual: 10, Patience: st.duration(v)}
		case "jitter":
			o.Jitter = st.duration(v)
		case "last_resort":
			o.LastResort = st.duration(v)
		case "isolated":
			o.Isolated = v
		case "inc":
			o.Incarnation, _ = strconv.ParseUint(v, 10, 64)
		case "fence":
			o.Fence = steadycast.Fence{Epoch: 1}
			o.Fence.Index, _ = strconv.ParseUint(v, 10, 64)
		default:
			st.fail("unknown option %q", k)
		}
	}
	if len(names) == 0 {
		names = []string{"web"}
		sv["web"] = &Service{Name: "web", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	}
	for _, n := range names {
		sv[n].Health, sv[n].Mode, sv[n].Require = h, mode, require
		t.Services = append(t.Services, *sv[n])
	}
	if ps := t.Problems(); len(ps) > 0 {
		st.fail("%v", ps)
	}
	o.Table = t
	st.o, st.site, st.now, st.asked = o, NewSite(o), 0, nil
	st.view.Table = t.WithDefaults()
	if st.view.Fence == (steadycast.Fence{}) {
		for _, p := range t.PrefixesAt(o.Name) {
			st.view.Units = append(st.view.Units, UnitView{Unit: steadycast.Unit{Site: o.Name, Prefix: p}})
		}
		st.act.Started = 1
	}
}

// obs SERVICE VANTAGE OUTCOME [CLASS] ["reason"] [xN EVERY] [age=D]
func (st *story) obs(ws []string) {
	o := steadycast.Observation{Subject: st.o.Name, Service: ws[0], Vantage: ws[1]}
	if err := o.Result.Outcome.UnmarshalText([]byte(ws[2])); err != nil {
		st.fail("%v", err)
	}
	times, every, age := 1, time.Duration(0), time.Duration(0)
	for i := 3; i < len(ws); i++ {
		switch w := ws[i]; {
		case w == "hard" || w == "soft":
			o.Result.Class.UnmarshalText([]byte(w))
		case strings.HasPrefix(w, "age="):
			age = st.duration(w[4:])
		case strings.HasPrefix(w, "ineligible="):
			o.Ineligible = w[11:]
		case len(w) > 1 && w[0] == 'x' && w[1] >= '0' && w[1] <= '9':
			times, _ = strconv.Atoi(w[1:])
			every = st.duration(ws[i+1])
			i++
		default:
			o.Result.Reason = w
		}
	}
	for i := range times {
		if i > 0 {
			st.advance(st.now + every)
		}
		for _, v := range strings.Split(ws[1], "+") {
			st.seq++
			o.Vantage, o.Seq = v, st.seq
			effects := st.site.Step(st.now, Observed{Observation: o, From: st.now - age})
			if i > 0 && len(effects) > 0 {
				fmt.Fprintf(&st.b, "  at %v\n", st.now)
			}
			st.show(effects)
		}
	}
}

// commit [PREFIX=]PHASE[,flag…]… changes the view and sends it.
func (st *story) commit(ws []string) {
	for _, w := range ws {
		p, v, ok := strings.Cut(w, "=")
		if !ok {
			p, v = "", w
		}
		for i := range st.view.Units {
			u := &st.view.Units[i]
			if p != "" && u.Unit.Prefix != netip.MustParsePrefix(p) {
				continue
			}
			for _, f := range strings.Split(v, ",") {
				st.flag(u, f)
			}
		}
	}
	st.view.Fence.Epoch = 1
	st.view.Fence.Index++
	v := st.view
	v.Units = slices.Clone(v.Units)
	st.step(Committed{View: v})
}

func (st *story) flag(u *UnitView, f string) {
	k, v, _ := strings.Cut(f, ":")
	switch k {
	case "same":
	case "in", "out", "returning":
		u.Phase.UnmarshalText([]byte(k))
		u.Ever = u.Ever || k == "in"
	case "order":
		u.Order.UnmarshalText([]byte(v))
		st.view.Orders = nil
		if u.Order != steadycast.OrderNone {
			u.Permit = steadycast.Permit{Unit: u.Unit, Action: steadycast.Withdraw}
			st.view.Orders = []StandingOrder{{Order: steadycast.Order{Kind: u.Order, Site: st.o.Name, Actor: "alice", Reason: "because"}}}
		}
		if u.Order == steadycast.OrderAnnounce {
			u.Return = steadycast.RequestID{Seq: 7}
			u.Permit = steadycast.Permit{Unit: u.Unit, Action: steadycast.Return, ID: u.Return}
		}
	case "frozen":
		u.Frozen = v
	case "locked":
		u.Locked = true
	case "unlocked":
		u.Locked = false
	case "names": // what caches have left, by the view
		u.NamesLeftMS = st.duration(v).Milliseconds()
	case "step": // of the ramp; 0 as backup, none when it is over
		step, err := strconv.Atoi(v)
		u.Backup, st.view.Shares = err == nil && step == 0, nil
		if err == nil {
			st.view.Shares = []ShareView{{Site: st.o.Name, Service: "web", Ramp: RampView{Step: step, Of: 4, Fence: st.view.Fence}}}
		}
	case "onhold":
		u.OnHold = true
	case "approved":
		u.Decision, u.Approved = 1, true
	case "recalled":
		u.Recalled = true
	case "depref":
		u.Depreferred, u.Guard = true, "floor"
	case "withdrawn": // by a permit of an earlier incarnation
		u.Phase = steadycast.Out
		u.Permit = steadycast.Permit{Unit: u.Unit, Action: steadycast.Withdraw, ID: steadycast.RequestID{Incarnation: 1, Seq: 9}}
	default:
		st.fail("unknown flag %q", f)
	}
}

// grant | deprefer GUARD TEXT [RETRY] | refuse GUARD TEXT [RETRY] | stale
func (st *story) answer(verb string, ws []string) {
	if st.asked == nil {
		st.fail("nothing was asked")
	}
	a := Answer{ID: st.asked.ID, Site: st.o.Name, Stale: verb == "stale"}
	st.view.Fence.Epoch = 1
	st.view.Fence.Index++
	for _, p := range st.asked.Prefixes {
		r := Ruling{Unit: steadycast.Unit{Site: st.o.Name, Prefix: p}}
		permit := &steadycast.Permit{Unit: r.Unit, ID: st.asked.ID, Action: st.asked.Action, Fence: st.view.Fence}
		if verb == "deprefer" || verb == "refuse" {
			g := steadycast.GuardAnswer{Guard: ws[0], Text: ws[1]}
			if len(ws) > 2 {
				g.RetryAfter = st.duration(ws[2])
			}
			r.Guards = []steadycast.GuardAnswer{{Guard: "freeze", Pass: true}, g}
			permit.Action = steadycast.Deprefer
		}
		if verb == "grant" || verb == "deprefer" {
			r.Permit = permit
		}
		for i := range st.view.Units {
			u := &st.view.Units[i]
			if u.Unit != r.Unit || r.Permit == nil {
				continue
			}
			u.Permit = *permit
			switch permit.Action {
			case steadycast.Withdraw:
				u.Phase = steadycast.Out
			case steadycast.Return:
				u.Phase, u.Return = steadycast.Returning, permit.ID
			case steadycast.Deprefer:
				u.Depreferred = true
			}
		}
		if verb != "stale" {
			a.Rulings = append(a.Rulings, r)
		}
	}
	if len(ws) > 0 && ws[len(ws)-1] == "lost" {
		return
	}
	st.step(Answered{Answer: a})
}

// proved PEER[=all|none|noack|PREFIX]… [started=N] [alarm=TEXT]: peers that are
// up, and what they were sent: all that is wanted (default), or less.
func (st *story) proved(ws []string) {
	a := steadycast.Actual{
		Incarnation: st.set.Incarnation, Version: st.set.Version, Started: st.act.Started,
		Peers: []steadycast.Peer{{Name: "p1", State: "idle"}, {Name: "p2", State: "idle"}},
	}
	at := time.Unix(0, 0).Add(st.now)
	for _, w := range ws {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "started":
			a.Started, _ = strconv.ParseUint(v, 10, 64)
			continue
		case "alarm":
			a.Alarm = v
			continue
		}
		i := slices.IndexFunc(a.Peers, func(p steadycast.Peer) bool { return p.Name == k })
		a.Peers[i].State = "established"
		row := steadycast.Sent{Peer: k, Announced: true, At: at, Acked: at}
		switch v {
		case "none":
		case "stuck":
			a.Peers[i].State = steadycast.PeerStuck
			for _, r := range st.act.Sent {
				if r.Peer == k {
					a.Sent = append(a.Sent, r)
				}
			}
		case "", "all", "noack", "stale":
			if v == "noack" {
				row.Acked = time.Time{}
			}
			row.Stale = v == "stale"
			for _, r := range st.act.Sent {
				if _, wanted := st.set.Find(r.Prefix); r.Peer == k && !wanted {
					r.Announced, r.At, r.Acked = false, row.At, row.Acked
					a.Sent = append(a.Sent, r)
				}
			}
			for _, r := range st.set.Routes {
				row.Prefix = r.Prefix
				a.Sent = append(a.Sent, row)
			}
		default:
			for _, p := range strings.Split(v, "+") {
				row.Prefix = netip.MustParsePrefix(p)
				a.Sent = append(a.Sent, row)
			}
		}
	}
	st.act = a
	st.step(Proved{Actual: a})
}

func (st *story) show(effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case Report:
			for _, v := range e.Verdicts {
				st.view.Verdicts = slices.DeleteFunc(slices.Clone(st.view.Verdicts), func(o steadycast.Verdict) bool { return o.Service == v.Service })
				st.view.Verdicts = append(st.view.Verdicts, v)
				held := ""
				if v.Held {
					held = " held"
				}
				fmt.Fprintf(&st.b, "  report %s %s%s class=%s bad=%d good=%d\n", v.Service, v.State, held, v.Class, v.Bad, v.Good)
			}
		case Ask:
			st.asked = &e.Request
			var who []string
			for _, o := range e.Request.Evidence {
				who = append(who, o.Vantage+":"+o.Result.Outcome.String())
			}
			fmt.Fprintf(&st.b, "  ask %s %s %v class=%s evidence=%v\n", e.Request.ID, e.Request.Action, e.Request.Prefixes, e.Request.Class, who)
			for _, c := range e.Request.Conditions {
				fmt.Fprintf(&st.b, "    condition of %s: %s: %s\n", c.Service, c.Outcome, c.Text)
			}
		case GiveUp:
			fmt.Fprintf(&st.b, "  give up through %s, still announcing %v\n", e.ID, e.Units)
		case Announce:
			st.set = e.Set
			fmt.Fprintf(&st.b, "  announce v%d:", e.Set.Version)
			for _, r := range e.Set.Routes {
				fmt.Fprintf(&st.b, " %s %s", r.Prefix, r.Stance)
			}
			st.b.WriteString("\n")
		case Pace:
			fmt.Fprintf(&st.b, "  pace %s fast=%v\n", e.Service, e.Fast)
		case Note:
			v := e.Event
			fmt.Fprintf(&st.b, "  note %s", v.Kind)
			for _, w := range []string{v.Service, v.Peer} {
				if w != "" {
					st.b.WriteString(" " + w)
				}
			}
			if v.Prefix.IsValid() {
				st.b.WriteString(" " + v.Prefix.String())
			}
			if v.From != "" || v.To != "" {
				fmt.Fprintf(&st.b, " %s→%s", v.From, v.To)
			}
			if v.Guard != "" {
				st.b.WriteString(" guard=" + v.Guard)
			}
			fmt.Fprintf(&st.b, ": %s\n", v.Reason)
		}
	}
}

func (st *story) explain() {
	e := st.site.Explain()
	for _, w := range []struct{ k, v string }{{"waiting", e.Waiting}, {"frozen", e.Frozen}, {"ledger lost", e.LedgerLost}, {"speaker lost", e.SpeakerLost}} {
		if w.v != "" {
			fmt.Fprintf(&st.b, "  %s: %s\n", w.k, w.v)
		}
	}
	for _, s := range e.Services {
		fmt.Fprintf(&st.b, "  service %s %s for %v; %d fresh, quorum %d, least %d; next: %s\n",
			s.Verdict.Service, s.Verdict.State, s.For, s.Fresh, s.Quorum, s.Least, s.Next)
	}
	for _, u := range e.Units {
		fmt.Fprintf(&st.b, "  unit %s phase=%s announced=%v %s wants=%s proven=%v: %s\n",
			u.Unit.Prefix, u.View.Phase, u.Announced, u.Stance, u.Wants, u.Proven, u.Reason)
		for _, w := range []struct{ k, v string }{{"blocked", u.Blocked}, {"refused", u.Refused}, {"unproven", u.Unproven}} {
			if w.v != "" {
				fmt.Fprintf(&st.b, "    %s: %s\n", w.k, w.v)
			}
		}
	}
}

func outcomeOf(word string) (o steadycast.Outcome) {
	if err := o.UnmarshalText([]byte(word)); err != nil {
		panic(err)
	}
	return o
}
