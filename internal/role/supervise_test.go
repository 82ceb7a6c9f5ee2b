package role

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// supervised is a supervisor process with a speaker and an agent.
type supervised struct {
	*testing.T
	cmd *exec.Cmd
	dir string
	log *bytes.Buffer
}

func supervise(t *testing.T, modes map[string]string) *supervised {
	t.Helper()
	s := &supervised{T: t, dir: t.TempDir(), log: &bytes.Buffer{}}
	for name, mode := range modes {
		if err := os.WriteFile(filepath.Join(s.dir, name+".mode"), []byte(mode), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.cmd = child("supervise", s.dir)
	s.cmd.Stderr = s.log
	// The standard error of the wards must not keep Wait waiting, should one be left.
	s.cmd.WaitDelay = time.Second
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		for _, pid := range s.pids() { // whatever the test found, leave no one behind
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return s
}

func (s *supervised) events() []string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "events"))
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// pids are the children that ever started and still run.
func (s *supervised) pids() (pids []int) {
	for _, e := range s.events() {
		var name, what string
		var pid int
		if n, _ := fmt.Sscan(e, &name, &what, &pid); n == 3 && what == "start" && running(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// until waits for n events that begin with prefix and gives the pid of the last.
func (s *supervised) until(prefix string, n int) (pid int) {
	s.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		var found []string
		for _, e := range s.events() {
			if strings.HasPrefix(e, prefix+" ") {
				found = append(found, e)
			}
		}
		if len(found) >= n {
			fmt.Sscan(found[n-1][len(prefix):], &pid)
			return pid
		}
		<-time.After(5 * time.Millisecond)
	}
	s.Fatalf("no %d × %q in\n%s\n%s", n, prefix, strings.Join(s.events(), "\n"), s.log)
	return 0
}

func (s *supervised) kill(pid int, sig syscall.Signal) {
	s.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		s.Fatal(err)
	}
}

func (s *supervised) ended(code int) {
	s.Helper()
	done := make(chan struct{})
	go func() { s.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		s.Fatalf("the supervisor does not end\n%s", s.log)
	}
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.Errorf("exit code %d, want %d\n%s", got, code, s.log)
	}
	s.nobodyLeft()
}

func (s *supervised) nobodyLeft() {
	s.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for len(s.pids()) > 0 {
		if time.Now().After(deadline) {
			s.Fatalf("still running: %v", s.pids())
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestSuperviseStopsInOrder(t *testing.T) {
	s := supervise(t, nil)
	s.until("speaker start", 1)
	s.until("agent start", 1)
	s.kill(s.cmd.Process.Pid, syscall.SIGHUP)
	s.until("speaker hangup", 1)
	s.until("agent hangup", 1)
	s.kill(s.cmd.Process.Pid, syscall.SIGUSR1)
	s.until("agent user", 1)
	s.kill(s.cmd.Process.Pid, syscall.SIGTERM)
	s.ended(0)
	events := s.events()
	at := func(prefix string) int {
		return slices.IndexFunc(events, func(e string) bool { return strings.HasPrefix(e, prefix) })
	}
	if agent, speaker := at("agent end"), at("speaker terminated"); agent < 0 || speaker < agent {
		t.Errorf("the speaker was asked to stop before the agent was gone:\n%s", strings.Join(events, "\n"))
	}
}

func TestSuperviseStartsTheCrashedAgain(t *testing.T) {
	s := supervise(t, nil)
	speaker := s.until("speaker start", 1)
	s.kill(s.until("agent start", 1), syscall.SIGKILL)
	second := s.until("agent start", 2)
	if !running(speaker) {
		t.Error("the speaker did not survive the agent")
	}
	s.kill(speaker, syscall.SIGKILL)
	s.until("speaker start", 2)
	if !running(second) {
		t.Error("the agent did not survive the speaker")
	}
	s.kill(s.cmd.Process.Pid, syscall.SIGTERM)
	s.ended(0)
}

func TestSuperviseKillsTheStubborn(t *testing.T) {
	s := supervise(t, map[string]string{"agent": "stubborn"})
	s.until("agent start", 1)
	s.until("speaker start", 1)
	s.kill(s.cmd.Process.Pid, syscall.SIGTERM)
	s.until("agent terminated", 1)
	s.kill(s.cmd.Process.Pid, syscall.SIGTERM) // the second reaches it, too
	s.until("agent terminated", 2)
	s.until("speaker end", 1)
	s.ended(0)
}

func TestSuperviseGivesUpOnBadSettings(t *testing.T) {
	s := supervise(t, map[string]string{"agent": "2"})
	s.ended(2)
	if got := s.log.String(); !strings.Contains(got, "agent refused its settings") {
		t.Errorf("does not say why:\n%s", got)
	}
}

// TestSuperviseOutlivesAFileBrokenLater: settings that became wrong while the
// node ran keep a crashed agent out, and take nobody else with it. It is back
// once they are mended.
func TestSuperviseOutlivesAFileBrokenLater(t *testing.T) {
	s := supervise(t, nil)
	speaker := s.until("speaker start", 1)
	agent := s.until("agent start", 1)
	mode := filepath.Join(s.dir, "agent.mode")
	if err := os.WriteFile(mode, []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.kill(agent, syscall.SIGKILL)
	s.until("agent start", 3)
	if !running(speaker) {
		t.Fatalf("the speaker was stopped for the agent's settings\n%s", s.log)
	}
	if err := os.Remove(mode); err != nil {
		t.Fatal(err)
	}
	back := func(e string) bool { return strings.HasPrefix(e, "agent hangup") }
	starts := 3
	for deadline := time.Now().Add(10 * time.Second); !slices.ContainsFunc(s.events(), back); {
		if time.Now().After(deadline) {
			t.Fatalf("the agent is not back\n%s", s.log)
		}
		n := 0
		for _, e := range s.events() {
			if strings.HasPrefix(e, "agent start ") {
				n++
			}
		}
		if n > starts { // asked once it can hear: before that a SIGHUP would end it
			starts = n
			s.kill(s.cmd.Process.Pid, syscall.SIGHUP) // whoever lives says that it came
		}
		<-time.After(5 * time.Millisecond)
	}
	s.kill(s.cmd.Process.Pid, syscall.SIGTERM)
	s.ended(0)
}

func TestSuperviseLeavesNoOrphan(t *testing.T) {
	s := supervise(t, nil)
	s.until("agent start", 1)
	s.until("speaker start", 1)
	s.cmd.Process.Kill()
	s.until("speaker end", 1) // in order: the speaker drains even then
	s.nobodyLeft()
}
