package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// play is one run of a scenario. It belongs to the goroutine that calls [Play].
type play struct {
	lab      *Lab
	out      io.Writer
	patience time.Duration  // times
	marks    map[string]int // per router, the first message that counts
	marked   time.Time
	called   map[string]string // nodes by the names that the scenario gave them
}

// pause is how often a fact is looked at again.
const pause = 100 * time.Millisecond

// Play runs a scenario in a lab that is up, writing what was expected beside
// what was seen. The first line that does not come out ends it with an error.
func Play(ctx context.Context, l *Lab, s *Scenario, out io.Writer) error {
	patience := time.Duration(max(s.Patience, 1))
	ctx, cancel := context.WithTimeout(ctx, s.Limit*patience)
	defer cancel()
	p := &play{lab: l, out: out, patience: patience, marks: map[string]int{}, marked: time.Now(), called: map[string]string{}}
	fmt.Fprintf(out, "%s on %s: %s\n", s.Name, l.topo.Name, s.Title)
	for _, st := range s.steps {
		began := time.Now()
		saw, err := p.step(ctx, st)
		took := time.Since(began).Round(time.Millisecond)
		word := "ok  "
		switch {
		case err != nil:
			word = "FAIL"
		case st.within > 0 && took > st.within:
			word = "slow"
		}
		fmt.Fprintf(out, "  %s %7s  %-66s | %s\n", word, took, st.text, saw)
		if err != nil {
			p.explain()
			return fmt.Errorf("%s.txt:%d: expected: %s; actual: %s: %w", s.Name, st.line, st.text, saw, err)
		}
	}
	return nil
}

var errNotSo = errors.New("not so")

func (p *play) step(ctx context.Context, st step) (saw string, err error) {
	if st.act != nil {
		return p.act(ctx, st.act)
	}
	deadline := time.Now().Add(st.within*p.patience + st.lasting)
	for {
		ok, saw, err := p.look(ctx, st.fact)
		late := !time.Now().Before(deadline)
		switch {
		case ctx.Err() != nil:
			return saw, errors.New("the scenario's time is over")
		case st.lasting > 0:
			if err != nil || !ok {
				return saw, because(err)
			}
			if late {
				return saw, nil
			}
		case ok && err == nil:
			return saw, nil
		case late:
			return saw, because(err)
		}
		select {
		case <-time.After(min(pause, max(time.Until(deadline), time.Millisecond))):
		case <-ctx.Done():
		}
	}
}

func because(err error) error {
	if err == nil {
		return errNotSo
	}
	return err
}

// node is the node of that name, or the one that the scenario calls so.
func (p *play) node(name string) string { return cmp.Or(p.called[name], name) }

func (p *play) act(ctx context.Context, a *action) (saw string, err error) {
	if real := p.node(a.node); real != a.node {
		b := *a
		b.node = real
		a = &b
	}
	switch a.verb {
	case "mark":
		p.marked = time.Now()
		for name, m := range p.lab.nodes {
			if m.wire != nil {
				heard, err := m.wire.since(0)
				if err != nil {
					return "the capture at " + name + " is not whole", err
				}
				p.marks[name] = len(heard)
			}
		}
		return "", nil
	case "start":
		return "", p.lab.Start(a.node)
	case "stop":
		return "", p.lab.Stop(ctx, a.node)
	case "kill":
		return "", p.lab.Kill(ctx, a.node)
	case "signal":
		n, err := p.lab.Signal(a.node, a.role, a.sig)
		return fmt.Sprintf("%s to %d processes", signalName(a.sig), n), err
	}
	stdout, stderr, code, err := p.lab.Exec(ctx, a.node, a.argv)
	saw = fmt.Sprintf("exit %d: %s", code, oneLine(stdout, stderr))
	if err == nil && code != a.exit {
		err = errNotSo
	}
	return saw, err
}

func signalName(s syscall.Signal) string {
	for name, sig := range signals {
		if sig == s {
			return "SIG" + name
		}
	}
	return s.String()
}

// oneLine is a command's output, fit to stand in a table.
func oneLine(texts ...[]byte) string {
	var parts []string
	for _, t := range texts {
		if s := strings.Join(strings.Fields(string(t)), " "); s != "" {
			parts = append(parts, s)
		}
	}
	s := []rune(strings.Join(parts, " · "))
	if len(s) > 300 {
		s = append(s[:300], '…')
	}
	return string(s)
}

// look says whether a fact is so, and what was seen either way.
func (p *play) look(ctx context.Context, f *fact) (ok bool, saw string, err error) {
	switch {
	case f.heard == "kept":
		return p.kept(f)
	case f.among != nil:
		return p.lookAmong(ctx, f)
	}
	if real := p.node(f.node); real != f.node {
		g := *f
		g.node = real
		f = &g
	}
	switch {
	case f.prints != nil:
		stdout, stderr, code, err := p.lab.Exec(ctx, f.node, f.argv)
		return f.prints.Match(stdout), fmt.Sprintf("exit %d: %s", code, oneLine(stdout, stderr)), err
	case f.heard == "guarded":
		return p.guarded(f)
	case f.heard != "":
		return p.heard(f)
	case f.session.IsValid():
		up, err := p.lab.Sessions(ctx, f.node)
		state, known := up[f.session]
		switch {
		case err != nil:
			return false, "", err
		case !known:
			return false, "no such neighbour", nil
		case state:
			return !f.lacks, "established", nil
		}
		return f.lacks, "not established", nil
	}
	paths, err := p.lab.Paths(ctx, f.node, f.prefix)
	if err != nil {
		return false, "", err
	}
	matching := slices.DeleteFunc(slices.Clone(paths), func(q Path) bool { return !all(f.qualities, q) })
	saw = "no path"
	if len(paths) > 0 {
		saw = strings.Trim(fmt.Sprint(paths), "[]")
	}
	return (len(matching) > 0) != f.lacks, saw, nil
}

// lookAmong asks several nodes the same, and says of which it is so.
func (p *play) lookAmong(ctx context.Context, f *fact) (ok bool, saw string, err error) {
	var so, seen []string
	for _, node := range f.among {
		g := *f
		g.node, g.among = node, nil
		ok, saw, err := p.look(ctx, &g)
		if err != nil {
			return false, node + ": " + saw, err
		}
		if ok {
			so = append(so, node)
		}
		seen = append(seen, node+": "+saw)
	}
	if ok = len(so) == f.many || f.more && len(so) > f.many; ok && f.alias != "" {
		p.called[f.alias] = so[0]
	}
	return ok, fmt.Sprintf("%d (%s): %s", len(so), strings.Join(so, " "), strings.Join(seen, " · ")), nil
}

// told is a message and the router that heard it.
type told struct {
	node string
	Heard
}

// kept reports whether at no moment since the mark fewer routers than wanted had
// the prefix, by what they were told.
func (p *play) kept(f *fact) (ok bool, saw string, err error) {
	var all []told
	for _, node := range f.among {
		w, err := p.wire(node)
		if err != nil {
			return false, "", err
		}
		heard, err := w.since(0)
		if err != nil {
			return false, "", err
		}
		for _, h := range heard {
			all = append(all, told{node, h})
		}
	}
	n, when := fewest(all, f.prefix, p.marked)
	return n >= f.many, fmt.Sprintf("at the fewest %d (%s)", n, when), nil
}

// fewest is the least number of routers that had the prefix, from whichever neighbour,
// at any moment from marked on, and when that was.
func fewest(all []told, prefix netip.Prefix, marked time.Time) (least int, when string) {
	slices.SortStableFunc(all, func(a, b told) int { return a.At.Compare(b.At) })
	have := map[string]map[netip.Addr]bool{} // only those that have it, and from whom
	least, when = -1, "at the mark"
	for _, t := range all {
		if t.At.After(marked) && least < 0 {
			least = len(have)
		}
		switch {
		case t.Kind == bgpOpen, slices.Contains(t.Withdrawn, prefix): // a new session begins with nothing
			if delete(have[t.node], t.From); len(have[t.node]) == 0 {
				delete(have, t.node)
			}
		case slices.Contains(t.Announced, prefix):
			if have[t.node] == nil {
				have[t.node] = map[netip.Addr]bool{}
			}
			have[t.node][t.From] = true
		}
		if least > len(have) {
			least, when = len(have), fmt.Sprintf("+%s %s", t.At.Sub(marked).Round(time.Millisecond), t.node)
		}
	}
	if least < 0 {
		least = len(have)
	}
	return least, when
}

func all(qs []quality, p Path) bool {
	return !slices.ContainsFunc(qs, func(q quality) bool { return !q.of(p) })
}

func (p *play) wire(node string) (*capture, error) {
	m, err := p.lab.member(node)
	if err != nil {
		return nil, err
	}
	if m.wire == nil {
		return nil, fmt.Errorf("node %s is no router: nothing is captured there", node)
	}
	return m.wire, nil
}

func (p *play) guarded(f *fact) (ok bool, saw string, err error) {
	w, err := p.wire(f.node)
	if err != nil {
		return false, "", err
	}
	n, unsigned, routed := w.guarded()
	return n > 0 && unsigned == 0 && routed == 0, fmt.Sprintf("%d segments, %d without MD5, %d with fewer than 255 hops left", n, unsigned, routed), nil
}

func (p *play) heard(f *fact) (ok bool, saw string, err error) {
	w, err := p.wire(f.node)
	if err != nil {
		return false, "", err
	}
	heard, err := w.since(p.marks[f.node])
	if err != nil {
		return false, "", err
	}
	var found []string
	for _, h := range heard {
		if f.matches(h) {
			found = append(found, fmt.Sprintf("+%s %s", h.At.Sub(p.marked).Round(time.Millisecond), h))
		}
	}
	ok = len(found) == f.count || f.count < 0 && len(found) > 0
	return ok, strings.TrimSuffix(fmt.Sprintf("%d: %s", len(found), strings.Join(found, " · ")), ": "), nil
}

// matches reports whether a message is of the kind that f counts.
func (f *fact) matches(h Heard) bool {
	about := func(of []netip.Prefix) bool {
		return !f.prefix.IsValid() && len(of) > 0 || slices.Contains(of, f.prefix)
	}
	announces := about(h.Announced) && all(f.qualities, h.Path)
	withdraws := about(h.Withdrawn) && len(f.qualities) == 0
	switch f.heard {
	case "announces":
		return announces
	case "withdrawals":
		return withdraws
	case "updates":
		return announces || withdraws
	case "opens":
		return h.Kind == bgpOpen
	default: // notifications
		return h.Kind == bgpNotification
	}
}

// explain writes what a person needs to see why a line failed.
func (p *play) explain() {
	for _, n := range p.lab.topo.Nodes {
		if m := p.lab.nodes[n.Name]; m != nil && m.wire != nil {
			heard, err := m.wire.since(0)
			fmt.Fprintf(p.out, "  --- heard by %s (times from the last mark)\n", n.Name)
			if err != nil {
				fmt.Fprintf(p.out, "  capture fault: %v\n", err)
			}
			for _, h := range heard {
				if h.Kind != bgpKeepalive {
					fmt.Fprintf(p.out, "  %+9s %s\n", h.At.Sub(p.marked).Round(time.Millisecond), h)
				}
			}
		}
		if log := strings.TrimSpace(p.lab.Log(n.Name)); log != "" {
			lines := strings.Split(log, "\n")
			fmt.Fprintf(p.out, "  --- last words of %s\n  %s\n", n.Name, strings.Join(lines[max(0, len(lines)-40):], "\n  "))
		}
	}
}
