package lab

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// staging is where a node's root is put together, inside the node's own mount
// namespace: no other process sees it, and no folder of the host is written to.
const staging = "/mnt"

// fromEtc is what programs need of the machine's /etc to run at all.
var fromEtc = []string{
	"alternatives", "group", "iproute2", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
	"localtime", "nsswitch.conf", "pam.d", "passwd", "protocols", "services",
}

// owned are folders that packages and images make for the daemons, with their users.
var owned = []struct{ dir, user string }{
	{"/etc/frr", "frr"}, {"/run/frr", "frr"}, {"/var/log/frr", "frr"}, {"/var/tmp/frr", "frr"},
	{"/run/steadycast", "root"}, {"/var/lib/steadycast", "root"}, {"/run/bird", "bird"}, {"/run/openbgpd", "root"}, {"/run/exabgp", "exabgp"},
}

// buildRoot makes the root file system of a node: a tmpfs with the machine's
// /usr read-only, a little of its /etc, and everything else empty. It must run
// on the node's thread, in a mount namespace of its own.
func buildRoot(files []bind, programs map[string]string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("root", staging, "tmpfs", 0, "mode=0755,size=1g"); err != nil {
		return fmt.Errorf("mounting a tmpfs on %s: %w", staging, err)
	}
	for _, dir := range []string{"dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var/lib", "var/log", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(staging, dir), 0o755); err != nil {
			return err
		}
	}
	for link, to := range map[string]string{"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "var/run": "/run"} {
		if err := os.Symlink(to, filepath.Join(staging, link)); err != nil {
			return err
		}
	}
	if err := os.Chmod(staging+"/tmp", 0o777|os.ModeSticky); err != nil {
		return err
	}
	if err := mountAll(); err != nil {
		return err
	}
	for _, o := range owned {
		if err := ownedDir(o.dir, o.user); err != nil {
			return err
		}
	}
	for name, path := range programs {
		if err := mountFile(path, filepath.Join(staging, "usr/local/bin", name)); err != nil {
			return fmt.Errorf("program %s: %w", name, err)
		}
	}
	for _, b := range files {
		if err := copyTree(b.from, filepath.Join(staging, b.to)); err != nil {
			return fmt.Errorf("bind %s: %w", b.from, err)
		}
	}
	return nil
}

func mountAll() error {
	mounts := []struct {
		from, to, kind string
		flags          uintptr
	}{
		{"/usr", "usr", "", unix.MS_BIND | unix.MS_REC},
		{"", "usr", "", unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY},
		{"programs", "usr/local/bin", "tmpfs", 0},
		{"/dev", "dev", "", unix.MS_BIND | unix.MS_REC},
		{"sysfs", "sys", "sysfs", unix.MS_RDONLY}, // of this network namespace
	}
	for _, m := range mounts {
		if err := unix.Mount(m.from, filepath.Join(staging, m.to), m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting /%s: %w", m.to, err)
		}
	}
	for _, name := range fromEtc {
		if err := copyTree("/etc/"+name, filepath.Join(staging, "etc", name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// enterRoot makes the staged root the root of every process of this mount namespace.
func enterRoot() error {
	if err := unix.Chdir(staging); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	return unix.Chdir("/")
}

func ownedDir(dir, name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return nil // the daemon is not installed; if it is needed, Up has said so
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	path := filepath.Join(staging, dir)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return os.Chown(path, uid, gid)
}

// mountFile binds one file: a binary is too large to copy into every node.
func mountFile(from, to string) error {
	if err := os.WriteFile(to, nil, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// copyTree copies a file, a link or a folder with its modes. Files are copied,
// not bound, so that a scenario may change a node's configuration.
func copyTree(from, to string) error {
	fi, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	switch {
	case fi.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case fi.IsDir():
		if err := os.MkdirAll(to, fi.Mode().Perm()|0o700); err != nil {
			return err
		}
		inside, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		for _, e := range inside {
			if err := copyTree(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
				return err
			}
		}
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, fi.Mode().Perm())
}
