package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/api"
)

// trialFor is how long the bad table is on trial: long enough to lose a leader in.
const trialFor = 8 * time.Second

// badTable gives the fleet tables that forget sites. One takes too many away and is
// refused; one takes a single site away, on trial. Nobody confirms it and the voter
// that leads is lost meanwhile: the table before comes back all the same.
func badTable(s *stage) error {
	last, rest := s.sites[len(s.sites)-1], s.sites[:len(s.sites)-1]
	s.tell("a person applies a table that forgets all sites but %s", s.sites[0])
	_, err := s.wish(decide.KindStage, "a slip of the pen", func(w *decide.Wish) { w.Table = s.tableOf(s.sites[:1]) })
	guard, override := refusal(err)
	if guard != "floor" || !strings.Contains(override, "--force") {
		return fmt.Errorf("expected the floor to refuse the table and to name --force; it answered %v", err)
	}
	s.tell("the floor refuses: %v", err)

	s.tell("then one that forgets %s, on trial for %s", last, trialFor)
	s.forgets = last
	got, err := s.wish(decide.KindStage, "fewer sites", func(w *decide.Wish) { w.Table = s.tableOf(rest) })
	if err != nil {
		return err
	}
	bad := got.Reply.Revision
	ready := func() bool {
		v := s.f.ledger().View()
		return v.Staged != nil && v.Staged.Table.Revision == bad && len(v.Unready) == 0
	}
	if err := s.until(leaveWithin, "every site that announces has tried it", ready); err != nil {
		return err
	}
	began := time.Now()
	if _, err := s.wish(decide.KindActivate, "fewer sites", func(w *decide.Wish) { w.Revision, w.ConfirmWithin = bad, trialFor }); err != nil {
		return err
	}
	if err := s.goes(last, began); err != nil {
		return err
	}
	lead, ok := s.f.voters.leader()
	if err := s.until(leaveWithin, "a voter leads", func() bool {
		if !ok {
			lead, ok = s.f.voters.leader()
		}
		return ok
	}); err != nil {
		return err
	}
	s.tell("nobody confirms it, and the voter of %s, which leads, is lost", lead.site)
	s.f.stopVoter(lead)
	back := func() bool {
		v := s.f.ledger().View()
		return v.Trial == nil && v.Table.Revision > bad && s.all()
	}
	if err := s.until(returnWithin, "the table before is back, and "+last+" with it", back); err != nil {
		return err
	}
	s.tell("%s is announced again, %d ms after the bad table came into force", last, time.Since(began).Milliseconds())
	s.mend()
	if n := s.withdrawals("", began); n != 1 {
		return fmt.Errorf("expected one withdrawal, the router heard %d", n)
	}
	said := func() bool {
		return slices.ContainsFunc(s.f.record.all(), func(e steadycast.Event) bool {
			return e.Kind == steadycast.EventAlarm && strings.Contains(e.Reason, fmt.Sprintf("nobody confirmed revision %d within %s", bad, trialFor))
		})
	}
	return s.until(leaveWithin, "it is said why the table before is back", said)
}

// tableOf is the table in force, served by some of the sites only.
func (s *stage) tableOf(sites []string) *decide.Table {
	t := s.f.ledger().View().Table
	t.Revision, t.Services = 0, slices.Clone(t.Services)
	t.Services[0].Sites = sites
	return &t
}

// wish has the demo's operator sign something, and hands it in over the API, as the
// command line does.
func (s *stage) wish(kind decide.Kind, reason string, body func(*decide.Wish)) (done api.Changed, err error) {
	c := api.NewClient(s.f.o.Socket)
	defer c.Close()
	var known decide.Authority
	if err := c.Get(s.ctx, "authority", nil, &known); err != nil {
		return done, err
	}
	w, ok := known.Wish(s.f.pen.Name, kind, reason)
	if !ok {
		return done, fmt.Errorf("the ledger does not know the operator %s", s.f.pen.Name)
	}
	body(&w)
	signed, err := w.Sign(s.f.pen.Sign)
	if err != nil {
		return done, err
	}
	return done, c.Post(s.ctx, "carry", signed, &done)
}
