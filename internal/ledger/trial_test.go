package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// onTrial gives a leader a second table, on trial, that adds sites or takes them away.
func onTrial(t *testing.T, within time.Duration, was, is []string) *bench {
	b := newBench(t, was...)
	b.up(was...)
	b.applyTable(within, is...)
	return b
}

func (b *bench) applyTable(within time.Duration, sites ...string) {
	e := b.l.entry(b.now, decide.KindStage)
	table := policy(sites...)
	e.Table, e.Actor, e.Reason, e.Force = &table, "ann", "r", true
	n := b.apply(e).Revision
	e = b.l.entry(b.now, decide.KindActivate)
	e.Revision, e.ConfirmWithin, e.Force, e.Waive, e.Actor, e.Reason = n, within, true, b.l.view.Table.Announcers(), "ann", "r"
	b.apply(e)
}

// beats has sites say that they announce.
func (b *bench) beats(names ...string) {
	for _, name := range names {
		b.beat(name, 1, steadycast.RequestID{}, true)
	}
}

func (b *bench) revision() uint64 { return b.l.view.Table.Revision }

// TestTrialEnds: the leader puts the table before back when the time is over and not
// before, and wakes for it.
func TestTrialEnds(t *testing.T) {
	b := onTrial(t, time.Minute, []string{"ams", "fra", "lon"}, []string{"ams", "fra", "lon", "par"})
	for b.now += 30 * time.Second; b.now < 59*time.Second; b.now += time.Second {
		b.beats("ams", "fra", "lon")
		if b.duties(); b.revision() != 2 {
			t.Fatalf("after %s: revision %d", b.now, b.revision())
		}
	}
	b.duties()
	if at := b.l.wake(); at > time.Minute {
		t.Errorf("wakes after %s", at)
	}
	b.now = time.Minute
	b.beats("ams", "fra", "lon")
	if kinds := b.duties(); !slices.Contains(kinds, decide.KindRevert) || b.revision() != 3 || b.l.view.Trial != nil {
		t.Fatalf("%v: revision %d, on trial %v", kinds, b.revision(), b.l.view.Trial)
	}
	if _, ok := b.l.view.Table.Place("par"); ok {
		t.Error("what the trial added is still there")
	}
}

// TestTrialOutlivesItsLeader: another leads with what ledger time is left, however
// its own clock stands, and asks the guards only after it heard the sites.
func TestTrialOutlivesItsLeader(t *testing.T) {
	b := onTrial(t, time.Minute, []string{"ams", "fra", "lon"}, []string{"ams", "fra", "lon", "par"})
	b.now = 40 * time.Second
	b.duties()
	copied := decide.NewFleet()
	if err := copied.Restore(b.l.fleet.Snapshot()); err != nil {
		t.Fatal(err)
	}
	started := 1000 * time.Hour
	b.l, b.now = newLeader(copied, "n2", started), started
	for ; b.now < started+20*time.Second; b.now += time.Second {
		b.beats("ams", "fra", "lon")
		if b.duties(); b.revision() != 2 {
			t.Fatalf("%s after it began to lead: revision %d", b.now-started, b.revision())
		}
	}
	b.now = started + 20*time.Second
	b.beats("ams", "fra", "lon")
	if b.duties(); b.revision() != 3 {
		t.Fatalf("revision %d", b.revision())
	}

	b = onTrial(t, time.Second, []string{"ams", "fra", "lon"}, []string{"ams", "fra", "lon", "par"})
	b.now = 2 * time.Second
	b.l.start, b.l.base = b.now, b.l.fleet.LT()+1000 // leads since now, and it is time
	if b.duties(); b.revision() != 2 {
		t.Fatal("a leader that heard nobody let a table come back")
	}
	b.now += beatFresh
	if b.duties(); b.revision() != 3 {
		t.Fatalf("revision %d", b.revision())
	}
}

// TestTrialIsHeld: a table that would break a floor does not come back; that is said
// once and looked at every second, until it may.
func TestTrialIsHeld(t *testing.T) {
	b := onTrial(t, time.Minute, []string{"ams", "fra", "lon"}, []string{"ams", "fra", "lon", "par", "rom"})
	b.up("par", "rom")
	said := 0
	for ; b.now < 3*time.Minute; b.now += time.Second {
		b.beats("ams", "par", "rom")
		for _, k := range b.duties() {
			if k == decide.KindRevert {
				said++
			}
		}
		if b.revision() != 2 {
			t.Fatalf("after %s the floor did not hold: revision %d", b.now, b.revision())
		}
		if at := b.l.wake(); at <= b.now {
			t.Fatalf("wakes at %s at once at %s", at, b.now)
		}
	}
	if v := b.l.view.Trial; said != 1 || v == nil || v.Held == nil || v.Held.Guard != "floor" {
		t.Fatalf("said %d times, %+v", said, v)
	}
	for range 10 { // those that were lost are back
		if b.revision() != 2 {
			break
		}
		b.now += time.Second
		b.beats("ams", "fra", "lon", "par", "rom")
		b.duties()
	}
	if b.revision() != 3 {
		t.Fatalf("revision %d: %+v", b.revision(), b.l.view.Trial)
	}
}
