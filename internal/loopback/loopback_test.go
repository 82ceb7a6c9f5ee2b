package loopback

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestOwn(t *testing.T) {
	seen := map[netip.Addr]bool{}
	t.Run("held", func(t *testing.T) {
		for range 50 {
			at := Own(t)
			if seen[at.Addr()] || !at.Addr().IsLoopback() || at.Port() < 1024 || at.Port() >= 32768 {
				t.Fatal(at)
			}
			seen[at.Addr()] = true
			if c, err := net.Dial("tcp", at.String()); err == nil {
				c.Close()
				t.Fatalf("someone listens on %v", at)
			}
			if _, err := reserve(at.Addr()); err == nil {
				t.Fatalf("%v can be had twice", at)
			}
		}
	})
	for a := range seen {
		release, err := reserve(a)
		if err != nil {
			t.Errorf("%v was not given back: %v", a, err)
			continue
		}
		release()
	}
}

// What listens on all addresses is found, over either protocol; and Listen waits
// for one who is about to let go.
func TestTaken(t *testing.T) {
	at := Own(t)
	if taken(at) {
		t.Fatalf("someone listens on %v", at)
	}
	pc, err := net.ListenPacket("udp", net.JoinHostPort("", strconv.Itoa(int(at.Port()))))
	if err != nil {
		t.Fatal(err)
	}
	if !taken(at) {
		t.Error("a wildcard over UDP is not seen")
	}
	pc.Close()
	l := Listen(t, at)
	if !taken(at) {
		t.Error("a listener is not seen")
	}
	go func() {
		<-time.After(50 * time.Millisecond)
		l.Close()
	}()
	Listen(t, at).Close()
}

// TestNobodyPicksAFreePort: no test of the project listens on a port that the
// kernel chooses only to learn its number, as if it stayed free after.
func TestNobodyPicksAFreePort(t *testing.T) {
	files, found := token.NewFileSet(), 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		found++
		for _, at := range picks(f) {
			t.Errorf("%s: this port is anyone's once the listener is closed; keep it open, or use loopback.Own", files.Position(at))
		}
		return nil
	})
	if err != nil || found < 100 {
		t.Fatalf("%d files of tests: %v", found, err)
	}
}

func TestPicks(t *testing.T) {
	for body, want := range map[string]int{
		`l, err := net.Listen("tcp", "127.0.0.1:0"); _ = err; a := l.Addr().String(); l.Close(); use(a)`: 1,
		`l, err := net.Listen("tcp", "[::1]:0"); _ = err; defer l.Close(); return l.Addr().String()`:     1,
		`l, _ := net.ListenPacket("udp", ":0"); a := l.LocalAddr(); l.Close(); use(a)`:                   1,
		`for range 3 { l, _ := net.Listen("tcp", "127.0.0.1:0"); defer l.Close(); use(l.Addr()) }`:       0, // is kept
		`l, _ := net.Listen("tcp", "127.0.0.1:0"); defer l.Close(); c, _ := net.Dial(l.Addr()); use(c)`:  0,
		`l, _ := net.Listen("tcp", "127.0.0.1:0"); go serve(l); l.Close(); return l.Addr()`:              0, // was for listening
		`l, _ := net.Listen("tcp", "127.0.0.1:7000"); a := l.Addr(); l.Close(); use(a)`:                  0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package x\nfunc f() any {"+body+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := picks(f); len(got) != want {
			t.Errorf("%s: found %d, want %d", body, len(got), want)
		}
	}
}

// picks finds listeners on port 0 that only tell their address, and are closed
// before what they told is used: at once, or on the way out of a function that
// returns it.
func picks(f *ast.File) (at []token.Pos) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if s, ok := n.(*ast.AssignStmt); ok && listensOnZero(s) {
				if l, ok := s.Lhs[0].(*ast.Ident); ok && onlyTells(fn, l.Name) {
					at = append(at, s.Pos())
				}
			}
			return true
		})
	}
	return at
}

func listensOnZero(s *ast.AssignStmt) bool {
	call, ok := s.Rhs[0].(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(f.Sel.Name, "Listen") {
		return false
	}
	lit, ok := call.Args[len(call.Args)-1].(*ast.BasicLit)
	if !ok {
		return false
	}
	address, err := strconv.Unquote(lit.Value)
	return err == nil && strings.HasSuffix(address, ":0")
}

// onlyTells looks at each use of a listener in a function.
func onlyTells(fn *ast.FuncDecl, listener string) bool {
	var closed, later, returned, used bool
	var stack []ast.Node
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		id, ok := n.(*ast.Ident)
		if !ok || id.Name != listener {
			return true
		}
		within := func(match func(ast.Node) bool) bool {
			for _, s := range stack {
				if match(s) {
					return true
				}
			}
			return false
		}
		switch parent := stack[len(stack)-2].(type) {
		case *ast.AssignStmt:
		case *ast.SelectorExpr:
			switch parent.Sel.Name {
			case "Close":
				deferred := within(func(n ast.Node) bool {
					switch n.(type) {
					case *ast.DeferStmt, *ast.FuncLit:
						return true
					}
					return false
				})
				closed, later = closed || !deferred, later || deferred
			case "Addr", "LocalAddr":
				returned = returned || within(func(n ast.Node) bool { _, is := n.(*ast.ReturnStmt); return is })
			default:
				used = true
			}
		default:
			used = true
		}
		return true
	})
	return !used && (closed || later && returned)
}
