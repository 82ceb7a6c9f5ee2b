package bench

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	gobgplog "github.com/osrg/gobgp/v3/pkg/log"
	"github.com/osrg/gobgp/v3/pkg/server"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/steadycast/steadycast"
	"github.com/steadycast/steadycast/bgp"
)

// announcer is what is compared with many prefixes.
type announcer interface {
	announce([]netip.Prefix) error
	withdraw([]netip.Prefix) error
}

// speak is the main function of a speaker's process: it peers with the router
// and obeys the words announce and withdraw.
func speak(make1 func() (announcer, error), args []string, words *bufio.Scanner) int {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		fmt.Println(err)
		return 2
	}
	a, err := make1()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	prefixes := serviceAddresses(n)
	fmt.Println("ready")
	for words.Scan() {
		switch words.Text() {
		case "announce":
			err = a.announce(prefixes)
		case "withdraw":
			err = a.withdraw(prefixes)
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
	os.Exit(0)
	return 0
}

// own is this product's speaker.
type own struct {
	*bgp.Speaker
	version uint64
}

func newOwn() (announcer, error) {
	sp, err := bgp.New(bgp.Settings{
		ASN: edgeASN, RouterID: netip.MustParseAddr("192.0.2.1"), Allow: []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15")},
		Neighbors: []bgp.Neighbor{{Name: "router", Address: netip.MustParseAddr(routerAddress), ASN: routerASN,
			LocalAddress: netip.MustParseAddr(edgeAddress), HoldTime: 90 * time.Second}},
	}, bgp.Options{Logger: slog.New(slog.DiscardHandler)})
	return &own{Speaker: sp}, err
}

func (o *own) set(routes []steadycast.Route) error {
	o.version++
	return o.Apply(steadycast.RouteSet{Incarnation: 1, Version: o.version, Routes: routes})
}

func (o *own) announce(ps []netip.Prefix) error {
	routes := make([]steadycast.Route, len(ps))
	for i, p := range ps {
		routes[i].Prefix = p
	}
	return o.set(routes)
}

func (o *own) withdraw([]netip.Prefix) error { return o.set(nil) }

// bare is GoBGP embedded as its documentation has it, and nothing else.
type bare struct {
	*server.BgpServer
	family *api.Family
	attrs  []*anypb.Any
}

// silent is a logger that says nothing.
type silent struct{}

func (silent) Panic(string, gobgplog.Fields) {}
func (silent) Fatal(string, gobgplog.Fields) {}
func (silent) Error(string, gobgplog.Fields) {}
func (silent) Warn(string, gobgplog.Fields)  {}
func (silent) Info(string, gobgplog.Fields)  {}
func (silent) Debug(string, gobgplog.Fields) {}
func (silent) SetLevel(gobgplog.LogLevel)    {}
func (silent) GetLevel() gobgplog.LogLevel   { return gobgplog.FatalLevel }

func newBare() (announcer, error) {
	ctx := context.Background()
	s := server.NewBgpServer(server.LoggerOption(silent{}))
	go s.Serve()
	if err := s.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{Asn: edgeASN, RouterId: "192.0.2.1", ListenPort: -1}}); err != nil {
		return nil, err
	}
	err := s.AddPeer(ctx, &api.AddPeerRequest{Peer: &api.Peer{
		Conf:      &api.PeerConf{NeighborAddress: routerAddress, PeerAsn: routerASN},
		Transport: &api.Transport{LocalAddress: edgeAddress},
		Timers:    &api.Timers{Config: &api.TimersConfig{ConnectRetry: 1, HoldTime: 90, KeepaliveInterval: 30}},
	}})
	if err != nil {
		return nil, err
	}
	b := &bare{BgpServer: s, family: &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}}
	for _, m := range []proto.Message{&api.OriginAttribute{}, &api.NextHopAttribute{NextHop: edgeAddress}} {
		x, err := anypb.New(m)
		if err != nil {
			return nil, err
		}
		b.attrs = append(b.attrs, x)
	}
	return b, nil
}

func (b *bare) path(p netip.Prefix) (*api.Path, error) {
	nlri, err := anypb.New(&api.IPAddressPrefix{Prefix: p.Addr().String(), PrefixLen: uint32(p.Bits())})
	return &api.Path{Family: b.family, Nlri: nlri, Pattrs: b.attrs}, err
}

func (b *bare) each(ps []netip.Prefix, do func(*api.Path) error) error {
	for _, p := range ps {
		path, err := b.path(p)
		if err != nil {
			return err
		}
		if err := do(path); err != nil {
			return err
		}
	}
	return nil
}

func (b *bare) announce(ps []netip.Prefix) error {
	return b.each(ps, func(p *api.Path) error {
		_, err := b.AddPath(context.Background(), &api.AddPathRequest{Path: p})
		return err
	})
}

func (b *bare) withdraw(ps []netip.Prefix) error {
	return b.each(ps, func(p *api.Path) error {
		return b.DeletePath(context.Background(), &api.DeletePathRequest{Path: p})
	})
}

// BenchmarkTable is the time until BIRD has 10,000 prefixes, and until it has
// lost them, beside bare GoBGP told the same.
func BenchmarkTable(b *testing.B) {
	const n = 10_000
	type speaking struct {
		*process
		router   *bird
		up, down sample
	}
	make1 := func(part string) *speaking {
		c := lay(b, "bird")
		s := &speaking{router: newBird(b, c, true)}
		s.process = partOf(b, c.edge, part, strconv.Itoa(n))
		s.expect(b, patience, "that it is ready", func(line string) bool { return line == "ready" })
		return s
	}
	ours, theirs := make1("speaker"), make1("gobgp")
	round := func(s *speaking) {
		began := time.Now()
		s.say(b, "announce")
		s.up = append(s.up, s.router.count(n, patience).Sub(began))
		began = time.Now()
		s.say(b, "withdraw")
		s.down = append(s.down, s.router.count(0, patience).Sub(began))
	}
	// The first is not counted: sessions come up, memory is taken.
	round(ours)
	round(theirs)
	ours.up, ours.down, theirs.up, theirs.down = nil, nil, nil, nil
	for b.Loop() {
		for range 8 {
			round(ours)
			round(theirs)
		}
	}
	ours.up.report(b, "announce")
	theirs.up.report(b, "gobgp-announce")
	ours.down.report(b, "withdraw")
	theirs.down.report(b, "gobgp-withdraw")
	ratio(b, ours.up, theirs.up, "announce")
	ratio(b, ours.down, theirs.down, "withdraw")
	done(b)
}
