package dnsfallback

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// MapFile is one entry of `maps:`: a file that says where clients are. What
// several maps say is asked for in their order.
type MapFile struct {
	// Name of the map, in messages and explanations.
	Name string `yaml:"name"`
	// File is its path. One that ends in .mmdb is a MaxMind database of countries,
	// cities or autonomous systems; any other has a line for each network: the
	// network, and the region it belongs to.
	File string `yaml:"file"`
}

func judgeMaps(set []MapFile, ps *problems) {
	if len(set) > maxMaps {
		ps.add("maps", "are %d; at most %d", len(set), maxMaps)
	}
	for i, m := range set {
		at := fmt.Sprintf("maps[%d]", i)
		if !poolName.MatchString(m.Name) {
			ps.add(at+".name", "%q is not a name; allowed: a lower-case letter, then up to 62 of a-z 0-9 _ -", m.Name)
		}
		if k := slices.IndexFunc(set[:i], func(o MapFile) bool { return o.Name == m.Name }); k >= 0 {
			ps.add(at+".name", "%q is maps[%d] already", m.Name, k)
		}
		if !filepath.IsAbs(m.File) {
			ps.add(at+".file", "%q is not an absolute path", m.File)
		}
	}
}

// label is a place by which members can be chosen: "region:lvs", "country:DE",
// "continent:EU", "asn:64500". Labels are numbered once in a process, so that
// maps and policies can come and go by themselves. 0 is none.
type label uint32

var labels = struct {
	sync.RWMutex
	number map[string]label
	text   []string
}{number: map[string]label{}, text: []string{""}}

func labelOf(text string) label {
	labels.RLock()
	n := labels.number[text]
	labels.RUnlock()
	if n > 0 {
		return n
	}
	labels.Lock()
	defer labels.Unlock()
	if n = labels.number[text]; n == 0 {
		n = label(len(labels.text))
		labels.text = append(labels.text, text)
		labels.number[text] = n
	}
	return n
}

func (l label) String() string {
	labels.RLock()
	defer labels.RUnlock()
	return labels.text[l]
}

// place is where a network is: its labels, the closest first.
type place struct {
	labels [4]label // region, autonomous system, country, continent
	// located: the coordinates are known, in degrees.
	located  bool
	lat, lon float32
}

// Map is one map, read and judged. It is immutable.
type Map struct {
	MapFile
	// Rows it was made of, and when its file was last changed.
	Rows    int
	Changed time.Time

	v4     spans[addr4]
	v6     spans[addr6]
	places []place // by value; 0 is nowhere
	stamp  stamp
}

// stamp tells one content of a file from another without reading it.
type stamp struct {
	size     int64
	modified time.Time
}

// Maps are all of a node's, in order. They are immutable.
type Maps struct{ all []*Map }

// LoadMaps reads all maps anew, but for those of old whose file did not change.
// A map that cannot be read is refused with its place, and what old has of it
// stays in use.
func LoadMaps(old *Maps, files []MapFile) (*Maps, []Problem) {
	next := &Maps{}
	var ps problems
	for i, f := range files {
		at := fmt.Sprintf("maps[%d].file", i)
		var had *Map
		if old != nil {
			if k := slices.IndexFunc(old.all, func(m *Map) bool { return m.MapFile == f }); k >= 0 {
				had = old.all[k]
			}
		}
		m, err := loadMap(f, had)
		if err != nil {
			ps.add(at, "%v", err)
			m = had
		}
		if m != nil {
			next.all = append(next.all, m)
		}
	}
	return next, ps
}

// All lists the maps.
func (m *Maps) All() []*Map {
	if m == nil {
		return nil
	}
	return slices.Clone(m.all)
}

func loadMap(f MapFile, had *Map) (*Map, error) {
	info, err := os.Stat(f.File)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", f.File, errors.Unwrap(err))
	}
	now := stamp{info.Size(), info.ModTime()}
	if had != nil && had.stamp == now {
		return had, nil
	}
	// Into memory, whole: a file that is overwritten under a mapping ends the process.
	src, err := os.ReadFile(f.File)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", f.File, errors.Unwrap(err))
	}
	var m *Map
	if filepath.Ext(f.File) == ".mmdb" {
		m, err = readDatabase(src)
	} else {
		m, err = readNetworks(src)
	}
	if err != nil {
		return nil, fmt.Errorf("%s%w", f.File, err)
	}
	m.MapFile, m.stamp, m.Changed = f, now, now.modified
	return m, nil
}

// drawing collects the rows of a map.
type drawing struct {
	v4     []row[addr4]
	v6     []row[addr6]
	places []place
	known  map[place]uint32
}

func newDrawing() *drawing {
	return &drawing{places: []place{{}}, known: map[place]uint32{}}
}

func (d *drawing) place(p place) uint32 {
	n, ok := d.known[p]
	if !ok {
		n = uint32(len(d.places))
		d.places = append(d.places, p)
		d.known[p] = n
	}
	return n
}

func (d *drawing) add(p netip.Prefix, value uint32) {
	if p.Addr().Is4() {
		a := number4(p.Addr())
		d.v4 = append(d.v4, row[addr4]{a, a.ones(p.Bits()), uint8(p.Bits()), value})
		return
	}
	a := number6(p.Addr())
	d.v6 = append(d.v6, row[addr6]{a, a.ones(p.Bits()), uint8(p.Bits()), value})
}

func (d *drawing) done() *Map {
	n := len(d.v4) + len(d.v6)
	return &Map{Rows: n, v4: divide(d.v4), v6: divide(d.v6), places: d.places}
}

const maxRows = 20_000_000

// readNetworks reads a line for each network: `192.0.2.0/24 lvs`. What follows
// a # is for people. Any mistake refuses the file, as it may have been cut short.
func readNetworks(src []byte) (*Map, error) {
	d := newDrawing()
	seen := map[netip.Prefix]int{}
	n := 0
	for line := range bytes.Lines(src) {
		n++
		text, _, _ := bytes.Cut(line, []byte("#"))
		w := bytes.Fields(text)
		if len(w) == 0 {
			continue
		}
		if len(w) != 2 {
			return nil, fmt.Errorf(":%d: has %d words; write a network and its region, as: 192.0.2.0/24 lvs", n, len(w))
		}
		p, err := netip.ParsePrefix(string(w[0]))
		switch {
		case err != nil:
			return nil, fmt.Errorf(":%d: %q is no network; write it as 192.0.2.0/24 or 2001:db8::/32", n, w[0])
		case p.Addr().Is4In6():
			return nil, fmt.Errorf(":%d: %v is IPv4 inside IPv6; write it as IPv4", n, p)
		case p != p.Masked():
			return nil, fmt.Errorf(":%d: %v has bits set after its length; %v is the network", n, p, p.Masked())
		case seen[p] > 0:
			return nil, fmt.Errorf(":%d: %v stands on line %d already", n, p, seen[p])
		case len(seen) >= maxRows:
			return nil, fmt.Errorf(":%d: more than %d networks", n, maxRows)
		}
		if !regionName(string(w[1])) {
			return nil, fmt.Errorf(":%d: %q is no region; allowed are up to 63 of a-z A-Z 0-9 . _ -", n, w[1])
		}
		seen[p] = n
		d.add(p, d.place(place{labels: [4]label{labelOf("region:" + string(w[1]))}}))
	}
	if len(seen) == 0 {
		return nil, errors.New(": has no networks; an empty file is taken for an accident")
	}
	return d.done(), nil
}

func regionName(s string) bool {
	return s != "" && len(s) <= 63 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	})
}

// parseLabel judges a label as a member's serves: writes it.
func parseLabel(s string) (label, error) {
	kind, value, ok := strings.Cut(s, ":")
	good := ok
	switch kind {
	case "region":
		good = good && regionName(value)
	case "country", "continent":
		good = good && len(value) == 2 && strings.ToUpper(value) == value
	case "asn":
		n, err := strconv.ParseUint(value, 10, 32)
		good = good && err == nil && n > 0 && value[0] != '0'
	default:
		good = false
	}
	if !good {
		return 0, fmt.Errorf("%q is no place; write region:NAME, country:DE, continent:EU or asn:64500", s)
	}
	return labelOf(s), nil
}

// location is where one client is, by all maps, found when it is first asked for.
type location struct {
	maps   *Maps
	client netip.Prefix
	// found are the runs that hold the client, by map.
	found [maxMaps]run
	have  int
}

type run struct {
	at    int
	place uint32
}

const maxMaps = 8

// at gives the client's place by map i.
func (l *location) at(i int) *place {
	for l.have <= i {
		m := l.maps.all[l.have]
		r := &l.found[l.have]
		if a := l.client.Addr(); a.Is4() {
			r.at = m.v4.find(number4(a))
			r.place = m.v4.values[r.at]
		} else {
			r.at = m.v6.find(number6(a))
			r.place = m.v6.values[r.at]
		}
		l.have++
	}
	return &l.maps.all[i].places[l.found[i].place]
}

// scope is how long the network is in which map i says the same as of the
// client, or, by alike, something from which the same follows.
func (l *location) scope(i int, alike func(*place) bool) uint8 {
	m, at := l.maps.all[i], l.found[i].at
	if a := l.client.Addr(); a.Is4() {
		first, last := widen(m, &m.v4, at, alike)
		return m.v4.scope(number4(a), first, last)
	}
	first, last := widen(m, &m.v6, at, alike)
	return m.v6.scope(number6(l.client.Addr()), first, last)
}

// maxWiden bounds how many runs to each side are looked at. What lies beyond is
// told as another network: more is asked than need be, and nothing wrong said.
const maxWiden = 8

func widen[A address[A]](m *Map, s *spans[A], at int, alike func(*place) bool) (first, last int) {
	first, last = at, at
	if alike == nil {
		return first, last
	}
	for first > 0 && at-first < maxWiden && alike(&m.places[s.values[first-1]]) {
		first--
	}
	for last+1 < len(s.values) && last-at < maxWiden && alike(&m.places[s.values[last+1]]) {
		last++
	}
	return first, last
}

// row is the network and the region for an explanation.
func (m *Map) describe(p *place) string {
	var w []string
	for _, l := range p.labels {
		if l > 0 {
			w = append(w, l.String())
		}
	}
	if p.located {
		w = append(w, fmt.Sprintf("at %.2f,%.2f", p.lat, p.lon))
	}
	return cmp.Or(strings.Join(w, " "), "nothing")
}
