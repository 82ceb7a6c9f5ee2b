package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

func env(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return def
}

func TestScratch(t *testing.T) {
	first, n := env("SEED", 1), env("N", 10)
	all := map[string]uint64{}
	var events uint64
	begin := time.Now()
	o := Options{Length: time.Duration(env("MIN", 30)) * time.Minute, Sites: env("SITES", 8), Mutation: os.Getenv("MUT"), Policy: os.Getenv("POLICY")}
	if os.Getenv("TRACE") != "" {
		o.Trace = os.Stdout
	}
	bad := 0
	for s := first; s < first+n; s++ {
		out, err := Run(uint64(s), o)
		if err != nil {
			t.Fatal(err)
		}
		events += out.Events
		for k, v := range out.Happened {
			all[k] += v
		}
		for k, v := range out.Tallies {
			all["checked "+k] += v.Checked
		}
		if v := out.Violation; v != nil {
			bad++
			fmt.Printf("seed %d policy %s: %s at %v: %s\n", v.Seed, out.Policy, v.Invariant, v.At, v.Text)
		}
	}
	fmt.Println(bad, "violated;", events, "events in", time.Since(begin), all)
}
