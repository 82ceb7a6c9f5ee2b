package bgp

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets tests that mostly wait for timers run side by side.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set("test.parallel", "32")
	}
	os.Exit(m.Run())
}
