package agent

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/mesh"
	"github.com/steadycast/steadycast/probe"
)

// Mesh is this node's end of the links to other nodes. All methods may be called
// from any goroutine; none but Run blocks.
type Mesh interface {
	// Run keeps the links until ctx ends.
	Run(ctx context.Context) error
	// Publish tells the nodes of the observation's subject, and the voters. Took of
	// its result is how long ago the round began.
	Publish(steadycast.Observation)
	// SetPeers sets the whole of whom this node tells. A bad peer is an error, and
	// then nothing changes.
	SetPeers([]mesh.Peer) error
	// Tell sends words to the sibling of that name, or to all where it is ""; false
	// where there is no way.
	Tell(node string, body []byte) bool
	// SetDigest sets how often the voters are told the newest of everything.
	SetDigest(time.Duration)
	// Peers is how the links stand.
	Peers() mesh.Status
}

// MeshMaker makes a node's end of the mesh once the number of its start is known,
// which orders what it says. What is heard goes to hear, and what siblings tell to
// told; neither blocks.
type MeshMaker func(start uint64, hear func(mesh.Heard), told func(mesh.Told)) (Mesh, error)

// MeshOver makes a mesh of mutually authenticated links. ln is where other nodes
// call, and is closed with the mesh. The incarnation and who hears are filled in.
func MeshOver(o mesh.Options, ln net.Listener) MeshMaker {
	return func(start uint64, hear func(mesh.Heard), told func(mesh.Told)) (Mesh, error) {
		o.Incarnation, o.OnObservation, o.OnTold = start, hear, told
		m, err := mesh.New(o)
		if err != nil {
			return nil, err
		}
		return listening{m, ln}, nil
	}
}

type listening struct {
	*mesh.Mesh
	ln net.Listener
}

func (l listening) Run(ctx context.Context) error { return l.Mesh.Run(ctx, l.ln) }

// believe says so when what this node sees of others has stopped to count, and
// when it counts again. While it has just begun to look nothing is wrong yet.
func (a *Agent) believe() {
	why := a.probes.Stats().Ineligible
	switch {
	case why == probe.NotYet:
	case why == "" && a.ineligible != "":
		a.ineligible = ""
		a.say(steadycast.Event{Kind: steadycast.EventRecovery, Reason: "what this node sees of other sites counts again"})
	case why != "" && a.ineligible == "":
		a.ineligible = "what this node sees of other sites does not count: " + why
		a.say(steadycast.Event{Kind: steadycast.EventAlarm, Reason: a.ineligible})
	}
}

// observed is called by the scheduler. What is seen of this site is judged here,
// and what is seen of others there; the voters are told of both. Sequence numbers
// go on over restarts, so that nobody takes what is new for what he heard before.
func (a *Agent) observed(o steadycast.Observation, started time.Duration) {
	from := a.probesAt + started
	o.Seq += a.start32
	if strings.HasPrefix(o.Subject, a.o.Site+"/") { // a sibling
		o.Vantage = a.o.Site
		a.seen.put(decide.Observed{Observation: o, From: from})
		return
	}
	if a.named.Load() {
		o.Node = a.o.Node
	}
	if o.Subject == a.o.Site {
		a.rounds.put(o)
		a.seen.put(decide.Observed{Observation: o, From: from})
	}
	if a.link != nil {
		o.Result.Took = max(o.Result.Took, a.now()-from)
		a.link.Publish(o)
	}
}

// heardOf is called by the mesh with what another site saw of this one: as old
// as the nonce of ours that it echoes.
func (a *Agent) heardOf(h mesh.Heard) {
	a.seen.put(decide.Observed{Observation: h.Observation, From: h.Issued.Sub(a.start)})
}

// linkLost is how long a link may be down before that is an alarm: longer than the
// restart of what is at its other end.
const linkLost = 30 * time.Second

// severed says which links have been down for long.
func severed(links []mesh.LinkStatus) (alarms []string) {
	const most = 3 // told one by one; more have one cause
	var down []string
	for _, l := range links {
		if l.State != mesh.LinkDown || l.For < linkLost {
			continue
		}
		down = append(down, l.Name)
		text := fmt.Sprintf("no link to %s at %v", l.Name, l.Addr)
		if l.Error != "" {
			text += ": " + l.Error
		}
		alarms = append(alarms, text)
	}
	if len(down) > most {
		return []string{fmt.Sprintf("no link to %d of %d nodes: %s and others", len(down), len(links), strings.Join(down[:most], ", "))}
	}
	return alarms
}

// readers are whom a node tells what it sees: the nodes of the sites that it
// watches, its siblings, and the voters.
func readers(t decide.Table, site, node string, voters []mesh.Peer) []mesh.Peer {
	var out []mesh.Peer
	for _, p := range t.Sites {
		if p.Name == site && !p.Witness {
			for _, n := range p.Nodes {
				if n.Name != node {
					out = append(out, mesh.Peer{Name: n.Name, Site: site, Node: n.Name, Addr: n.Mesh})
				}
			}
			continue
		}
		if p.Witness || len(p.Nodes) == 0 || !slices.Contains(t.Vantages(p.Name), site) {
			continue
		}
		for _, n := range p.Nodes {
			out = append(out, mesh.Peer{Name: n.Name, Site: p.Name, Node: n.Name, Addr: n.Mesh})
		}
	}
	for _, v := range voters {
		if v.Site == "" {
			v.Site = siteOf(t, v.Node)
		}
		v.Voter = true
		out = append(out, v)
	}
	return out
}

// digestOf is how often a site tells the voters the newest of everything: as often
// as its rounds in a small fleet, so that a leader can hold a request against what
// all others see; seldom in a large one, where a voter hears thousands of words.
func digestOf(t decide.Table, site string) time.Duration {
	lines := 0
	t = t.WithDefaults()
	for _, p := range t.Sites {
		if p.Name == site || slices.Contains(t.Vantages(p.Name), site) {
			for _, s := range t.Services {
				if slices.Contains(s.Sites, p.Name) {
					lines++
				}
			}
		}
	}
	const each = time.Millisecond // so that a voter hears about a thousand words a second
	return min(max(time.Duration(len(t.Sites)*lines)*each, time.Second), mesh.DefaultDigest)
}

// siteOf is the site that a node is of; "" where the table does not say.
func siteOf(t decide.Table, node string) string {
	for _, p := range t.Sites {
		if slices.ContainsFunc(p.Nodes, func(n decide.Node) bool { return n.Name == node }) {
			return p.Name
		}
	}
	return ""
}
