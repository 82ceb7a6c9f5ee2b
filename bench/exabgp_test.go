package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const exabgpProgram = "/usr/sbin/exabgp"

// newExaBGP starts Debian's ExaBGP with its own healthcheck around curl, as its
// documentation has it, at the edge's end of a cable.
func newExaBGP(b testing.TB, c cable, t *target, p pace, prefix string) *process {
	b.Helper()
	conf := fmt.Sprintf(`process health {
  run /usr/bin/python3 -m exabgp healthcheck --cmd "curl -sf -o /dev/null --max-time 1 http://%[1]s/" --interval %[2]g --fast-interval %[3]g --rise 1 --fall %[4]d --timeout 2 --withdraw-on-down --ip %[5]s --no-ip-setup --no-syslog;
  encoder text;
}
neighbor %[6]s {
  router-id %[7]s;
  local-address %[7]s;
  local-as %[8]d;
  peer-as %[9]d;
  hold-time 90;
  api { processes [ health ]; }
}
`, t.address, p.interval.Seconds(), p.fast.Seconds(), p.fall, prefix, routerAddress, edgeAddress, edgeASN, routerASN)
	file := filepath.Join(running.folder(b, ""), "exabgp.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		b.Fatal(err)
	}
	return start(b, c.edge, []string{
		"exabgp.daemon.user=root", "exabgp.api.cli=false", "exabgp.log.level=ERR",
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
	}, "/usr/bin/python3", exabgpProgram, file)
}
