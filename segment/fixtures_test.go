package segment_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/s3log/s3log/internal/fixtures"
	"github.com/s3log/s3log/segment"
)

// fixtureRows returns the lines of real session files, by file.
func fixtureRows(t *testing.T) map[string][][]byte {
	t.Helper()
	rows := make(map[string][][]byte)
	for _, file := range fixtures.Files(t, "sessions") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows[filepath.Base(file)] = bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	}
	return rows
}

// Real events are accepted, come back byte for byte, and mean something where
// s3log knows their types.
func TestFixtures(t *testing.T) {
	seen := make(map[string]int)
	events := 0
	for file, rows := range fixtureRows(t) {
		for i, row := range rows {
			var tag struct {
				Seq  *int64 `json:"seq"`
				Type string `json:"type"`
			}
			if err := json.Unmarshal(row, &tag); err != nil {
				t.Fatalf("%s, line %d: %v", file, i+1, err)
			}
			p, err := segment.Prepare(row, 0, segment.Limits{})
			if tag.Seq == nil { // the header and packed rows
				if err == nil {
					t.Errorf("%s, line %d: a row of type %s is no event, but was accepted", file, i+1, tag.Type)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, line %d: %v", file, i+1, err)
				continue
			}
			e, err := p.Assign(*tag.Seq)
			if err != nil {
				t.Errorf("%s, line %d: %v", file, i+1, err)
				continue
			}
			if !bytes.Equal(e.Line, row) {
				t.Errorf("%s, line %d was changed", file, i+1)
			}
			got := segment.Project(e)
			if (got.Kind == segment.KindOpaque) == slices.Contains(projectedTypes, e.Type) {
				t.Errorf("%s, line %d: type %s is %v", file, i+1, e.Type, got.Kind)
			}
			seen[e.Type]++
			events++
		}
	}
	for _, typ := range projectedTypes {
		if seen[typ] == 0 {
			t.Logf("no event of type %s in the fixtures", typ)
		}
	}
	t.Logf("%d events", events)
}
