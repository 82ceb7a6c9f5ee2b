package answers

import (
	"path/filepath"
	"strings"
)

// HealthFile is where a server says how its own answers are, in the form that
// checks of kind file read: up, or down and why, written anew once a second. What
// was not written for some seconds is unknown there.
func HealthFile(runDir string) string { return filepath.Join(runDir, "dns.health") }

// StaleWord stands behind up in a health file while the answers are of old state.
const StaleWord = "stale:"

// Stale reads why a server's answers are stale from the content of its health
// file; "" while they are not.
func Stale(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if _, why, ok := strings.Cut(line, "up "+StaleWord+" "); ok {
		return why
	}
	return ""
}
