package demo

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/answers"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/probe"
)

// planName is the demo's plan: the clients and the writer of the first site go to
// the others.
const planName = "leave"

// planWithin bounds what is waited for of a plan; it only ends a run that has failed.
const planWithin = 3 * time.Minute

// writer stands for a database: who may write to it is fenced, promoted, and taken
// back. It does what it is called for once, and refuses what is older than it has seen.
type writer struct {
	server *http.Server
	addr   string

	mu     sync.Mutex
	done   []called
	keys   map[string]bool
	newest [2]uint64 // epoch and number
}

// called is what it was called for first, and when.
type called struct {
	what string
	at   time.Time
}

func openWriter() (*writer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &writer{addr: l.Addr().String(), keys: map[string]bool{}}
	w.server = &http.Server{Handler: w, ReadHeaderTimeout: slowness}
	go func() { _ = w.server.Serve(l) }() // ends with close
	return w, nil
}

func (w *writer) close() { _ = w.server.Close() }

func (w *writer) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	epoch, _ := strconv.ParseUint(r.Header.Get("Steadycast-Epoch"), 10, 64)
	number, _ := strconv.ParseUint(r.Header.Get("Steadycast-Number"), 10, 64)
	token, key := [2]uint64{epoch, number}, r.Header.Get("Idempotency-Key")
	switch {
	case slices.Compare(token[:], w.newest[:]) < 0:
		http.Error(out, "a newer one was here before", http.StatusConflict)
		return
	case !w.keys[key]:
		w.done = append(w.done, called{r.URL.Path[1:], time.Now()})
	}
	w.newest, w.keys[key] = token, true
	fmt.Fprintln(out, r.URL.Path[1:])
}

// calls are what it was called for, in order.
func (w *writer) calls() (what []string, at []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.done {
		what, at = append(what, c.what), append(at, c.at)
	}
	return what, at
}

// plans of the demo, where there are sites enough for one to leave.
func (f *fleet) plans() []config.Plan {
	sites := f.announcers()
	if len(sites) < 3 || f.writer == nil {
		return nil
	}
	from, to := sites[0], sites[1]
	percent := 0
	call := func(what string) *config.PlanRun {
		return &config.PlanRun{URL: "http://" + f.writer.addr + "/" + what, Method: http.MethodPost}
	}
	look := probe.Check{Name: "look", Kind: "http", Target: "http://" + to.host().service.addr.String() + "/"}.WithDefaults()
	steps := []config.PlanStep{
		{Step: decide.Step{Do: decide.DoCheck}},
		{Step: decide.Step{Do: decide.DoGuard, At: to.name}, Check: &look},
		{Step: decide.Step{Do: decide.DoRun, Name: "fence", Effect: decide.EffectFence, Undoes: true}, Run: call("fence"), Undo: call("unfence")},
		{Step: decide.Step{Do: decide.DoRun, Name: "promote", Effect: decide.EffectPromote, Undoes: true}, Run: call("promote"), Undo: call("demote")},
		{Step: decide.Step{Do: decide.DoShift, Site: from.name, Percent: &percent, For: time.Second}},
		{Step: decide.Step{Do: decide.DoDrain, Site: from.name}},
		{Step: decide.Step{Do: decide.DoWait, For: time.Second}},
		{Step: decide.Step{Do: decide.DoVerify, Site: from.name, For: time.Second}},
		{Step: decide.Step{Do: decide.DoApprove}},
	}
	p := decide.Plan{Name: planName}
	for _, s := range steps {
		p.Steps = append(p.Steps, s.Step)
	}
	p = p.WithDefaults()
	for k := range steps {
		steps[k].Step = p.Steps[k]
	}
	return []config.Plan{{Name: p.Name, About: "the clients and the writer of " + from.name + " go to the others", OnFailure: p.OnFailure, Steps: steps}}
}

// planned is the part of the plans that the ledger needs.
func (f *fleet) planned() []decide.Plan {
	var out []decide.Plan
	for _, p := range f.plans() {
		x := decide.Plan{Name: p.Name, About: p.About, OnFailure: p.OnFailure}
		for _, s := range p.Steps {
			x.Steps = append(x.Steps, s.Step)
		}
		out = append(out, x)
	}
	return out
}

// run is the newest run of the demo's plan.
func (s *stage) run() (decide.PlanRun, bool) {
	runs := s.f.ledger().View().Plans
	if len(runs) == 0 {
		return decide.PlanRun{}, false
	}
	return runs[len(runs)-1], true
}

// steer tells the plan something, signed.
func (s *stage) steer(do, reason string) error {
	s.tell("plan %s %s: %s", do, planName, reason)
	_, err := s.wish(decide.KindPlan, reason, func(w *decide.Wish) { w.Plan = &decide.PlanWish{Do: do, Plan: planName} })
	return err
}

// answered reports whether DNS leads clients to a site, by the committed state.
func (s *stage) answered(site string) (bool, error) {
	at := netip.MustParseAddrPort("127.0.0.1:53")
	policy, problems := dnsfallback.NewPolicy(1, s.f.placement(at), dnsfallback.Known{Sites: s.sites, Services: []string{serviceName}})
	if len(problems) > 0 {
		return false, fmt.Errorf("%v", problems[0])
	}
	v := s.f.ledger().View()
	said, err := policy.Table(1, nil, answers.State(&v, time.Now())).Explain(demoName+"."+demoZone, "A", netip.MustParsePrefix("198.51.100.0/24"))
	if err != nil {
		return false, err
	}
	addr := s.f.site(site).named().String()
	return slices.ContainsFunc(said.Records, func(r string) bool { return len(r) >= len(addr) && r[len(r)-len(addr)-1:] == " "+addr }), nil
}

// leads is an error unless DNS leads clients to a site, or does not, as it should.
func (s *stage) leads(site string, should bool) error {
	switch yes, err := s.answered(site); {
	case err != nil:
		return fmt.Errorf("where DNS leads to: %w", err)
	case yes && !should:
		return fmt.Errorf("DNS leads to %s still", site)
	case !yes && should:
		return fmt.Errorf("DNS does not lead to %s", site)
	}
	return nil
}

// moved waits until the run has come to its last step: the old writer was fenced
// before the new one was promoted, and only then the route left, by drain.
func (s *stage) moved(from string) error {
	began := time.Now()
	if err := s.steer(decide.PlanRunIt, "the demo shows a plan"); err != nil {
		return err
	}
	at := func() bool {
		r, ok := s.run()
		return ok && (r.At == len(r.Steps)-1 || r.Hold != nil)
	}
	if err := s.until(planWithin, "the plan waits for a person's yes", at); err != nil {
		return err
	}
	r, _ := s.run()
	if r.Hold != nil {
		return fmt.Errorf("the plan stands still: %s", r.Hold.Reason)
	}
	for k, x := range r.Steps[:r.At] {
		s.tell("step %d, %s: %s by %s: %s", k+1, r.Plan.Steps[k].Name, x.State, x.Who, x.Evidence)
	}
	what, when := s.f.writer.calls()
	if !slices.Equal(what, []string{"fence", "promote"}) {
		return fmt.Errorf("expected the writer to be fenced and promoted, once each; it was called for %v", what)
	}
	for _, u := range s.router.since(began) {
		if u.Site == from && (u.Depreferred() || !u.Announce) && u.At.Before(when[1]) {
			return fmt.Errorf("the route of %s was touched before the new writer was promoted", from)
		}
	}
	if s.has(from) {
		return fmt.Errorf("the router has %s still", from)
	}
	if err := s.leads(from, false); err != nil {
		return err
	}
	return s.hold(time.Second, "no request goes to "+from, func() bool { return !slices.Contains(s.preferred(), from) })
}

// preferred are the sites that the client's requests go to now.
func (s *stage) preferred() (sites []string) {
	for _, a := range s.router.preferred() {
		sites = append(sites, s.f.speakers[a].name)
	}
	return sites
}

func planScenario(s *stage) error {
	from := s.sites[0]
	if err := s.moved(from); err != nil {
		return err
	}
	if err := s.steer(decide.PlanApprove, "seen it"); err != nil {
		return err
	}
	complete := func() bool { r, _ := s.run(); return r.State == decide.PlanComplete }
	if err := s.until(planWithin, "the plan is complete", complete); err != nil {
		return err
	}
	return s.hold(time.Second, from+" stays out", func() bool { return !s.has(from) })
}

func planRollback(s *stage) error {
	from := s.sites[0]
	if err := s.moved(from); err != nil {
		return err
	}
	if err := s.steer(decide.PlanRollback, "never mind"); err != nil {
		return err
	}
	back := func() bool { r, _ := s.run(); return r.State == decide.PlanRolledBack }
	if err := s.until(planWithin, "everything is taken back", back); err != nil {
		return err
	}
	if what, _ := s.f.writer.calls(); !slices.Equal(what, []string{"fence", "promote", "demote", "unfence"}) {
		return fmt.Errorf("expected the writer to be demoted and then unfenced; it was called for %v", what)
	}
	if err := s.until(returnWithin, "every site is announced, none depreferred", s.allWell); err != nil {
		return err
	}
	if err := s.leads(from, true); err != nil {
		return err
	}
	v := s.f.ledger().View()
	if len(v.Orders)+len(v.Shares) > 0 {
		return fmt.Errorf("orders %v and shares %v stand", v.Orders, v.Shares)
	}
	return s.until(planWithin, "requests go to "+from+" again", func() bool { return slices.Contains(s.preferred(), from) })
}
