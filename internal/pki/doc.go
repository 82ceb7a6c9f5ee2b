// Package pki says who is who in a fleet: a private certificate authority, the
// certificates of nodes, the list of revoked ones, and the keys of operators.
//
// # What proves what
//
// A node has one certificate (ECDSA P-256, RFC 5280), which names it by URI:
//
//	steadycast://FLEET/SITE/NODE
//	steadycast://FLEET/SITE/NODE/observe/HEX
//
// The second URI binds the Ed25519 key (HEX is the public key) with which the
// node signs its observations, so that whoever relays one cannot forge it. Both
// are subject alternative names and nothing else is read: common names, DNS
// names and addresses prove nothing here. A URI, unlike an extension of our
// own, can be written by any authority and read with openssl.
//
// An operator has an Ed25519 key, a name and a role. No certificate is about
// it: the ledger holds the keys that it trusts.
//
// # Judging without asking
//
// A fleet that powers up must agree who is who before anything else works: so
// there is no OCSP, no fetched list and no DNS. What is needed lies in one
// directory, is read again when a file changes, and a broken new file leaves
// the old one in force with an alarm (see [Credentials]). After a cold boot the
// clock may be wrong; [Credentials.Now] says how that is met.
//
// # What is not promised
//
// A revocation works on a node once the new list lies in its directory; until
// then the node does not know of it. Whoever holds ca.key is everyone: keep it
// off the nodes.
package pki
