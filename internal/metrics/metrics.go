// Package metrics shows a daemon to Prometheus. This file lists every metric
// there is; it is the only place that names one, and the only door to the
// Prometheus library.
//
// A scrape reads one immutable [api.Snapshot], so that no page mixes two
// moments, and what is no longer in the snapshot (a peer taken out of the
// configuration) is no longer shown. A fault in here, a listener that cannot be
// opened, or a scraper that never reads, stops and delays nothing else.
//
// Names follow the Prometheus conventions: base units, _total on counters, an
// enum as one series per state with the value 0 or 1. Only prefix_state leaves
// the zeros out: with fourteen states and thousands of prefixes they would be
// most of the page. Labels hold names from the configuration; never free text,
// client addresses or ids of decisions.
package metrics

import "github.com/prometheus/client_golang/prometheus"

// metric is one family: its name behind steadycast_, its kind, help and labels.
type metric struct {
	name   string
	kind   prometheus.ValueType // histograms are histogram
	help   string
	labels []string
	desc   *prometheus.Desc
}

const (
	gauge     = prometheus.GaugeValue
	counter   = prometheus.CounterValue
	histogram = prometheus.UntypedValue // made with a const histogram
)

// all are the metrics of the agent in the order of this file, which define fills,
// and ofDNS those of the server of names, a process of its own.
var all, ofDNS []*metric

func defineDNS(name string, kind prometheus.ValueType, help string, labels ...string) *metric {
	m := define("dns_"+name, kind, help, labels...)
	all, ofDNS = all[:len(all)-1], append(ofDNS, m)
	return m
}

func define(name string, kind prometheus.ValueType, help string, labels ...string) *metric {
	m := &metric{name: "steadycast_" + name, kind: kind, help: help, labels: labels}
	m.desc = prometheus.NewDesc(m.name, help, labels, nil)
	all = append(all, m)
	return m
}

// The daemon.
var (
	buildInfo = define("build_info", gauge,
		"Always 1; the labels say which build runs.", "version", "goversion")
	startTime = define("start_timestamp_seconds", gauge,
		"When the daemon started, in seconds since 1970.")
	configInfo = define("config_info", gauge,
		"Always 1; the labels say which configuration runs.", "revision", "hash")
	configOK = define("config_last_reload_successful", gauge,
		"1 if the newest reload was taken, 0 if it was refused and the old configuration goes on.")
	configTime = define("config_last_reload_success_timestamp_seconds", gauge,
		"When the running configuration was loaded, in seconds since 1970.")
	loopRun = define("loop_last_run_timestamp_seconds", gauge,
		"When the loop that decides last finished a step, in seconds since 1970.")
	dropped = define("observations_dropped_total", counter,
		"Observations dropped from full queues.")
	stateErrors = define("state_write_failures_total", counter,
		"Failed writes of the state on disk.")
	alarms = define("alarms", gauge,
		"Things that need a person now.", "site")
	metricsErrors = define("metrics_failures_total", counter,
		"Scrapes that failed inside and were cut short.")
)

// BGP and the addresses of the host, as read back from the wire and the kernel.
var (
	speakerUp = define("speaker_up", gauge,
		"1 while the site's speaker answers.", "site")
	speakerStarts = define("speaker_starts_total", counter,
		"Starts of the site's speaker, as it counts them itself.", "site")
	sessionUp = define("bgp_session_up", gauge,
		"1 while the session is established and moving.", "site", "peer")
	sessionState = define("bgp_session_state", gauge,
		"1 for the state the session is in.", "site", "peer", "state")
	sessionFlaps = define("bgp_session_flaps_total", counter,
		"Losses of an established session.", "site", "peer")
	prefixesAdvertised = define("bgp_prefixes_advertised", gauge,
		"Prefixes that the peer holds from us.", "site", "peer")
	unacknowledged = define("bgp_unacknowledged", gauge,
		"Announcements and withdrawals that the peer has not acknowledged.", "site", "peer")
	messages = define("bgp_messages_total", counter,
		"BGP messages.", "site", "peer", "direction")
	updatesDropped = define("bgp_updates_dropped_total", counter,
		"Inbound UPDATEs, which are never needed and never kept.", "site", "peer")
	malformed = define("bgp_malformed_messages_total", counter,
		"Inbound messages that the parser refused.", "site", "peer")
	bfdUp = define("bfd_session_up", gauge,
		"1 while each end of the BFD session hears the other; absent for a peer without BFD.", "site", "peer")
	bfdState = define("bfd_session_state", gauge,
		"1 for the state the BFD session is in.", "site", "peer", "state")
	bfdDowns = define("bfd_session_downs_total", counter,
		"Losses of a BFD session that was up.", "site", "peer")
	bfdDetection = define("bfd_detection_seconds", gauge,
		"Silence of the peer after which it is taken for gone; 0 before it was heard.", "site", "peer")
	bfdPackets = define("bfd_packets_total", counter,
		"BFD packets; dropped ones were malformed, of no session, or from more than one hop away.", "site", "peer", "direction")
	vipUsable = define("vip_usable", gauge,
		"1 while the service address is on the host and usable.", "site", "address")
)

// Units: one prefix at one site.
var (
	prefixState = define("prefix_state", gauge,
		"1 for what the site's route does; a state that does not hold is absent.", "site", "prefix", "state")
	prefixIntent = define("prefix_intent", gauge,
		"1 if the site wants the prefix announced, whether the wire agrees or not.", "site", "prefix")
	prefixProven = define("prefix_proven", gauge,
		"1 if every peer that is up has acknowledged what is wanted.", "site", "prefix")
	prefixAnnouncing = define("prefix_announcing_sites", gauge,
		"Sites that announce the prefix, proven.", "prefix")
	prefixUnknown = define("prefix_unknown_sites", gauge,
		"Sites that are not heard, and may or may not announce the prefix.", "prefix")
	prefixFloor = define("prefix_floor_sites", gauge,
		"Announcing sites below which automation never goes.", "prefix")
	prefixTroubled = define("prefix_troubled_sites", gauge,
		"Sites in trouble within the breaker's window.", "prefix")
	transitions = define("route_transitions_total", counter,
		"Changes of a route.", "site", "prefix", "to", "cause")
	orders = define("orders", gauge,
		"Orders of people that stand over a site, or over one node of it.", "site", "kind")
	freezes = define("freezes", gauge,
		"Freezes that stand, by who made them.", "by")
	planRuns = define("plan_runs", gauge,
		"Runs of a plan that are proposed, under way, held or remembered, by where they stand.", "plan", "state")
)

// Guards, the ledger and the four latencies of a decision.
var (
	ledgerUp = define("ledger_up", gauge,
		"1 while the ledger can be reached; without it nothing changes.")
	refusals = define("guard_refusals_total", counter,
		"Requests that a guard refused.", "guard")
	budgetLimit = define("guard_budget_limit", gauge,
		"Automatic withdrawals that the budget allows in its window.", "guard", "site", "prefix")
	budgetRemaining = define("guard_budget_remaining", gauge,
		"Automatic withdrawals left in the budget's window.", "guard", "site", "prefix")
	decisionLatency = define("decision_latency_seconds", histogram,
		"How long each stage of a decision took.", "stage")
)

// What became of routes that left, of the newest time that each did.
var (
	cutState = define("cut_state", gauge,
		"1 for how far the newest cut of the unit is.", "site", "prefix", "state")
	cutSeconds = define("cut_seconds", gauge,
		"The newest cut's times since its beginning, while they are known: decided, effect, migrated; and the loss integral, lost.", "site", "prefix", "stage")
	cutMedian = define("cut_median_seconds", gauge,
		"The medians of the unit's earlier cuts that are known, to hold the newest against.", "site", "prefix", "stage")
	cutResidual = define("cut_residual_per_second", gauge,
		"What still comes to the site that left, where that is counted.", "site", "prefix")
)

// Probes and verdicts.
var (
	serviceState = define("service_state", gauge,
		"1 for what is believed of the site's service.", "site", "service", "state")
	pathState = define("path_state", gauge,
		"1 for what is believed of the site's path, by the service that tells of it.", "site", "path", "state")
	pathInUse = define("path_in_use", gauge,
		"1 for the path that the site is to announce by.", "site", "path")
	serviceHeld = define("service_held", gauge,
		"1 while there is too little evidence to judge the service.", "site", "service")
	siteHeard = define("peer_heard_timestamp_seconds", gauge,
		"When the site's real state was last confirmed, in seconds since 1970.", "node")
	checkStatus = define("check_status", gauge,
		"1 for the newest outcome of the check.", "site", "subject", "service", "check", "status")
	checkResults = define("check_results_total", counter,
		"Results of the check.", "site", "subject", "service", "check", "status")
	checkDuration = define("check_duration_seconds", histogram,
		"How long the check ran.", "site", "subject", "service", "check")
	checkSuccess = define("check_last_success_timestamp_seconds", gauge,
		"When the check last came out up, in seconds since 1970; absent before the first time.", "site", "subject", "service", "check")
	checkLag = define("check_lag_seconds", gauge,
		"How late the newest round of the check started.", "site", "subject", "service", "check")
)

// The server of names. Zones, choices, members and maps are those of the table.
var (
	dnsInfo = defineDNS("build_info", gauge,
		"Always 1; the labels say which build answers.", "version", "goversion")
	dnsAnswers = defineDNS("answers_total", counter,
		"Answers; zone is empty for what is in none.", "zone", "transport", "type", "rcode")
	dnsGiven = defineDNS("given_total", counter,
		"Answers that named a member of a choice.", "choice", "member", "site")
	dnsLatency = defineDNS("duration_seconds", histogram,
		"From when a question was read to when the kernel had the answer.", "transport")
	dnsDropped = defineDNS("dropped_total", counter,
		"Packets that deserved no answer.")
	dnsUnsent = defineDNS("unsent_total", counter,
		"Answers that the kernel did not take.")
	dnsLimited = defineDNS("limited_total", counter,
		"Answers over the limit: dropped, or slipped as an empty one with TC.", "how")
	dnsCookies = defineDNS("cookies_total", counter,
		"Questions with a cookie: without a server's part (new), with one of ours (good), with another (bad).", "kind")
	dnsSubnet = defineDNS("client_subnet_total", counter,
		"Questions with a usable client subnet, by whom the answer holds for: all, or that network.", "scope")
	dnsConnections = defineDNS("connections_total", counter,
		"TCP connections: accepted, turned away for their number, timed out.", "what")
	dnsAnswering = defineDNS("answering", gauge,
		"1 once the first table is known and the sockets are open.")
	dnsVersion = defineDNS("table_version", gauge,
		"Version of the table in use; it only grows.")
	dnsRevision = defineDNS("table_revision", gauge,
		"Revision of the fleet's table that it is of.")
	dnsSince = defineDNS("table_timestamp_seconds", gauge,
		"When the table in use was made, in seconds since 1970.")
	dnsHeard = defineDNS("state_heard_timestamp_seconds", gauge,
		"When the ledger was heard last, in seconds since 1970.")
	dnsStale = defineDNS("stale", gauge,
		"1 while the answers are of old state because no ledger is heard.")
	dnsRefused = defineDNS("table_refused", gauge,
		"1 while a newer table, or a map, is refused and the one before is used.")
	dnsRight = defineDNS("self_test_successful", gauge,
		"1 if the server's newest test of its own answers found nothing wrong.")
	dnsMode = defineDNS("mode", gauge,
		"1 for the rung of the ladder that the answers are on.", "mode")
	dnsMapRows = defineDNS("map_rows", gauge,
		"Rows of the map in use.", "map")
	dnsMapChanged = defineDNS("map_timestamp_seconds", gauge,
		"When the file of the map in use was last changed, in seconds since 1970.", "map")
)
