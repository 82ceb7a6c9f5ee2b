package agent

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast/internal/api"
)

// TestFaultsInAnyOrder throws faults at a node, often the next before the last
// is over, and holds it to one sentence: the route is at the router exactly if
// the service is up and no order keeps it out. FAULTS_SEED repeats a run, and
// FAULTS_STEPS makes it longer.
func TestFaultsInAnyOrder(t *testing.T) {
	t.Parallel()
	number := func(name string, or uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return n
		}
		return or
	}
	seed := number("FAULTS_SEED", uint64(time.Now().UnixNano()))
	rng := rand.New(rand.NewPCG(seed, 0))
	n := newNode(t)
	n.start("speaker")
	n.start("agent")
	n.in()

	up, ordered, med := true, false, 0
	post := func(path string, body any) error {
		var got struct{}
		return n.api.Post(t.Context(), path, body, &got)
	}
	freeze := func(name string) { // longer than some things wait, shorter than the hold time
		n.signal(name, syscall.SIGSTOP)
		<-time.After(time.Duration(rng.IntN(1500)) * time.Millisecond)
		n.signal(name, syscall.SIGCONT)
	}
	faults := []func() string{
		func() string {
			if up = !up; up {
				n.web.up()
			} else {
				n.web.down()
			}
			return fmt.Sprintf("service up: %v", up)
		},
		func() string { n.kill("agent"); n.start("agent"); return "agent killed" },
		func() string {
			n.kill("speaker")
			os.Remove(filepath.Join(n.dir, "speaker-starts.json")) // else the third stays out, as it should
			n.start("speaker")
			return "speaker killed"
		},
		func() string { // an agent that was just killed may not answer; then nothing has changed
			kind := []string{"drain", "withdraw"}[rng.IntN(2)]
			err := n.order(kind, "")
			ordered = ordered || err == nil
			return fmt.Sprintf("%s: %v", kind, err)
		},
		func() string {
			err := post("orders/clear", api.ScopeRequest{Site: "fra", Reason: "test"})
			ordered = ordered && err != nil
			return fmt.Sprintf("undrain: %v", err)
		},
		func() string {
			med++
			n.write(map[string]string{"next_hop4: 192.0.2.1": fmt.Sprintf("next_hop4: 192.0.2.1\n      med: %d", med)})
			return fmt.Sprintf("reload: %v", post("reload", api.ReloadRequest{}))
		},
		func() string { return fmt.Sprintf("session reset: %v", n.router.Reset(home)) },
		func() string { freeze("agent"); return "agent frozen" },
		func() string { freeze("speaker"); return "speaker frozen" },
	}
	var story []string
	for step := range number("FAULTS_STEPS", 10) {
		story = append(story, faults[rng.IntN(len(faults))]())
		if rng.IntN(3) == 0 {
			continue
		}
		for end := time.Now().Add(3 * soon); ; <-time.After(10 * time.Millisecond) {
			routes := n.router.Table()[home]
			if _, in := routes[prefix]; routes != nil && in == (up && !ordered) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("seed %d, step %d: the service is up: %v, an order keeps it out: %v, and the router has %v after\n%s",
					seed, step, up, ordered, routes, strings.Join(story, "\n"))
			}
		}
	}
}
