package probe

import (
	"fmt"

	"github.com/steadycast/steadycast"
)

func up(reason string) steadycast.Result {
	return steadycast.Result{Outcome: steadycast.Up, Reason: reason}
}

func soft(format string, args ...any) steadycast.Result {
	return steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Soft, Reason: fmt.Sprintf(format, args...)}
}

func hard(format string, args ...any) steadycast.Result {
	return steadycast.Result{Outcome: steadycast.Down, Class: steadycast.Hard, Reason: fmt.Sprintf(format, args...)}
}

func unknown(format string, args ...any) steadycast.Result {
	return steadycast.Result{Outcome: steadycast.Unknown, Reason: fmt.Sprintf(format, args...)}
}

// clip shortens what came from outside and makes it safe to print on one line.
func clip(s string, n int) string {
	b := make([]rune, 0, n)
	for _, r := range s {
		if len(b) == n {
			return string(b) + "…"
		}
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			r = '.'
		}
		b = append(b, r)
	}
	return string(b)
}
