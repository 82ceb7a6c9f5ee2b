package dnsfallback

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/oschwald/maxminddb-golang/v2"
)

// databaseRecord are the fields that are taken of a MaxMind record, whether it
// is one of countries, cities or autonomous systems.
type databaseRecord struct {
	Country struct {
		Code string `maxminddb:"iso_code"`
	} `maxminddb:"country"`
	Continent struct {
		Code string `maxminddb:"code"`
	} `maxminddb:"continent"`
	Location struct {
		Lat *float64 `maxminddb:"latitude"`
		Lon *float64 `maxminddb:"longitude"`
	} `maxminddb:"location"`
	ASN uint32 `maxminddb:"autonomous_system_number"`
}

func (r *databaseRecord) place() place {
	var p place
	if r.ASN > 0 {
		p.labels[1] = labelOf(fmt.Sprintf("asn:%d", r.ASN))
	}
	if r.Country.Code != "" {
		p.labels[2] = labelOf("country:" + r.Country.Code)
	}
	if r.Continent.Code != "" {
		p.labels[3] = labelOf("continent:" + r.Continent.Code)
	}
	if r.Location.Lat != nil && r.Location.Lon != nil {
		p.located, p.lat, p.lon = true, float32(*r.Location.Lat), float32(*r.Location.Lon)
	}
	return p
}

// readDatabase reads a MaxMind database into the same runs as any other map, so
// that a query never meets its format. A record that many networks share is
// decoded once. The reader is other people's code on a file from outside:
// whatever it does, the file is refused and nothing else happens.
func readDatabase(src []byte) (m *Map, err error) {
	defer func() {
		if r := recover(); r != nil {
			m, err = nil, fmt.Errorf(": is damaged: %v", r)
		}
	}()
	db, err := maxminddb.OpenBytes(src)
	if err != nil {
		return nil, fmt.Errorf(": is no MaxMind database: %w", err)
	}
	defer db.Close()
	d := newDrawing()
	values := map[uintptr]uint32{}
	for r := range db.Networks() {
		if err := r.Err(); err != nil {
			return nil, fmt.Errorf(": is damaged: %w", err)
		}
		v, ok := values[r.Offset()]
		if !ok {
			var rec databaseRecord
			if err := r.Decode(&rec); err != nil {
				return nil, fmt.Errorf(": is damaged: %w", err)
			}
			if p := rec.place(); p != (place{}) {
				v = d.place(p)
			}
			values[r.Offset()] = v
		}
		if v == 0 {
			continue
		}
		p := r.Prefix()
		if a := p.Addr(); a.Is4In6() {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		d.add(p, v)
	}
	if len(d.v4)+len(d.v6) == 0 {
		return nil, errors.New(": has no networks with a country, a continent, coordinates or an autonomous system")
	}
	return d.done(), nil
}
