package api

import (
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// Snapshot is what one daemon knows at one moment. It is immutable once
// published; the daemon replaces it whole.
type Snapshot struct {
	// Node is the daemon's name, Fleet the fleet's, Mode solo, fleet or demo.
	Node    string `json:"node"`
	Fleet   string `json:"fleet"`
	Mode    string `json:"mode"`
	Version string `json:"version"`
	// At is when the snapshot was taken, Started when the daemon started.
	At      time.Time `json:"at"`
	Started time.Time `json:"started"`

	// View is the committed state of the ledger. When LedgerLost is not empty it
	// is the last one known, and LedgerLost says why there is no newer one.
	View       decide.View `json:"view"`
	LedgerLost string      `json:"ledger_lost,omitempty"`
	// ViewAt is when this daemon learnt of the newest entry of View, of whose time
	// View.LT speaks; zero means At.
	ViewAt time.Time `json:"view_at,omitzero"`

	// Sites whose real state this daemon hears, in order of name. A site of the
	// table that is absent here is unknown, which is not the same as withdrawn.
	Sites  []Site  `json:"sites"`
	Config Config  `json:"config"`
	Alarms []Alarm `json:"alarms,omitempty"`
	Counts Counts  `json:"counts"`
	// Skewed is how many other nodes the voters hear act on another table than the one in force.
	Skewed int `json:"table_skewed_nodes,omitempty"`
	// Mesh is this node's end of the links between nodes; nil where it has none.
	Mesh *Mesh `json:"mesh,omitempty"`

	// heardOf is what the ledger heard of each node, where it was asked; see farNodes.
	heardOf []decide.SiteNow
}

// Mesh is how the links to other nodes stand, with counters since the daemon started.
type Mesh struct {
	// Links in order of name.
	Links []MeshLink `json:"links"`
	// Heard observations were let in; Dropped were not, and Refused are peers that were
	// turned away, by reason in order.
	Heard   uint64  `json:"heard"`
	Dropped []Count `json:"dropped,omitempty"`
	Refused []Count `json:"refused,omitempty"`
}

// MeshLink is one link to a node that is told what this one sees.
type MeshLink struct {
	Name string `json:"name"`
	// State is down, up or unproven.
	State string `json:"state"`
	// Calls were made; Sent reports, Dropped from a full queue, Relayed through a voter,
	// and Lost without any way. Waiting stand in the queue.
	Calls   uint64 `json:"calls"`
	Sent    uint64 `json:"sent"`
	Dropped uint64 `json:"dropped"`
	Relayed uint64 `json:"relayed"`
	Lost    uint64 `json:"lost"`
	Waiting int    `json:"waiting"`
	// BytesOut and BytesIn are octets of the link's messages, before TLS.
	BytesOut uint64 `json:"bytes_out"`
	BytesIn  uint64 `json:"bytes_in"`
	// RTT is the round trip in microseconds as the kernel smooths it; 0 while it is not
	// known. Backoff is the pause in milliseconds before the next call, 0 while the link stands.
	RTT     int64 `json:"rtt_us"`
	Backoff int64 `json:"backoff_ms"`
}

// Count is how often something happened for a reason.
type Count struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// Site is the real state of one site.
type Site struct {
	Name string `json:"name"`
	// Heard is when this state was last confirmed.
	Heard time.Time `json:"heard"`
	// Fence is the ledger position of the view that the site acts on.
	Fence steadycast.Fence `json:"fence"`
	// SpeakerLost says why the speaker cannot be reached; Actual is then the
	// last one known. Empty while it answers.
	SpeakerLost string            `json:"speaker_lost,omitempty"`
	Actual      steadycast.Actual `json:"actual"`
	// Units in order of prefix, Services and Checks in the order of the configuration.
	Units    []Unit    `json:"units"`
	Services []Service `json:"services"`
	Checks   []Check   `json:"checks"`
	// Cuts are the newest leavings of its units, oldest first.
	Cuts []Cut `json:"cuts,omitempty"`
}

// Unit is one prefix at the site: what is wanted, and whether the wire agrees.
type Unit struct {
	Unit steadycast.Unit `json:"unit"`
	// Wanted is what the node asked its speaker for; Stance how attractive.
	Wanted bool              `json:"wanted"`
	Stance steadycast.Stance `json:"stance"`
	// Since is when Wanted or Stance last changed.
	Since time.Time `json:"since,omitzero"`
	// Proven: every peer that is up has acknowledged what is wanted. Unproven
	// says what is missing.
	Proven   bool   `json:"proven"`
	Unproven string `json:"unproven,omitempty"`
	// Moving: its site is on the way from one path to another, and the routers of the
	// old one hold it until it has arrived. It is not proven, and announced all the same.
	Moving bool `json:"moving,omitempty"`
	// Why lists the reasons in the order of the pipe: verdict, order, permit, proof.
	Why []string `json:"why,omitempty"`
	// Last is the newest answer of the ledger about the unit, with every guard.
	Last *decide.Ruling `json:"last,omitempty"`
	// Cut is the newest leaving, while it lasts.
	Cut *Cut `json:"cut,omitempty"`
	// Nodes of the site where it has several, in order of name, as this one knows them.
	Nodes []decide.NodeStatus `json:"nodes,omitempty"`
}

// Service is the verdict on one service at the site.
type Service struct {
	Verdict steadycast.Verdict `json:"verdict"`
	// Since is when the state began.
	Since time.Time `json:"since,omitzero"`
	// Why explains the newest round of probes.
	Why *steadycast.Tree `json:"why,omitempty"`
	// Fast is set while the probes hurry.
	Fast bool `json:"fast,omitempty"`
	// Next says what the state waits for: "healthy at 20 passing rounds (8 now)
	// and 5m0s since the last bad one (7s now)".
	Next string `json:"next,omitempty"`
}

// Check is one probe's newest result and its record.
type Check struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	// Subject is the other site that is looked at; empty for the site's own checks.
	Subject string `json:"subject,omitempty"`
	Kind    string `json:"kind"`
	// Target is what is probed, as written in the configuration.
	Target string `json:"target,omitempty"`
	// Result is the newest; At is when it came, zero before the first.
	Result      steadycast.Result `json:"result"`
	At          time.Time         `json:"at,omitzero"`
	LastSuccess time.Time         `json:"last_success,omitzero"`
	// Lag is how late the newest round started.
	Lag time.Duration `json:"lag_ns,omitempty"`
	// Up, Down and Unknown count results since the start.
	Up      uint64    `json:"up"`
	Down    uint64    `json:"down"`
	Unknown uint64    `json:"unknown"`
	Took    Histogram `json:"took"`
}

// Config is which configuration runs, and what became of the newest attempt.
type Config struct {
	// Path of the file that was loaded.
	Path string `json:"path,omitempty"`
	// Revision of the table, and the SHA-256 of the files in hex.
	Revision uint64    `json:"revision"`
	Hash     string    `json:"hash"`
	LoadedAt time.Time `json:"loaded_at"`
	// LastError says why the newest reload was refused; the loaded one goes on.
	LastError string `json:"last_error,omitempty"`
}

// Alarm is something that needs a person.
type Alarm struct {
	Since time.Time `json:"since"`
	Site  string    `json:"site,omitempty"`
	// Text is one sentence; Next a command or an act that helps.
	Text string `json:"text"`
	Next string `json:"next,omitempty"`
}

// Counts are what has happened since the daemon started. They only grow.
type Counts struct {
	// Refusals per guard, in order of name.
	Refusals []Refusals `json:"refusals,omitempty"`
	// Transitions of routes, in order of site, prefix, to, cause.
	Transitions []Transitions `json:"transitions,omitempty"`
	// Latencies of the stages of a decision: detect, decide, announce, confirm.
	Detect   Histogram `json:"detect"`
	Decide   Histogram `json:"decide"`
	Announce Histogram `json:"announce"`
	Confirm  Histogram `json:"confirm"`
	// LoopRan is when the loop that decides last finished a step.
	LoopRan time.Time `json:"loop_ran,omitzero"`
	// Dropped counts observations dropped from full queues.
	Dropped uint64 `json:"dropped"`
	// StateWriteErrors counts failed writes of the state on disk.
	StateWriteErrors uint64 `json:"state_write_errors"`
}

// Refusals counts the requests one guard refused.
type Refusals struct {
	Guard string `json:"guard"`
	Count uint64 `json:"count"`
}

// Transitions counts the changes of one unit's route.
type Transitions struct {
	Unit steadycast.Unit `json:"unit"`
	// To is announced, depreferred, draining or withdrawn; Cause failure, return, order, start or lost.
	To    string `json:"to"`
	Cause string `json:"cause"`
	Count uint64 `json:"count"`
}

// AsOf returns the snapshot as seen at a later moment: what it tells is as old
// as it is, so a daemon that stopped looking shows sites that are not heard,
// not the last state for ever. An earlier moment changes nothing.
func (s *Snapshot) AsOf(now time.Time) *Snapshot {
	if !now.After(s.At) {
		return s
	}
	later := *s
	later.At = now
	return &later
}

// Site returns the real state of one site.
func (s *Snapshot) Site(name string) (*Site, bool) {
	for i := range s.Sites {
		if s.Sites[i].Name == name {
			return &s.Sites[i], true
		}
	}
	return nil, false
}

// Unit returns the real state of one unit.
func (s *Snapshot) Unit(u steadycast.Unit) (*Unit, bool) {
	site, ok := s.Site(u.Site)
	if !ok {
		return nil, false
	}
	for i := range site.Units {
		if site.Units[i].Unit == u {
			return &site.Units[i], true
		}
	}
	return nil, false
}
