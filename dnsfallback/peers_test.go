package dnsfallback

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/steadycast/steadycast/internal/loopback"
)

// lack leaves a test out for what the machine lacks; CI leaves nothing out.
func lack(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("CI leaves nothing out: " + why)
	}
	t.Skip(why)
}

// program finds one, also where only root's path leads.
func program(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if p := filepath.Join(dir, name); dir != "" {
			if _, err := os.Stat(p); err == nil {
				return p
			}
		}
	}
	lack(t, "there is no "+name+" here (make setup)")
	return ""
}

// daemon runs a program until the test ends.
func daemon(t testing.TB, argv ...string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(argv[0]), out.String())
		}
	})
}

// answering waits until a server answers for a zone.
func answering(t testing.TB, at netip.AddrPort, zone string) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		c, err := net.DialTimeout("tcp", at.String(), time.Second)
		if err == nil {
			c.SetDeadline(time.Now().Add(time.Second))
			d := &dns.Conn{Conn: c}
			d.Write(question(t, zone, "SOA", func(m *dns.Msg) { m.RecursionDesired = true }))
			m, err := d.ReadMsg()
			c.Close()
			if err == nil && len(m.Answer) == 1 {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("nobody answers for %s at %v", zone, at)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// knot serves a zone file until the test ends.
func knot(t testing.TB, at netip.AddrPort, zone, file string) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "knot.conf")
	write(t, conf, fmt.Sprintf(`
server:
    rundir: %[1]s
    listen: %[2]v@%[3]d
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
log:
  - target: stderr
    any: warning
database:
    storage: %[1]s
zone:
  - domain: %[4]s
    file: %[5]s
    zonefile-load: whole
    zonefile-sync: -1
    journal-content: none
    semantic-checks: off
`, dir, at.Addr(), at.Port(), zone, file))
	daemon(t, program(t, "knotd"), "-c", conf)
	answering(t, at, zone)
}

// nsd serves a zone file until the test ends.
func nsd(t testing.TB, at netip.AddrPort, zone, file string) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "nsd.conf")
	write(t, conf, fmt.Sprintf(`
server:
    ip-address: %[2]v@%[3]d
    server-count: 1
    username: ""
    chroot: ""
    zonesdir: "%[1]s"
    pidfile: ""
    logfile: "/dev/stderr"
    zonelistfile: "%[1]s/zone.list"
    xfrdfile: "%[1]s/xfrd.state"
    xfrdir: "%[1]s"
    database: ""
    minimal-responses: yes
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: %[4]s
    zonefile: %[5]s
`, dir, at.Addr(), at.Port(), zone, file))
	daemon(t, program(t, "nsd"), "-d", "-c", conf)
	answering(t, at, zone)
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// randomZone makes a legal zone of names from a small alphabet, so that they meet:
// what is refused of a first draft is left out.
func randomZone(t testing.TB, r *rand.Rand) Zone {
	label := func() string { return []string{"a", "b", "c", "*", "long-label-of-some-size"}[r.IntN(5)] }
	owner := func() string {
		n := label()
		for range r.IntN(4) {
			n += "." + label()
		}
		return n
	}
	target := func() string {
		if r.IntN(5) == 0 {
			return "www.example.net."
		}
		return strings.ReplaceAll(owner(), "*", "c")
	}
	z := Zone{Name: "zone.test", NS: []string{"ns1", "ns2.example.net."}, Records: []string{"ns1 A 192.0.2.1", "@ MX 5 a", "@ TXT apex"}}
	for range 20 + r.IntN(60) {
		o := owner()
		var data string
		switch r.IntN(10) {
		case 0, 1:
			data = fmt.Sprintf("A 192.0.2.%d", r.IntN(256))
		case 2:
			data = fmt.Sprintf("AAAA 2001:db8::%x", r.IntN(65536))
		case 3:
			data = fmt.Sprintf("TXT t%d", r.IntN(100))
		case 4:
			data = fmt.Sprintf("MX %d %s", r.IntN(100), target())
		case 5:
			data = fmt.Sprintf("SRV 0 %d 80 %s", r.IntN(100), target())
		case 6, 7:
			data = "CNAME " + target()
		case 8:
			data = "NS " + target()
		case 9:
			data = "CAA 0 issue \"ca.example\""
		}
		z.Records = append(z.Records, o+" "+data)
		if k := r.IntN(6); k == 0 {
			z.Records = append(z.Records, fmt.Sprintf("%s A 198.51.100.%d", target(), r.IntN(256)))
		}
	}
	z.Records = slices.DeleteFunc(z.Records, func(s string) bool { return strings.Contains(s, "example.net. A") })
	for {
		_, ps := NewPolicy(1, Placement{Zones: []Zone{z}}, Known{})
		if len(ps) == 0 {
			return z
		}
		wrong := map[int]bool{}
		for _, p := range ps {
			var i int
			if _, err := fmt.Sscanf(p.Path, "zones[0].records[%d]", &i); err != nil {
				t.Fatal(p)
			}
			wrong[i] = true
		}
		var kept []string
		for i, l := range z.Records {
			if !wrong[i] {
				kept = append(kept, l)
			}
		}
		z.Records = kept
	}
}

// randomQuestion asks for a name of the same alphabet, now and then for one outside.
func randomQuestion(r *rand.Rand) (string, uint16) {
	n := "zone.test."
	for range r.IntN(6) {
		n = []string{"a", "B", "c", "*", "long-label-of-some-size", "none", "ns1"}[r.IntN(7)] + "." + n
	}
	if r.IntN(50) == 0 {
		n = "other.test."
	}
	types := []uint16{dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeMX, dns.TypeSRV, dns.TypeCNAME, dns.TypeNS, dns.TypeSOA, dns.TypeDS, dns.TypeCAA, dns.TypeHTTPS, dns.TypeRRSIG, 65400}
	return n, types[r.IntN(len(types))]
}

// TestLikeOthers serves random zones beside knot and nsd and asks all the same:
// what was written by others from the same RFCs must say the same.
func TestLikeOthers(t *testing.T) {
	for name, start := range map[string]func(testing.TB, netip.AddrPort, string, string){"knot": knot, "nsd": nsd} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			for seed := range uint64(4) {
				r := rand.New(rand.NewPCG(seed, 1))
				z := randomZone(t, r)
				p := mustPolicy(t, []Zone{z})
				file := filepath.Join(t.TempDir(), "zone")
				f, err := os.Create(file)
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Export(f, z.Name); err != nil {
					t.Fatal(err)
				}
				f.Close()
				at := loopback.Own(t)
				start(t, at, z.Name, file)
				table := p.Table(1, nil, FleetState{})
				for range 1500 {
					q, typ := randomQuestion(r)
					if name == "nsd" && typ == dns.TypeRRSIG {
						continue // it takes them for any other type, and follows CNAMEs
					}
					packet := question(t, q, fmt.Sprintf("TYPE%d", typ), func(m *dns.Msg) { m.SetEdns0(udpSize, false) })
					ours := respond(t, newResponder(nil, nil), table, packet, false)
					theirs := exchange(t, "udp", at, packet)
					asked++
					if a, b := essence(ours, name), essence(theirs, name); a != b {
						zone, _ := os.ReadFile(file)
						t.Fatalf("seed %d: %s %s\nours:\n%s\n%s's:\n%s\nzone:\n%s", seed, q, dns.Type(typ), a, name, b, zone)
					}
				}
			}
			if asked < 5000 {
				t.Errorf("only %d questions were asked", asked)
			}
		})
	}
}

// essence is what two servers must have in common: rcode, AA, TC, and the
// records of each section, in any order, names without case.
func essence(m *dns.Msg, peer string) string {
	var b strings.Builder
	fmt.Fprintln(&b, dns.RcodeToString[m.Rcode], m.Authoritative, m.Truncated)
	section := func(word string, rrs []dns.RR) {
		var lines []string
		for _, rr := range rrs {
			if rr.Header().Rrtype != dns.TypeOPT {
				lines = append(lines, strings.ToLower(rr.String()))
			}
		}
		slices.Sort(lines)
		for _, l := range slices.Compact(lines) {
			fmt.Fprintln(&b, word, l)
		}
	}
	section("answer", m.Answer)
	section("authority", m.Ns)
	if peer != "nsd" || !m.Authoritative { // which leaves out what only helps
		section("additional", m.Extra)
	}
	return b.String()
}

// TestZoneFileIsLegal: what is exported is taken by those who judge zone files.
func TestZoneFileIsLegal(t *testing.T) {
	dir := t.TempDir()
	zones := []Zone{exampleZones()[0]}
	for seed := range uint64(10) {
		z := randomZone(t, rand.New(rand.NewPCG(seed, 2)))
		z.Name = fmt.Sprintf("zone%d.test", seed)
		zones = append(zones, z)
	}
	p := mustPolicy(t, zones)
	for _, z := range zones {
		var out bytes.Buffer
		if err := p.Export(&out, z.Name); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, z.Name)
		write(t, file, out.String())
		// validns is older than these types, and takes no asterisk inside a name.
		var known []string
		for l := range strings.Lines(out.String()) {
			if f := strings.Fields(l); len(f) < 4 || !slices.Contains([]string{"CAA", "HTTPS"}, f[3]) && f[2] != "CLASS1" && !strings.Contains(strings.TrimPrefix(f[0], "*."), "*") {
				known = append(known, l)
			}
		}
		older := file + ".older"
		write(t, older, strings.Join(known, ""))
		for _, argv := range [][]string{
			{program(t, "named-checkzone"), "-i", "local", "-k", "ignore", z.Name, file},
			{program(t, "nsd-checkzone"), z.Name, file},
			{program(t, "validns"), "-p", "cname-other-data", "-p", "ns-alias", "-z", z.Name, older},
		} {
			if said, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				t.Errorf("%s of %s: %v\n%s\n%s", filepath.Base(argv[0]), z.Name, err, said, out.String())
			}
		}
	}
	if err := p.Export(&bytes.Buffer{}, "elsewhere.test"); err == nil {
		t.Error("a zone that is not there is exported")
	}
}
