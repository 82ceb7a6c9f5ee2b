package answers

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

// database makes a MaxMind database of lines as `203.0.113.0/24 DE EU 50.1 8.7` or
// `203.0.113.0/24 AS64500`.
func database(t *testing.T, lines string) []byte {
	t.Helper()
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test-City", IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		_, n, err := net.ParseCIDR(f[0])
		if err != nil {
			t.Fatal(err)
		}
		degrees := func(s string) mmdbtype.Float64 {
			d, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatal(err)
			}
			return mmdbtype.Float64(d)
		}
		var row mmdbtype.Map
		if as, ok := strings.CutPrefix(f[1], "AS"); ok {
			number, err := strconv.ParseUint(as, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			row = mmdbtype.Map{"autonomous_system_number": mmdbtype.Uint32(number)}
		} else {
			row = mmdbtype.Map{
				"country":   mmdbtype.Map{"iso_code": mmdbtype.String(f[1])},
				"continent": mmdbtype.Map{"code": mmdbtype.String(f[2])},
				"location":  mmdbtype.Map{"latitude": degrees(f[3]), "longitude": degrees(f[4])},
			}
		}
		if err := w.Insert(n, row); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
