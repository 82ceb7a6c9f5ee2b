// Command testsum reads `go test -json` on standard input and tells what a
// person wants to know: each package as it ends, the output of what failed, what
// was left out and why, and one closing line with the counts. It exits 1 when
// anything failed or when no test ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

type event struct {
	Action, Package, Test, Output string
	ImportPath                    string
	Elapsed                       float64
}

type key struct{ pkg, test string }

func main() {
	var (
		output                  = map[key][]string{}
		passed, failed, skipped int
		left                    []string
		bad                     bool
	)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			fmt.Println(in.Text()) // the go command's own words
			continue
		}
		if e.Package == "" {
			e.Package = e.ImportPath
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output", "build-output":
			output[k] = append(output[k], e.Output)
			continue
		case "build-fail":
			bad = true
			fmt.Print(strings.Join(output[k], ""))
			continue
		}
		if e.Test == "" {
			switch e.Action {
			case "pass":
				fmt.Printf("ok    %-55s %6.1fs\n", e.Package, e.Elapsed)
			case "fail":
				bad = true
				fmt.Printf("FAIL  %-55s %6.1fs\n%s", e.Package, e.Elapsed, strings.Join(output[k], ""))
			}
			continue
		}
		switch e.Action {
		case "pass":
			passed++
		case "fail":
			failed++
			fmt.Printf("--- FAIL %s %s\n%s", e.Package, e.Test, strings.Join(output[k], ""))
		case "skip":
			skipped++
			left = append(left, fmt.Sprintf("  %s %s: %s", e.Package, e.Test, reason(output[k])))
		}
		delete(output, k)
	}
	if len(left) > 0 {
		slices.Sort(left)
		fmt.Println("\nLeft out on this machine (as root, after `make setup`, nothing is):")
		fmt.Println(strings.Join(left, "\n"))
	}
	fmt.Printf("\n%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		bad = true
	}
	if bad || failed > 0 || passed == 0 {
		os.Exit(1)
	}
}

// reason is what a skipped test said, without the runner's own lines.
func reason(lines []string) string {
	var said []string
	for _, l := range lines {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "===") && !strings.HasPrefix(l, "---") {
			if _, text, ok := strings.Cut(l, ".go:"); ok { // file.go:12: why
				if _, text, ok = strings.Cut(text, ": "); ok {
					l = text
				}
			}
			said = append(said, l)
		}
	}
	return strings.Join(said, " ")
}
