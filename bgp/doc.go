// Package bgp announces: it turns a [steadycast.RouteSet] into BGP sessions and
// reads back what really left on the wire. It is the only door to GoBGP.
package bgp
