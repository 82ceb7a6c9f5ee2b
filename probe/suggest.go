package probe

import (
	"fmt"
	"strings"
)

// didYouMean returns `; did you mean "x"?` for the nearest of words, if one is near.
func didYouMean(got string, words []string) string {
	best, at := "", 1+max(1, len(got)/3)
	for _, w := range words {
		if d := distance(strings.ToLower(got), strings.ToLower(w)); d < at {
			best, at = w, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is how many letters must be changed, added, dropped, or swapped with
// their neighbour to get from a to b (optimal string alignment).
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var before, above, row [65]int
	for j := range len(b) + 1 {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}
