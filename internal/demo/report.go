package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/steadycast/steadycast"
)

// Line is one event of the demo, as one JSON object per line. T is milliseconds
// since the fleet was complete; negative while it starts.
type Line struct {
	T    int64  `json:"t_ms"`
	Kind string `json:"event"` // story, fault, network, voter, update, loss, and those of events: verdict, permit, refused, alarm, …
	Site string `json:"site,omitempty"`
	// Node of a site of several, where it is about that one.
	Node string `json:"node,omitempty"`
	// Of an update.
	Prefix     string                 `json:"prefix,omitempty"`
	Announce   *bool                  `json:"announce,omitempty"`
	Attributes *steadycast.Attributes `json:"attributes,omitempty"`
	// Lost: the session ended, and nobody withdrew anything.
	Lost bool `json:"lost,omitempty"`
	// Of a loss; its prefix is that of the client of one site's address.
	Flow *int `json:"flow,omitempty"`
	// Of a transition.
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Guard  string `json:"guard,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Summary is the last object of a scenario.
type Summary struct {
	Scenario string `json:"scenario"`
	OK       bool   `json:"ok"`
	// Error says what was expected and did not come.
	Error string `json:"error,omitempty"`
	// DetectMS is from the fault to the verdict, PermitMS to the permit, WithdrawMS
	// to the withdrawal as the router heard it; null where there was none, and for
	// the last two after a network's fault from its end.
	DetectMS   *int64 `json:"detect_ms"`
	PermitMS   *int64 `json:"permit_ms"`
	WithdrawMS *int64 `json:"withdraw_ms"`
	// NamesMS is from the fault until no name led there any more, where a site was
	// gone whole.
	NamesMS *int64 `json:"names_ms,omitempty"`
	// AnnouncingMin is the fewest sites in the router's table at any moment.
	AnnouncingMin int `json:"announcing_min"`
	// RouteChanges counts the UPDATEs the router heard about the prefix.
	RouteChanges int    `json:"route_changes"`
	Requests     uint64 `json:"requests"`
	Lost         uint64 `json:"lost"`
	// Held are the invariants that were found to hold afterwards.
	Held []string `json:"held,omitempty"`
	// Settings that are not production's defaults.
	Settings []Difference `json:"settings"`
}

// report writes what happens, for a person or for a program. Its mutex keeps
// lines whole. A reader that is gone ends nothing.
type report struct {
	mu    sync.Mutex
	w     io.Writer
	json  bool
	start time.Time
	lost  int  // losses not yet told to a person
	ended bool // the summary is the last word
}

func (r *report) begin(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start = at
}

// line writes one event. Losses are counted for a person and told one by one to a program.
func (r *report) line(at time.Time, l Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	l.T = at.Sub(r.start).Milliseconds()
	if r.json {
		_ = json.NewEncoder(r.w).Encode(l)
		return
	}
	if l.Kind == "loss" {
		r.lost++
		return
	}
	if r.lost > 0 {
		fmt.Fprintf(r.w, "%9s  client     lost %d requests\n", "", r.lost)
		r.lost = 0
	}
	fmt.Fprintf(r.w, "%8.3fs  %-9s  %s\n", float64(l.T)/1000, l.Kind, l.words())
}

func (l Line) words() string {
	var b strings.Builder
	word := func(s string) {
		if s != "" {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(s)
		}
	}
	if l.Node != "" {
		word(l.Node)
	} else {
		word(l.Site)
	}
	switch {
	case l.Announce != nil && *l.Announce:
		word("announces " + l.Prefix)
		if l.Attributes != nil {
			for _, c := range l.Attributes.Communities {
				word(c.String())
			}
			if n := len(l.Attributes.ASPath); n > 1 {
				word(fmt.Sprintf("path length %d", n))
			}
		}
	case l.Lost:
		word("is lost to the router, and " + l.Prefix + " with it")
	case l.Announce != nil:
		word("withdraws " + l.Prefix)
	case l.From != "" && l.To != "":
		word(l.From + " → " + l.To)
	case l.To != "":
		word(l.To)
	}
	if l.Guard != "" {
		word("[" + l.Guard + "]")
	}
	word(l.Reason)
	return b.String()
}

// end writes the summary.
func (r *report) end(s Summary) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.json {
		_ = json.NewEncoder(r.w).Encode(s)
		return
	}
	verdict := "ok"
	if !s.OK {
		verdict = "FAILED: " + s.Error
	}
	fmt.Fprintf(r.w, "\n%s: %s\n", s.Scenario, verdict)
	if s.DetectMS != nil {
		fmt.Fprintf(r.w, "  judged after        %5d ms\n", *s.DetectMS)
	}
	if s.PermitMS != nil {
		fmt.Fprintf(r.w, "  permitted after     %5d ms\n", *s.PermitMS)
	}
	if s.WithdrawMS != nil {
		fmt.Fprintf(r.w, "  gone at the router  %5d ms\n", *s.WithdrawMS)
	}
	if s.NamesMS != nil {
		fmt.Fprintf(r.w, "  names lead away     %5d ms\n", *s.NamesMS)
	}
	fmt.Fprintf(r.w, "  fewest announcing   %5d\n  route changes       %5d\n  requests lost       %5d of %d\n",
		s.AnnouncingMin, s.RouteChanges, s.Lost, s.Requests)
	for _, h := range s.Held {
		fmt.Fprintf(r.w, "  holds               %s\n", h)
	}
	fmt.Fprintln(r.w, "  not as in production:")
	for _, d := range s.Settings {
		fmt.Fprintf(r.w, "    %-40s %s instead of %s\n", d.Setting, d.Demo, d.Default)
	}
}
