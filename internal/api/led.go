package api

import "time"

// Led answers GET /v1/dns/led at the socket of a server of names: how often its
// answers named a member of a service at a site, since it began. A server that began
// anew counts anew.
type Led struct {
	Began time.Time `json:"began"`
	Led   []LedTo   `json:"led"`
}

// LedTo is one site and service; the service is empty for members without one.
type LedTo struct {
	Site    string `json:"site"`
	Service string `json:"service,omitempty"`
	Count   uint64 `json:"count"`
}
