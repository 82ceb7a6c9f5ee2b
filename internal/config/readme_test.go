package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestReadme: what the README tells a newcomer to write is, word for word, a file
// that other tests load.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, regexp.MustCompile("(?m)^"+m[1]).ReplaceAllString(m[2], ""))
	}
	files := []string{"minimal.yaml", "examples/first-fleet/fleet.yaml", "examples/first-fleet/ams.yaml"}
	for _, file := range files {
		want, err := os.ReadFile(filepath.Join(configs, file))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(blocks, func(b string) bool { return body(b) == body(string(want)) }) {
			t.Errorf("README.md does not show configs/%s as it is", file)
		}
	}
	if len(blocks) != len(files) {
		t.Errorf("README.md shows %d files, of which this test knows %d", len(blocks), len(files))
	}
}

// body is a file without the comment at its head.
func body(s string) string {
	return regexp.MustCompile(`\A(#[^\n]*\n)*\n*`).ReplaceAllString(s, "")
}
