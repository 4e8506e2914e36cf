package integration

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// caseIDs are the cases that docs/cases.md has to have a row for. The list is
// fixed: a case that is dropped is missed.
func caseIDs() (ids []string) {
	for _, kind := range []struct {
		letter string
		digits int // of the number, at least
		n      int
	}{{"A", 2, 30}, {"B", 2, 17}, {"C", 2, 22}, {"F", 1, 10}, {"R", 1, 6}} {
		for n := 1; n <= kind.n; n++ {
			ids = append(ids, fmt.Sprintf("%s-%0*d", kind.letter, kind.digits, n))
		}
	}
	return ids
}

// namedTests are all tests of the module that are named after cases, by case.
func namedTests(t *testing.T) map[string][]string {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test((?:[ABC]\d\d)+|FailureMode(\d+))[A-Z]\w*)\(`)
	number := regexp.MustCompile(`([ABC])(\d\d)`)
	found := map[string][]string{}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			if m[3] != "" {
				found["F-"+m[3]] = append(found["F-"+m[3]], m[1])
			}
			for _, c := range number.FindAllStringSubmatch(m[2], -1) {
				id := c[1] + "-" + c[2]
				found[id] = append(found[id], m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestCasesAreComplete: every known case has a row in docs/cases.md, and a test
// that is named after it; every such test is in its row. (That those exist which
// a row names, TestNamedTestsExist sees.)
func TestCasesAreComplete(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{} // cells
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		id := strings.TrimSpace(cells[0])
		if !regexp.MustCompile(`^[A-Z]-\d+$`).MatchString(id) {
			continue
		}
		if rows[id] != nil {
			t.Errorf("%s has two rows", id)
		}
		rows[id] = cells
	}
	ids, tests := caseIDs(), namedTests(t)
	for _, id := range ids {
		cells := rows[id]
		if len(cells) != 5 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
			t.Errorf("%s has the row %q, want id, case, what happens, where it was seen, tests", id, cells)
			continue
		}
		named := regexp.MustCompile("`(Test\\w+)`").FindAllString(cells[4], -1)
		if len(named) == 0 {
			t.Errorf("%s has no test", id)
		}
		if id[0] != 'R' && len(tests[id]) == 0 {
			t.Errorf("no test is named after %s", id)
		}
		for _, test := range tests[id] {
			if !slices.Contains(named, "`"+test+"`") {
				t.Errorf("%s is not in the row of %s", test, id)
			}
		}
	}
	for id := range rows {
		if !slices.Contains(ids, id) {
			t.Errorf("docs/cases.md has a row for %s, which is no case", id)
		}
	}
	for id, named := range tests {
		if !slices.Contains(ids, id) {
			t.Errorf("%q are named after %s, which is no case", named, id)
		}
	}
}
