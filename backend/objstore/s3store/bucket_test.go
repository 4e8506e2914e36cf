package s3store

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore/check"
)

// bucket is a server whose replies about the bucket are scripted, by the query
// that asks; what is not scripted is not there. Objects are kept, and sums of
// bodies are looked at unless the test wants otherwise.
type bucket struct {
	settings map[string]string // "CODE" with the status before it, or XML
	region   string            // of the bucket, for replies about another
	ignores  string            // header that is not looked at
	framed   bool              // trailers become part of the object
	etag     func(body []byte) string

	mu      sync.Mutex
	objects map[string][]byte
}

func newBucket(settings map[string]string) *bucket {
	return &bucket{settings: settings, objects: map[string][]byte{}, etag: func(body []byte) string { return fmt.Sprintf(`"%x"`, md5.Sum(body)) }}
}

func (b *bucket) serve(_ int, w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.region != "" {
		w.Header().Set("X-Amz-Bucket-Region", b.region)
		fail(w, http.StatusMovedPermanently, "PermanentRedirect", "")
		return
	}
	for query, reply := range b.settings {
		if r.Method != http.MethodGet || !r.URL.Query().Has(query) {
			continue
		}
		var status int
		var code string
		if n, _ := fmt.Sscanf(reply, "%d %s", &status, &code); n == 2 {
			fail(w, status, code, "")
			return
		}
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, reply)
		return
	}
	switch path := r.URL.Path; r.Method {
	case http.MethodGet:
		if o, ok := b.objects[path]; ok {
			body(w, b.etag(o), string(o))
			return
		}
		fail(w, http.StatusNotFound, "NoSuchKey", "")
	case http.MethodPut:
		got := readAll(r)
		if r.Header.Get("X-Amz-Trailer") != "" && !b.framed {
			chunk := string(got)
			_, chunk, _ = strings.Cut(chunk, "\r\n")
			chunk, _, _ = strings.Cut(chunk, "\r\n0\r\n")
			got = []byte(chunk)
		}
		sum5 := md5.Sum(got)
		sum := crc32.Checksum(got, castagnoli)
		for name, want := range map[string]string{
			"Content-Md5":           base64.StdEncoding.EncodeToString(sum5[:]),
			"X-Amz-Checksum-Crc32c": base64.StdEncoding.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}),
		} {
			if h := r.Header.Get(name); h != "" && h != want && name != b.ignores {
				fail(w, http.StatusBadRequest, "BadDigest", "")
				return
			}
		}
		b.objects[path] = got
		ok(w, b.etag(got))
	case http.MethodDelete:
		delete(b.objects, path)
		w.WriteHeader(http.StatusNoContent)
	}
}

// describe asks the store about its place, and cleans up as an examination does.
func (b *bucket) describe(t *testing.T, write bool, change ...func(*Config)) map[string]check.Finding {
	t.Helper()
	return b.describeOn(t, serve(t, b.serve), write, change...)
}

func (b *bucket) describeOn(t *testing.T, srv *server, write bool, change ...func(*Config)) map[string]check.Finding {
	t.Helper()
	s := srv.open(t, change...)
	wrote := map[string]bool{}
	d := s.Describe(t.Context(), check.Scope{Write: write, Probe: "probe/0", Wrote: func(key string) { wrote["/b/p/"+key] = true }})
	if d.Trusted || d.Name != s.String() || d.Nowhere.IsZero() {
		t.Errorf("%+v", d)
	}
	for path := range b.objects {
		if !wrote[path] {
			t.Errorf("%s was written, and nobody was told", path)
		}
	}
	if !write {
		for _, r := range srv.requests() {
			if r.method != http.MethodGet {
				t.Errorf("%s %s", r.method, r.path)
			}
		}
	}
	all := map[string]check.Finding{"": {Name: fmt.Sprint(d.Markers)}}
	for _, f := range d.Findings {
		all[f.Name] = f
	}
	return all
}

func says(t *testing.T, f check.Finding, status check.Status, text string) {
	t.Helper()
	if f.Status != status || !strings.Contains(f.Seen+"\n"+f.Means+"\n"+f.Do, text) {
		t.Errorf("%+v, want %s with %q", f, status, text)
	}
}

const (
	enabled   = `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`
	suspended = `<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>`
	never     = `<VersioningConfiguration/>`
)

func lifecycle(rules ...string) string {
	return "<LifecycleConfiguration>" + strings.Join(rules, "") + "</LifecycleConfiguration>"
}

func rule(id, where, what string) string {
	return "<Rule><ID>" + id + "</ID><Status>Enabled</Status>" + where + what + "</Rule>"
}

func prefix(p string) string { return "<Filter><Prefix>" + p + "</Prefix></Filter>" }

const (
	expire30   = "<Expiration><Days>30</Days></Expiration>"
	expireDate = "<Expiration><Date>2031-02-03T00:00:00Z</Date></Expiration>"
	markers    = "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"
	noncurrent = "<NoncurrentVersionExpiration><NoncurrentDays>7</NoncurrentDays></NoncurrentVersionExpiration>"
	deep       = "<Transition><Days>90</Days><StorageClass>DEEP_ARCHIVE</StorageClass></Transition>"
	ia         = "<Transition><Days>90</Days><StorageClass>STANDARD_IA</StorageClass></Transition>"
)

// A bucket as AWS has it, with nothing set: all is well.
func TestDescribePlainBucket(t *testing.T) {
	b := newBucket(map[string]string{
		"versioning": never, "lifecycle": "404 NoSuchLifecycleConfiguration",
		"object-lock": "404 ObjectLockConfigurationNotFoundError", "encryption": "404 ServerSideEncryptionConfigurationNotFoundError",
	})
	got := b.describe(t, true)
	for name, seen := range map[string]string{
		"region": "signed for us-east-1", nameVersioning: "off", nameLifecycle: "no rules", nameLock: "off", nameEncryption: "no default",
		"etag": "the MD5 of the body", "checksum": "is refused; a body",
	} {
		says(t, got[name], check.OK, seen)
	}
	says(t, got["trailers"], check.Skipped, "https")
	if got[""].Name != fmt.Sprint(check.No) {
		t.Errorf("markers: %s", got[""].Name)
	}
}

func TestDescribeVersioning(t *testing.T) {
	covered := lifecycle(rule("m", prefix("p/manifests/"), noncurrent), rule("s", prefix("p/seg"), noncurrent))
	for name, tt := range map[string]struct {
		versioning, lifecycle string
		status                check.Status
		seen                  string
		markers               check.Answer
	}{
		"enabled, no rules":         {enabled, "404 NoSuchLifecycleConfiguration", check.Warning, "below p/manifests/ and p/segments/", check.NotKnown},
		"enabled, rules":            {enabled, covered, check.OK, "rules remove former versions", check.NotKnown},
		"enabled, one rule for all": {enabled, lifecycle(rule("x", prefix(""), noncurrent)), check.OK, "rules remove", check.NotKnown},
		"enabled, half":             {enabled, lifecycle(rule("m", prefix("p/manifests/"), noncurrent)), check.Warning, "no rule removes former versions below p/segments/", check.NotKnown},
		"enabled, of a part":        {enabled, lifecycle(rule("m", prefix("p/manifests/a"), noncurrent)), check.Warning, "below p/manifests/ and", check.NotKnown},
		"enabled, by size":          {enabled, lifecycle(rule("m", "<Filter><ObjectSizeGreaterThan>1000</ObjectSizeGreaterThan></Filter>", noncurrent)), check.Warning, "NoncurrentVersionExpiration", check.NotKnown},
		"enabled, rule is off":      {enabled, strings.ReplaceAll(covered, "Enabled", "Disabled"), check.Warning, "no rule", check.NotKnown},
		"enabled, rules are secret": {enabled, "403 AccessDenied", check.Warning, "whether rules remove former versions is not known", check.NotKnown},
		"suspended":                 {suspended, "404 NoSuchLifecycleConfiguration", check.OK, "suspended", check.NotKnown},
		"secret":                    {"403 AccessDenied", "404 NoSuchLifecycleConfiguration", check.Unknown, "s3:GetBucketVersioning", check.NotKnown},
		"unknown to the server":     {"501 NotImplemented", "501 NotImplemented", check.Skipped, "no such setting", check.NotKnown},
	} {
		t.Run(name, func(t *testing.T) {
			got := newBucket(map[string]string{"versioning": tt.versioning, "lifecycle": tt.lifecycle}).describe(t, false)
			says(t, got[nameVersioning], tt.status, tt.seen)
			if got[""].Name != fmt.Sprint(tt.markers) || got[nameVersioning].Unsafe {
				t.Errorf("markers: %s, %+v", got[""].Name, got[nameVersioning])
			}
		})
	}
	t.Run("secret, but deleting leaves a marker", func(t *testing.T) {
		b := newBucket(map[string]string{"versioning": "403 AccessDenied", "lifecycle": "403 AccessDenied"})
		srv := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				w.Header().Set("X-Amz-Delete-Marker", "true")
			}
			b.serve(n, w, r)
		})
		s := srv.open(t)
		if err := s.Delete(t.Context(), "probe/1"); err != nil {
			t.Fatal(err)
		}
		d := s.Describe(t.Context(), check.Scope{})
		if d.Markers != check.Yes {
			t.Errorf("markers: %v", d.Markers)
		}
		for _, f := range d.Findings {
			if f.Name == nameVersioning {
				says(t, f, check.Warning, "enabled, as what deleting leaves behind shows")
			}
		}
	})
}

func TestDescribeLifecycle(t *testing.T) {
	for name, tt := range map[string]struct {
		rules  string
		status check.Status
		seen   string
	}{
		"expires everything":      {rule("all", prefix(""), expire30), check.Failed, `rule "all" deletes what is below p/manifests/ 30 days after it was written; rule "all" deletes what is below p/segments/ 30 days`},
		"expires ours":            {rule("ours", prefix("p/"), expire30), check.Failed, "below p/segments/"},
		"expires some logs":       {rule("some", prefix("p/manifests/team"), expire30), check.Failed, "below p/manifests/ 30 days"},
		"expires on a day":        {rule("day", prefix("p/seg"), expireDate), check.Failed, "below p/segments/ on 2031-02-03"},
		"of old, by prefix":       {rule("old", "<Prefix>p/</Prefix>", expire30), check.Failed, "30 days"},
		"by size":                 {rule("big", "<Filter><ObjectSizeGreaterThan>1000</ObjectSizeGreaterThan></Filter>", expire30), check.Failed, "30 days"},
		"by prefix and size":      {rule("big", "<Filter><And><Prefix>p/seg</Prefix><ObjectSizeGreaterThan>1000</ObjectSizeGreaterThan></And></Filter>", expire30), check.Failed, "30 days"},
		"expires others":          {rule("others", prefix("q/"), expire30), check.OK, "1 rule, none of which"},
		"expires probes":          {rule("probes", prefix("p/probe/"), expire30), check.OK, "none of which"},
		"by tag":                  {rule("tag", "<Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter>", expire30), check.OK, "none of which"},
		"by prefix and tag":       {rule("tag", "<Filter><And><Prefix>p/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter>", expire30), check.OK, "none of which"},
		"is off":                  {strings.Replace(rule("off", prefix(""), expire30), "Enabled", "Disabled", 1), check.OK, "none of which"},
		"removes delete markers":  {rule("markers", prefix(""), markers), check.OK, "none of which"},
		"removes former versions": {rule("former", prefix(""), noncurrent), check.OK, "none of which"},
		"archives":                {rule("cold", prefix(""), deep), check.Warning, "to DEEP_ARCHIVE"},
		"moves, readably":         {rule("cool", prefix(""), ia), check.OK, "none of which"},
	} {
		t.Run(name, func(t *testing.T) {
			got := newBucket(map[string]string{"versioning": never, "lifecycle": lifecycle(tt.rules)}).describe(t, false)
			says(t, got[nameLifecycle], tt.status, tt.seen)
			if got[nameLifecycle].Unsafe != (tt.status == check.Failed) {
				t.Errorf("%+v", got[nameLifecycle])
			}
		})
	}
	got := newBucket(map[string]string{"versioning": never, "lifecycle": "403 AccessDenied"}).describe(t, false)
	says(t, got[nameLifecycle], check.Unknown, "s3:GetLifecycleConfiguration")
	got = newBucket(map[string]string{"versioning": never, "lifecycle": "400 Nonsense"}).describe(t, false)
	says(t, got[nameLifecycle], check.Skipped, "Nonsense, HTTP 400") // which it will say tomorrow, too
	got = newBucket(map[string]string{"versioning": never, "lifecycle": "500 Nonsense"}).describe(t, false)
	says(t, got[nameLifecycle], check.Unknown, "Nonsense, HTTP 500")
}

func TestDescribeLockAndEncryption(t *testing.T) {
	const (
		locked   = `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>`
		retained = `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>400</Days></DefaultRetention></Rule></ObjectLockConfiguration>`
		kms      = `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>key-1</KMSMasterKeyID></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>`
		aes      = `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>`
	)
	for _, tt := range []struct {
		query, reply, name string
		status             check.Status
		seen               string
	}{
		{"object-lock", locked, nameLock, check.OK, "on, without a default retention"},
		{"object-lock", retained, nameLock, check.Warning, "kept for 400 days (compliance)"},
		{"object-lock", strings.Replace(retained, "<Days>400</Days>", "<Years>2</Years>", 1), nameLock, check.Warning, "2 years"},
		{"object-lock", "403 AccessDenied", nameLock, check.Unknown, "s3:GetBucketObjectLockConfiguration"},
		{"encryption", kms, nameEncryption, check.OK, "by default aws:kms with key key-1"},
		{"encryption", kms, nameEncryption, check.OK, "kms:Decrypt"},
		{"encryption", aes, nameEncryption, check.OK, "by default AES256"},
		{"encryption", "403 AccessDenied", nameEncryption, check.Unknown, "s3:GetEncryptionConfiguration"},
	} {
		got := newBucket(map[string]string{tt.query: tt.reply, "versioning": never}).describe(t, false)
		says(t, got[tt.name], tt.status, tt.seen)
	}
}

// the finding names the region, and nothing else is asked.
func TestA13DescribeWrongRegion(t *testing.T) {
	b := newBucket(nil)
	b.region = "eu-central-1"
	got := b.describe(t, true)
	says(t, got["region"], check.Failed, "the bucket is in eu-central-1; requests are signed for us-east-1")
	says(t, got["region"], check.Failed, "set region=eu-central-1")
	if len(got) != 2 {
		t.Errorf("%+v", got)
	}
	srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusBadRequest, "AuthorizationHeaderMalformed", "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'ap-south-1'")
	})
	says(t, newBucket(nil).describeOn(t, srv, false)["region"], check.Failed, "set region=ap-south-1")
	srv = serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusTemporaryRedirect, "", "") })
	says(t, newBucket(nil).describeOn(t, srv, false)["region"], check.Failed, "does not say in which")
}

func TestDescribeDialect(t *testing.T) {
	plain := map[string]string{"versioning": never}
	crc32c := func(c *Config) { c.Checksum = ChecksumCRC32C }
	t.Run("MD5 is ignored", func(t *testing.T) {
		b := newBucket(plain)
		b.ignores = "Content-Md5"
		says(t, b.describe(t, true)["checksum"], check.Warning, "add checksum=crc32c")
		says(t, b.describe(t, true, crc32c)["checksum"], check.OK, "a wrong Content-MD5 is ignored")
	})
	t.Run("CRC32C is ignored", func(t *testing.T) {
		b := newBucket(plain)
		b.ignores = "X-Amz-Checksum-Crc32c"
		says(t, b.describe(t, true)["checksum"], check.OK, "a wrong x-amz-checksum-crc32c is ignored")
		says(t, b.describe(t, true, crc32c)["checksum"], check.Warning, "add checksum=md5")
	})
	for tag, want := range map[string]struct {
		status check.Status
		seen   string
	}{
		`"0123"`: {check.OK, "not the MD5"}, `0123`: {check.OK, "without quotes"},
		`W/"0123"`: {check.Warning, "without a strong ETag"}, ``: {check.Warning, "without a strong ETag"},
	} {
		b := newBucket(plain)
		b.etag = func([]byte) string { return tag }
		says(t, b.describe(t, true)["etag"], want.status, want.seen)
	}
	t.Run("trailers (A-09)", func(t *testing.T) {
		for _, framed := range []bool{false, true} {
			b := newBucket(plain)
			b.framed = framed
			got := b.describeOn(t, serveTLS(t, b.serve), true)["trailers"]
			if framed {
				says(t, got, check.Warning, "become part of the object")
			} else {
				says(t, got, check.OK, "understood")
			}
		}
		b := newBucket(plain)
		refusing := serveTLS(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Amz-Trailer") != "" {
				fail(w, http.StatusNotImplemented, "NotImplemented", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
				return
			}
			b.serve(n, w, r)
		})
		says(t, b.describeOn(t, refusing, true)["trailers"], check.Warning, "when_required")
	})
}

// A client that cannot ask is not asked; a store of AWS is known to be sound.
func TestDescribeOtherClients(t *testing.T) {
	b := newBucket(map[string]string{"versioning": never})
	s := serve(t, b.serve).open(t)
	bare, err := New(struct{ API }{s.driver.api}, "b", "p", Options{Profile: "conditional"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range bare.Describe(t.Context(), check.Scope{}).Findings {
		if f.Status == check.Unknown && strings.Contains(f.Seen, "the client cannot ask") {
			names = append(names, f.Name)
		}
	}
	if diff := cmp.Diff([]string{nameVersioning, nameLifecycle, nameLock, nameEncryption}, names); diff != "" {
		t.Error(diff)
	}
}

// The whole examination of a bucket as AWS, MinIO and versitygw have it.
func TestExamineBuckets(t *testing.T) {
	for name, settings := range map[string]map[string]string{
		"AWS": {"versioning": never, "lifecycle": "404 NoSuchLifecycleConfiguration", "object-lock": "404 ObjectLockConfigurationNotFoundError",
			"encryption": `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>`},
		"MinIO":     {"versioning": never, "lifecycle": "404 NoSuchLifecycleConfiguration", "object-lock": "404 ObjectLockConfigurationNotFoundError", "encryption": "404 ServerSideEncryptionConfigurationNotFoundError"},
		"versitygw": {"versioning": "501 VersioningNotConfigured", "lifecycle": "501 NotImplemented", "object-lock": "404 ObjectLockConfigurationNotFoundError", "encryption": "501 NotImplemented"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket(settings)
			inner := b.serve
			conditional := func(n int, w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					b.mu.Lock()
					o, exists := b.objects[r.URL.Path]
					match := r.Header.Get("If-Match")
					fails := exists && r.Header.Get("If-None-Match") == "*" || match != "" && (!exists || match != b.etag(o))
					if !fails && r.Header.Get("Content-Md5") != "" {
						// What is decided here must be written before the next one decides.
						got := readAll(r)
						if sum := md5.Sum(got); r.Header.Get("Content-Md5") == base64.StdEncoding.EncodeToString(sum[:]) {
							b.objects[r.URL.Path] = got
							b.mu.Unlock()
							ok(w, b.etag(got))
							return
						}
						b.mu.Unlock()
						fail(w, http.StatusBadRequest, "BadDigest", "")
						return
					}
					b.mu.Unlock()
					if fails {
						fail(w, http.StatusPreconditionFailed, "PreconditionFailed", "")
						return
					}
				}
				if r.Method == http.MethodGet && r.URL.Query().Has("list-type") {
					fail(w, http.StatusForbidden, "AccessDenied", "")
					return
				}
				inner(n, w, r)
			}
			r := check.Examine(t.Context(), serve(t, conditional).open(t), check.Options{Rounds: 4})
			if err := r.Err(); err != nil {
				t.Error(err)
			}
			if r.Can.Read != check.Yes || r.Can.Append != check.Yes || r.Profile.String() != "conditional,raced" || len(r.Left) > 0 || len(b.objects) > 0 {
				t.Errorf("%s, profile %s, %d objects left\n%+v", r.Summary(), r.Profile, len(b.objects), r.Findings)
			}
		})
	}
}
