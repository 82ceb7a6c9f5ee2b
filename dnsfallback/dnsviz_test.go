package dnsfallback

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/steadycast/steadycast/internal/loopback"
)

// dnsviz asks a server all it knows to ask about names of a zone (EDNS in several
// sizes and versions, TCP, case, types that are not there), and gives what it finds
// wrong, worst first.
func dnsviz(t *testing.T, zone, server string, names ...string) (complaints []string) {
	t.Helper()
	viz := program(t, "dnsviz")
	var said bytes.Buffer
	probe := exec.CommandContext(t.Context(), viz, append([]string{"probe", "-4", "-A", "-t", "4", "-x", fmt.Sprintf("%s+:ns.%s=%s", zone, zone, server)}, names...)...)
	probe.Stderr = &said
	asked, err := probe.Output()
	if err != nil {
		t.Fatalf("dnsviz probe: %v: %s", err, &said)
	}
	grok := exec.CommandContext(t.Context(), viz, "grok", "-l", "warning")
	grok.Stdin, grok.Stderr = bytes.NewReader(asked), &said
	found, err := grok.Output()
	if err != nil {
		t.Fatalf("dnsviz grok: %v: %s", err, &said)
	}
	var all any
	if len(bytes.TrimSpace(found)) > 0 {
		if err := json.Unmarshal(found, &all); err != nil {
			t.Fatalf("dnsviz grok: %v: %s", err, found)
		}
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if d, ok := v["description"]; ok {
				complaints = append(complaints, fmt.Sprintf("%s: %v", at, d))
				return
			}
			for k, x := range v {
				walk(strings.TrimPrefix(at+" "+k, " "), x)
			}
		case []any:
			for _, x := range v {
				walk(at, x)
			}
		}
	}
	walk("", all)
	slices.Sort(complaints)
	return complaints
}

// TestDNSViz: a test suite that no one here wrote finds nothing to warn of, in
// names that are there, that are not, that are steered, and that are aliases.
func TestDNSViz(t *testing.T) {
	zone := Zone{Name: "example.test", NS: []string{"ns"}, Records: []string{"ns A 127.0.0.1", "www A 192.0.2.80", "www AAAA 2001:db8::80", "alias CNAME www", "*.wild TXT wild"},
		Names: []Steered{{Name: "shop", Choice: Choice{Service: "web", Methods: []string{"ratio"}, Members: sites("fra", "ams", "iad")}}}}
	v, _ := serve(t, mustPolicy(t, []Zone{zone}).Table(1, nil, FleetState{}), func(s *Settings) { s.RateLimit = new(0) })
	names := []string{"example.test", "www.example.test", "alias.example.test", "shop.example.test", "x.wild.example.test", "no.example.test"}
	for _, c := range dnsviz(t, "example.test", v.Addresses()[0].String(), names...) {
		t.Error(c)
	}
	// It does find what is wrong: the same answers, without a word on their authority.
	at := loopback.Own(t)
	conn, err := net.ListenPacket("udp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	wrong := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		wire, err := q.Pack()
		if err != nil {
			t.Error(err)
			return
		}
		m := exchange(t, "udp", v.Addresses()[0], wire)
		m.Authoritative = false
		_ = w.WriteMsg(m)
	})}
	go wrong.ActivateAndServe()
	defer wrong.Shutdown()
	found := dnsviz(t, "example.test", at.String(), "www.example.test")
	if !slices.ContainsFunc(found, func(c string) bool { return strings.Contains(c, "Authoritative Answer") }) {
		t.Errorf("of a server that answers without authority it says %q", found)
	}
}
