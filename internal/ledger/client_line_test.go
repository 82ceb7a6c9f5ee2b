package ledger

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestReadLine: lines of any length come whole, and one that is cut short, or longer
// than a voter's answer may be, is an error.
func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	r := bufio.NewReader(strings.NewReader("a\n\n" + long + "\nb\nc"))
	var got []int
	for {
		b, err := readLine(r)
		if err != nil {
			if err != io.EOF || !slices.Equal(got, []int{1, 0, len(long), 1}) {
				t.Fatalf("%v after %v", err, got)
			}
			break
		}
		got = append(got, len(b))
	}
	if _, err := readLine(bufio.NewReader(strings.NewReader(""))); err == nil || err == io.EOF {
		t.Errorf("an empty stream: %v", err)
	}
	endless := io.MultiReader(bytes.NewReader(make([]byte, maxReply)), strings.NewReader("x\n"))
	if _, err := readLine(bufio.NewReader(endless)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a line without end: %v", err)
	}
}
