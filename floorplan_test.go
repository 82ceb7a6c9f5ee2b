package steadycast_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/steadycast/steadycast"

// floorplan says what each package may import of ours, and why. It is a
// statement of policy: a new package is added here in the same commit, with its
// reason. "." is the root package; "all" is everything in the plan.
var floorplan = map[string]string{
	"":       "",          // values only; everything speaks in them
	"decide": ".",         // judges; pure, so it may see nothing that acts
	"probe":  ".",         // sees
	"bgp":    ". bgp/bfd", // announces; the four verbs never import one another

	"dnsfallback": ".", // answers; it is told what the fleet decided, and asks nobody

	"bgp/bfd":  "",  // is the way to a router whole; packets and time, nothing of ours
	"bgp/sink": ".", // a router that only listens; a stranger to the speaker

	"internal/config":  ". decide probe bgp dnsfallback",                                    // settings types belong to their users
	"internal/ledger":  ". decide",                                                          // keeps a decide.Fleet and feeds it
	"internal/role":    ".",                                                                 // what every process shares
	"internal/voter":   ". decide internal/ledger internal/mesh internal/role internal/pki", // one voter's process: room, readiness, who votes, what it hears
	"internal/pki":     ". internal/role",                                                   // who is who; it writes files as every process does
	"internal/mesh":    ". internal/pki",                                                    // carries what was seen between nodes, and knows who says it
	"internal/speaker": ". bgp internal/role",                                               // the speaker's process and its client; no decide, no ledger
	"internal/api":     ". decide",                                                          // wire types, server, client
	"internal/metrics": ". decide dnsfallback internal/api",                                 // the only file that names metrics
	"internal/agent":   ". decide probe bgp dnsfallback internal/answers internal/config internal/ledger internal/mesh internal/pki internal/role internal/speaker internal/api internal/metrics internal/count",

	"internal/loopback":      "", // gives a test an address of its own; only tests use it
	"internal/tools/testsum": "", // reads the output of the tests; knows nothing of ours

	"internal/answers": ". decide dnsfallback", // what the committed state means for names; the one place that knows both

	"internal/dns": ". decide dnsfallback internal/answers internal/config internal/rto internal/ledger internal/api internal/metrics internal/role", // the server's process

	"internal/demo": ". decide dnsfallback internal/answers internal/config probe bgp bgp/sink internal/ledger internal/voter internal/pki internal/mesh internal/role internal/speaker internal/api internal/agent internal/dns", // a fleet in one process

	"internal/count": "", // counts packets in the kernel; knows no fleet

	"internal/rto": "decide probe dnsfallback internal/config", // adds up a failover's time from what is configured

	"internal/whatif": ". decide", // asks a ledger of its own what it would answer

	"internal/sim": ". decide internal/ledger", // attacks what decides and the proposer, on a log and a clock of its own

	"cmd/steadycast": "all", // assembles, nothing more

	"bench": "", // the figures: benchmarks only, which assemble what they measure; nothing leans on it

	"lab":         "",    // drives the product from outside, so it may not see its inside
	"lab/cmd/lab": "lab", // the same runner, for a person
	"lab/spin":    "",    // a model, and a test that has it checked
	"lab/service": "",    // what the lab's edge keeps reachable
}

// doors says which packages alone may import a big dependency, so that it can
// be replaced in one place and no foreign type spreads.
var doors = map[string][]string{
	"github.com/osrg/gobgp":                {"bgp", "bgp/sink"},
	"github.com/vishvananda/netlink":       {"bgp"},
	"github.com/google/nftables":           {"internal/count"},
	"github.com/miekg/dns":                 {"probe", "dnsfallback"},
	"github.com/spf13/viper":               {"internal/config"},
	"go.yaml.in/yaml":                      {"internal/config", "lab"},
	"github.com/prometheus/client_golang":  {"internal/metrics"},
	"github.com/expr-lang/expr":            {"probe"},
	"github.com/coreos/go-systemd":         {"internal/role"},
	"github.com/spf13/cobra":               {"cmd/steadycast"},
	"google.golang.org/grpc":               {"probe"},
	"go.etcd.io/raft":                      {"internal/sim"},
	"github.com/hashicorp":                 {"internal/ledger"},
	"github.com/oschwald/maxminddb-golang": {"dnsfallback"},
	"github.com/dchest/siphash":            {"dnsfallback"},
	"go.etcd.io/bbolt":                     {"internal/ledger"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func list(t *testing.T, args ...string) []listed {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var ps []listed
	d := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return ps
		case err != nil:
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
}

func TestFloorPlan(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list(t, "./...") {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		allowed, ok := floorplan[name]
		if !ok {
			t.Errorf("%s is not on the floor plan: add it, with what it may import and why", name)
		}
		seen[name] = true
		for _, imp := range p.Imports {
			if own, found := strings.CutPrefix(imp, module); found {
				if own = strings.TrimPrefix(own, "/"); own == "" {
					own = "."
				}
				if allowed != "all" && !slices.Contains(strings.Fields(allowed), own) {
					t.Errorf("%s may not import %s", name, own)
				}
			} else if name == "" && strings.Contains(imp, ".") {
				t.Errorf("the root package imports %s: it uses the standard library only", imp)
			}
			for mod, who := range doors {
				if strings.HasPrefix(imp, mod) && !slices.Contains(who, name) {
					t.Errorf("%s may not import %s: its only door is %v", name, imp, who)
				}
			}
		}
	}
	for name := range floorplan {
		if !seen[name] {
			t.Errorf("the floor plan names %q, which does not exist", name)
		}
	}
}

// reach says what a role's process must not be able to touch, through any
// number of imports: a fault in it cannot then come from there.
var reach = map[string][]string{
	"internal/speaker": {"decide", "probe", "internal/ledger", "internal/agent", "internal/api", "internal/metrics", "internal/config",
		"github.com/miekg/dns", "github.com/prometheus/client_golang"},
	"decide":   {"net/http", "github.com/"},
	"bgp/sink": {"github.com/vishvananda/netlink"},
}

func TestReach(t *testing.T) {
	for name, never := range reach {
		for _, dep := range list(t, "-deps", "./"+name) {
			for _, n := range never {
				own := dep.ImportPath == module+"/"+n
				foreign := strings.Contains(n, ".") && strings.HasPrefix(dep.ImportPath, n) && !strings.HasPrefix(dep.ImportPath, module)
				if own || foreign || dep.ImportPath == n {
					t.Errorf("%s reaches %s, and must not", name, dep.ImportPath)
				}
			}
		}
	}
}
