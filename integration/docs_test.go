package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents reads every Markdown file of the module.
func documents(t *testing.T) map[string]string {
	t.Helper()
	docs := make(map[string]string)
	root := ".."
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != root && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return filepath.SkipDir
			}
		case strings.HasSuffix(name, ".md"):
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			docs[name] = string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if docs[filepath.Join(root, "README.md")] == "" {
		t.Fatal("no README.md")
	}
	return docs
}

var (
	codeBlock = regexp.MustCompile("(?s)\n```.*?\n```")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are what links to the headings of a document look like.
func anchors(text string) map[string]bool {
	found := make(map[string]bool)
	for _, h := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		found[strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return found
}

// TestLinks follows every link from one document to another file or heading.
func TestLinks(t *testing.T) {
	docs := documents(t)
	for name, text := range docs {
		for _, m := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = filepath.Join(filepath.Dir(name), file)
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s links to %s, which is not there", name, m[1])
					continue
				}
			}
			if anchor != "" && !anchors(docs[target])[anchor] {
				t.Errorf("%s links to %s, and there is no such heading", name, m[1])
			}
		}
	}
}

// TestNamedTestsExist looks for every test that a document names.
func TestNamedTestsExist(t *testing.T) {
	tests := make(map[string]bool)
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w+)\(`).FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range documents(t) {
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Z]\\w*)`").FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, and there is no such test", name, m[1])
			}
		}
	}
}

// TestGoCodeIsCompiled: the Go code that documents show is in some file of the
// module, as it is or indented, and so is compiled, and run if it is a test's.
func TestGoCodeIsCompiled(t *testing.T) {
	var sources []string
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		text, err := os.ReadFile(name)
		sources = append(sources, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for name, text := range documents(t) {
		for _, b := range regexp.MustCompile("(?s)\n```go\n(.*?)```\n").FindAllStringSubmatch(text, -1) {
			shown++
			var indented strings.Builder
			for line := range strings.Lines(b[1]) {
				if line != "\n" {
					indented.WriteByte('\t')
				}
				indented.WriteString(line)
			}
			if !slices.ContainsFunc(sources, func(source string) bool {
				return strings.Contains(source, "\n"+b[1]) || strings.Contains(source, indented.String())
			}) {
				t.Errorf("no file holds what %s shows:\n%s", name, b[1])
			}
		}
	}
	if shown < 5 {
		t.Errorf("only %d pieces of Go code were found", shown)
	}
}

// declared are the names that the packages of the module declare outside their
// tests: "package.Name", and "package.Type.Name" for methods and fields.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != ".." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := file.Name.Name
		names[pkg] = true
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[pkg+"."+receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names[pkg+"."+n.Name] = true
						}
					case *ast.TypeSpec:
						names[pkg+"."+s.Name.Name] = true
						for _, member := range members(s.Type) {
							names[pkg+"."+s.Name.Name+"."+member] = true
						}
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// receiver is "Type." for a method.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	for {
		switch of := typ.(type) {
		case *ast.StarExpr:
			typ = of.X
		case *ast.IndexExpr:
			typ = of.X
		case *ast.Ident:
			return of.Name + "."
		default:
			return ""
		}
	}
}

// members are the fields of a struct and the methods of an interface.
func members(typ ast.Expr) (names []string) {
	var list *ast.FieldList
	switch typ := typ.(type) {
	case *ast.StructType:
		list = typ.Fields
	case *ast.InterfaceType:
		list = typ.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// TestNamedDeclarationsExist looks for every function, type and member of ours
// that a document names with its package.
func TestNamedDeclarationsExist(t *testing.T) {
	names := declared(t)
	found := 0
	for doc, text := range documents(t) {
		for _, m := range regexp.MustCompile("`([a-z][a-z0-9]*)((?:\\.[A-Za-z]\\w*)+)[`(]").FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			if !names[m[1]] {
				continue // no package of ours
			}
			found++
			if !names[m[1]+m[2]] {
				t.Errorf("%s names %s, and there is no such declaration", doc, m[1]+m[2])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d declarations are named", found)
	}
}

// TestExploredRules: the table of rules in docs/consistency.md names, for every
// rule, where it is and with what it was seen to be needed, and leaves out none
// of the explorers' broken rules.
func TestExploredRules(t *testing.T) {
	_, text, ok := strings.Cut(documents(t)[filepath.Join("..", "docs", "consistency.md")], "\n| rule | where | without it |\n|---|---|---|\n")
	if !ok {
		t.Fatal("no table of rules")
	}
	table, _, _ := strings.Cut(text, "\n\n")
	broken := make(map[string]int) // 1: of a broken rule; 2: it is in the table
	for _, name := range []string{"manifest/explore_variants_test.go", "manifest/explore_removal_variants_test.go", "backend/explore_variants_test.go"} {
		source, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(source), "func TestUnneededRules(")
		for _, m := range regexp.MustCompile(`(?m)^\t\t\{"([^"]+)", "[^"]+", `).FindAllStringSubmatch(text, -1) {
			broken[strings.TrimSpace(strings.Split(m[1], " [")[0])] = 1
		}
	}
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), " | ")
		if len(cells) != 3 || !strings.Contains(cells[1], "`") {
			t.Errorf("not a rule, where it is, and what is found without it: %s", row)
			continue
		}
		for name := range strings.SplitSeq(cells[2], " · ") {
			if name = strings.TrimSpace(name); broken[name] == 0 {
				t.Errorf("no explorer leaves out %q", name)
			}
			broken[name] = 2
		}
	}
	for name, in := range broken {
		if in == 1 && !strings.HasPrefix(name, "the same") { // as the one before it
			t.Errorf("the table lacks %q", name)
		}
	}
}
