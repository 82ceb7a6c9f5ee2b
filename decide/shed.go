package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/steadycast/steadycast"
)

// A site that carries too much is given fewer of its clients by DNS; no route ever
// leaves for load alone. Above the red line it gives away a tenth at a time of the
// services that the table names for it, first those that stand first; under the low
// line it takes them back, the last first. Between the two nothing changes.
//
// What is given away goes wherever DNS sends it. So it is given only as far as each
// of the other sites could take all of it and stay under its own red line; what none
// may take is kept, with an alarm, for an overloaded site is better than two.

// Shed says which services give clients away when their site carries too much.
type Shed struct {
	// Services in the order in which they go; what does not stand here is kept.
	Services []string `yaml:"services" json:"services"`
	// Below is the low line in percent of the capacity; default three quarters of
	// guards.capacity_red_percent, which is the red line: 60 and 80.
	Below int `yaml:"below" json:"below"`
	// Every is the least time between two steps of one site, so that the one before
	// shows; besides it, the service's TTL. Default 30s.
	Every time.Duration `yaml:"every" json:"every_ns"`
}

const (
	shedStep  = 100 // permille of the clients who would come, at most, in one step
	shedLeast = 100 // permille that a site keeps in any case
	shedWorth = 10  // permille; less is not worth a step
)

func (s *Shed) withDefaults(g Guards) *Shed {
	if s == nil {
		return nil
	}
	full := *s
	full.Services = slices.Clone(s.Services)
	setDefault(&full.Below, g.CapacityRed*3/4)
	setDefault(&full.Every, 30*time.Second)
	return &full
}

// shed finds what of it cannot be meant.
func (c *critic) shed() {
	s := c.d.Shed
	if s == nil {
		return
	}
	if len(s.Services) == 0 {
		c.say("shed.services", "is empty; name the services that may give clients away, first those that go first")
	}
	for i, name := range s.Services {
		at := fmt.Sprintf("shed.services[%d]", i)
		switch sv, ok := c.t.Service(name); {
		case !ok:
			c.say(at, "no service %s", name)
		case slices.Contains(s.Services[:i], name):
			c.say(at, "%s stands here twice", name)
		case sv.TTL == 0:
			c.say(at, "no name leads to %s, so DNS can move nobody; give it a name, or services[].ttl", name)
		}
	}
	if s.Below < 1 || s.Below >= c.d.Guards.CapacityRed {
		c.say("shed.below", "%d is not between 1 and the red line, guards.capacity_red_percent: %d", s.Below, c.d.Guards.CapacityRed)
	}
	c.span("shed.every", s.Every, time.Hour)
}

// shedState is what one site has given away of one service.
type shedState struct {
	Site    string `json:"site"`
	Service string `json:"service"`
	// Permille that it still takes; Whole where it only could not.
	Permille int  `json:"permille"`
	Since    Time `json:"since"`
	// Kept: it carries too much and nobody may take it.
	Kept bool `json:"kept,omitempty"`
}

func (s *state) shedAt(site, service string) (int, bool) {
	return slices.BinarySearchFunc(s.Moves.Sheds, [2]string{site, service}, func(x shedState, w [2]string) int {
		return cmp.Or(cmp.Compare(x.Site, w[0]), cmp.Compare(x.Service, w[1]))
	})
}

// shedTo is the share that load leaves a site of a service.
func (s *state) shedTo(site, service string) int {
	if i, ok := s.shedAt(site, service); ok {
		return s.Moves.Sheds[i].Permille
	}
	return Whole
}

// judgeSheds holds what every site carries against its lines.
func (a *applying) judgeSheds() {
	if a.Table.Shed == nil {
		return
	}
	for _, site := range a.Table.Announcers() {
		load, known := a.load(site)
		capacity := a.capacity(site)
		if !known || capacity == 0 {
			continue // what is not known moves nobody
		}
		switch pct := percent(load, capacity); {
		case pct > int64(a.Table.Guards.CapacityRed):
			a.shedSome(site, load, pct)
			continue
		case pct < int64(a.Table.Shed.Below):
			a.regain(site, pct)
		}
		for _, service := range a.Table.Shed.Services {
			if i, ok := a.shedAt(site, service); ok && a.Moves.Sheds[i].Kept {
				x := a.Moves.Sheds[i]
				x.Kept = false
				a.setShed(x, fmt.Sprintf("it carries %d%% of its capacity", percent(load, capacity)))
			}
		}
	}
}

// shedSome gives away a step of the first service that has some left.
func (a *applying) shedSome(site string, load, pct int64) {
	if slices.ContainsFunc(a.Moves.Sheds, func(x shedState) bool { return x.Site != site && !a.shedDue(x.Site, x.Service) }) {
		return // what another gave away may be on its way to where there seems to be room
	}
	for _, service := range a.Table.Shed.Services {
		now := a.takes(site, service)
		if !a.serves(site, service) || now <= shedLeast {
			continue
		}
		if !a.shedDue(site, service) {
			return // the step before has yet to show
		}
		step := min(shedStep, now-shedLeast)
		room, who := a.headroom(site, service)
		if fits := roomFor(room, load, now); fits < step {
			step = fits
		}
		if step < shedWorth {
			if who == "" {
				who = "no other site takes clients of " + service
			} else {
				who += " has no room"
			}
			a.setShed(shedState{site, service, a.shedTo(site, service), a.LT, true}, fmt.Sprintf("it carries %d%% of its capacity, and %s: its clients are kept", pct, who))
			continue
		}
		a.setShed(shedState{site, service, now - step, a.LT, false}, fmt.Sprintf("it carries %d%% of its capacity; above %d%% it gives clients away", pct, a.Table.Guards.CapacityRed))
		return
	}
}

// regain gives a step back to the service that went last.
func (a *applying) regain(site string, pct int64) {
	for _, service := range slices.Backward(a.Table.Shed.Services) {
		i, ok := a.shedAt(site, service)
		if !ok {
			continue
		}
		if !a.shedDue(site, service) {
			return
		}
		x := a.Moves.Sheds[i]
		x.Permille, x.Since, x.Kept = min(x.Permille+shedStep, Whole), a.LT, false
		a.setShed(x, fmt.Sprintf("it carries %d%% of its capacity; below %d%% it takes clients back", pct, a.Table.Shed.Below))
		return
	}
}

// shedDue: the step before had time to show. What was only kept waits for nothing.
func (a *applying) shedDue(site, service string) bool {
	i, ok := a.shedAt(site, service)
	if !ok || a.Moves.Sheds[i].Kept {
		return true
	}
	sv, _ := a.Table.Service(service)
	return a.LT >= a.Moves.Sheds[i].Since+lt(max(a.Table.Shed.Every, sv.TTL))
}

// takes is the share that a site takes now, of all the parts.
func (s *state) takes(site, service string) int {
	ramp, _ := s.ramped(site, service)
	return min(s.given(site, service), ramp, s.shedTo(site, service))
}

// headroom is the load that each of the other sites that take clients could still
// take under its red line, and who could take that least. A site of which capacity or
// load is not known has none that anybody knows of.
func (a *applying) headroom(site, service string) (room int64, who string) {
	for _, other := range a.takers(service, site) {
		load, known := a.load(other)
		capacity := a.capacity(other)
		left := int64(0)
		if known && capacity > 0 {
			left = max(capacity/100*int64(a.Table.Guards.CapacityRed)+capacity%100*int64(a.Table.Guards.CapacityRed)/100-load, 0)
		}
		if who == "" || left < room {
			room, who = left, other
		}
	}
	return room, who
}

// roomFor is how many permille of those who would come to a site have room, where it
// carries load with now permille of them.
func roomFor(room, load int64, now int) int {
	if load <= room {
		return now
	}
	if load > 1<<52 { // so that the product below never overflows
		room, load = room>>11, load>>11
	}
	return int(room * int64(now) / load)
}

// setShed notes what a site gives away, and says so if it changes.
func (a *applying) setShed(x shedState, why string) {
	i, ok := a.shedAt(x.Site, x.Service)
	was := shedState{Permille: Whole}
	if ok {
		was = a.Moves.Sheds[i]
	}
	if was.Permille == x.Permille && was.Kept == x.Kept {
		return
	}
	list := slices.Clone(a.Moves.Sheds)
	switch drop := x.Permille == Whole && !x.Kept; {
	case drop && ok:
		list = slices.Delete(list, i, i+1)
	case ok:
		list[i] = x
	case !drop:
		list = slices.Insert(list, i, x)
	}
	if len(list) == 0 {
		list = nil
	}
	a.Moves.Sheds = list
	ev := steadycast.Event{Kind: steadycast.EventShare, Site: x.Site, Service: x.Service, From: Percent(was.Permille), To: Percent(x.Permille), Reason: why}
	switch {
	case x.Kept:
		ev.Kind, ev.From, ev.To, ev.Guard = steadycast.EventAlarm, "", "overloaded", capacityGuard
	case was.Kept && was.Permille == x.Permille:
		ev.Kind, ev.From, ev.To, ev.Guard = steadycast.EventRecovery, "overloaded", "", capacityGuard
	}
	a.event(ev)
}

// settleSheds forgets what a new table does not shed any more.
func (a *applying) settleSheds() {
	a.Moves.Sheds = keep(a.Moves.Sheds, func(x shedState) bool {
		return a.Table.Shed != nil && slices.Contains(a.Table.Shed.Services, x.Service) && a.serves(x.Site, x.Service)
	})
}

// soundSheds checks of a snapshot what this code relies on.
func (s *state) soundSheds() error {
	for i, x := range s.Moves.Sheds {
		if s.Table.Shed == nil || !s.serves(x.Site, x.Service) || x.Permille < 0 || x.Permille > Whole || x.Permille == Whole && !x.Kept {
			return fmt.Errorf("what %s gives away of %s cannot be", x.Site, x.Service)
		}
		if k, _ := s.shedAt(x.Site, x.Service); k != i {
			return fmt.Errorf("what is given away is out of order")
		}
	}
	return nil
}
