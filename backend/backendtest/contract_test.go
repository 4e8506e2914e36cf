package backendtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docs/contract.md has a row for each scenario of the contract, and names every
// test of this package, in the rows whose numbers are in its name.
func TestContractIsMapped(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "contract.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string][]string{} // numbers of the rows by test
	for _, group := range []struct {
		heading, name string
		rows          int
	}{{"## Persistence", "persistence", 12}, {"## Coordinator", "coordinator", 40}} {
		_, section, ok := strings.Cut(string(text), group.heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		rows := regexp.MustCompile(`(?m)^\| (\d+) \| .* \| (.*) \|$`).FindAllStringSubmatch(section, -1)
		if !ok || len(rows) != group.rows {
			t.Errorf("%s: %d rows", group.heading, len(rows))
		}
		for i, row := range rows {
			if row[1] != strconv.Itoa(i+1) {
				t.Errorf("%s: row %s at place %d", group.heading, row[1], i+1)
			}
			tests := regexp.MustCompile("`((?:persistence|coordinator)/[^`]*)`").FindAllStringSubmatch(row[2], -1)
			if len(tests) == 0 && !strings.HasPrefix(row[2], "does not apply: ") {
				t.Errorf("%s, row %s: neither a test nor a reason", group.heading, row[1])
			}
			for _, test := range tests {
				named[test[1]] = append(named[test[1]], fmt.Sprintf("%s/%02d", group.name, i+1))
			}
		}
	}
	for group, scenarios := range map[string][]scenario{"persistence": persistence, "coordinator": coordinator} {
		for _, s := range scenarios {
			rows, ok := named[group+"/"+s.name]
			if !ok {
				t.Errorf("%s/%s is in no row", group, s.name)
			}
			delete(named, group+"/"+s.name)
			for number := range strings.FieldsSeq(regexp.MustCompile(`^(\d\d )+`).FindString(s.name)) {
				if !slices.Contains(rows, group+"/"+number) {
					t.Errorf("%s/%s is not in row %s", group, s.name, number)
				}
			}
		}
	}
	for test := range named {
		t.Errorf("there is no %s", test)
	}
}
