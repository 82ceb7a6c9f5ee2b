package answers

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/dnsfallback"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/rto"
)

const examples = "../../configs/examples"

// TestExamples plays names.md: each row of its tables on a ledger of its own, by the
// file that its section is about.
func TestExamples(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(examples, "names.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, s := range sections(string(text)) {
		told[s.file] = true
		t.Run(s.file, func(t *testing.T) {
			t.Parallel()
			e := readExample(t, s)
			for _, r := range s.rows {
				e.row(t, r)
			}
		})
	}
	for _, glob := range []string{"dns-*.yaml", "dns-*/fleet.yaml"} {
		files, err := filepath.Glob(filepath.Join(examples, glob))
		if err != nil || len(files) == 0 {
			t.Fatal(glob, err)
		}
		for _, f := range files {
			name := strings.TrimPrefix(f, examples+"/")
			if fleet, ps := config.LoadTable(f); ps.Err() == nil && len(fleet.Zones) > 0 && !told[name] {
				t.Errorf("names.md does not say what %s answers", name)
			}
		}
	}
}

// section is a heading of names.md with its tables, and the files in it.
type section struct {
	file  string
	files map[string]string
	rows  []map[string]string // by the tables' own words for their columns, and "line"
}

func sections(text string) []section {
	var out []section
	var columns []string
	fence := ""
	for i, line := range strings.Split(text, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		switch s := max(0, len(out)-1); {
		case strings.HasPrefix(line, "## "):
			out = append(out, section{file: line[3:], files: map[string]string{}})
		case fence != "" && line == "```":
			fence = ""
		case fence != "":
			out[s].files[fence] += line + "\n"
		case strings.HasPrefix(line, "```"):
			fence = line[3:]
		case !strings.HasPrefix(line, "|"):
			columns = nil
		case columns == nil:
			columns = cells
		case !strings.HasPrefix(cells[0], "---"):
			r := map[string]string{"line": strconv.Itoa(i + 1)}
			for k, c := range columns {
				r[c] = cells[k]
			}
			out[s].rows = append(out[s].rows, r)
		}
	}
	return out
}

// example is a file of examples with the maps that its clients are found in.
type example struct {
	fleet    config.Fleet
	maps     *dnsfallback.Maps
	patience Patience
	stale    time.Duration // until answers are
}

func readExample(t *testing.T, s section) *example {
	t.Helper()
	file := filepath.Join(examples, s.file)
	fleet, ps := config.LoadTable(file)
	if err := ps.Err(); err != nil {
		t.Fatal(err)
	}
	e := &example{fleet: fleet}
	dir := t.TempDir()
	for i, m := range fleet.Maps {
		base := filepath.Base(m.File)
		src, ok := s.files[base]
		if !ok {
			t.Fatalf("the section has no %s", base)
		}
		content := []byte(src)
		if strings.HasSuffix(base, ".mmdb") {
			content = database(t, src)
		}
		fleet.Maps[i].File = filepath.Join(dir, base)
		if err := os.WriteFile(fleet.Maps[i].File, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	maps, problems := dnsfallback.LoadMaps(nil, fleet.Maps)
	for _, p := range problems {
		t.Fatal(p)
	}
	e.maps = maps
	nodes, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*.yaml"))
	for _, n := range nodes {
		if filepath.Dir(file) == filepath.Clean(examples) || n == file {
			continue
		}
		c, ps := config.Load(config.Options{File: n, Env: []string{}})
		if err := ps.Err(); err != nil {
			t.Fatal(err)
		}
		e.stale = c.Node.DNS.StaleAfter
		e.patience = Patience{Minimal: c.Node.DNS.MinimalAfter, Silence: c.Node.DNS.NoResponse}
	}
	return e
}

// played is a fleet in a state, and how one of its servers stands.
type played struct {
	world
	placement dnsfallback.Placement
	at        time.Time
	silent    time.Duration
}

// play brings a fleet from all well into a state, step by step.
func (e *example) play(t *testing.T, steps string) *played {
	t.Helper()
	table := e.fleet.Table()
	table.Revision = 1
	p := &played{world: world{t, decide.NewFleet()}, placement: e.fleet.Placement.WithDefaults(), at: time.Unix(1_780_000_000, 0)}
	p.apply(decide.Entry{Kind: decide.KindGenesis, Table: &table})
	for _, s := range table.Services {
		for _, site := range s.Sites {
			p.verdict(s.Name, site, steadycast.Healthy)
		}
	}
	for step := range strings.SplitSeq(steps, ",") {
		if step = strings.TrimSpace(step); step != "" {
			p.step(step, strings.Fields(step))
		}
	}
	return p
}

func (p *played) verdict(service, site string, s steadycast.State) {
	p.t.Helper()
	v := steadycast.Verdict{Site: site, Service: service, State: s, Since: 1}
	if s != steadycast.Healthy {
		v.Reason = "played"
	}
	p.apply(decide.Entry{Kind: decide.KindVerdict, Verdicts: []steadycast.Verdict{v}})
}

func (p *played) order(e decide.Entry) {
	p.t.Helper()
	e.Reason = "played"
	p.apply(e)
}

// step is one of the steps that names.md tells states in.
func (p *played) step(step string, w []string) {
	p.t.Helper()
	last := w[len(w)-1]
	service, site, verdict := strings.Cut(w[0], "@")
	pause, notPause := time.ParseDuration(w[0])
	switch {
	case verdict && len(w) == 2:
		s, ok := map[string]steadycast.State{"healthy": steadycast.Healthy, "suspect": steadycast.Suspect, "down": steadycast.Unhealthy, "recovering": steadycast.Recovering}[last]
		if !ok {
			p.t.Fatal(step)
		}
		p.verdict(service, site, s)
	case notPause == nil && len(w) == 1:
		p.after(pause)
	case w[0] == "withdraw" || w[0] == "drain" || w[0] == "announce":
		kind := map[string]steadycast.OrderKind{"withdraw": steadycast.OrderWithdraw, "drain": steadycast.OrderDrain, "announce": steadycast.OrderAnnounce}[w[0]]
		p.order(decide.Entry{Kind: decide.KindOrder, Order: &steadycast.Order{Kind: kind, Site: last, Actor: "ann", Reason: "played", Force: true}, Decide: &decide.Decide{}})
	case w[0] == "freeze":
		p.order(decide.Entry{Kind: decide.KindFreeze, Scope: &decide.Scope{}})
	case w[0] == "thaw":
		p.order(decide.Entry{Kind: decide.KindThaw, Scope: &decide.Scope{}})
	case w[0] == "release":
		p.order(decide.Entry{Kind: decide.KindOrderClear, Scope: &decide.Scope{Site: last}})
	case w[0] == "resume":
		p.order(decide.Entry{Kind: decide.KindResume, Scope: &decide.Scope{Site: last}})
	case w[0] == "switch" && len(w) == 3:
		p.names(decide.NamesOrder{Member: w[1], To: last})
	case w[0] == "dns" && w[1] == "mode":
		p.names(decide.NamesOrder{Mode: last})
	case w[0] == "share" && last == "%":
		percent, err := strconv.Atoi(w[2])
		if err != nil {
			p.t.Fatal(err)
		}
		p.order(decide.Entry{Kind: decide.KindShare, Share: &decide.ShareOrder{Site: w[1], Permille: percent * 10}, Force: true})
	case last == "silent":
		p.silence(w[0])
	case last == "heard":
		p.apply(decide.Entry{Kind: decide.KindGone, Decide: &decide.Decide{Heard: []string{w[0]}}})
	case w[0] == "unheard":
		d, err := time.ParseDuration(last)
		if err != nil {
			p.t.Fatal(err)
		}
		p.silent = d
	case w[0] == "at":
		at, err := time.Parse(time.RFC3339, last)
		if err != nil {
			p.t.Fatal(err)
		}
		p.at = at
	case w[0] == "weight" && len(w) == 3:
		n, err := strconv.Atoi(last)
		if err != nil || !p.weigh(w[1], n) {
			p.t.Fatal(step)
		}
	default:
		p.t.Fatalf("no such step: %s", step)
	}
}

// after lets ledger time pass.
func (p *played) after(d time.Duration) {
	p.t.Helper()
	r, err := p.f.Apply(decide.Entry{Kind: decide.KindTick, Schema: decide.Schema, Rules: decide.RulesLevel, Epoch: 1, LT: p.f.LT() + decide.Time(d.Milliseconds())})
	if err != nil || r.Invalid != "" {
		p.t.Fatal(err, r.Invalid)
	}
}

// silence is a site that died whole: the leader hears nothing, and the others see
// all of its services down.
func (p *played) silence(site string) {
	p.t.Helper()
	v, d := p.f.View(), decide.Decide{}
	for _, s := range v.Table.Services {
		x := decide.Silent{Site: site, Service: s.Name, QuietMS: 6000}
		for _, vantage := range v.Table.Vantages(site) {
			x.Evidence = append(x.Evidence, steadycast.Observation{Vantage: vantage, Subject: site, Service: s.Name, Seq: 1, Result: steadycast.Result{Outcome: steadycast.Down}})
		}
		d.Silent = append(d.Silent, x)
	}
	p.apply(decide.Entry{Kind: decide.KindGone, Decide: &d})
	if v := p.f.View(); len(v.Gone) == 0 {
		p.t.Fatalf("%s is silent, and nothing there is gone", site)
	}
}

// weigh sets the weight of a choice's member, as another table does.
func (p *played) weigh(member string, n int) (ok bool) {
	set := func(choice string, list []dnsfallback.Member) []dnsfallback.Member {
		list = slices.Clone(list)
		for i := range list {
			if choice+"/"+list[i].Name == member {
				list[i].Weight, ok = &n, true
			}
		}
		return list
	}
	for i, z := range p.placement.Zones {
		names := slices.Clone(z.Names)
		for k := range names {
			names[k].Members = set(names[k].Name+"."+z.Name, names[k].Members)
		}
		p.placement.Zones[i].Names = names
	}
	pools := slices.Clone(p.placement.Pools)
	for i := range pools {
		pools[i].Members = set(pools[i].Name, pools[i].Members)
	}
	p.placement.Pools = pools
	return ok
}

// table is what a server of the fleet answers from; silent if it answers nothing.
func (e *example) table(p *played) (*dnsfallback.Table, Standing) {
	p.t.Helper()
	known := rto.Known(e.fleet)
	policy, ps := dnsfallback.NewPolicy(1, p.placement, known)
	for _, x := range ps {
		p.t.Fatal(x)
	}
	v := namesAlone(p.f)
	news := News{For: p.silent}
	if p.silent >= e.stale && p.silent > 0 {
		news.Stale = "nothing was heard"
	}
	is := Stand(&v, news, e.patience)
	return policy.Table(1, e.maps, StateIn(&v, p.at, is.Mode)), is
}

// row plays one row and compares.
func (e *example) row(t *testing.T, r map[string]string) {
	t.Helper()
	p := e.play(t, r["state"])
	table, is := e.table(p)
	at := "names.md:" + r["line"]
	if site := r["site"]; site != "" {
		i := slices.IndexFunc(table.SiteWords(), func(w dnsfallback.SiteWord) bool { return w.Site == site })
		if i < 0 {
			t.Fatalf("%s: no site %s", at, site)
		}
		if w := table.SiteWords()[i]; w.Word != r["word"] || w.Why != r["why"] {
			t.Errorf("%s: %s is %s: %s", at, site, w.Word, w.Why)
		}
		return
	}
	name, typ, _ := strings.Cut(r["name"], " ")
	if typ == "" {
		typ = "A"
	}
	w := parseAnswer(t, r["answer"])
	if w.nothing != is.Silent {
		t.Errorf("%s: silent is %v", at, is.Silent)
	}
	if w.nothing {
		return
	}
	n := 40
	switch {
	case w.shares != nil:
		n = 40_000
	case len(w.any) > 1:
		n = 400
	}
	got := map[string]int{}
	for i := range n {
		client := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		if c := r["client"]; c != "anyone" {
			client = netip.MustParsePrefix(c)
		}
		x, err := table.Explain(name+"."+e.fleet.Zones[0].Name, typ, client)
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		data, ttl := answerOf(x)
		got[data]++
		if w.ttl != "" && ttl != w.ttl {
			t.Fatalf("%s: TTL %s of %s; want %s", at, ttl, data, w.ttl)
		}
	}
	all := fmt.Sprint(slices.Sorted(maps.Keys(got)))
	for data, share := range w.shares {
		// Five standard deviations of a draw of n: what is right fails once in a million.
		off := 5*math.Sqrt(float64(n)*share*(1-share)) + 0.001*float64(n)
		if d := float64(got[data]) - share*float64(n); math.Abs(d) > off {
			t.Errorf("%s: %s has %d of %d clients; want %.2f %%", at, data, got[data], n, share*100)
		}
	}
	if want := fmt.Sprint(w.any); all != want {
		t.Errorf("%s: %s; want %s", at, all, want)
	}
}

// wanted is an answer as names.md writes it.
type wanted struct {
	any     []string // one of these, each seen; in order
	shares  map[string]float64
	ttl     string
	nothing bool
}

func parseAnswer(t *testing.T, cell string) (w wanted) {
	t.Helper()
	if cell == "no answer" {
		return wanted{nothing: true}
	}
	cell, w.ttl, _ = strings.Cut(cell, ", TTL ")
	if strings.HasSuffix(cell, "%") {
		w.shares = map[string]float64{}
		for part := range strings.SplitSeq(cell, ",") {
			f := strings.Fields(part)
			share, err := strconv.ParseFloat(f[1], 64)
			if err != nil || len(f) != 3 {
				t.Fatalf("%q: write ADDRESS SHARE %%", part)
			}
			w.shares[f[0]] = share / 100
		}
		w.any = slices.Sorted(maps.Keys(w.shares))
		return w
	}
	w.any = strings.Split(cell, " or ")
	slices.Sort(w.any)
	return w
}

// answerOf is what came, as names.md writes it, and its TTL.
func answerOf(x dnsfallback.Explanation) (data, ttl string) {
	var all []string
	for _, r := range x.Records {
		f := strings.Fields(r)
		all, ttl = append(all, strings.TrimSuffix(f[len(f)-1], ".")), f[1]
	}
	slices.Sort(all)
	switch {
	case x.Rcode == "NXDOMAIN":
		return "no such name", ""
	case x.Rcode != "NOERROR":
		return x.Rcode, ""
	case len(all) == 0:
		return "no data", ""
	}
	return strings.Join(all, " and "), ttl
}
