package bgp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// secret returns the TCP-MD5 password of n, empty for none. A password that is
// meant and not there is an error: never a session without one.
func (n Neighbor) secret() (string, error) {
	if n.PasswordFile == "" {
		return n.Password, nil
	}
	f, err := os.Open(n.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("password of %s: %w", n.Name, err)
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("password of %s: %w", n.Name, err)
	}
	line = strings.TrimRight(line, "\r\n")
	if len(line) == 0 || len(line) > 80 {
		return "", fmt.Errorf("password of %s: the first line of %s is %d octets long; TCP-MD5 takes 1…80", n.Name, n.PasswordFile, len(line))
	}
	return line, nil
}
