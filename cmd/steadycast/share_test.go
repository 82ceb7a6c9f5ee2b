package main

import "testing"

func TestParseShare(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "5": 50, "5%": 50, "12.5%": 125, "100": 1000, "100%": 1000, "99.9": 999,
		"": -1, "%": -1, ".5": -1, "5.": -1, "1.25": -1, "101": -1, "-1": -1, "1e2": -1, "5%%": -1, "100.1": -1, "99999999": -1,
	} {
		got, err := parseShare(text)
		if want < 0 != (err != nil) || err == nil && got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
}
