package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp/sink"
	"github.com/steadycast/steadycast/internal/api"
)

// TestLifeOfANode walks one node of real processes through what happens to one
// in its life, and looks at the router each time.
func TestLifeOfANode(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start("speaker")
	n.start("agent")
	n.in()
	n.settled()

	// The service dies and comes back: one UPDATE each.
	before := n.updates()
	n.web.down()
	n.out()
	n.status("who failed", func(st *api.Status) bool {
		return len(st.Rows) == 1 && st.Rows[0].State == api.Withdrawn && strings.Contains(st.Rows[0].Why, "refused") && st.Summary.Level == api.LevelCritical
	})
	n.web.up()
	n.in()
	n.settled()
	if got := n.updates() - before; got != 2 {
		t.Errorf("%d UPDATEs for a withdrawal and a return", got)
	}

	// The agent dies, twice: nothing is sent.
	before = n.updates()
	for range 2 {
		n.kill("agent")
		n.start("agent")
		n.settled()
	}
	if got := n.updates() - before; got != 0 {
		t.Errorf("%d UPDATEs although only the agent was restarted", got)
	}
	if got := n.log.count("starting without the speaker"); got != 0 {
		t.Errorf("said %d times that the speaker is away, which was there", got)
	}

	// An order outlives the agent, and ends when it says.
	if err := n.order("drain", "3s"); err != nil {
		t.Fatal(err)
	}
	given := time.Now()
	n.routes("the drain's mark", func(t sink.Table) bool { return slices.Contains(t[home][prefix].Communities, gshut) })
	n.out()
	n.kill("agent")
	n.start("agent")
	st := n.status("the order", func(st *api.Status) bool {
		return len(st.Orders) == 1 && len(st.Rows) == 1 && st.Rows[0].State == api.Drained
	})
	if o := st.Orders[0].Order; o.Reason != "test" || o.Actor == "" {
		t.Errorf("%+v", o)
	}
	n.in()
	if lasted := time.Since(given); lasted < 3*time.Second {
		t.Errorf("an order for 3s ended after %v", lasted)
	}
	n.settled()

	// The speaker is killed: the route goes with it, and comes back by what the
	// ledger remembers, without rise and hold_up.
	n.kill("speaker")
	n.routes("the loss", func(t sink.Table) bool { return t[home] == nil })
	n.status("that it does not know", func(st *api.Status) bool { return len(st.Rows) == 1 && st.Rows[0].State == api.NotHeard })
	n.start("speaker")
	n.in()
	n.settled()

	// Told to stop, it drains.
	n.signal("speaker", syscall.SIGTERM)
	n.routes("the drain's mark", func(t sink.Table) bool { return slices.Contains(t[home][prefix].Communities, gshut) })
	n.ended("speaker")
	if notes := n.router.Notifications(); len(notes) == 0 || !strings.Contains(string(notes[len(notes)-1].Data), "operator") {
		t.Errorf("no word at the end: %+v", notes)
	}

	// The third start in ten minutes stays out, until a person says so.
	n.start("speaker")
	n.status("the crash loop", func(st *api.Status) bool {
		return slices.ContainsFunc(st.Alarms, func(a api.Alarm) bool { return strings.Contains(a.Text, "--clear-crash-loop") })
	})
	n.routes("a session without routes", func(t sink.Table) bool { return t[home] != nil && len(t[home]) == 0 })
	var done api.Done
	if err := n.api.Post(t.Context(), "clear", api.ClearRequest{What: "crash_loop"}, &done); err != nil {
		t.Fatal(err)
	}
	n.in()
	n.settled()
	if st := n.status("no alarm", func(st *api.Status) bool { return len(st.Alarms) == 0 }); st.Summary.Level != api.LevelOK {
		t.Errorf("%+v", st.Summary)
	}

	// Each thing was said once.
	for _, c := range []struct {
		n     int
		parts []string
	}{
		{2, []string{"msg=route", "from=announced to=withdrawn"}}, // by the verdict, and by the order
		{3, []string{"role=agent", "msg=alarm", "the speaker cannot be reached"}},
		{1, []string{"role=agent", "msg=alarm", "starts within"}},
	} {
		if got := n.log.count(c.parts...); got > c.n {
			t.Errorf("%q was said %d times, want at most %d", c.parts, got, c.n)
		}
	}
}

// TestReloadOfANode: what a reload does to routes and sessions, and says before.
func TestReloadOfANode(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start("speaker")
	n.start("agent")
	n.in()
	n.settled()
	sessions := func() uint64 {
		var got api.Page[api.PeerRow]
		if err := n.api.Get(t.Context(), "peers", nil, &got); err != nil {
			t.Fatal(err)
		}
		return got.Items[0].Peer.Flaps
	}
	was := n.updates()

	n.write(map[string]string{"fall: 2": "fall: 4"})
	if r := n.reload(false); !r.Applied || len(r.Changes) != 1 || !strings.Contains(r.Changes[0], "no session or route") {
		t.Errorf("policy: %+v", r)
	}
	n.settled()
	if got := n.updates(); got != was || sessions() != 0 {
		t.Errorf("a change of policy sent %d UPDATEs", got-was)
	}

	community := "next_hop4: 192.0.2.1\n      communities: [\"65001:100\"]"
	n.write(map[string]string{"next_hop4: 192.0.2.1": community})
	n.reload(false)
	n.routes("the community", func(t sink.Table) bool {
		return slices.Contains(t[home][prefix].Communities, steadycast.Community(65001<<16|100))
	})
	n.settled()
	if got := n.updates(); got != was+1 || sessions() != 0 {
		t.Errorf("a community: %d UPDATEs", got-was)
	}

	for name, change := range map[string]map[string]string{
		"a mistake":                           {"fall: 2": "fal: 2"},
		"another node":                        {"site: fra": "site: ams"},
		"a half that the speaker cannot take": {`{manage: "off"}`: `{manage: "off", mark: 99}`, "fall: 2": "fall: 4"},
		"another place":                       {"state_dir: " + n.dir: "state_dir: " + n.dir + "/other"},
	} {
		n.write(change)
		if r := n.reload(false); r.Applied || len(r.Problems) == 0 {
			t.Errorf("%s: %+v", name, r)
		}
		n.status("that a reload was refused", func(st *api.Status) bool { return st.Config.LastError != "" })
		n.write(map[string]string{"next_hop4: 192.0.2.1": community})
		if r := n.reload(false); len(r.Problems) > 0 || len(r.Changes) > 0 {
			t.Errorf("%s, mended: %+v", name, r)
		}
		n.settled()
	}
	if got := n.updates(); got != was+1 || sessions() != 0 {
		t.Errorf("refused files sent %d UPDATEs", got-was-1)
	}

	// The agent alone is restarted on a new file: the speaker is behind, and what
	// a reload does to it is said beforehand.
	n.write(map[string]string{"next_hop4: 192.0.2.1": "next_hop4: 192.0.2.1\n      med: 50\n      hold_time: 30s"})
	n.kill("agent")
	n.start("agent")
	n.settled()
	if r := n.reload(true); len(r.Changes) != 1 || !strings.Contains(r.Changes[0], "reset") || !strings.Contains(r.Changes[0], "tor1") {
		t.Errorf("a speaker that is behind: %+v", r)
	}
	if n.updates() != was+1 {
		t.Error("a dry run did something")
	}
	n.reload(false)
	n.routes("the MED", func(t sink.Table) bool { m := t[home][prefix].MED; return m != nil && *m == 50 })
	n.settled()

	// A prefix comes and goes.
	n.write(map[string]string{"[192.0.2.80/32]": "[192.0.2.80/32, 192.0.2.81/32]"})
	n.reload(false)
	n.routes("both prefixes", func(t sink.Table) bool { return len(t[home]) == 2 })
	n.settled()
	n.write(nil)
	n.reload(false)
	n.routes("one prefix", func(t sink.Table) bool { _, in := t[home][prefix]; return len(t[home]) == 1 && in })
	n.settled()

	// The speaker is away: the agent has the new settings, and says that the
	// speaker has not, until it has started on the same file.
	n.signal("speaker", syscall.SIGSTOP)
	n.write(map[string]string{"fall: 2": "fall: 3", "next_hop4: 192.0.2.1": "next_hop4: 192.0.2.1\n      med: 60"})
	failed := make(chan error, 1)
	go func() {
		var got api.Reload
		failed <- n.api.Post(t.Context(), "reload", api.ReloadRequest{}, &got)
	}()
	n.kill("speaker")
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "the speaker has not") {
		t.Errorf("half a reload: %v", err)
	}
	n.start("speaker")
	n.routes("the new MED", func(t sink.Table) bool { m := t[home][prefix].MED; return m != nil && *m == 60 })
	n.settled()

	// Another check is carried out at once.
	n.write(map[string]string{n.web.addr: "127.0.0.1:1"})
	n.reload(false)
	n.out()
}

// TestStateOfANodeThatLies: whatever lies in the state folder at a start, no
// route moves, nothing crashes, and it is said once.
func TestStateOfANodeThatLies(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start("speaker")
	n.start("agent")
	n.in()
	n.settled()
	was := n.updates()
	state := filepath.Join(n.dir, "agent.json")
	good, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	ahead := time.Now().Add(time.Hour).Format(time.RFC3339Nano)
	for name, text := range map[string]string{
		"nothing":                        "",
		"truncated":                      string(good[:len(good)/2]),
		"another node":                   strings.Replace(string(good), "fra-1", "ams-1", 1),
		"newer":                          `{"schema":99,"node":"fra-1"}`,
		"a clock that was an hour ahead": `{"schema":1,"node":"fra-1","incarnation":1,"alive":"` + ahead + `"}`,
	} {
		n.kill("agent")
		os.Remove(state)
		if text != "" {
			if err := os.WriteFile(state, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		said := n.log.count("role=agent", "level=WARN")
		n.start("agent")
		n.settled()
		if got := n.updates(); got != was {
			t.Fatalf("%s: %d UPDATEs", name, got-was)
		}
		want := 1
		if text == "" {
			want = 0
		}
		if got := n.log.count("role=agent", "level=WARN") - said; got != want {
			t.Errorf("%s: said %d times, want %d", name, got, want)
		}
	}
	// What the agent does then is still taken by the speaker.
	n.web.down()
	n.out()
}

// TestAgentThatCountsFromTooLow: agent.json is lost while the speaker hangs. The
// agent cannot know that its sets are old; it finds out, ends, and the next one
// goes on from where the speaker is.
func TestAgentThatCountsFromTooLow(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start("speaker")
	n.start("agent")
	n.in()
	n.settled()
	for range 2 { // the speaker has heard later starts than the ledger
		n.kill("agent")
		n.start("agent")
		n.settled()
	}
	was := n.updates()
	n.kill("agent")
	if err := os.Remove(filepath.Join(n.dir, "agent.json")); err != nil {
		t.Fatal(err)
	}
	n.signal("speaker", syscall.SIGSTOP)
	n.start("agent")
	for end := time.Now().Add(soon); n.log.count("starting without the speaker") == 0; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the agent waits for ever")
		}
	}
	n.signal("speaker", syscall.SIGCONT)
	if err := n.roles["agent"].Wait(); err == nil {
		t.Error("the agent ends as if all were well")
	}
	if n.log.count("starting again from there") == 0 {
		t.Error("it does not say why it ends")
	}
	n.start("agent") // as a supervisor does
	n.settled()
	if got := n.updates(); got != was {
		t.Errorf("%d UPDATEs", got-was)
	}
	n.web.down()
	n.out()
}
