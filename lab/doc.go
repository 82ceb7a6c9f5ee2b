// Package lab rehearses steadycast on real routers: FRR, BIRD and OpenBGPD.
//
// It reads a containerlab topology (containerlab/*.clab.yml) and builds it
// without Docker: [Up] gives each node its own network, mount, process, host
// name and IPC namespace, joins them with veth pairs, and starts what the
// node's image would start, with this machine's own daemons. The same file goes
// to `containerlab deploy` unchanged, so the topology a person plays with is the
// one the tests prove. The file is read strictly: a key this package does not
// build is an error with its line, never ignored.
//
// A node's root is a tmpfs with the machine's /usr bound read-only into it: a
// container whose image is the machine. Bound configuration files are copied,
// so a scenario may change them and the repository stays as it is.
//
// Nothing is left behind, however the lab ends. The namespaces have no name:
// each lives only as long as its first process, which the kernel kills with the
// thread that started it ([PR_SET_PDEATHSIG]), and everything else in the node's
// process namespace with it. So ctrl-C, a failed test and even kill -9 of the
// runner end the same way.
//
// A scenario (scenarios/*.txt) is a text of steps and facts; [Scenario] says the
// language. Facts are read from the outside: the router's own table, by the
// router's own tool, and the BGP messages on the wire, by a capture on the
// router's interface. The product is driven only through its binary.
//
// It needs root, and a lab belongs to one goroutine. What it does not do:
// management networks, node kinds other than linux, startup-config, stages, and
// every other key that no topology here uses.
//
// [PR_SET_PDEATHSIG]: https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html
package lab
