package api

import "testing"

// A command that is shown can be typed: a word is a word, and only what a shell
// would read otherwise is quoted.
func TestShellQuote(t *testing.T) {
	for s, want := range map[string]string{
		"TEXT": "TEXT", "fra/fra-1": "fra/fra-1", "": "''", "router change": "'router change'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "a;b": "'a;b'", "a\nb": "'a\nb'",
	} {
		if got := shellQuote(s); got != want {
			t.Errorf("%q is shown as %s, not %s", s, got, want)
		}
	}
}
