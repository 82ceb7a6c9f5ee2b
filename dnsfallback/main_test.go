package dnsfallback

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// golden compares with a file of testdata; -update rewrites it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}

// processorTime reports what an operation costs of the processor, which other
// work on the machine changes less than the time it takes.
func processorTime(b *testing.B) func() {
	used := func() time.Duration {
		var u syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// many are records of one set.
func many(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("many A 10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	return out
}
