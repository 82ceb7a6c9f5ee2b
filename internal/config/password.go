package config

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/steadycast/steadycast/bgp"
)

// maxPassword is TCP_MD5SIG_MAXKEYLEN of the kernel.
const maxPassword = 80

// credentials is where systemd puts what it hands to one unit alone.
const credentials = "/run/credentials/"

// password looks at a neighbour's secret and the file that holds it. That the
// file is missing or unusable is an error. That this process cannot see it is a
// warning, since only the speaker needs to; so is one that others can read,
// because a node must not stay out after a restart over the mode of a file.
func (j *judge) password(at string, nb bgp.Neighbor) {
	if nb.Password != "" {
		j.cfg.remember(nb.Name, nb.Password)
		if st, err := os.Stat(j.node.file); err == nil && st.Mode().Perm()&0o007 != 0 {
			j.warn(j.node, at+".password", "stands in a file that every user can read (mode %04o); chmod 0640 it, or use password_file", st.Mode().Perm())
		}
	}
	file := nb.PasswordFile
	if file == "" {
		return
	}
	path := at + ".password_file"
	st, err := os.Stat(file) // before it is opened: opening a pipe would wait
	if err == nil && !st.Mode().IsRegular() {
		j.say(j.node, path, "%s is not a regular file; its first line is the secret", brief(file))
		return
	}
	f, err := os.Open(file)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(file, credentials):
		j.warn(j.node, path, "%s cannot be read by this process; the speaker must be able to", brief(file))
		return
	case err != nil:
		j.say(j.node, path, "%s %s", brief(file), cannot("be read", err))
		return
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		j.say(j.node, path, "%s %s", brief(file), cannot("be read", err))
		return
	}
	switch secret := trimEnd(line); {
	case secret == "":
		j.say(j.node, path, "%s has an empty first line; it holds the secret, 1 to %d characters", brief(file), maxPassword)
	case len(secret) > maxPassword:
		j.say(j.node, path, "%s has a first line of %d characters; a TCP-MD5 secret has 1 to %d", brief(file), len(secret), maxPassword)
	default:
		j.cfg.remember(nb.Name, secret)
		if st.Mode().Perm()&0o007 == 0 {
			return
		}
		j.warn(j.node, path, "%s can be read by every user (mode %04o); chmod 0600 it, or 0640 with the speaker's group", brief(file), st.Mode().Perm())
	}
}

func (c *Config) remember(neighbor, secret string) {
	if c.secrets == nil {
		c.secrets = map[string][sha256.Size]byte{}
	}
	c.secrets[neighbor] = sha256.Sum256([]byte(secret))
}

func trimEnd(line string) string {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line
}
