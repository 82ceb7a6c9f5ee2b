package decide

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The package is pure: replayed with the same inputs it does the same, on every
// machine. So it may not read a clock, draw a random number, run concurrently,
// touch the world, or rest on anything whose order or rounding is not fixed.
var (
	impureImports = []string{"os", "io", "net", "log", "context", "sync", "math/rand", "crypto/rand", "maps", "unsafe", "runtime", "syscall", "testing", "math", "reflect"}
	pureImports   = []string{"net/netip", "math/bits", "io"} // below an impure one, and pure; of io, EOF alone
	clockNames    = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "Sleep", "NewTimer", "NewTicker", "Local", "LoadLocation"}
)

// impurities names everything in the files that breaks the rule.
func impurities(fset *token.FileSet, files []*ast.File, info *types.Info) []string {
	var found []string
	say := func(n ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), fmt.Sprintf(format, args...)))
	}
	for _, f := range files {
		for _, imp := range f.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			for _, bad := range impureImports {
				if (path == bad || strings.HasPrefix(path, bad+"/")) && !slices.Contains(pureImports, path) {
					say(imp, "imports %s", path)
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				say(n, "starts a goroutine")
			case *ast.SelectStmt:
				say(n, "selects")
			case *ast.SendStmt:
				say(n, "sends to a channel")
			case *ast.ChanType:
				say(n, "has a channel type")
			case *ast.UnaryExpr:
				if n.Op == token.ARROW {
					say(n, "receives from a channel")
				}
			case *ast.RangeStmt:
				switch info.TypeOf(n.X).Underlying().(type) {
				case *types.Map:
					say(n, "ranges over a map, whose order is not fixed")
				case *types.Chan:
					say(n, "ranges over a channel")
				}
			case *ast.SelectorExpr:
				if id, ok := n.X.(*ast.Ident); ok {
					pkg, ok := info.Uses[id].(*types.PkgName)
					switch {
					case !ok:
					case pkg.Imported().Path() == "time" && slices.Contains(clockNames, n.Sel.Name):
						say(n, "uses time.%s", n.Sel.Name)
					case pkg.Imported().Path() == "io" && n.Sel.Name != "EOF":
						say(n, "uses io.%s", n.Sel.Name)
					}
				}
			}
			if e, ok := n.(ast.Expr); ok {
				if tv, ok := info.Types[e]; ok && inexact(tv.Type) {
					say(e, "is a float or complex number (%s)", tv.Type)
				}
			}
			return true
		})
	}
	return found
}

func inexact(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsFloat|types.IsComplex) != 0
}

// exports finds the compiled form of what the package and the examples import.
var exports = sync.OnceValues(func() (map[string]string, error) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".", "os", "net", "sync/atomic", "math/rand/v2").Output()
	at := map[string]string{}
	for _, line := range strings.Split(string(out), "\n") {
		if path, file, ok := strings.Cut(line, " "); ok && file != "" {
			at[path] = file
		}
	}
	return at, err
})

// check finds the types in the files.
func check(t *testing.T, fset *token.FileSet, files []*ast.File) *types.Info {
	t.Helper()
	at, err := exports()
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(at[path]) })}
	if _, err := conf.Check("checked", fset, files, info); err != nil {
		t.Fatal(err)
	}
	return info
}

func TestPurity(t *testing.T) {
	fset := token.NewFileSet()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
	}
	if len(files) < 10 {
		t.Fatalf("only %d files were read", len(files))
	}
	for _, s := range impurities(fset, files, check(t, fset, files)) {
		t.Error(s)
	}
}

// TestPurityFinds keeps the walk honest: each impurity alone must be found.
func TestPurityFinds(t *testing.T) {
	for _, tt := range []struct{ imports, body, want string }{
		{"", "go func() {}()", "goroutine"},
		{"", "var c chan int; _ = c", "channel type"},
		{"", "select {}", "selects"},
		{"", "for range map[int]int{} {}", "ranges over a map"},
		{"", "type m map[string]bool; var x m; for k := range x { _ = k }", "ranges over a map"},
		{"", "x := 0.5; _ = x", "float"},
		{`import "time"`, "_ = time.Duration(0).Seconds()", "float"},
		{"", "var x struct{ f float32 }; _ = x", "float"},
		{`import "time"`, "_ = time.Now()", "time.Now"},
		{`import clock "time"`, "_ = clock.Since", "time.Since"},
		{`import "os"`, "_ = os.Args", "imports os"},
		{`import "math/rand/v2"`, "_ = rand.Int()", "imports math/rand"},
		{`import "sync/atomic"`, "var x atomic.Bool; _ = &x", "imports sync"},
		{`import "io"`, "_, _ = io.ReadAll(nil)", "uses io.ReadAll"},
		{`import "net"`, "_ = net.IPv4len", "imports net"},
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", "package x\n"+tt.imports+"\nfunc f() { "+tt.body+" }\n", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files := []*ast.File{f}
		if got := strings.Join(impurities(fset, files, check(t, fset, files)), "\n"); !strings.Contains(got, tt.want) {
			t.Errorf("%s: found %q, want something with %q", tt.body, got, tt.want)
		}
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", "package x\nimport (\n\"net/netip\"\n\"time\"\n)\nvar a netip.Addr\nvar d = 3*time.Second\n", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := impurities(fset, []*ast.File{f}, check(t, fset, []*ast.File{f})); len(got) > 0 {
		t.Errorf("a pure file is called impure: %v", got)
	}
}
