package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/config"
)

// runOutput bounds what is kept of what a program or an answer says, in bytes.
const runOutput = 4 << 10

// runs carries out a run, or takes it back. What is not known to be done is
// neither done nor failed: another try is made, with the same key.
func (s *steps) runs(ctx context.Context, r decide.PlanRun, t stepTry, step config.PlanStep, timeout time.Duration) decide.StepWord {
	what, do := step.Run, "do"
	if r.State == decide.PlanBack && r.Steps[t.step].State == decide.StepUndoing {
		what, do = step.Undo, "undo"
	}
	if what == nil {
		return decide.StepWord{Say: decide.SayFail, Text: "the table says nothing of what to run"}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	token := r.Steps[t.step].Token
	said := []said{
		{"KEY", r.Key(s.fleet, t.step)}, {"EPOCH", strconv.FormatUint(token.Epoch, 10)}, {"NUMBER", strconv.FormatUint(token.Index, 10)},
		{"PLAN", r.Plan.Name}, {"STEP", r.Plan.Steps[t.step].Name}, {"DO", do},
	}
	if what.URL != "" {
		return s.calls(ctx, *what, said)
	}
	return s.executes(ctx, *what, said)
}

// said is one thing that what is run is told.
type said struct{ name, value string }

// executes runs a program in a process group of its own, which is killed when the
// time is over. A program that was killed may have done it or not.
func (s *steps) executes(ctx context.Context, what config.PlanRun, said []said) decide.StepWord {
	name := what.Argv[0]
	if !s.mayRun(name) {
		return decide.StepWord{Say: decide.SayFail, Text: s.mayNot(name)}
	}
	var out head
	cmd := exec.CommandContext(ctx, name, what.Argv[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for k, v := range what.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	slices.Sort(cmd.Env)
	for _, x := range said {
		cmd.Env = append(cmd.Env, "STEADYCAST_"+x.name+"="+x.value)
	}
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second // for a child that keeps the output open
	err := cmd.Run()
	status := ""
	ended, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return decide.StepWord{Say: decide.SayDrop, Text: fmt.Sprintf("%s was killed before it ended%s", name, out.because())}
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return decide.StepWord{Say: decide.SayDone, Text: "exit status 0" + out.because()}
	case exited && ended.ExitCode() >= 0:
		status = fmt.Sprintf("exit status %d", ended.ExitCode())
	default:
		status = err.Error()
	}
	return decide.StepWord{Say: decide.SayFail, Text: fmt.Sprintf("%s: %s%s", name, status, out.because())}
}

// calls calls an address. An answer of the 400s is a no; what has no answer, or
// one of the 500s, may have been done or not.
func (s *steps) calls(ctx context.Context, what config.PlanRun, said []said) decide.StepWord {
	req, err := http.NewRequestWithContext(ctx, what.Method, what.URL, strings.NewReader(what.Body))
	if err != nil {
		return decide.StepWord{Say: decide.SayFail, Text: err.Error()}
	}
	for k, v := range what.Headers {
		req.Header.Set(k, v)
	}
	for _, x := range said {
		req.Header.Set("Steadycast-"+x.name, x.value)
	}
	req.Header.Set("Idempotency-Key", said[0].value)
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		pause(ctx, stepLook)
		return decide.StepWord{Say: decide.SayDrop, Text: "no answer: " + err.Error()}
	}
	defer resp.Body.Close()
	var out head
	_, _ = io.Copy(&out, io.LimitReader(resp.Body, runOutput))
	text := resp.Status + out.because()
	switch {
	case resp.StatusCode/100 == 2:
		return decide.StepWord{Say: decide.SayDone, Text: text}
	case resp.StatusCode/100 == 5:
		pause(ctx, stepLook)
		return decide.StepWord{Say: decide.SayDrop, Text: text}
	}
	return decide.StepWord{Say: decide.SayFail, Text: text}
}

// head keeps the beginning of what is written to it.
type head struct{ bytes.Buffer }

func (h *head) Write(b []byte) (int, error) {
	if room := runOutput - h.Len(); room > 0 {
		h.Buffer.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

// because is its first line, as the end of a sentence.
func (h *head) because() string {
	line, _, _ := strings.Cut(strings.TrimSpace(h.String()), "\n")
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return '.'
		}
		return r
	}, line)
	if line == "" {
		return ""
	}
	if len(line) > 200 {
		line = strings.ToValidUTF8(line[:200], "") + "…"
	}
	return ": " + line
}
