package ledger

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/steadycast/steadycast/decide"
)

// TestMain is also the processes that tests kill: a voter, or the one of TestKill,
// which opens the ledger named in the environment and says on standard output
// each entry that it was answered.
func TestMain(m *testing.M) {
	if plan := os.Getenv("STEADYCAST_TEST_VOTER"); plan != "" {
		beVoter(plan)
	}
	if dir := os.Getenv("STEADYCAST_TEST_LEAVES"); dir != "" {
		beLeft(dir)
	}
	dir := os.Getenv("STEADYCAST_TEST_LEDGER")
	if dir == "" {
		flag.Parse()
		_ = flag.Set("test.parallel", "8") // clusters mostly wait
		os.Exit(m.Run())
	}
	l, err := Open(dir, policy("fra"), (&logbook{}).options())
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	n := 0
	if f := l.View().Freezes; len(f) > 0 {
		n, _ = strconv.Atoi(f[0].Reason)
	}
	for {
		n++
		if _, err := l.Do(context.Background(), decide.KindFreeze, decide.Scope{Site: "fra"}, "ann", strconv.Itoa(n)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println("done", n)
	}
}

// TestKill kills a process with SIGKILL while it writes as fast as it can, again
// and again on the same journal: what was answered is there each time, and at
// most one entry more, which was on disk before its answer.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	answered := 0
	for round := range 8 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "STEADYCAST_TEST_LEDGER="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for i := 0; lines.Scan(); i++ {
			if _, err := fmt.Sscanf(lines.Text(), "done %d", &answered); err != nil {
				t.Fatalf("round %d: %s", round, lines.Text())
			}
			if i == 40+137*round { // the last rounds cross a shortening
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
		l, err := Open(dir, policy("fra"), (&logbook{}).options())
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		kept, err := strconv.Atoi(l.View().Freezes[0].Reason)
		if err != nil || kept < answered || kept > answered+1 {
			t.Fatalf("round %d: answered up to %d, kept %d (%v)", round, answered, kept, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
