package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/steadycast/steadycast/internal/api"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version string

// buildVersion says what this binary is; without a build's word, what the
// module's own record says.
func buildVersion() api.Version {
	v := api.Version{Version: version, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		if v.Version == "" {
			v.Version = "devel"
		}
		return v
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}

func newVersionCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "The version of this program", GroupID: groupSee, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if c.json() {
				return c.printValue(v)
			}
			text := "steadycast " + v.Version
			if v.Commit != "" {
				text += " (" + v.Commit + ")"
			}
			_, err := fmt.Fprintf(c.out, "%s %s %s/%s\n", text, v.Go, runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
