package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// TestReadmeIsAnExample: the code that README.md shows is that of an example,
// which is compiled and run.
func TestReadmeIsAnExample(t *testing.T) {
	blocks := regexp.MustCompile("(?s)\n```go\n(.*?)```\n").FindAllStringSubmatch(documents(t)[filepath.Join("..", "README.md")], -1)
	if len(blocks) == 0 {
		t.Fatal("README.md shows no Go code")
	}
	source, err := os.ReadFile(filepath.Join("..", "backend", "example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		var indented strings.Builder
		for line := range strings.Lines(b[1]) {
			if line != "\n" {
				indented.WriteByte('\t')
			}
			indented.WriteString(line)
		}
		if !strings.Contains(string(source), indented.String()) {
			t.Errorf("backend/example_test.go does not hold what README.md shows:\n%s", b[1])
		}
	}
}
