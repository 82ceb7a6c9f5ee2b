package lab

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Scenario is a text of steps and facts, one a line. Lines that start with #
// are prose; the first of them is the title. `on` lists the topologies it is for,
// `limit` the time it may take (default 60s). Then, in order:
//
//	start NODE                      start the node's process again
//	stop NODE                       SIGTERM, and wait for its end
//	kill NODE                       SIGKILL to all that runs there, and wait
//	kill NODE ROLE                  SIGKILL to those that play ROLE: speaker, agent
//	signal NAME NODE [ROLE]         HUP, STOP, CONT, TERM, …, to all or to ROLE
//	do NODE: COMMAND                must exit 0
//	exit N NODE: COMMAND            must exit N
//	mark                            what the wire tells is counted from here
//
//	FACT                            is so now
//	within D FACT                   becomes so, in at most D
//	for D FACT                      stays so for the whole of D
//
// and the facts:
//
//	NODE has session ADDRESS        the router's session with it is established
//	NODE lacks session ADDRESS
//	NODE has PREFIX [QUALITY…]      the router's table has such a path
//	NODE lacks PREFIX [QUALITY…]
//	NODE heard N WHAT [PREFIX] [QUALITY…]
//	                                exactly N messages since the mark; WHAT is updates,
//	                                announces, withdrawals, opens or notifications;
//	                                `some` for N means at least one
//	NODE heard only guarded segments    each with an MD5 signature and 255 hops left
//	NODE prints /REGEXP/: COMMAND   the command's output matches
//	[at least] N of NODE NODE… FACT of N of these nodes it is so, and of no more
//	always N of NODE… keep PREFIX   by the wire there was no moment since the mark, however
//	                                short, at which fewer than N of these routers had it
//	                                from one neighbour or another
//	NAME is the one of NODE NODE… that FACT
//	                                of exactly one of them; NAME stands for it from here on
//
// A QUALITY is `with KEY VALUE` or `without KEY VALUE`; the keys are community,
// med, local-pref, next-hop and as-path. End-of-RIB is no update.
type Scenario struct {
	Name  string
	Title string
	// On names the topologies it is for.
	On    []string
	Limit time.Duration
	// Patience is how many times as long as it says everything may take that is
	// waited for, and the whole; 0 is once. A machine that does much else is
	// slower, and what a line says is printed beside what it took.
	Patience int
	steps    []step
}

// step is one line: exactly one of act and fact is set.
type step struct {
	line int
	text string
	act  *action
	fact *fact
	// within and lasting are a fact's time; both 0 means now.
	within, lasting time.Duration
}

type action struct {
	verb string // start, stop, kill, signal, do, mark
	node string
	role string
	sig  syscall.Signal
	argv []string
	exit int
}

type fact struct {
	node string
	// among are the nodes of which it is to be so of many, or more of them; node is
	// empty then, and alias what the one of them is called from here on.
	among []string
	many  int
	more  bool
	alias string

	lacks     bool // has, otherwise
	session   netip.Addr
	prefix    netip.Prefix
	qualities []quality
	// heard is what the wire is asked for: a kind of message, guarded, or kept.
	heard string
	count int // -1 is some
	// prints must match the output of argv.
	prints *regexp.Regexp
	argv   []string
}

// LoadScenario reads a scenario file.
func LoadScenario(path string) (*Scenario, error) {
	f, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseScenario(filepath.Base(path), string(f))
}

func parseScenario(file, text string) (*Scenario, error) {
	s := &Scenario{Name: strings.TrimSuffix(file, ".txt"), Limit: time.Minute}
	var problems []error
	scan := bufio.NewScanner(strings.NewReader(text))
	for n := 1; scan.Scan(); n++ {
		line := strings.TrimSpace(scan.Text())
		switch {
		case strings.HasPrefix(line, "#"):
			if s.Title == "" {
				s.Title = strings.TrimSpace(line[1:])
			}
			continue
		case line == "":
			continue
		}
		if err := s.add(n, line); err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: %w", file, n, err))
		}
	}
	if s.Title == "" {
		problems = append(problems, fmt.Errorf("%s:1: no title; start with a line of prose that says what must be seen", file))
	}
	if len(s.On) == 0 || len(s.steps) == 0 {
		problems = append(problems, fmt.Errorf("%s:1: `on TOPOLOGY…` and at least one step are needed", file))
	}
	return s, errors.Join(problems...)
}

func (s *Scenario) add(n int, line string) error {
	f := strings.Fields(line)
	switch f[0] {
	case "on":
		s.On = f[1:]
		return nil
	case "limit":
		if len(f) != 2 {
			return errors.New("write limit and one duration")
		}
		d, err := time.ParseDuration(f[1])
		s.Limit = d
		return err
	}
	st := step{line: n, text: line}
	a, err := parseAction(f[0], line)
	if err != nil {
		return err
	}
	if st.act = a; a == nil {
		if f[0] == "within" || f[0] == "for" {
			if len(f) < 3 {
				return fmt.Errorf("%s: write a duration and a fact", f[0])
			}
			d, err := time.ParseDuration(f[1])
			if err != nil || d <= 0 {
				return fmt.Errorf("%s %s: not a time; write 500ms, 5s", f[0], f[1])
			}
			if f[0] == "within" {
				st.within = d
			} else {
				st.lasting = d
			}
			_, line, _ = strings.Cut(line, f[1])
		}
		if st.fact, err = parseFact(strings.TrimSpace(line)); err != nil {
			return err
		}
	}
	s.steps = append(s.steps, st)
	return nil
}

var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP,
	"CONT": syscall.SIGCONT, "INT": syscall.SIGINT, "USR1": syscall.SIGUSR1,
}

// parseAction gives nil for a line that is no action.
func parseAction(verb, line string) (*action, error) {
	f := strings.Fields(line)[1:]
	a := &action{verb: verb}
	switch verb {
	case "mark":
		if len(f) != 0 {
			return nil, errors.New("mark stands alone")
		}
		return a, nil
	case "start", "stop":
		if len(f) != 1 {
			return nil, fmt.Errorf("%s: write one node", verb)
		}
		a.node = f[0]
		return a, nil
	case "kill", "signal":
		a.verb, a.sig = "signal", syscall.SIGKILL
		if verb == "signal" && len(f) > 0 {
			sig, ok := signals[f[0]]
			if !ok {
				return nil, fmt.Errorf("signal %s: unknown", f[0])
			}
			a.sig, f = sig, f[1:]
		}
		if len(f) < 1 || len(f) > 2 {
			return nil, fmt.Errorf("%s: write a node, and perhaps a role", verb)
		}
		if a.node, a.role = f[0], strings.Join(f[1:], ""); verb == "kill" && a.role == "" {
			a.verb = "kill"
		}
		return a, nil
	case "do", "exit":
		head, command, _ := strings.Cut(line, ":")
		f = strings.Fields(head)[1:]
		a.verb = "do"
		if verb == "exit" && len(f) > 0 {
			n, err := strconv.Atoi(f[0])
			if err != nil {
				return nil, fmt.Errorf("exit %s: not an exit code", f[0])
			}
			a.exit, f = n, f[1:]
		}
		argv, err := words(command)
		if err != nil {
			return nil, err
		}
		if len(f) != 1 || len(argv) == 0 {
			return nil, fmt.Errorf("write %s NODE: COMMAND", verb)
		}
		a.node, a.argv = f[0], argv
		return a, nil
	}
	return nil, nil
}

var heardKinds = []string{"updates", "announces", "withdrawals", "opens", "notifications"}

func parseFact(line string) (*fact, error) {
	if always, ok := strings.CutPrefix(line, "always "); ok {
		return parseAlways(always)
	}
	line, more := strings.CutPrefix(line, "at least ")
	head, rest, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(head)
	switch one, isOne := strings.CutPrefix(rest, "is the one of "); {
	case isOne:
		return parseAmong(one, "that", fact{many: 1, alias: head})
	case err == nil && strings.HasPrefix(rest, "of "):
		return parseAmong(strings.TrimPrefix(rest, "of "), "", fact{many: n, more: more})
	case more:
		return nil, errors.New("write at least N of NODE NODE…, and a fact")
	}
	return parseOne(line)
}

// parseAmong reads NODE NODE… [WORD] FACT, of as many nodes as want says.
func parseAmong(line, word string, want fact) (*fact, error) {
	f := strings.Fields(line)
	end := slices.IndexFunc(f, func(w string) bool { return w == word || word == "" && slices.Contains(factVerbs, w) })
	if end < 2 {
		return nil, fmt.Errorf("%q: write at least two nodes, then %s", line, strings.TrimSpace(word+" one of "+strings.Join(factVerbs, ", ")))
	}
	nodes := f[:end]
	rest := line
	for range nodes {
		_, rest, _ = strings.Cut(strings.TrimSpace(rest), " ")
	}
	of, err := parseOne(nodes[0] + " " + strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), word)))
	if err != nil {
		return nil, err
	}
	of.node, of.among, of.many, of.more, of.alias = "", nodes, want.many, want.more, want.alias
	return of, nil
}

// parseAlways reads N of NODE… keep PREFIX.
func parseAlways(line string) (*fact, error) {
	f := strings.Fields(line)
	bad := fmt.Errorf("%q: write always N of NODE… keep PREFIX", line)
	if len(f) < 5 || f[1] != "of" || f[len(f)-2] != "keep" {
		return nil, bad
	}
	n, err := strconv.Atoi(f[0])
	if err != nil || n < 1 {
		return nil, bad
	}
	p, err := netip.ParsePrefix(f[len(f)-1])
	return &fact{heard: "kept", among: f[2 : len(f)-2], many: n, prefix: p}, err
}

var factVerbs = []string{"has", "lacks", "heard", "prints"}

// parseOne reads a fact about one node.
func parseOne(line string) (*fact, error) {
	node, rest, _ := strings.Cut(line, " ")
	verb, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	rest = strings.TrimSpace(rest)
	f := &fact{node: node}
	switch verb {
	case "has", "lacks":
		f.lacks = verb == "lacks"
		if a, ok := strings.CutPrefix(rest, "session "); ok {
			addr, err := netip.ParseAddr(strings.TrimSpace(a))
			f.session = addr
			return f, err
		}
		w, err := words(rest)
		if err != nil {
			return nil, err
		}
		return f, f.parsePrefix(w)
	case "heard":
		if rest == "only guarded segments" {
			f.heard = "guarded"
			return f, nil
		}
		w, err := words(rest)
		if err != nil {
			return nil, err
		}
		return f, f.parseHeard(w)
	case "prints":
		expr, command, ok := strings.Cut(strings.TrimPrefix(rest, "/"), "/:")
		re, err := regexp.Compile("(?m)" + expr)
		if err != nil || !ok || !strings.HasPrefix(rest, "/") {
			return nil, fmt.Errorf("write NODE prints /REGEXP/: COMMAND (%v)", err)
		}
		f.prints = re
		if f.argv, err = words(command); err == nil && len(f.argv) == 0 {
			err = errors.New("no command after the regular expression")
		}
		return f, err
	}
	return nil, fmt.Errorf("%q is neither a step nor a fact", line)
}

func (f *fact) parsePrefix(rest []string) (err error) {
	if len(rest) == 0 {
		return errors.New("write a prefix, or session and an address")
	}
	if f.prefix, err = netip.ParsePrefix(rest[0]); err != nil {
		return err
	}
	f.qualities, err = parseQualities(rest[1:])
	return err
}

func (f *fact) parseHeard(rest []string) (err error) {
	if len(rest) < 2 {
		return fmt.Errorf("write how many (or some) of %s", strings.Join(heardKinds, ", "))
	}
	if f.count = -1; rest[0] != "some" {
		if f.count, err = strconv.Atoi(rest[0]); err != nil || f.count < 0 {
			return fmt.Errorf("%q is not a count; write 0, 1, 2 … or some", rest[0])
		}
	}
	if f.heard = strings.TrimSuffix(rest[1], "s") + "s"; !slices.Contains(heardKinds, f.heard) {
		return fmt.Errorf("%q cannot be heard; write one of %s", rest[1], strings.Join(heardKinds, ", "))
	}
	if rest = rest[2:]; len(rest) > 0 && rest[0] != "with" && rest[0] != "without" {
		if f.prefix, err = netip.ParsePrefix(rest[0]); err != nil {
			return err
		}
		rest = rest[1:]
	}
	f.qualities, err = parseQualities(rest)
	return err
}
