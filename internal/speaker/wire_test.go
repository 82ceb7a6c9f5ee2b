package speaker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"pgregory.net/rapid"
)

// TestMergeUndoesDifference: whatever snapshots follow each other, the other
// side has the same ones.
func TestMergeUndoesDifference(t *testing.T) {
	peers := []string{"tor2", "tor1", "edge"} // the settings' order is not the alphabet's
	prefix := rapid.SampledFrom(prefixes("192.0.2.1/32", "192.0.2.0/24", "192.0.2.2/32", "2001:db8::/48"))
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	row := rapid.Custom(func(t *rapid.T) steadycast.Sent {
		r := steadycast.Sent{
			Peer: rapid.SampledFrom(peers).Draw(t, "peer"), Prefix: prefix.Draw(t, "prefix"),
			Announced: rapid.Bool().Draw(t, "announced"), At: at.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "at"))),
		}
		if rapid.Bool().Draw(t, "acked") {
			r.Acked = r.At.Add(1)
		}
		med := uint32(r.At.Nanosecond()) // attributes change only with the time of sending
		r.Attributes.MED = &med
		r.Stale = r.Announced && rapid.Bool().Draw(t, "stale")
		return r
	})
	snapshot := rapid.Custom(func(t *rapid.T) steadycast.Actual {
		a := steadycast.Actual{Version: rapid.Uint64().Draw(t, "version"), Alarm: rapid.SampledFrom([]string{"", "disk"}).Draw(t, "alarm")}
		for _, p := range peers[:rapid.IntRange(1, 3).Draw(t, "peers")] {
			a.Peers = append(a.Peers, steadycast.Peer{Name: p})
		}
		rows := map[sentKey]steadycast.Sent{}
		for _, r := range rapid.SliceOfN(row, 0, 12).Draw(t, "rows") {
			rows[sentKey{r.Peer, r.Prefix}] = r
		}
		a.Sent = inOrder(rows, a.Peers)
		return a
	})
	rapid.Check(t, func(t *rapid.T) {
		var here, there *steadycast.Actual
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			next := snapshot.Draw(t, "next")
			b, err := json.Marshal(difference(here, next))
			if err != nil {
				t.Fatal(err)
			}
			var p push
			if err := json.Unmarshal(b, &p); err != nil {
				t.Fatal(err)
			}
			got, err := merge(there, p)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Sent) == 0 && len(next.Sent) == 0 {
				got.Sent, next.Sent = nil, nil
			}
			if !reflect.DeepEqual(got, next) {
				t.Fatalf("got  %+v\nwant %+v", got, next)
			}
			here, there = &next, &got
		}
	})
	if _, err := merge(nil, push{}); err == nil {
		t.Error("a difference without a whole before it was believed")
	}
}

func TestReadFrameRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"no JSON":        "hello\n",
		"cut":            `{"id":1`,
		"an array":       "[]\n",
		"wrong type":     `{"id":"one"}` + "\n",
		"endless":        strings.Repeat("x", maxFrame+2),
		"bad prefix":     `{"id":1,"do":"apply","set":{"routes":[{"prefix":"300.1.1.1/99"}]}}` + "\n",
		"negative":       `{"id":-1}` + "\n",
		"nothing at all": "",
	} {
		var q question
		if err := readFrame(bufio.NewReader(strings.NewReader(in)), &q); err == nil {
			t.Errorf("%s: accepted %+v", name, q)
		}
	}
	var q question
	if err := readFrame(bufio.NewReaderSize(strings.NewReader(`{"id":7,"do":"`+strings.Repeat("y", 1<<17)+"\"}\n"), 16), &q); err != nil || q.ID != 7 {
		t.Errorf("a long frame: %v", err)
	}
}

func TestIntentIsBelievedOnlyWhole(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	body := intentBody{Mark: mark{steadycast.Fence{Epoch: 1, Index: 2}, 3, 4}, At: now, Set: set(4, "1")}
	good, err := encodeIntent("fra-1", body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeIntent("fra-1", good); err != nil || got.Mark != body.Mark || !equalSets(got.Set, body.Set) {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":            {nil, "damaged"},
		"another node's":   {bytes.Replace(good, []byte(`"fra-1"`), []byte(`"ams-1"`), 1), `another node, "ams-1"`},
		"a later format's": {bytes.Replace(good, []byte(`"format":1`), []byte(`"format":2`), 1), "a newer version wrote it (format 2, known is 1)"},
		"no format":        {[]byte("{}"), "no intent"},
		"edited":           {bytes.Replace(good, []byte(`192.0.2.1`), []byte(`192.0.2.9`), 1), "checksum"},
	} {
		if _, err := decodeIntent("fra-1", c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for n := range len(good) - 1 { // cut anywhere (the last octet is the newline)
		if _, err := decodeIntent("fra-1", good[:n]); err == nil && n != len(good)-1 {
			t.Fatalf("believed %d of %d octets", n, len(good))
		}
	}
}

func FuzzDecodeIntent(f *testing.F) {
	good, _ := encodeIntent("fra-1", intentBody{Mark: mark{Version: 1}, Set: set(1, "1")})
	f.Add(good)
	f.Add([]byte(`{"format":1,"node":"fra-1","sha256":"","body":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := decodeIntent("fra-1", data); err == nil {
			if _, err := encodeIntent("fra-1", b); err != nil {
				t.Errorf("believed what cannot be written again: %v", err)
			}
		}
	})
}
