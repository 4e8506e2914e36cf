package integration

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/check"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/manifest"
)

// bucketPolicy reads docs/bucket/require-conditions.json and fills it in.
func bucketPolicy(t *testing.T, bucket string) (p policy) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "bucket", "require-conditions.json"))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(fill(string(text), bucket, "", "")))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p
}

// denies reports whether a policy of denials that knows no condition but Null, as
// AWS describes it, denies a request: all keys of a condition are in the request
// or are not, as it says.
func (p policy) denies(t *testing.T, q *faultproxy.Request) bool {
	action := map[string]string{faultproxy.Put: "s3:PutObject", faultproxy.Copy: "s3:PutObject", faultproxy.Delete: "s3:DeleteObject"}[q.Op]
	headers := map[string]string{"s3:if-match": "If-Match", "s3:if-none-match": "If-None-Match"}
	for _, s := range p.Statement {
		onlyNull := len(s.Condition) == 0 || len(s.Condition) == 1 && len(s.Condition["Null"]) > 0
		if s.Effect != "Deny" || s.Principal["AWS"] != "*" || !onlyNull {
			t.Errorf("%s is more than this test understands", s.Sid)
		}
		if !slices.Contains(s.Action, action) {
			continue
		}
		for _, resource := range s.Resource {
			key, ok := strings.CutSuffix(strings.TrimPrefix(resource, "arn:aws:s3:::"+q.Bucket+"/"), "*")
			if !ok || !strings.HasPrefix(q.Key, key) {
				continue
			}
			all := true
			for name, null := range s.Condition["Null"] {
				all = all && headers[name] != "" && (q.Header.Get(headers[name]) == "") == (null == "true")
			}
			if all {
				return true
			}
		}
	}
	return false
}

// A bucket that takes no write without a condition, and keeps its manifests, takes
// everything that s3log does, also where it will not copy under a condition, and
// nothing of other tools that write blindly or remove a manifest. The server does not know these conditions, so a proxy refuses
// for it.
func TestBucketThatRequiresConditions(t *testing.T) {
	r := newRig(t)
	p := bucketPolicy(t, r.bucket)
	enforce := func() {
		r.proxy.Reset()
		r.proxy.Add(faultproxy.Rule{Times: -1, When: func(q *faultproxy.Request) bool { return p.denies(t, q) },
			Fault: faultproxy.Refuse(http.StatusForbidden, "AccessDenied", "explicit deny in a resource-based policy")})
	}

	enforce()
	client := r.Client(t, func(o *s3.Options) { o.BaseEndpoint = aws.String(r.proxy.URL) })
	for _, key := range []string{manifest.Key("log"), manifest.SegmentPrefix("log") + "x"} {
		for name, in := range map[string]*s3.PutObjectInput{
			"blind":    {},
			"create":   {IfNoneMatch: aws.String("*")},
			"replace":  {IfMatch: aws.String(`"0"`)},
			"no log's": {Key: aws.String("other")},
		} {
			in.Bucket, in.Body = &r.bucket, strings.NewReader("text")
			if in.Key == nil {
				in.Key = aws.String("logs/" + key)
			}
			_, err := client.PutObject(t.Context(), in)
			var code string
			if e, ok := errors.AsType[smithy.APIError](err); ok {
				code = e.ErrorCode()
			}
			if (code == "AccessDenied") != (name == "blind") {
				t.Errorf("%s %s: %v", name, key, err)
			}
		}
		_, err := client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &r.bucket, Key: aws.String("logs/" + key)})
		if (err != nil) != strings.HasPrefix(key, "manifests/") {
			t.Errorf("delete %s: %v", key, err)
		}
		if err := r.direct.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}

	if err := writeAll(t, r, r.open(t, unproved)); err != nil {
		t.Errorf("a writer: %v", err)
	}
	if rep := check.Examine(t.Context(), r.open(t, unproved), check.Options{Rounds: 2}); rep.Err() != nil || rep.Can.Append != check.Yes || rep.Can.Collect != check.Yes {
		t.Errorf("doctor: %v, %s", rep.Err(), rep.Summary())
	}
	header, events := generate(60_000)
	if _, err := backend.New(r.direct, quick).Import(t.Context(), "parent", events, backend.ImportOptions{Header: header}); err != nil {
		t.Fatal(err)
	}
	for child, refuse := range map[string]faultproxy.Fault{
		"copied":  nil,
		"through": faultproxy.Refuse(http.StatusNotImplemented, "NotImplemented", "If-None-Match"),
	} {
		enforce()
		if refuse != nil {
			r.proxy.Add(faultproxy.Rule{Op: faultproxy.Copy, Times: -1, Fault: refuse})
		}
		r.proxy.Take()
		b := backend.New(r.store, quick)
		if _, _, err := b.Fork(t.Context(), "parent", child, backend.ForkOptions{Release: true}); err != nil {
			t.Errorf("fork: %v", err)
		}
		if e := r.proxy.Take(); len(e.Of(faultproxy.Copy, "")) == 0 {
			t.Errorf("%s: nothing was copied: %v", child, e.Counts())
		}
		if rep, err := b.Verify(t.Context(), child, backend.VerifyOptions{}); err != nil || !rep.OK() {
			t.Errorf("%s: %+v, %v", child, rep.Findings, err)
		}
	}
	enforce()
	b := backend.New(r.store, quick)
	if _, err := b.Delete(t.Context(), "parent", backend.AdoptOptions{}); err != nil {
		t.Errorf("rm: %v", err)
	}
	for _, err := range b.GC(t.Context(), backend.GCOptions{}) {
		if err != nil {
			t.Errorf("gc: %v", err)
		}
	}
	r.proxy.Reset() // everything was allowed
}
