package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/decide"
	"github.com/steadycast/steadycast/internal/config"
	"github.com/steadycast/steadycast/internal/mesh"
	"github.com/steadycast/steadycast/internal/pki"
)

// The crowd is 299 nodes in one process, as far as others see them: each has its
// certificate, an end of the mesh that tells the voters and whom it watches, a link to
// each voter that beats once a second, and one stream of committed state, which it
// reads and does not look at. None of them judges anything. Their beats say that they
// announce everything, while the ledger still counts them out: returns go one site of a
// prefix at a time and would take all of them a quarter of an hour. What a voter holds
// of a unit and does with a beat is the same.

// member is one of the crowd.
type member struct {
	site   string
	mesh   *mesh.Mesh
	http   *http.Client
	voters []string // where they take calls
	seq    atomic.Uint64
	beat   decide.Beat
}

// watched counts the octets of all streams of committed state.
var watched atomic.Uint64

// gather is the crowd's main function; "count" prints what was sent since the last.
func gather(args []string, words *bufio.Scanner) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	crowd, err := assembleCrowd(ctx, args)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	var was [3]float64
	for words.Scan() {
		var sent, octets uint64
		for _, m := range crowd {
			for _, l := range m.mesh.Peers().Links {
				sent, octets = sent+l.Sent, octets+l.BytesOut
			}
		}
		is := [3]float64{float64(sent), float64(octets), float64(watched.Load())}
		if was != [3]float64{} {
			fmt.Printf("sent %.0f words %.0f bytes watched %.0f\n", is[0]-was[0], is[1]-was[1], is[2]-was[2])
		}
		was = is
	}
	return 0
}

func assembleCrowd(ctx context.Context, args []string) (crowd []*member, err error) {
	l := &large{dir: args[0]}
	var ports []uint16
	for _, a := range args[1:] {
		n, err := strconv.ParseUint(a, 10, 16)
		if err != nil {
			return nil, err
		}
		ports = append(ports, uint16(n))
	}
	l.port, l.web = ports[0], ports[1]
	f, problems := config.LoadTable(filepath.Join(l.dir, "fleet.yaml"))
	if err := problems.Err(); err != nil {
		return nil, err
	}
	table := f.Table().WithDefaults()
	web, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", l.web))
	if err != nil {
		return nil, err
	}
	go http.Serve(web, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") }))

	real := largeSites - 1
	var voters []mesh.Peer
	var calls []string
	for v := range largeVoters {
		node := largeSite(v) + "-1"
		voters = append(voters, mesh.Peer{Name: node + "/ledger", Site: largeSite(v), Node: node, Addr: netip.AddrPortFrom(l.address(v), ports[3+2*v]), Voter: true})
		calls = append(calls, fmt.Sprintf("%v:%d", l.address(v), ports[2+2*v]))
	}
	watches := map[string][]string{} // by site: those it looks at, and itself
	for i := range largeSites {
		watches[largeSite(i)] = append(watches[largeSite(i)], largeSite(i))
		for _, v := range table.Vantages(largeSite(i)) {
			watches[v] = append(watches[v], largeSite(i))
		}
	}
	for i := range real {
		creds, err := pki.Open(pki.Settings{Dir: filepath.Join(l.dir, "pki", largeSite(i))})
		if err != nil {
			return nil, err
		}
		m := &member{site: largeSite(i), voters: calls}
		m.beat = decide.Beat{Site: m.site, Incarnation: 1, Revision: table.Revision}
		for _, p := range table.PrefixesAt(m.site) {
			m.beat.Announcing = append(m.beat.Announcing, steadycast.Unit{Site: m.site, Prefix: p})
		}
		if m.mesh, err = mesh.New(mesh.Options{Credentials: creds, Incarnation: 1}); err != nil {
			return nil, err
		}
		ln, err := net.Listen("tcp", netip.AddrPortFrom(l.address(i), l.port).String())
		if err != nil {
			return nil, err
		}
		go m.mesh.Run(ctx, ln)
		peers := slices.Clone(voters)
		if slices.Contains(watches[m.site], largeSite(real)) {
			peers = append(peers, mesh.Peer{Site: largeSite(real), Node: largeSite(real) + "-1", Name: largeSite(real) + "-1", Addr: netip.AddrPortFrom(l.address(real), l.port)})
		}
		if err := m.mesh.SetPeers(peers); err != nil {
			return nil, err
		}
		calls := creds.ClientConfig(pki.LedgerCalls, pki.Identity{})
		calls.NextProtos = []string{"h2"}
		m.http = &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: calls}}
		crowd = append(crowd, m)
		go m.look(ctx, watches[m.site], largeSite(real))
		go m.beats(ctx)
	}
	return crowd, settleIn(ctx, crowd)
}

// look publishes what a node sees: of the real node every two seconds, which hears it
// first hand, and of the others as often as the voters are told (the newest counts).
func (m *member) look(ctx context.Context, subjects []string, real string) {
	const round, digest = 2 * time.Second, mesh.DefaultDigest
	tick := time.NewTicker(round)
	defer tick.Stop()
	for n := uint64(1); ; n++ {
		for _, subject := range subjects {
			if subject != real && n%uint64(digest/round) != 1 {
				continue
			}
			for s := range largeServices {
				m.mesh.Publish(steadycast.Observation{
					Vantage: m.site, Subject: subject, Service: largeService(s), Seq: n,
					Result: steadycast.Result{Outcome: steadycast.Up, Took: 12 * time.Millisecond, Reason: "200 OK in 12 ms"},
				})
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func largeService(i int) string { return fmt.Sprintf("svc%02d", i) }

// call is one call of a voter's, with the names of ledger's wire.
func (m *member) call(ctx context.Context, voter int, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	res, err := m.post(ctx, voter, path, in)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, b)
	}
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(b, out)
}

func (m *member) post(ctx context.Context, voter int, path string, in any) (*http.Response, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+m.voters[voter]+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return m.http.Do(req)
}

// follow reads the committed state from one voter, and counts it.
func (m *member) follow(ctx context.Context, voter int) {
	for ctx.Err() == nil {
		res, err := m.post(ctx, voter, "/v1/watch", steadycast.Fence{})
		if err == nil {
			_, err = io.Copy(counting{}, res.Body)
			res.Body.Close()
		}
		if err != nil && ctx.Err() == nil {
			fmt.Println("stream:", err)
		}
		<-time.After(time.Second)
	}
}

type counting struct{}

func (counting) Write(b []byte) (int, error) { watched.Add(uint64(len(b))); return len(b), nil }

// beats tells every voter once a second what the node announces.
func (m *member) beats(ctx context.Context) {
	nonces := make([]string, len(m.voters))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		b := m.beat
		b.Seq = m.seq.Add(1)
		var all sync.WaitGroup
		for v := range m.voters {
			all.Go(func() {
				var said struct {
					Nonce string `json:"nonce"`
				}
				if err := m.call(ctx, v, "/v1/beat", map[string]any{"beat": b, "nonce": nonces[v]}, &said); err == nil {
					nonces[v] = said.Nonce
				}
			})
		}
		all.Wait()
	}
}

// settleIn tells the ledger what the crowd's nodes would: that every service is well.
// Then all ask for the committed state, and a verdict changes every two seconds for as
// long as the crowd lives.
func settleIn(ctx context.Context, crowd []*member) error {
	var names []string
	for s := range largeServices {
		names = append(names, largeService(s))
	}
	var all sync.WaitGroup
	room, failed := make(chan struct{}, 50), make(chan error, len(crowd))
	for _, m := range crowd {
		all.Go(func() {
			room <- struct{}{}
			failed <- m.report(ctx, steadycast.Healthy, names...)
			<-room
		})
	}
	all.Wait()
	for range crowd {
		if err := <-failed; err != nil {
			return err
		}
	}
	for i, m := range crowd {
		go m.follow(ctx, i%largeVoters)
		<-time.After(100 * time.Millisecond) // all at once would be more than two processors can do beside the crowd
	}
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			m := crowd[n/2%len(crowd)]
			s := []steadycast.State{steadycast.Suspect, steadycast.Healthy}[n%2]
			if err := m.report(ctx, s, largeService(n/2%largeServices)); err != nil {
				fmt.Println("verdict:", err)
			}
			<-time.After(2 * time.Second)
		}
	}()
	return nil
}

func (m *member) report(ctx context.Context, s steadycast.State, services ...string) error {
	var vs []steadycast.Verdict
	for _, name := range services {
		vs = append(vs, steadycast.Verdict{Site: m.site, Service: name, State: s, Reason: "passed ×20; 10 of 10 voices pass", Good: 20})
	}
	return m.call(ctx, 0, "/v1/report", map[string]any{"verdicts": vs}, nil)
}
