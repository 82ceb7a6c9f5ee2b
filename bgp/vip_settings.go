package bgp

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// VIPSettings is the `vip:` section of node.yaml.
type VIPSettings struct {
	// Manage is add (put addresses on the interface and remove what was added),
	// require (someone else does; absence is a hard fault) or off. Default add.
	Manage string `yaml:"manage"`
	// Interface the addresses live on; default lo.
	Interface string `yaml:"interface"`
	// OnRemoved says what an external removal means: fault (default; the service
	// is judged down) or repair (put it back, say so).
	OnRemoved string `yaml:"on_removed"`
	// DryRun says what would be done to addresses and does nothing.
	DryRun bool `yaml:"dry_run"`
	// Mark is the number in the kernel's IFA_PROTO field by which our addresses
	// are known again after a crash, 4…255 (the kernel keeps 1…3 for itself);
	// default 172. Several daemons on one host need one each.
	Mark uint8 `yaml:"mark"`
	// Label is what `ip address` shows beside an IPv4 address: the interface's
	// name, a colon and a word, at most 15 characters: lo:anycast. Default none.
	Label string `yaml:"label"`
	// Reconcile is how often the kernel's addresses are read whole, besides at
	// every change it reports; 1s or more, default 10s.
	Reconcile time.Duration `yaml:"reconcile"`
}

// Words of VIPSettings.
const (
	manageAdd, manageRequire, manageOff = "add", "require", "off"
	removedFault, removedRepair         = "fault", "repair"
)

// defaultMark is an arbitrary number that no routing daemon is known to use.
const defaultMark = 0xAC

// WithDefaults fills what was left out.
func (s VIPSettings) WithDefaults() VIPSettings {
	if s.Manage == "" {
		s.Manage = manageAdd
	}
	if s.Interface == "" {
		s.Interface = "lo"
	}
	if s.OnRemoved == "" {
		s.OnRemoved = removedFault
	}
	if s.Mark == 0 {
		s.Mark = defaultMark
	}
	if s.Reconcile == 0 {
		s.Reconcile = 10 * time.Second
	}
	return s
}

// Problems lists everything that is wrong with the settings as they are written.
func (s VIPSettings) Problems() []Problem {
	s = s.WithDefaults()
	var ps []Problem
	bad := func(path, format string, args ...any) { ps = append(ps, Problem{path, fmt.Sprintf(format, args...)}) }
	if ways := []string{manageAdd, manageRequire, manageOff}; !slices.Contains(ways, s.Manage) {
		bad("manage", "%q is not a way to manage addresses; allowed: %s", s.Manage, strings.Join(ways, ", "))
	}
	if ways := []string{removedFault, removedRepair}; !slices.Contains(ways, s.OnRemoved) {
		bad("on_removed", "%q is not a reaction; allowed: %s", s.OnRemoved, strings.Join(ways, ", "))
	}
	if s.OnRemoved == removedRepair && s.Manage != manageAdd {
		bad("on_removed", "repair needs manage: add; manage: %s never touches an address", s.Manage)
	}
	// dev_valid_name in the kernel: 1…15 octets, no slash, colon or space, not . or ..
	if n := s.Interface; len(n) > 15 || strings.ContainsAny(n, "/: \t\n\x00") || n == "." || n == ".." {
		bad("interface", "%q cannot be an interface; a name has 1…15 characters without space, slash or colon", n)
	}
	if s.Mark < 4 {
		bad("mark", "%d is the kernel's own; allowed: 4…255", s.Mark)
	}
	if l := s.Label; l != "" && (len(l) > 15 || !strings.HasPrefix(l, s.Interface+":") || len(l) == len(s.Interface)+1) {
		bad("label", "%q cannot be a label; write %s:WORD, at most 15 characters", l, s.Interface)
	}
	if s.Reconcile < time.Second {
		bad("reconcile", "%v is under the 1s minimum", s.Reconcile)
	}
	return ps
}
