package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestUnknownWords: every command that holds others refuses a word that is none of
// them, as usage; without a word it shows its help.
func TestUnknownWords(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if !cmd.HasSubCommands() {
			return
		}
		words := strings.Fields(cmd.CommandPath())[1:]
		var out, errs bytes.Buffer
		if code := execute(append(words, "inti"), strings.NewReader(""), &out, &errs); code != exitUsage || !strings.Contains(errs.String(), `unknown command "inti"`) {
			t.Errorf("%v inti: code %d, %q", words, code, errs.String())
		}
	}
	walk(newRoot(&cli{}))
}

// TestJoinWait: a time behind --wait is its value, and nothing else is.
func TestJoinWait(t *testing.T) {
	for args, want := range map[string]string{
		"drain fra --wait 10m":                "drain fra --wait=10m",
		"drain --wait 1m30s fra -y":           "drain --wait=1m30s fra -y",
		"drain fra --wait":                    "drain fra --wait",
		"drain --wait fra":                    "drain --wait fra",
		"drain fra --wait 192.0.2.0/24":       "drain fra --wait 192.0.2.0/24",
		"drain fra --wait --for 2h":           "drain fra --wait --for 2h",
		"drain fra --wait=5s 10m":             "drain fra --wait=5s 10m",
		"drain -- --wait 10m":                 "drain -- --wait 10m",
		"apply f.yaml --wait 30s --reason 5m": "apply f.yaml --wait=30s --reason 5m",
	} {
		if got := joinWait(strings.Fields(args)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q; want %s", args, got, want)
		}
	}
}
