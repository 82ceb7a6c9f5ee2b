package config

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestUnreadablePassword: a secret that this user may not read is no reason to
// refuse the file, since the speaker runs as another. Root reads everything, so
// as root the test starts itself again as nobody.
func TestUnreadablePassword(t *testing.T) {
	const variable = "CONFIG_TEST_SECRET"
	file := os.Getenv(variable)
	switch {
	case file == "" && os.Geteuid() == 0:
		file = write(t, "secret", "hunter2\n")
		for _, dir := range []string{filepath.Dir(file), filepath.Dir(filepath.Dir(file))} { // so that it is the file that is closed
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		again := exec.Command("/proc/self/exe", "-test.run=^TestUnreadablePassword$", "-test.v")
		again.Dir = "/"
		again.Env = []string{variable + "=" + file}
		again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := again.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestUnreadablePassword") {
			t.Fatalf("as nobody: %v\n%s", err, out)
		}
		return
	case file == "":
		file = write(t, "secret", "hunter2\n")
		if err := os.Chmod(file, 0); err != nil {
			t.Fatal(err)
		}
	}
	src := edit(t, good, "asn: 65001,", "asn: 65001, password_file: "+file+",")
	c, ps := loading{env: []string{}, open: read}.node("node.yaml", []byte(src))
	if c == nil || len(ps) != 1 || !ps[0].Warning || !strings.Contains(ps[0].Text, "cannot be read by this process") {
		t.Errorf("%v", ps)
	}
	if len(c.secrets) != 0 {
		t.Error("a digest of a file that was not read")
	}
}
