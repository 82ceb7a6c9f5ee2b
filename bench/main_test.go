package bench

import (
	"bufio"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// partMark in the environment makes this test binary one of the programs that
// the benchmarks start.
const partMark = "STEADYCAST_BENCH_PART"

func TestMain(m *testing.M) {
	if part := os.Getenv(partMark); part != "" {
		os.Exit(play(part, os.Args[1:]))
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() != "" {
		apart()
		stayAwake()
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-interrupted
		running.end()
		letSleep()
		os.RemoveAll(scratch)
		os.Exit(130)
	}()
	code := m.Run()
	running.end()
	letSleep()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// play is the main function of a part; each ends when its parent does.
func play(part string, args []string) int {
	words := bufio.NewScanner(os.Stdin)
	switch part {
	case "service":
		return serveTarget(args[0], words)
	case "speaker":
		return speak(newOwn, args, words)
	case "gobgp":
		return speak(newBare, args, words)
	case "dialler":
		return dial(args, words)
	case "dns":
		return answer(args, words)
	case "crowd":
		return gather(args, words)
	case "spinner":
		return spin(words)
	}
	return 2
}

// partOf starts this binary as a part.
func partOf(b testing.TB, ns, part string, args ...string) *process {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	return start(b, ns, []string{partMark + "=" + part}, append([]string{self}, args...)...)
}

// scratch holds the product's binary; it goes with the run.
var scratch string

var product = sync.OnceValues(func() (string, error) {
	var err error
	if scratch, err = os.MkdirTemp("", "steadycast-bench-"); err != nil {
		return "", err
	}
	path := filepath.Join(scratch, "steadycast")
	argv := []string{"go", "build", "-o", path, "../cmd/steadycast"}
	if os.Getenv(apartMark) != "" { // a compiler is not to go before others
		argv = append([]string{"chrt", "--other", "0"}, argv...)
	}
	build := exec.Command(argv[0], argv[1:]...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	return path, build.Run()
})
