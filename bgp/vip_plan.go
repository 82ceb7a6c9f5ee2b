package bgp

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/steadycast/steadycast"
)

// vipStep is one thing to do to the host.
type vipStep struct {
	Add    bool // otherwise remove
	Prefix netip.Prefix
	Index  int32
}

func (s vipStep) verb() string {
	if s.Add {
		return "add"
	}
	return "remove"
}

// vipView is everything that is known of the host's addresses at one moment.
// It is a value: planning and judging are pure functions of it.
type vipView struct {
	Settings VIPSettings
	// Want is the whole wanted state in order; Given is false until someone has said it.
	Want  []netip.Prefix
	Given bool
	Links []hostLink
	Addrs []hostAddr
	// Added are the addresses this process put there itself. It says whose they
	// are where the kernel keeps no marks (before Linux 5.18).
	Added   map[netip.Prefix]bool
	NoMarks bool
	// Lost are the wanted addresses that someone else removed.
	Lost map[netip.Addr]bool
	// Errors are the newest failures per wanted address.
	Errors map[netip.Addr]string
}

func (v vipView) link() (hostLink, bool) {
	for _, l := range v.Links {
		if l.Name == v.Settings.Interface {
			return l, true
		}
	}
	return hostLink{}, false
}

// ours reports whether this software put a there. Nothing else is ever removed.
func (v vipView) ours(a hostAddr) bool {
	return a.Proto == v.Settings.Mark || v.NoMarks && v.Added[a.Prefix]
}

// find returns the entry for an address on interface link, one of ours before
// any other. The length does not matter: the address answers all the same.
func (v vipView) find(ip netip.Addr, link int32) (found hostAddr, ok bool) {
	for _, a := range v.Addrs {
		if a.Index == link && a.Prefix.Addr() == ip && (!ok || v.ours(a) && !v.ours(found)) {
			found, ok = a, true
		}
	}
	return found, ok
}

// plan says what must be done to come from what is there to what is wanted:
// removals before additions, each in order of address.
func (v vipView) plan() []vipStep {
	if v.Settings.Manage != manageAdd || !v.Given {
		return nil
	}
	link, haveLink := v.link()
	var steps []vipStep
	for _, a := range v.Addrs {
		wanted := haveLink && a.Index == link.Index &&
			slices.ContainsFunc(v.Want, func(p netip.Prefix) bool { return p.Addr() == a.Prefix.Addr() })
		if v.ours(a) && !wanted {
			steps = append(steps, vipStep{Prefix: a.Prefix, Index: a.Index})
		}
	}
	slices.SortFunc(steps, func(x, y vipStep) int { return comparePrefix(x.Prefix, y.Prefix) })
	if !haveLink {
		return steps
	}
	for _, p := range v.Want {
		_, there := v.find(p.Addr(), link.Index)
		if !there && (!v.Lost[p.Addr()] || v.Settings.OnRemoved == removedRepair) {
			steps = append(steps, vipStep{Add: true, Prefix: p, Index: link.Index})
		}
	}
	return steps
}

// vips says what is there, one row per wanted address and per leftover of ours,
// in order of address.
func (v vipView) vips() []steadycast.VIP {
	link, haveLink := v.link()
	names := map[int32]string{}
	for _, l := range v.Links {
		names[l.Index] = l.Name
	}
	rows := map[netip.Prefix]steadycast.VIP{}
	for _, a := range v.Addrs {
		if v.ours(a) {
			rows[a.Prefix] = steadycast.VIP{Address: a.Prefix, Interface: names[a.Index], Present: true, Ours: true, Usable: usable(a)}
		}
	}
	for _, p := range v.Want {
		row := steadycast.VIP{Address: p, Interface: v.Settings.Interface}
		a, there := v.find(p.Addr(), link.Index)
		switch {
		case !haveLink:
			row.Error = fmt.Sprintf("interface %s does not exist; vip.interface must name the one the address lives on", v.Settings.Interface)
		case !there && v.Errors[p.Addr()] != "":
			row.Error = v.Errors[p.Addr()]
		case !there && v.Lost[p.Addr()]:
			row.Error = "removed by someone else; put it back, or reload (on_removed: repair does it by itself)"
		case !there && v.Settings.DryRun && v.Settings.Manage == manageAdd:
			row.Error = "not added: dry run"
		case !there:
			row.Error = "absent" + v.elsewhere(p.Addr(), names)
		case !link.Up:
			row.Present, row.Ours = true, v.ours(a)
			row.Error = fmt.Sprintf("interface %s is down", link.Name)
		default:
			row.Present, row.Ours, row.Usable = true, v.ours(a), usable(a)
			switch {
			case a.Flags&flagDADFailed != 0:
				row.Error = "duplicate address found on the link (RFC 4862 §5.4.5); the kernel will not use it"
			case !row.Usable:
				row.Error = "tentative: the kernel is still looking for duplicates (RFC 4862 §5.4)"
			}
		}
		if there {
			delete(rows, a.Prefix) // the same address under another length is one row
		}
		rows[p] = row
	}
	return slices.SortedFunc(maps.Values(rows), func(x, y steadycast.VIP) int { return comparePrefix(x.Address, y.Address) })
}

// elsewhere says on which other interfaces an absent address is.
func (v vipView) elsewhere(ip netip.Addr, names map[int32]string) string {
	var on []string
	for _, a := range v.Addrs {
		if a.Prefix.Addr() == ip {
			on = append(on, names[a.Index])
		}
	}
	if len(on) == 0 {
		return ""
	}
	return fmt.Sprintf(" on %s, but present on %s; is vip.interface right?", v.Settings.Interface, strings.Join(on, ", "))
}

// The kernel's flags of an address that cannot be used yet, or at all.
const (
	flagDADFailed = 0x08 // IFA_F_DADFAILED
	flagTentative = 0x40 // IFA_F_TENTATIVE
	flagOptimist  = 0x04 // IFA_F_OPTIMISTIC: tentative, but usable (RFC 4429)
)

func usable(a hostAddr) bool {
	return a.Flags&flagDADFailed == 0 && (a.Flags&flagTentative == 0 || a.Flags&flagOptimist != 0)
}

func comparePrefix(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}
