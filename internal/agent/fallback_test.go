package agent

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
)

// admin signs tables in tests.
var admin = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

func adminOperator() steadycast.Operator {
	o := steadycast.Operator{Name: "maria", Role: steadycast.Admin}
	copy(o.Key[:], admin.Public().(ed25519.PublicKey))
	return o
}

// sealOf is a table as an admin of fleet test staged and activated it.
func sealOf(t testing.TB, table decide.Table, revision uint64) decide.Seal {
	t.Helper()
	sign := func(w decide.Wish) decide.Signed {
		w.Fleet, w.Epoch, w.By, w.Serial, w.Reason = "test", 1, "maria", 1, "r"
		s, err := w.Sign(func(context string, text []byte) []byte {
			sig, err := admin.Sign(nil, text, &ed25519.Options{Context: context})
			if err != nil {
				t.Fatal(err)
			}
			return sig
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	table.Revision = 0
	stage := sign(decide.Wish{Kind: decide.KindStage, Table: &table})
	return decide.Seal{Stage: stage, Activate: sign(decide.Wish{Kind: decide.KindActivate, Revision: revision, Of: stage.Digest()})}
}

// TestFetchSeal: the server is believed nothing, and can cost little.
func TestFetchSeal(t *testing.T) {
	seal, err := json.Marshal(sealOf(t, decide.Table{Sites: []decide.Place{{Name: "fra"}}}, 2))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(seal) }))
	defer elsewhere.Close()
	for _, x := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"a seal", func(w http.ResponseWriter, _ *http.Request) { w.Write(append(seal, '\n')) }, ""},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, "not a signed table: EOF"},
		{"half of it", func(w http.ResponseWriter, _ *http.Request) { w.Write(seal[:len(seal)/2]) }, "not a signed table: unexpected EOF"},
		{"cut short", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(seal)))
			w.Write(seal[:9])
		}, "unexpected EOF"},
		{"two of them", func(w http.ResponseWriter, _ *http.Request) { w.Write(append(append([]byte{}, seal...), seal...)) }, "something follows it"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "not a signed table: invalid character '<'"},
		{"what it should not have", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"stage":{},"run":"sh"}`) }, `unknown field "run"`},
		{"not found", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, "404 Not Found"},
		{"partial", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPartialContent); w.Write(seal) }, "206 Partial Content"},
		{"another place", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, "302 Found"},
		{"too much, announced", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(decide.MaxSeal+1))
			w.WriteHeader(http.StatusOK)
		}, "at most"},
		{"without end", func(w http.ResponseWriter, _ *http.Request) {
			block := []byte(strings.Repeat(" ", 64<<10))
			for {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, "more than"},
		{"a head without end", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, "exceed"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := httptest.NewServer(x.answer)
			defer s.Close()
			got, err := fetch(t.Context(), s.URL)
			switch {
			case x.want == "" && (err != nil || got.Stage.Text == ""):
				t.Error(err)
			case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
				t.Errorf("%v; want %q", err, x.want)
			}
		})
	}
	t.Run("silence", func(t *testing.T) {
		held := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
		defer s.Close()
		defer close(held)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := fetch(ctx, s.URL); err == nil {
			t.Error("no error")
		}
	})
}

// signing is a ledger that knows an operator.
type signing struct{ *distant }

func (s signing) View() decide.View {
	v := s.distant.View()
	v.Operators = []decide.OperatorView{{Operator: adminOperator()}}
	return v
}

// TestFallBack: a newer table that an admin signed says what a node looks at while
// there is no ledger, and moves no route; the ledger's is followed again afterwards.
func TestFallBack(t *testing.T) {
	inFleet(t, func(f *together) {
		for _, site := range []string{"ams", "fra", "lon"} {
			f.serve(site, "up")
		}
		f.start("ams")
		f.start("lon")
		dir := t.TempDir()
		a := f.start("fra", func(o *Options) { o.StateDir, o.Ledger = dir, signing{f.led} })
		f.wires(30*time.Second, "fra=normal")
		put := func(table decide.Table, revision uint64) {
			f.Helper()
			b, err := json.Marshal(sealOf(f, table, revision))
			if err != nil {
				f.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "table.seal.json"), b, 0o600); err != nil {
				f.Fatal(err)
			}
		}
		acting := func() (n uint64) {
			f.Helper()
			if err := a.do(f.Context(), func() { n = a.acting }); err != nil {
				f.Fatal(err)
			}
			return n
		}
		next := f.table
		next.DrainWait = 7 * time.Second
		put(next, 5)
		time.Sleep(2 * sealEvery)
		if n := acting(); n != 1 {
			f.Fatalf("it acts on revision %d although there is a ledger", n)
		}

		f.led.gone.Store(true)
		time.Sleep(2 * sealEvery)
		if n := acting(); n != 5 {
			f.Fatalf("without a ledger it acts on revision %d\n%s", n, f.log)
		}
		other := next
		other.Services = append([]decide.Service{}, next.Services...)
		other.Services[0].Sites = []string{"ams", "lon"}
		for _, x := range []struct {
			table    decide.Table
			revision uint64
		}{{next, 4}, {next, 5}, {other, 9}} { // older, the same, and one that takes fra away
			put(x.table, x.revision)
			time.Sleep(2 * sealEvery)
			if n := acting(); n != 5 {
				f.Fatalf("it acts on revision %d", n)
			}
		}
		put(next, 6)
		time.Sleep(2 * sealEvery)
		if n := acting(); n != 6 {
			f.Fatalf("it acts on revision %d", n)
		}
		f.wires(time.Second, "ams=normal", "fra=normal", "lon=normal")
		f.led.gone.Store(false)
		f.wires(5*time.Second, "fra=normal")
		if n := acting(); n != 1 {
			f.Fatalf("with the ledger again it acts on revision %d", n)
		}
	})
}
