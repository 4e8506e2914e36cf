// Package layers checks how the packages of this module may depend on each
// other, and the few rules of style that a program can check. It reads source
// files, of every operating system, and tests nothing that runs.
package layers

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/s3log/s3log"

// layer says what the code of a package, without its tests, may import of this
// module, and what it leaves to others.
type layer struct {
	imports []string // packages of this module
	never   []string // packages of the standard library, with those below them
	except  []string // of these, what it may import all the same
	instead string   // what to do instead of importing one of them
	// goroutines and prints allow a go statement, and fmt.Print and its like.
	goroutines, prints bool
}

const objstore = "backend/objstore"

// program is what a program outside of this module might import: examples are to be
// copied, and nothing of theirs may stay behind.
var program = []string{"backend", objstore, objstore + "/filestore", objstore + "/s3store"}

// layers has a row for each package: commands import backend, backend imports
// seedpath, and so on down to segment; drivers stand beside, on objstore alone.
var layers = map[string]layer{
	"segment": {
		never:   []string{"net", "os", "time", "log", "context", "flag", "io/fs"},
		instead: "segment is pure: take a time as int64 milliseconds, bytes from an io.ReaderAt, and return errors",
	},
	"manifest": {
		imports: []string{"segment", objstore, "internal/words"},
		never:   []string{"net", "os", "log", "flag"},
		instead: "manifest reaches a store through objstore only, and returns errors instead of logging them",
	},
	"seedpath": {
		imports: []string{"manifest", "segment", objstore, "internal/words"},
		never:   []string{"net", "os", "log", "flag"},
		instead: "seedpath is told the time and the manifest, and returns errors",
	},
	"backend": {
		imports:    []string{"seedpath", "manifest", "segment", objstore, "internal/words"},
		never:      []string{"net", "os", "log", "flag"},
		except:     []string{"log/slog"}, // a logger that the caller gives
		instead:    "backend gets a store and Options; environment, flags and printing are cmd/s3logctl's, drivers the caller's",
		goroutines: true,
	},
	"backend/backendtest": {imports: []string{"backend", "seedpath", "manifest", objstore, "internal/plainlog"}, goroutines: true},
	objstore: {
		never:   []string{"net", "os", "log", "flag"},
		instead: "objstore is a contract: what talks to a network or a disk is a driver below it",
	},
	objstore + "/check":        {imports: []string{objstore, "internal/words"}, goroutines: true},
	objstore + "/delaystore":   {imports: []string{objstore}},
	objstore + "/faultstore":   {imports: []string{objstore}, goroutines: true},
	objstore + "/filestore":    {imports: []string{objstore, objstore + "/check"}},
	objstore + "/memstore":     {imports: []string{objstore}},
	objstore + "/objstoretest": {imports: []string{objstore, objstore + "/check"}, goroutines: true},
	objstore + "/s3store":      {imports: []string{objstore, objstore + "/check", "internal/words"}, goroutines: true},
	objstore + "/tracestore":   {imports: []string{objstore}},
	"sessionfile":              {imports: []string{"segment"}, never: []string{"net", "os", "log"}, instead: "sessionfile gets an io.Reader or io.Writer, and returns errors"},
	"sessiongen":               {imports: []string{"segment"}, never: []string{"net", "os", "log"}, instead: "sessiongen is a pure function of its seed"},
	"cmd/s3logctl": {
		imports: []string{
			"backend", "seedpath", "manifest", "segment", "sessionfile", "sessiongen", "internal/bench", "internal/report", "internal/words",
			objstore, objstore + "/check", objstore + "/delaystore", objstore + "/filestore", objstore + "/s3store", objstore + "/tracestore",
		},
		goroutines: true, prints: true,
	},
	"localstack":           {goroutines: true, prints: true}, // its users are other projects' tests, too
	"localstack/container": {imports: []string{"localstack"}, goroutines: true, prints: true},
	"integration":          {},
	// Examples are what others write: on backend, with the drivers below it.
	"examples":            {},
	"examples/agent":      {imports: program, goroutines: true, prints: true},
	"examples/auditor":    {imports: program, prints: true},
	"examples/compaction": {imports: program, prints: true},
	"examples/function":   {imports: program, prints: true},
	"internal/faultproxy": {goroutines: true},
	"internal/bench": {
		imports:    []string{"backend", "manifest", "sessiongen", objstore, objstore + "/tracestore"},
		never:      []string{"net", "os", "log", "flag"},
		instead:    "internal/bench gets a store and returns what it has measured",
		goroutines: true,
	},
	"internal/fixtures": {},
	"internal/layers":   {},
	"internal/licences": {prints: true},
	"internal/mounts":   {},
	"internal/plainlog": {},
	"internal/report": {
		imports: []string{"backend", "seedpath", "manifest", "segment", "internal/words"},
		never:   []string{"net", "os", "log", "flag"},
		instead: "internal/report gets a Reader and an io.Writer; files and printing are cmd/s3logctl's",
	},
	"internal/words": {},
	"simulation":     {},
}

// outside says which packages may import which other modules. What is not
// listed is for tests only.
var outside = map[string][]string{
	"github.com/aws/aws-sdk-go-v2":       {objstore + "/s3store", "localstack", "localstack/container", "cmd/s3logctl"},
	"github.com/aws/smithy-go":           {objstore + "/s3store", "localstack"},
	"github.com/go-json-experiment/json": {"segment", "manifest", "seedpath", "backend", "sessionfile", "sessiongen", "internal/report", "cmd/s3logctl"},
	"github.com/google/uuid":             {"manifest", "sessiongen", "localstack"},
	"github.com/klauspost/compress":      {"segment", "sessionfile", "internal/bench"},
	"github.com/spf13/cobra":             {"cmd/s3logctl"},
	"github.com/spf13/pflag":             {"cmd/s3logctl"},
	"github.com/testcontainers":          {"localstack/container"},
	"github.com/google/go-cmp":           {objstore + "/objstoretest"},
	"github.com/docker":                  {"localstack/container"},
	"github.com/moby":                    {"localstack/container"},
	"github.com/transparency-dev/merkle": {"manifest", "backend"},
	"github.com/versity/versitygw":       {"localstack"},
	"go.opentelemetry.io/otel":           {"cmd/s3logctl", "backend", "examples/agent"},
	"golang.org/x/sync":                  {"backend", objstore + "/s3store", "cmd/s3logctl"},
	"golang.org/x/sys":                   {objstore + "/filestore"},
	"golang.org/x/term":                  {"cmd/s3logctl"},
}

// maxLines is how long a source file may be.
const maxLines = 600

// source is one Go file of the module.
type source struct {
	name  string // from the module's root, with slashes
	pkg   string // directory
	test  bool
	lines int
	ast   *ast.File
}

// sources parses every Go file of the module.
func sources(t *testing.T) (all []source) {
	t.Helper()
	fset := token.NewFileSet()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if name != root && (strings.HasPrefix(base, ".") || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, rel, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		all = append(all, source{
			name: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"),
			lines: bytes.Count(text, []byte{'\n'}), ast: file,
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("%d Go files found: this is not the whole module", len(all))
	}
	return all
}

// below reports whether a package path is dir or below it.
func below(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// imports says what is wrong with the imports of a file.
func (s *source) imports() (wrong []string) {
	rule, ok := layers[s.pkg]
	if !ok {
		return []string{fmt.Sprintf("package %s has no row in layers: add one, with what it may import", s.pkg)}
	}
	if s.test {
		return nil
	}
	for _, spec := range s.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return []string{err.Error()}
		}
		own, isOwn := strings.CutPrefix(p, module+"/")
		first, _, _ := strings.Cut(p, "/")
		switch {
		case isOwn:
			if !slices.Contains(rule.imports, own) {
				wrong = append(wrong, fmt.Sprintf("it imports %s; of this module %s may import %s", own, s.pkg, orNothing(rule.imports)))
			}
		case strings.Contains(first, "."):
			if why := checkOutside(s.pkg, p); why != "" {
				wrong = append(wrong, why)
			}
		default:
			if !slices.Contains(rule.except, p) && slices.ContainsFunc(rule.never, func(dir string) bool { return below(p, dir) }) {
				wrong = append(wrong, fmt.Sprintf("it imports %s: %s", p, rule.instead))
			}
		}
	}
	return wrong
}

// checkOutside says why pkg may not import p, of another module.
func checkOutside(pkg, p string) string {
	for mod, users := range outside {
		if below(p, mod) {
			if slices.Contains(users, pkg) {
				return ""
			}
			return fmt.Sprintf("it imports %s, which is for %s only", p, strings.Join(users, ", "))
		}
	}
	return fmt.Sprintf("it imports %s: that module is for tests; what a package needs of it gets a row in outside", p)
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// statements says what a file does that its package leaves to others.
func (s *source) statements() (wrong []string) {
	rule := layers[s.pkg]
	if s.test {
		return nil
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if !rule.goroutines {
				wrong = append(wrong, fmt.Sprintf("%s starts no goroutines; background work is backend's", s.pkg))
			}
		case *ast.CallExpr:
			if !rule.goroutines && calls(n, "any", "Go") {
				wrong = append(wrong, fmt.Sprintf("%s starts no goroutines; background work is backend's", s.pkg))
			}
			if !rule.prints && (calls(n, "fmt", "Print", "Printf", "Println") || calls(n, "builtin", "print", "println")) {
				wrong = append(wrong, fmt.Sprintf("%s prints nothing; return what is to be said, cmd/s3logctl prints it", s.pkg))
			}
		}
		return true
	})
	return wrong
}

// calls reports whether a call is of one of the names in a package; of a method
// of anything, where pkg is "any".
func calls(call *ast.CallExpr, pkg string, names ...string) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return pkg == "builtin" && slices.Contains(names, f.Name)
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		return (pkg == "any" || ok && x.Name == pkg) && slices.Contains(names, f.Sel.Name)
	}
	return false
}

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		for _, wrong := range s.imports() {
			t.Errorf("%s: %s", s.name, wrong)
		}
	}
}

func TestStatements(t *testing.T) {
	for _, s := range sources(t) {
		for _, wrong := range s.statements() {
			t.Errorf("%s: %s", s.name, wrong)
		}
	}
}

// TestRulesCatch breaks each rule once.
func TestRulesCatch(t *testing.T) {
	for _, tt := range []struct{ pkg, body, want string }{
		{"segment", `import "io"`, ""},
		{"segment", `import "time"`, "segment is pure"},
		{"segment", `import "log/slog"`, "segment is pure"},
		{"segment", `import "net/http"`, "segment is pure"},
		{"segment", `import "github.com/s3log/s3log/backend/objstore"`, "segment may import nothing"},
		{"segment", `func f() { go f() }`, "starts no goroutines"},
		{"manifest", `import "github.com/s3log/s3log/segment"`, ""},
		{"manifest", `import "github.com/s3log/s3log/backend"`, "manifest may import segment, backend/objstore"},
		{"manifest", `import "github.com/aws/aws-sdk-go-v2/aws"`, "for backend/objstore/s3store, localstack,"},
		{"manifest", `func f(wg W) { wg.Go(f) }`, "starts no goroutines"},
		{"backend", `import "log/slog"`, ""},
		{"backend", `import "log"`, "environment, flags and printing are cmd/s3logctl's"},
		{"backend", `import "go.opentelemetry.io/otel/trace"`, ""},
		{"manifest", `import "go.opentelemetry.io/otel/trace"`, "for cmd/s3logctl, backend, examples/agent only"},
		{"backend", `import "os"`, "environment, flags and printing are cmd/s3logctl's"},
		{"backend", `import "github.com/s3log/s3log/backend/objstore/filestore"`, "backend may import seedpath, manifest, segment, backend/objstore"},
		{"backend", `import "github.com/aws/smithy-go"`, "only"},
		{"backend", `import "fmt"; func f() { fmt.Println() }`, "prints nothing"},
		{"seedpath", `import "pgregory.net/rapid"`, "that module is for tests"},
		{"localstack", `import "github.com/s3log/s3log/backend"`, "localstack may import nothing"},
		{"cmd/s3logctl", `import "fmt"; func f() { go fmt.Println() }`, ""},
		{"newpackage", `import "fmt"`, "has no row in layers"},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+tt.body, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s := source{pkg: tt.pkg, ast: file}
		wrong := strings.Join(append(s.imports(), s.statements()...), "; ")
		if (wrong == "") != (tt.want == "") || !strings.Contains(wrong, tt.want) {
			t.Errorf("%s with %s: %q, want %q", tt.pkg, tt.body, wrong, tt.want)
		}
	}
}

// TestLength keeps files short enough to be read as a whole.
func TestLength(t *testing.T) {
	for _, s := range sources(t) {
		if s.lines > maxLines {
			t.Errorf("%s has %d lines, at most %d are allowed: split it by what its parts do", s.name, s.lines, maxLines)
		}
	}
}

// TestLibraryIsLight: who imports backend with the embedded store builds
// neither an SDK, nor a container client, nor a command line.
func TestLibraryIsLight(t *testing.T) {
	for _, pkg := range []string{"backend", objstore + "/filestore", "sessionfile"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+pkg)
		cmd.Dir = filepath.Join("..", "..")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list -deps ./%s: %v", pkg, err)
		}
		for p := range strings.Lines(string(out)) {
			p = strings.TrimSpace(p)
			for _, heavy := range []string{"go.opentelemetry.io/otel/sdk", "github.com/aws", "github.com/docker", "github.com/moby", "github.com/testcontainers", "github.com/versity", "github.com/spf13"} {
				if below(p, heavy) {
					t.Errorf("%s depends on %s: whoever needs it imports its driver, localstack or the command", pkg, p)
				}
			}
		}
	}
}
