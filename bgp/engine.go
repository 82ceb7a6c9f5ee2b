package bgp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// engine is the GoBGP server of one neighbour. One server per neighbour gives
// each its own attributes without policy tricks, lets nothing pass from one to
// another, and keeps a slow one from holding up the rest.
//
// It never listens. It dials one loopback address, where gate takes it, and
// only while the router's own connection is up. Import and export reject
// everything but routes of local origin.
//
// Calls on an engine come from one goroutine at a time: the neighbour's pusher
// for routes, its session loop for open and close; GoBGP serialises the two.
type engine struct {
	srv    *gobgpServer
	asn    uint32
	id     netip.Addr
	logger *slog.Logger
	peer   bool
}

func newEngine(asn uint32, id netip.Addr, logger *slog.Logger) (*engine, error) {
	e := &engine{srv: takeServer(), asn: asn, id: id, logger: logger}
	e.srv.log.to.Store(logger)
	if err := e.start(); err != nil {
		return nil, fmt.Errorf("starting GoBGP: %w", err)
	}
	return e, nil
}

func (e *engine) start() error {
	ctx := context.Background()
	global := &api.Global{Asn: e.asn, RouterId: e.id.String(), ListenPort: -1}
	if err := e.srv.start(&api.StartBgpRequest{Global: global}); err != nil {
		return err
	}
	// The import policy is asked about our own paths too, so a bare default of
	// reject would swallow them without a word.
	own := &api.Policy{Name: "own", Statements: []*api.Statement{{
		Name:       "own",
		Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL},
		Actions:    &api.Actions{RouteAction: api.RouteAction_ACCEPT},
	}}}
	if err := e.srv.SetPolicies(ctx, &api.SetPoliciesRequest{Policies: []*api.Policy{own}}); err != nil {
		return err
	}
	for _, d := range []api.PolicyDirection{api.PolicyDirection_IMPORT, api.PolicyDirection_EXPORT} {
		a := &api.PolicyAssignment{Name: "global", Direction: d, Policies: []*api.Policy{own}, DefaultAction: api.RouteAction_REJECT}
		if err := e.srv.SetPolicyAssignment(ctx, &api.SetPolicyAssignmentRequest{Assignment: a}); err != nil {
			return err
		}
	}
	return nil
}

// announce adds the path of p or replaces it: GoBGP sends one UPDATE.
func (e *engine) announce(p netip.Prefix, attrs []*anypb.Any) error {
	_, err := e.srv.AddPath(context.Background(), &api.AddPathRequest{
		TableType: api.TableType_GLOBAL,
		Path:      &api.Path{Family: apiFamily(p.Addr()), NlriBinary: nlri(p), Pattrs: attrs},
	})
	return err
}

// withdraw removes the path of p; that it is not there is no error.
func (e *engine) withdraw(p netip.Prefix) error {
	return e.srv.DeletePath(context.Background(), &api.DeletePathRequest{
		TableType: api.TableType_GLOBAL,
		Path:      &api.Path{Family: apiFamily(p.Addr()), NlriBinary: nlri(p), Pattrs: withdrawAttributes[familyIndex(p.Addr())]},
	})
}

// open lets GoBGP dial us once and returns its connection. It takes one to two
// seconds, which is how long GoBGP waits before it first dials.
func (e *engine) open(ctx context.Context, n Neighbor) (net.Conn, error) {
	g, err := openGate()
	if err != nil {
		return nil, err
	}
	defer g.close()
	families := make([]*api.AfiSafi, 0, 2)
	for _, f := range n.Families {
		afi := api.Family_AFI_IP
		if f == familyIPv6 {
			afi = api.Family_AFI_IP6
		}
		families = append(families, &api.AfiSafi{Config: &api.AfiSafiConfig{
			Family: &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}, Enabled: true}})
	}
	peer := &api.Peer{
		Conf:      &api.PeerConf{NeighborAddress: gateAddress, PeerAsn: n.ASN, LocalAsn: e.asn},
		Transport: &api.Transport{RemotePort: uint32(g.port()), LocalAddress: gateAddress},
		Timers: &api.Timers{Config: &api.TimersConfig{
			ConnectRetry: 1, HoldTime: uint64(n.HoldTime / time.Second), KeepaliveInterval: uint64(n.Keepalive / time.Second)}},
		AfiSafis: families,
	}
	if err := e.srv.AddPeer(ctx, &api.AddPeerRequest{Peer: peer}); err != nil {
		return nil, fmt.Errorf("GoBGP refused the neighbour: %w", err)
	}
	e.peer = true
	return g.accept(ctx)
}

// close takes the peer out of GoBGP, which so skips its five idle seconds; its
// connection must be closed before, else this waits for a write.
func (e *engine) close() {
	if e.peer {
		e.peer = false
		e.srv.DeletePeer(context.Background(), &api.DeletePeerRequest{Address: gateAddress})
	}
}

// stop ends the server and parks it. GoBGP's StopBgp can wait for a stalled
// peer, so it is given a moment; a server that takes longer is left behind.
func (e *engine) stop() {
	done := make(chan struct{})
	go func() {
		e.srv.stop()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(3 * time.Second):
		e.logger.Warn("GoBGP does not stop; it is left behind")
	}
}

func apiFamily(a netip.Addr) *api.Family {
	if a.Is4() {
		return ipv4Unicast
	}
	return ipv6Unicast
}

var (
	ipv4Unicast = &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}
	ipv6Unicast = &api.Family{Afi: api.Family_AFI_IP6, Safi: api.Family_SAFI_UNICAST}

	// GoBGP wants attributes on a withdrawal too; they are not sent.
	withdrawAttributes = [2][]*anypb.Any{
		apiAttributes(&pathAttributes{nextHop: netip.IPv4Unspecified()}, 0),
		apiAttributes(&pathAttributes{nextHop: netip.IPv6Unspecified()}, 0),
	}
)

// nlri is p as on the wire (RFC 4271 §4.3).
func nlri(p netip.Prefix) []byte {
	return append([]byte{byte(p.Bits())}, p.Addr().AsSlice()[:(p.Bits()+7)/8]...)
}

// apiAttributes writes a for GoBGP, which adds our ASN once by itself on eBGP.
func apiAttributes(a *pathAttributes, asn uint32) []*anypb.Any {
	var out []*anypb.Any
	add := func(m proto.Message) {
		v, err := anypb.New(m)
		if err != nil {
			panic(err) // these messages cannot fail to marshal
		}
		out = append(out, v)
	}
	add(&api.OriginAttribute{}) // IGP
	add(&api.NextHopAttribute{NextHop: a.nextHop.String()})
	if a.prepend > 0 {
		add(&api.AsPathAttribute{Segments: []*api.AsSegment{{
			Type: api.AsSegment_AS_SEQUENCE, Numbers: slices.Repeat([]uint32{asn}, a.prepend)}}})
	}
	if a.med != nil {
		add(&api.MultiExitDiscAttribute{Med: *a.med})
	}
	if a.localPref != nil {
		add(&api.LocalPrefAttribute{LocalPref: *a.localPref})
	}
	if len(a.communities) > 0 {
		m := &api.CommunitiesAttribute{}
		for _, c := range a.communities {
			m.Communities = append(m.Communities, uint32(c))
		}
		add(m)
	}
	if len(a.largeCommunities) > 0 {
		m := &api.LargeCommunitiesAttribute{}
		for _, c := range a.largeCommunities {
			m.Communities = append(m.Communities, &api.LargeCommunity{GlobalAdmin: c.Global, LocalData1: c.Data1, LocalData2: c.Data2})
		}
		add(m)
	}
	return out
}
