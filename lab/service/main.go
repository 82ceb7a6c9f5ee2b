// Command service is what a lab keeps reachable: an HTTP and a DNS server that
// say which site they are, and do nothing else. It ends when it is told to, or
// is killed by a scenario.
//
// HTTP answers every path with 200, `ok` and the header X-Site. DNS (UDP)
// answers every A question with 198.51.100.53 and every TXT question with the
// site, from the address that was asked; other types get no data.
//
// With -glass it is a router's looking glass instead: GET /route/ADDRESS runs
// the given shell command with $ADDRESS set, and answers with what that printed,
// or 404 if it printed nothing.
//
// With -ask it is a client instead: it asks that address -rate times a second for
// TXT, and answers GET / with what was lost and who answered, see [asker].
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("service: ")
	web := flag.String("http", ":8080", "address and port of the HTTP server")
	dns := flag.String("dns", ":53", "address and port of the DNS server (UDP); empty for none")
	name := flag.String("name", "edge", "the site this is, sent as X-Site")
	glass := flag.String("glass", "", "shell command that prints the routes to $ADDRESS, for /route/ADDRESS")
	ask := flag.String("ask", "", "address and port of a DNS server to ask, with the tally on the HTTP server")
	rate := flag.Int("rate", 1000, "questions a second")
	flag.Parse()

	failed := make(chan error)
	handler := page(*name)
	if *glass != "" {
		handler = lookingGlass(*glass)
	}
	if *ask != "" {
		a, err := newAsker(*ask, *rate)
		if err != nil {
			log.Fatal(err)
		}
		handler = a.page()
		go func() { failed <- a.run() }()
	}
	if *dns != "" {
		conn, err := listenDNS(*dns)
		if err != nil {
			log.Fatal(err)
		}
		go func() { failed <- serveDNS(conn, *name) }()
	}
	listener, err := net.Listen("tcp", *web)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { failed <- server.Serve(listener) }()
	log.Printf("%s serves http on %s and dns on %s", *name, *web, *dns)
	log.Fatal(<-failed)
}

func page(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Site", name)
		fmt.Fprintln(w, "ok")
	})
}

func lookingGlass(command string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /route/{address}", func(w http.ResponseWriter, r *http.Request) {
		a, err := netip.ParseAddr(r.PathValue("address"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		cmd := exec.CommandContext(r.Context(), "sh", "-c", command)
		cmd.Env = append(os.Environ(), "ADDRESS="+a.String())
		out, _ := cmd.Output()
		if len(bytes.TrimSpace(out)) == 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(out)
	})
	return mux
}

// listenDNS opens a socket for both families that tells which address each
// datagram was sent to: a host with several must answer from that one.
func listenDNS(address string) (*net.UDPConn, error) {
	a, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP("udp", a)
	if err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		// Room for what comes while others have the machine; without leave for so much, less.
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		if errors.Is(failed, syscall.ENOPROTOOPT) { // an IPv4 socket
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		}
	})
	return conn, errors.Join(err, failed)
}

func serveDNS(conn *net.UDPConn, site string) error {
	question := make([]byte, 4096)
	control := make([]byte, 256)
	for {
		n, m, _, from, err := conn.ReadMsgUDPAddrPort(question, control)
		if err != nil {
			return err
		}
		answer, err := answerTo(question[:n], site)
		if err != nil {
			continue // not a question: silence
		}
		err = turnAround(control[:m])
		if err == nil {
			_, _, err = conn.WriteMsgUDPAddrPort(answer, control[:m], from)
		}
		if err != nil {
			log.Printf("answering %s: %v", from, err)
		}
	}
}

// turnAround makes of what the kernel said about a datagram's destination what it
// is to be told about the answer's source: the address that was asked answers. The
// interface is left to the route, since questions may come by one and answers go by
// another; only a link-local address (RFC 4291 §2.5.6) needs its own.
func turnAround(control []byte) error {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return err
	}
	for _, m := range messages { // Data is part of control
		switch h := m.Header; {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			clear(m.Data[:4])
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			if !netip.AddrFrom16([16]byte(m.Data[:16])).IsLinkLocalUnicast() {
				clear(m.Data[16:20])
			}
		}
	}
	return nil
}

var answered = netip.MustParseAddr("198.51.100.53")

func answerTo(question []byte, site string) ([]byte, error) {
	var p dnsmessage.Parser
	head, err := p.Start(question)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil || head.Response {
		return nil, errors.New("not a question")
	}
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID: head.ID, Response: true, Authoritative: true, RecursionDesired: head.RecursionDesired, RecursionAvailable: true,
	})
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(q); err != nil {
		return nil, err
	}
	if err := b.StartAnswers(); err != nil {
		return nil, err
	}
	h := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 30}
	switch q.Type {
	case dnsmessage.TypeA:
		err = b.AResource(h, dnsmessage.AResource{A: answered.As4()})
	case dnsmessage.TypeTXT:
		err = b.TXTResource(h, dnsmessage.TXTResource{TXT: []string{site}})
	}
	if err != nil {
		return nil, err
	}
	return b.Finish()
}
