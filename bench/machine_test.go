package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// apartMark in the environment says that apart has done its work.
const apartMark = "STEADYCAST_BENCH_APART"

// apart begins this process again under SCHED_RR, and with it everything that
// it starts: the product and its peers alike. What else the machine does then
// waits for them, and not they for it, so that a figure is of the programs and
// less of the hour. Where that is not allowed, all stay as they are.
func apart() {
	self, err := os.Executable()
	if err != nil || os.Geteuid() != 0 || os.Getenv(apartMark) != "" {
		return
	}
	runtime.LockOSThread() // execve(2) keeps the policy of the thread that calls it
	defer runtime.UnlockOSThread()
	rr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(0, &rr, 0); err != nil {
		fmt.Fprintln(os.Stderr, "bench: SCHED_RR is not allowed here, so the load of the machine counts:", err)
		return
	}
	_ = syscall.Exec(self, os.Args, append(os.Environ(), apartMark+"=1"))
}

// asleepMark in the environment lets the processors sleep between probes.
const asleepMark = "STEADYCAST_BENCH_ASLEEP"

// spinner is held, because its pipe must stay open.
var spinner *exec.Cmd

// stayAwake keeps every processor busy with nothing, below all others
// (SCHED_IDLE). In a virtual machine a processor that has slept costs several
// times the work that it was woken for; how long it has slept depends on what
// else runs, and so would every figure of milliseconds or of percent.
func stayAwake() {
	self, err := os.Executable()
	if err != nil || os.Getenv(asleepMark) != "" {
		return
	}
	cmd := exec.Command("chrt", "--idle", "0", self)
	spinner = cmd
	cmd.Env = append(os.Environ(), partMark+"=spinner")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err = cmd.StdinPipe(); err == nil { // which closes with this process: its end
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: the processors may sleep:", err)
	}
}

// letSleep ends stayAwake.
func letSleep() {
	if spinner != nil && spinner.Process != nil {
		_ = spinner.Process.Kill()
		_ = spinner.Wait()
	}
}

// spin is the main function of the process that keeps them awake.
func spin(words *bufio.Scanner) int {
	var over atomic.Bool
	for range runtime.NumCPU() {
		go func() {
			for !over.Load() {
			}
		}()
	}
	for words.Scan() {
	}
	over.Store(true)
	return 0
}
