package lab

import "strings"

// router is what kind of router an image holds, by its name; empty for others.
func routerOf(image string) string {
	for _, kind := range []string{"frr", "bird", "openbgpd"} {
		if strings.Contains(image, kind) {
			return kind
		}
	}
	return ""
}

// startFRR does what the entry point of FRR's own image does: the daemons that
// /etc/frr/daemons names, then the integrated configuration by vtysh.
const startFRR = `
. /etc/frr/daemons
rm -f /run/frr/*.vty
daemons="zebra $(sed -n 's/^\([a-z0-9]*d\)=yes.*/\1/p' /etc/frr/daemons)"
for d in $daemons; do
	eval "options=\$${d}_options"
	/usr/lib/frr/$d $options --log stdout &
	until [ -S /run/frr/$d.vty ]; do sleep 0.05; done
done
vtysh -b && echo configured
wait`

// command is what the node runs: its cmd, or what its image would start.
func (n *Node) command() ([]string, error) {
	if n.Cmd != "" {
		return words(magic(n.Cmd, n.Name))
	}
	if routerOf(n.Image) == "frr" {
		return []string{"sh", "-c", startFRR}, nil
	}
	return nil, nil
}

// needs lists the programs of this machine without which an image cannot be stood in for.
func needs(image string) []string {
	switch routerOf(image) {
	case "frr":
		return []string{"/usr/lib/frr/zebra", "/usr/lib/frr/bgpd", "vtysh"}
	case "bird":
		return []string{"bird", "birdc"}
	case "openbgpd":
		return []string{"bgpd", "bgpctl"}
	}
	if strings.Contains(image, "unbound") {
		return []string{"unbound", "dig"}
	}
	return nil
}
