package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// askers are the flows that the questions are spread over, so that a router with
	// several equal paths uses them all (RFC 2992).
	askers = 64
	// patience is how long an answer may take before the question counts as lost. A
	// datagram that is lost never comes, and a busy machine is slow.
	patience = 3 * time.Second
)

// asker is the client of a lab: it asks one address at a steady rate, each question
// once, and counts who answered and what was lost. It counts from the first answer
// on, or from the last mark.
type asker struct {
	every time.Duration
	flows []*net.UDPConn

	mu      sync.Mutex
	open    map[uint64]time.Time // questions that wait, by number, and when they were asked
	last    uint64
	first   uint64 // the first that counts
	lost    int
	answers map[string]int // by site
	firstAt time.Time
	worst   time.Duration // the longest that an answer took
}

// newAsker asks address, which is IP:PORT, rate times a second.
func newAsker(address string, rate int) (*asker, error) {
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	if rate < 1 || rate > 10_000 {
		return nil, fmt.Errorf("%d questions a second: not between 1 and 10000", rate)
	}
	a := &asker{every: time.Second / time.Duration(rate), open: map[uint64]time.Time{}, answers: map[string]int{}}
	for range askers {
		conn, err := net.DialUDP("udp", nil, to)
		if err != nil {
			return nil, err
		}
		a.flows = append(a.flows, conn)
	}
	return a, nil
}

// run asks until a flow fails for good.
func (a *asker) run() error {
	for _, conn := range a.flows {
		go a.hear(conn)
	}
	tick := time.NewTicker(a.every)
	defer tick.Stop()
	next := time.Now()
	for now := range tick.C {
		for ; !next.After(now); next = next.Add(a.every) { // what a late tick left out is asked now
			if err := a.ask(); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask sends one question. That the kernel has no route, or passes on that one was
// refused before, is a question lost, not a fault of ours.
func (a *asker) ask() error {
	a.mu.Lock()
	a.last++
	n := a.last
	a.open[n] = time.Now()
	if n%100 == 0 {
		a.expire(time.Now())
	}
	a.mu.Unlock()
	q, err := question(n)
	if err != nil {
		return err
	}
	conn := a.flows[n%askers]
	if _, err = conn.Write(q); err != nil { // of the question before: this one was not sent
		_, err = conn.Write(q)
	}
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// question is for the TXT records of a name that holds its number.
func question(n uint64) ([]byte, error) {
	name, err := dnsmessage.NewName(fmt.Sprintf("%d.ask.test.", n))
	if err != nil {
		return nil, err
	}
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: uint16(n)})
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(dnsmessage.Question{Name: name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET}); err != nil {
		return nil, err
	}
	return b.Finish()
}

func (a *asker) hear(conn *net.UDPConn) {
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // refused: the question stays open until it is lost
			continue
		}
		if number, site, err := answerOf(buffer[:n]); err == nil {
			a.answered(number, site)
		}
	}
}

// answerOf is the number of the question, and the site that answered it.
func answerOf(message []byte) (number uint64, site string, err error) {
	var m dnsmessage.Message
	if err := m.Unpack(message); err != nil {
		return 0, "", err
	}
	if !m.Response || len(m.Questions) != 1 || len(m.Answers) != 1 {
		return 0, "", errors.New("not an answer")
	}
	text, ok := m.Answers[0].Body.(*dnsmessage.TXTResource)
	if !ok {
		return 0, "", errors.New("no TXT record")
	}
	_, err = fmt.Sscanf(m.Questions[0].Name.String(), "%d.ask.test.", &number)
	return number, strings.Join(text.TXT, ""), err
}

func (a *asker) answered(n uint64, site string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.open[n]
	if !ok {
		return // too late, or twice
	}
	delete(a.open, n)
	switch {
	case a.first == 0: // from here on it counts
		a.first, a.firstAt = a.last+1, time.Now()
	case n >= a.first:
		a.answers[site]++
		a.worst = max(a.worst, time.Since(at))
	}
}

// expire gives up the questions that waited too long. The caller holds mu.
func (a *asker) expire(now time.Time) {
	for n, at := range a.open {
		if now.Sub(at) > patience {
			delete(a.open, n)
			if a.first != 0 && n >= a.first {
				a.lost++
			}
		}
	}
}

// mark counts anew, from the next question on.
func (a *asker) mark() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.first, a.firstAt = a.last+1, time.Now()
	a.lost, a.worst = 0, 0
	clear(a.answers)
}

// tally waits until every question asked so far is answered or lost, and says how
// many were: `lost 0 of 1834 in 1.8s (worst 12ms); ams 610, fra 1224`. What is asked
// meanwhile may be among them.
func (a *asker) tally() string {
	a.mu.Lock()
	upTo := a.last
	a.mu.Unlock()
	for a.waiting(upTo) {
		time.Sleep(5 * time.Millisecond)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == 0 {
		return "nobody has answered yet"
	}
	var by []string
	done := a.lost
	for _, site := range slices.Sorted(maps.Keys(a.answers)) {
		by = append(by, fmt.Sprintf("%s %d", site, a.answers[site]))
		done += a.answers[site]
	}
	return fmt.Sprintf("lost %d of %d in %s (worst %s); %s", a.lost, done, time.Since(a.firstAt).Round(100*time.Millisecond),
		a.worst.Round(time.Millisecond), strings.Join(by, ", "))
}

func (a *asker) waiting(upTo uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(time.Now())
	for n := range a.open {
		if n <= upTo && n >= a.first {
			return true
		}
	}
	return false
}

// page answers GET with the tally, and takes POST /mark.
func (a *asker) page() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, a.tally()) })
	mux.HandleFunc("POST /mark", func(w http.ResponseWriter, _ *http.Request) {
		a.mark()
		fmt.Fprintln(w, "marked")
	})
	return mux
}
