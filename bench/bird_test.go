package bench

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bird is Debian's BIRD 2 as the router. It logs each route as it comes and
// goes, with microseconds, unless it is quiet.
type bird struct {
	*process
	b   testing.TB
	ctl string
}

// newBird starts the router at its end of a cable. It awaits the edge.
func newBird(b testing.TB, c cable, quiet bool) *bird {
	b.Helper()
	dir := running.folder(b, "")
	debug := "debug { routes };"
	if quiet {
		debug = ""
	}
	conf := fmt.Sprintf(`log stderr all;
timeformat log iso long us;
router id %[1]s;
protocol device { scan time 60; }
protocol bgp edge {
  %[5]s
  local %[1]s as %[3]d;
  neighbor %[2]s as %[4]d;
  passive on;
  hold time 90;
  ipv4 { import all; export none; };
}
`, routerAddress, edgeAddress, routerASN, edgeASN, debug)
	file := filepath.Join(dir, "bird.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		b.Fatal(err)
	}
	r := &bird{b: b, ctl: filepath.Join(dir, "ctl")}
	r.process = start(b, c.router, nil, "bird", "-f", "-c", file, "-s", r.ctl, "-P", filepath.Join(dir, "pid"))
	r.expect(b, patience, "Started", func(line string) bool { return strings.Contains(line, "Started") })
	return r
}

// added and removed wait until it has taken n routes, or lost them, and give
// the moment of the last.
func (r *bird) added(n int) time.Time   { r.b.Helper(); return r.routes("added", n) }
func (r *bird) removed(n int) time.Time { r.b.Helper(); return r.routes("removed", n) }

func (r *bird) routes(word string, n int) (last time.Time) {
	r.b.Helper()
	r.expect(r.b, patience, fmt.Sprintf("%s %d times", word, n), func(line string) bool {
		at, ok := logged(line, word)
		if ok {
			n--
			last = at
		}
		return n == 0
	})
	return last
}

// logged reads the time of a line about a route that was added or removed:
//
//	2026-01-31 12:00:00.123456 <TRACE> edge.ipv4 > added [best] 192.0.2.53/32 …
func logged(line, word string) (time.Time, bool) {
	const layout = "2006-01-02 15:04:05.000000"
	if len(line) <= len(layout) || !strings.Contains(line, "> "+word+" ") {
		return time.Time{}, false
	}
	at, err := time.ParseInLocation(layout, line[:len(layout)], time.Local)
	return at, err == nil
}

// count waits until exactly n routes of the edge are in its table, asking every
// few milliseconds, and gives the moment of the answer.
func (r *bird) count(n int, within time.Duration) time.Time {
	r.b.Helper()
	conn, err := net.Dial("unix", r.ctl)
	if err != nil {
		r.b.Fatal(err)
	}
	defer conn.Close()
	deadline := time.Now().Add(within)
	if err := conn.SetDeadline(deadline); err != nil {
		r.b.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	have := -1
	for {
		// Its greeting is one answer, and so is each that follows.
		for {
			line, err := answers.ReadString('\n')
			if err != nil {
				r.b.Fatalf("the router has %d routes of %d after %v: %v", have, n, within, err)
			}
			if k, ok := imported(line); ok {
				have = k
			}
			if lastOfAnswer(line) {
				break
			}
		}
		if have == n {
			return time.Now()
		}
		<-time.After(2 * time.Millisecond)
		if _, err := fmt.Fprintln(conn, "show protocols all edge"); err != nil {
			r.b.Fatal(err)
		}
	}
}

// lastOfAnswer: a code and a space end an answer; before the last line a hyphen
// stands in its place, or blanks in place of both.
func lastOfAnswer(line string) bool {
	if len(line) < 5 || line[4] != ' ' {
		return false
	}
	_, err := strconv.ParseUint(line[:4], 10, 16)
	return err == nil
}

// imported reads "Routes: 10000 imported, 0 exported, 10000 preferred".
func imported(line string) (int, bool) {
	_, rest, ok := strings.Cut(line, "Routes:")
	if !ok {
		return 0, false
	}
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.Atoi(number)
	return n, err == nil
}

func TestReadsBIRD(t *testing.T) {
	want := time.Date(2026, 1, 31, 12, 0, 0, 123456000, time.Local)
	line := "2026-01-31 12:00:00.123456 <TRACE> edge.ipv4 > removed [replaced] 192.0.2.53/32 unicast"
	if at, ok := logged(line, "removed"); !ok || !at.Equal(want) {
		t.Errorf("%q: %v, %v", line, at, ok)
	}
	for _, line := range []string{line, "bird: Started", "", "x > added y"} {
		if at, ok := logged(line, "added"); ok {
			t.Errorf("%q says that a route was added at %v", line, at)
		}
	}
	for line, last := range map[string]bool{"0001 BIRD 2.0.12 ready.\n": true, "0000 \n": true, "1006-  Neighbor AS: 64601\n": false, "     Routes: 1\n": false, "\n": false} {
		if lastOfAnswer(line) != last {
			t.Errorf("%q: last of an answer: %v", line, !last)
		}
	}
	if n, ok := imported("    Routes:         100 imported, 0 exported, 100 preferred\n"); !ok || n != 100 {
		t.Errorf("read %d, %v", n, ok)
	}
	if n, ok := imported("    Neighbor AS:    64601\n"); ok {
		t.Errorf("read %d routes where none are named", n)
	}
}
