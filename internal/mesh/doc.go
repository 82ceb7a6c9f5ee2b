// Package mesh carries observations from the site that looked to the site that
// was looked at, and to the ledger's voters, over mutually authenticated HTTP/2.
//
//	    vantage                             reader: the subject, a voter
//	┌────────────┐   POST, never ending    ┌────────────┐
//	│ Publish ──▶│ observations, own nonces│─▶ inbox ──▶│ OnObservation
//	│            │ ──────────────────────▶ │            │
//	│  echoes ◀──│ the reader's nonces and │◀── book    │
//	│            │ ◀────────────────────── │            │
//	└────────────┘ how much has arrived    └────────────┘
//
// The vantage calls; one stream goes each way, so two nodes that watch each
// other have two links. There is no gossip: a fact travels to those who need it.
//
// # How old is an observation?
//
// Nobody's clock is compared with another's, and the time of receipt says
// nothing: after a partition TCP delivers what is twenty seconds old as if it
// were new. So each reader issues a random number once a second, its nonce. An
// observation echoes, for each reader, the newest nonce that had arrived when
// the round of probes began; its age is what the reader's own monotonic clock
// says has passed since it issued that nonce ([Book]). It can only look older
// than it is.
//
// # Who says it?
//
// A link is admitted by its certificate (package pki), and a certificate reports
// only as itself. Each observation is signed with the key that the certificate
// binds, with all its echoes under the signature.
//
// # When the direct way is down
//
// A reader says once a second how much has arrived. A vantage that is not heard,
// or whose words do not arrive, for two seconds sends through one of the voters
// too, along with its certificate; the voter passes it down the link that the
// reader has to it, and the reader's nonces back. It is one hop, and since the
// voter can neither sign nor choose an echo, it can drop and delay but not forge.
//
// # What is not promised
//
// Delivery. Every queue is bounded and drops its oldest observation, counted; a
// newer one says more. What arrives twice or late is dropped by its sequence
// number, counted. A silent vantage is no vantage, never a failure.
package mesh
