package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Staged answers GET /v1/staged: the table that waits, and what nodes say of it.
type Staged struct {
	// Active is the revision in force.
	Active uint64 `json:"active"`
	// Revision waits; 0 if none does.
	Revision uint64       `json:"revision"`
	Actor    string       `json:"actor,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Acks     []decide.Ack `json:"acks"`
	// Unready are those that announce and have not said yes, each with why: sites, and
	// SITE/NODE where a site has several nodes.
	Unready []string `json:"unready"`
	// Trial is what waits to be confirmed.
	Trial *Trial `json:"trial,omitempty"`
}

// Trial is the table in force while nobody has confirmed it.
type Trial struct {
	Revision uint64 `json:"revision"`
	// Before comes back by itself when nobody confirms it in LeftMS.
	Before uint64 `json:"before"`
	LeftMS int64  `json:"left_ms"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	// Held says which guard keeps it from coming back, once it is time.
	Held string `json:"held,omitempty"`
}

// String is the trial in one line for people.
func (t *Trial) String() string {
	if t.Held != "" {
		return fmt.Sprintf("revision %d was on trial and nobody confirmed it, but revision %d does not come back: %s", t.Revision, t.Before, t.Held)
	}
	return fmt.Sprintf("revision %d comes back in %s unless somebody says: steadycast confirm %d (%s put it on trial: %s)",
		t.Before, Span(time.Duration(t.LeftMS)*time.Millisecond), t.Revision, t.Actor, t.Reason)
}

// judgeTrial asks for a word on the table that is on trial.
func (s *Snapshot) judgeTrial(sum *Summary, _ []Row, _ []Tally) {
	switch t := s.trial(); {
	case t == nil:
	case t.Held != "":
		sum.say(LevelDegraded, "a table nobody confirmed is held in force", "steadycast revisions")
	default:
		sum.say(LevelOK, "the table is on trial", fmt.Sprintf("steadycast confirm %d --reason WHY", t.Revision))
	}
}

// trial is what the view says of one, as of now.
func (s *Snapshot) trial() *Trial {
	v := s.View.Trial
	if v == nil {
		return nil
	}
	t := &Trial{Revision: v.Revision, Before: v.Before, Actor: v.Actor, Reason: v.Reason}
	if t.LeftMS = v.LeftMS; !s.ViewAt.IsZero() {
		t.LeftMS = max(v.LeftMS-s.At.Sub(s.ViewAt).Milliseconds(), 0)
	}
	if v.Held != nil {
		t.Held = v.Held.String()
	}
	return t
}

func (s *Server) getStaged(r *http.Request) (any, error) {
	if _, err := query(r); err != nil {
		return nil, err
	}
	snap := s.snapshot()
	v := snap.View
	out := Staged{Active: v.Table.Revision, Acks: listed(v.Acks), Unready: listed(v.Unready), Trial: snap.trial()}
	if w := v.Staged; w != nil {
		out.Revision, out.Actor, out.Reason = w.Table.Revision, w.Actor, w.Reason
	}
	return out, nil
}

// RevisionRow is one line of GET /v1/revisions, the newest first.
type RevisionRow struct {
	Revision uint64           `json:"revision"`
	Active   bool             `json:"active,omitempty"`
	Actor    string           `json:"actor"`
	Reason   string           `json:"reason"`
	At       time.Time        `json:"at"`
	Fence    steadycast.Fence `json:"fence"`
}

// Revisions answers GET /v1/revisions.
type Revisions struct {
	At    time.Time     `json:"at"`
	Items []RevisionRow `json:"items"`
	// Skewed are the sites that act on another revision than the one in force.
	Skewed []string `json:"skewed"`
	// Trial is what waits to be confirmed.
	Trial *Trial `json:"trial,omitempty"`
}

func (s *Server) getRevisions(r *http.Request) (any, error) {
	if _, err := query(r); err != nil {
		return nil, err
	}
	snap := s.snapshot()
	rows := []RevisionRow{}
	var inForce time.Time
	for _, x := range snap.View.Revisions {
		if x.Revision == snap.View.Table.Revision {
			inForce = snap.ledgerTime(x.At)
		}
		rows = append([]RevisionRow{{
			Revision: x.Revision, Active: x.Revision == snap.View.Table.Revision, Actor: x.Actor, Reason: x.Reason, At: snap.ledgerTime(x.At), Fence: x.Fence,
		}}, rows...)
	}
	if len(rows) == 0 { // a node's own ledger counts, and does not remember
		rows = append(rows, RevisionRow{Revision: snap.View.Table.Revision, Active: true})
	}
	out := Revisions{At: snap.At, Items: rows, Trial: snap.trial()}
	ctx, cancel := context.WithTimeout(r.Context(), backendTime)
	defer cancel()
	sites, _ := s.backend.SitesNow(ctx) // without the ledger there is nothing to compare
	out.Skewed = skewed(sites, snap.View.Table.Revision, time.Now(), inForce)
	return out, nil
}

// following is how long a new table may take to every node, and back in a beat.
const following = 5 * time.Second

// skewed are the sites that said lately, and long enough after the revision came
// into force, that they act on another.
func skewed(sites []decide.SiteNow, revision uint64, now, inForce time.Time) []string {
	out := []string{}
	for _, x := range sites {
		age := time.Duration(x.AgeMS) * time.Millisecond
		if x.Revision != 0 && x.Revision != revision && age <= Stale && now.Add(-age).Sub(inForce) > following {
			out = append(out, fmt.Sprintf("%s acts on revision %d", x.Site, x.Revision))
		}
	}
	return out
}

func (s *Server) getTable(r *http.Request) (any, error) {
	q, err := query(r, "revision")
	if err != nil {
		return nil, err
	}
	n := uint64(0)
	if text := q.Get("revision"); text != "" {
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, usage("%q is not a revision", text)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendTime)
	defer cancel()
	return s.backend.Revision(ctx, n)
}

// followsStage says before whom a table is laid.
func (s *Snapshot) followsStage(w *decide.Wish) []string {
	var asked []string
	for _, site := range s.View.Table.Announcers() {
		for _, u := range s.View.Units {
			if u.Unit.Site == site && u.Phase == steadycast.In && !u.Lost {
				asked = append(asked, site)
				break
			}
		}
	}
	out := []string{fmt.Sprintf("%d sites that announce try it, and say what it would change there: %s", len(asked), orNone(asked))}
	if x := s.View.Staged; x != nil {
		out = append(out, fmt.Sprintf("it takes the place of revision %d, which %s staged: %s", x.Table.Revision, x.Actor, x.Reason))
	}
	if t := s.trial(); t != nil {
		out = append(out, "the table in force is on trial, and its end drops what is staged by then: "+t.String())
	}
	return append(out, "it comes into force for every node at once, when all of them have said yes")
}
