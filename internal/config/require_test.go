package config

import (
	"slices"
	"strings"
	"testing"
)

// TestRequireLooks: a condition is looked at as a service of its own, by the
// checks that it names, and those are no part of up unless up names them.
func TestRequireLooks(t *testing.T) {
	for _, c := range []struct {
		lines string
		want  []string
	}{
		{"", []string{"web up=[] page replica quiet"}},
		{"    require: {withdraw: replica}\n", []string{"web up=[] page quiet", "web/withdraw up=[replica] replica"}},
		{"    require: {withdraw: replica, return: replica and not quiet}\n",
			[]string{"web up=[] page", "web/withdraw up=[replica] replica", "web/return up=[replica and not quiet] replica quiet"}},
		{"    up: page and replica\n    require: {return: replica and quiet}\n",
			[]string{"web up=[page and replica] page replica", "web/return up=[replica and quiet] replica quiet"}},
	} {
		src := strings.Replace(good, "    vips:", c.lines+"    vips:", 1)
		src = strings.Replace(src, "checks: [", "checks: [{name: page, kind: tcp, target: \"192.0.2.80:443\"}, "+
			"{name: replica, kind: tcp, target: \"192.0.2.80:81\"}, {name: quiet, kind: tcp, target: \"192.0.2.80:82\"}, ", 1)
		var got []string
		for _, s := range load(t, src).Probes("fra", "fra") {
			line := s.Name + " up=[" + s.Up + "]"
			for _, k := range s.Checks {
				if k.Name != "port" {
					line += " " + k.Name
				}
			}
			got = append(got, line)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("with %q\n%s\nwant\n%s", c.lines, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
