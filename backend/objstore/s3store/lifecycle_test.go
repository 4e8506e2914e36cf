package s3store

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore/check"
)

// recommended is the configuration that docs/bucket/lifecycle.json holds, as the
// AWS command line takes it, and as S3 gives it back.
type recommended struct {
	XMLName xml.Name          `json:"-" xml:"LifecycleConfiguration"`
	Rules   []recommendedRule `xml:"Rule"`
}

type recommendedRule struct {
	ID, Status                  string
	Filter                      struct{ Prefix string }
	Expiration                  *recommendedExpiration
	NoncurrentVersionExpiration *struct{ NoncurrentDays int }
}

type recommendedExpiration struct {
	Days                      int  `xml:",omitempty"`
	ExpiredObjectDeleteMarker bool `xml:",omitempty"`
}

// The lifecycle rules that the documents recommend remove former versions, and
// nothing of a log; each of them widened to what it must not reach is found.
func TestRecommendedLifecycleIsSafe(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "bucket", "lifecycle.json"))
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.ReplaceAll(string(text), "PREFIX/", "p/")) // the prefix of these tests' stores
	read := func() (l recommended) {
		dec := json.NewDecoder(strings.NewReader(string(text)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	judge := func(l recommended) map[string]check.Finding {
		rules, err := xml.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		return newBucket(map[string]string{
			"lifecycle":  string(rules),
			"versioning": `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`,
		}).describe(t, false)
	}

	good := judge(read())
	if f := good[nameLifecycle]; f.Status != check.OK || f.Seen != "3 rules, none of which removes or archives objects of logs" {
		t.Errorf("%+v", f)
	}
	if f := good[nameVersioning]; f.Status != check.OK || f.Seen != "enabled; rules remove former versions" {
		t.Errorf("%+v", f)
	}
	for i := range read().Rules {
		l := read()
		l.Rules[i].Expiration = &recommendedExpiration{Days: 30}
		l.Rules[i].Filter.Prefix = ""
		if f := judge(l)[nameLifecycle]; f.Status != check.Failed || !f.Unsafe {
			t.Errorf("rule %d for all keys, with an end: %+v", i, f)
		}
		l = read()
		l.Rules = append(l.Rules[:i], l.Rules[i+1:]...)
		if f := judge(l)[nameVersioning]; (f.Status == check.Warning) != (i < 2) {
			t.Errorf("without rule %d: %+v", i, f)
		}
	}
}
