// Package count counts what comes to this host for prefixes, in the kernel: by an
// nftables table of its own, in which nothing is dropped, changed or accepted. It
// is how a site knows that its clients have gone, and how many it has. It needs
// CAP_NET_ADMIN, and is the only door to nftables.
//
// What the host sends to itself is not counted: that is mostly its own checks.
package count

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Counter is one table. Its methods may be called from any goroutine.
type Counter struct {
	mu       sync.Mutex
	conn     *nftables.Conn
	table    *nftables.Table
	prefixes []netip.Prefix
}

// Open makes the table, in place of one of that name that a former process left.
// Other tables are not touched.
func Open(name string) (*Counter, error) {
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	return &Counter{conn: conn, table: &nftables.Table{Family: nftables.TableFamilyINet, Name: name}}, nil
}

// Read gives how many packets ever came for each of the prefixes, since it began to
// be counted. Another set of prefixes than before begins anew.
func (c *Counter) Read(prefixes []netip.Prefix) (map[netip.Prefix]uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.prefixes == nil || !slices.Equal(prefixes, c.prefixes) {
		c.prefixes = nil
		if err := c.set(prefixes); err != nil {
			return nil, fmt.Errorf("nftables: table inet %s: %w", c.table.Name, err)
		}
		c.prefixes = append([]netip.Prefix{}, prefixes...)
	}
	objects, err := c.conn.GetNamedObjects(c.table)
	if err != nil {
		c.prefixes = nil // perhaps somebody has flushed it
		return nil, fmt.Errorf("nftables: table inet %s: %w", c.table.Name, err)
	}
	out := make(map[netip.Prefix]uint64, len(prefixes))
	for _, o := range objects {
		named, ok := o.(*nftables.NamedObj)
		if !ok {
			continue
		}
		counter, is := named.Obj.(*expr.Counter)
		if i, ours := place(named.Name, len(prefixes)); is && ours {
			out[prefixes[i]] = counter.Packets
		}
	}
	if len(out) != len(prefixes) {
		c.prefixes = nil
		return nil, fmt.Errorf("nftables: table inet %s: %d of %d counters are there; somebody changed it", c.table.Name, len(out), len(prefixes))
	}
	return out, nil
}

// counterName is the name of the counter of the prefix in place i.
func counterName(i int) string { return "p" + strconv.Itoa(i) }

// place is the prefix that a counter of ours counts, of n. A name that set would not
// give is somebody else's.
func place(name string, n int) (i int, ours bool) {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "p"))
	return i, err == nil && i >= 0 && i < n && name == counterName(i)
}

// Close takes the table away.
func (c *Counter) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	return cmp.Or(c.conn.Flush(), c.conn.CloseLasting())
}

// clear removes the table, whether it is there or not: adding one that is there
// changes nothing.
func (c *Counter) clear() {
	c.conn.AddTable(c.table)
	c.conn.DelTable(c.table)
}

// set makes the table anew, all in one transaction. Of prefixes inside one another
// each is counted, so a packet may count for several.
func (c *Counter) set(prefixes []netip.Prefix) error {
	c.clear()
	c.conn.AddTable(c.table)
	accept := nftables.ChainPolicyAccept
	chain := c.conn.AddChain(&nftables.Chain{
		Name: "arriving", Table: c.table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw, Policy: &accept,
	})
	for i, p := range prefixes {
		name := counterName(i)
		c.conn.AddObj(&nftables.NamedObj{Table: c.table, Name: name, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{}})
		c.conn.AddRule(&nftables.Rule{Table: c.table, Chain: chain, Exprs: append(to(p), &expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: name})})
	}
	return c.conn.Flush()
}

// to matches what comes over a network for the prefix.
func to(p netip.Prefix) []expr.Any {
	family, offset, length := byte(unix.NFPROTO_IPV4), uint32(16), uint32(4) // RFC 791 §3.1
	if p.Addr().Is6() {
		family, offset, length = unix.NFPROTO_IPV6, 24, 16 // RFC 8200 §3
	}
	loopback := make([]byte, unix.IFNAMSIZ)
	copy(loopback, "lo")
	match := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: loopback},
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length},
	}
	mask := make([]byte, length)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return append(match,
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: length, Mask: mask, Xor: make([]byte, length)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()})
}
