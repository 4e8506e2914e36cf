package integration

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/s3log/s3log/backend/objstore/check"
	"github.com/s3log/s3log/backend/objstore/s3store"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/localstack"
)

// diagnosis is what doctor prints in JSON.
type diagnosis struct {
	t   *testing.T
	Can struct{ Read, Append, List, Collect *bool }

	Summary  string
	Profile  *string
	Findings []struct {
		Name, Seen, Means, Do string
		Status                check.Status
		Unsafe                bool
	}
	Left   []string
	stderr string
}

// doctor runs the command, which must end with an exit code.
func (c command) doctor(t *testing.T, exit int, args ...string) *diagnosis {
	t.Helper()
	r := c.want(exit, "", append([]string{"doctor", "--output", "json"}, args...)...)
	d := fields[diagnosis](t, r.stdout)
	d.t, d.stderr = t, r.stderr
	t.Logf("exit %d: %s", exit, d.Summary)
	return &d
}

// says checks the status of a finding, and that a text is in it.
func (d *diagnosis) says(name string, status check.Status, text string) {
	d.t.Helper()
	for _, f := range d.Findings {
		if f.Name == name {
			if f.Status != status || !strings.Contains(f.Seen+"\n"+f.Means+"\n"+f.Do, text) {
				d.t.Errorf("%s is %+v, want %s with %q", name, f, status, text)
			}
			return
		}
	}
	d.t.Errorf("nothing is said of %s", name)
}

// can checks the last line: "+" is yes, "-" is no, "?" is not known, of reading,
// appending, listing and collecting.
func (d *diagnosis) can(want string) {
	d.t.Helper()
	got := ""
	for _, a := range []*bool{d.Can.Read, d.Can.Append, d.Can.List, d.Can.Collect} {
		switch {
		case a == nil:
			got += "?"
		case *a:
			got += "+"
		default:
			got += "-"
		}
	}
	if got != want {
		d.t.Errorf("can %s, want %s: %s", got, want, d.Summary)
	}
}

func (d *diagnosis) profile(want string) {
	d.t.Helper()
	got := ""
	if d.Profile != nil {
		got = *d.Profile
	}
	if got != want {
		d.t.Errorf("profile %q, want %q", got, want)
	}
}

// keys are those of all objects of a bucket.
func (r *rig) keys(t *testing.T) (keys []string) {
	t.Helper()
	for info, err := range r.direct.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

func (r *rig) directly(t *testing.T) command {
	return command{t: t, endpoint: r.Endpoint, bucket: r.bucket, accessKey: r.AccessKey, secretKey: r.SecretKey, change: unproved}
}

func with(c command, id localstack.Identity) command {
	c.accessKey, c.secretKey = id.AccessKey, id.SecretKey
	return c
}

// Five places, five answers.
func TestDoctor(t *testing.T) {
	t.Run("versitygw", func(t *testing.T) {
		r := newRig(t)
		grown(t, r.direct, "log")
		before := r.keys(t)
		d := r.directly(t).doctor(t, 0)
		d.can("++++")
		d.profile("conditional,raced")
		for _, name := range []string{
			"reach", "clock", "conditional", "region", "versioning", "object-lock", "etag", "checksum", "race", "latency", "rate",
			"consistency", "listing", "metadata", "list", "read", "write", "delete", "copy", "probes",
		} {
			d.says(name, check.OK, "")
		}
		d.says("lifecycle", check.Skipped, "no such setting")
		d.says("trailers", check.Skipped, "https")
		d.says("race", check.OK, "50 races, each with one winner")
		if after := r.keys(t); !slices.Equal(before, after) || len(d.Left) > 0 {
			t.Errorf("%q are there, %q were, %q are said to be left", after, before, d.Left)
		}
		// The same for people, and the store's URL to go on with.
		text := r.directly(t).want(0, "", "doctor", "--rounds", "4").stdout
		for _, want := range []string{
			"\nok       reach        it answers", "\nthis store and these credentials can: read, append, list, collect\n",
			"\nprofile=conditional,raced (nobody has to try this store again: --store 's3://" + r.bucket + "/logs?endpoint=",
		} {
			if !strings.Contains("\n"+text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	})
	t.Run("rclone", func(t *testing.T) {
		r := rcloneRig(t)
		d := r.directly(t).doctor(t, 0)
		d.can("++++")
		d.profile("conditional,raced")
		d.says("race", check.OK, "50 races, each with one winner")
		for _, name := range []string{"conditional", "consistency", "listing", "metadata", "probes"} {
			d.says(name, check.OK, "")
		}
	})
	t.Run("rclone's server in memory", func(t *testing.T) {
		endpoint := racyServer(t)
		want, _ := grown(t, openS3(t, endpoint, "bucket", "key", "secret"), "log")
		c := command{t: t, endpoint: endpoint, bucket: "bucket", accessKey: "key", secretKey: "secret", change: unproved}
		for range 5 {
			d := c.doctor(t, 8)
			d.can("+-+-")
			d.profile("")
			if !strings.Contains(d.stderr, `"code":"unsupported-store"`) || !strings.Contains(d.stderr, "writing here is not safe") {
				t.Error(d.stderr)
			}
		}
		// Whoever says that it is safe is contradicted.
		c.change = nil
		if d := c.doctor(t, 8); !strings.Contains(d.stderr, "profile=conditional, which is not so") {
			t.Error(d.stderr)
		}
		if got := strings.Count(c.want(0, "", "cat", "log").stdout, "\n"); got != len(want) {
			t.Errorf("%d of %d events can be read", got, len(want))
		}
	})
	t.Run("read-only", func(t *testing.T) {
		r := newRig(t)
		grown(t, r.direct, "log")
		before := r.keys(t)
		id, ok := r.ReadOnly(t, r.bucket)
		if !ok {
			t.Fatalf("%s has no users: unset %s", r.Endpoint, localstack.EnvEndpoint)
		}
		d := with(r.directly(t), id).doctor(t, 0)
		d.can("+---")
		d.profile("")
		d.says("read", check.OK, "")
		d.says("list", check.Denied, "s3:ListBucket")
		d.says("write", check.Denied, "s3:PutObject")
		d.says("conditional", check.Skipped, "may not write")
		d.says("race", check.Skipped, "may not write")
		d.says("versioning", check.Unknown, "s3:GetBucketVersioning")

		// As S3 says it: what is not there is denied, too.
		r.proxy.Add(faultproxy.Rule{Times: -1, Fault: faultproxy.DenyAbsent()})
		c := with(r.ctl(t), id)
		c.change = unproved
		d = c.doctor(t, 7)
		d.can("?---")
		d.says("read", check.Denied, "name a log that is there")
		d = c.doctor(t, 0, "--log", "log")
		d.can("+---")
		if after := r.keys(t); !slices.Equal(before, after) || len(d.Left) > 0 {
			t.Errorf("%q are there, %q were, %q are said to be left", after, before, d.Left)
		}
	})
	t.Run("wrong region", func(t *testing.T) {
		r := newRig(t)
		r.proxy.Add(faultproxy.Rule{Times: -1, Fault: faultproxy.Redirect("eu-central-1")})
		c := r.ctl(t)
		c.change = unproved
		d := c.doctor(t, 1)
		d.can("????")
		d.profile("")
		d.says("reach", check.Failed, "set region=eu-central-1")
		d.says("region", check.Failed, "the bucket is in eu-central-1; requests are signed for us-east-1")
		if !strings.Contains(d.stderr, "set region=eu-central-1") {
			t.Error(d.stderr)
		}
		if put := r.proxy.Take().Counts()[faultproxy.Put]; put != 0 {
			t.Errorf("%d PUTs", put)
		}
	})
}

// What doctor says of keys with the policies of docs/iam is what these are for.
func TestDoctorKnowsPolicies(t *testing.T) {
	r := newRig(t)
	grown(t, r.direct, "a/log")
	for _, tt := range []struct {
		policy, can string
		args        []string
	}{
		{"writer", "+++-", nil},
		{"auditor", "+-+-", nil},
		{"auditor-of-one-log", "?---", nil},
		{"auditor-of-one-log", "+---", []string{"--log", "a/log"}},
		{"collector", "-?++", nil},
	} {
		t.Run(tt.policy+strings.Join(tt.args, " "), func(t *testing.T) {
			who := r.user(t)
			r.give(t, readPolicy(t, tt.policy, r.bucket, who.AccessKey, "a/log"))
			c := with(r.ctl(t), who)
			c.t, c.change = t, unproved
			exit := 0
			if tt.can == "?---" {
				exit = 7
			}
			before := r.keys(t)
			d := c.doctor(t, exit, append(tt.args, "--rounds", "4")...)
			d.can(tt.can)
			if after := r.keys(t); !slices.Equal(before, after) || len(d.Left) > 0 {
				t.Errorf("%q are there, %q were, %q are said to be left", after, before, d.Left)
			}
			r.proxy.Reset()
		})
	}
}

// Keys that may not delete leave few probes, which are named, and which gc of
// others removes.
func TestDoctorWithoutDelete(t *testing.T) {
	r := newRig(t)
	who := r.user(t)
	p := readPolicy(t, "writer", r.bucket, who.AccessKey, "log")
	for i := range p.Statement {
		p.Statement[i].Action = slices.DeleteFunc(p.Statement[i].Action, func(a string) bool { return a == "s3:DeleteObject" })
	}
	r.give(t, p)
	c := with(r.directly(t), who)
	d := c.doctor(t, 0)
	d.can("+++?")
	d.says("delete", check.Denied, "s3:DeleteObject")
	d.says("probes", check.Warning, "gc removes them")
	if keys := r.keys(t); !slices.Equal(keys, d.Left) || len(keys) == 0 || len(keys) > 30 {
		t.Errorf("%q are there, %q are said to be left", keys, d.Left)
	}
	r.directly(t).want(0, "", "gc", "--apply", "--grace", "1ns")
	if keys := r.keys(t); len(keys) > 0 {
		t.Errorf("gc leaves %q", keys)
	}
}

// Servers that cannot be used, or not as they are.
func TestDoctorOfBadPlaces(t *testing.T) {
	on := func(s *stub) command {
		return command{t: t, endpoint: s.URL, bucket: "b", accessKey: "key", secretKey: "secret", change: unproved}
	}
	t.Run("nobody", func(t *testing.T) {
		d := command{t: t, endpoint: "http://127.0.0.1:1", bucket: "b", accessKey: "key", secretKey: "secret"}.doctor(t, 1)
		d.says("reach", check.Failed, "check the endpoint")
		if len(d.Findings) != 1 {
			t.Errorf("%+v", d.Findings)
		}
	})
	t.Run("wrong keys", func(t *testing.T) {
		r := newRig(t)
		c := r.directly(t)
		c.t, c.secretKey = t, "wrong"
		d := c.doctor(t, 7)
		d.says("reach", check.Failed, "these credentials are not accepted")
		d.says("reach", check.Failed, "secret key is wrong")
	})
	t.Run("no bucket", func(t *testing.T) {
		r := newRig(t)
		c := r.directly(t)
		c.t, c.bucket = t, "nobody-has-made-it"
		c.doctor(t, 1).says("reach", check.Failed, "there is no such bucket")
	})
	t.Run("a clock that is off", func(t *testing.T) {
		s := startStub(t)
		s.mu.Lock()
		s.ahead = time.Hour
		s.mu.Unlock()
		d := on(s).doctor(t, 1, "--rounds", "4")
		d.says("clock", check.Failed, "set the clock of this machine")
		d.says("conditional", check.OK, "")
		if d.Can.Append == nil {
			t.Error(d.Summary)
		}
	})
	for name, tt := range map[string]struct {
		put  func(*http.Request, string) (bool, int, string)
		want string
	}{
		"ignores conditions (A-04)": {carelessPut, "the condition was ignored"},
		"inverts them (A-05)":       {invertedPut, "must succeed where no object is"},
		"answers 412 to everything": {func(*http.Request, string) (bool, int, string) {
			return false, http.StatusPreconditionFailed, "PreconditionFailed"
		}, "must succeed where no object is"},
		"has none": {ignorantPut, "not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startStub(t)
			s.behave(tt.put)
			d := on(s).doctor(t, 8)
			d.says("conditional", check.Failed, tt.want)
			d.profile("")
			if puts := s.written("/manifests/") + s.written("/segments/"); puts != 0 {
				t.Errorf("%d PUTs outside of probe/", puts)
			}
		})
	}
	t.Run("412 to every ETag in quotes (Ceph 16)", func(t *testing.T) {
		s := startStub(t)
		s.behave(func(r *http.Request, etag string) (bool, int, string) {
			if r.Header.Get("If-Match") != "" {
				return false, http.StatusPreconditionFailed, "PreconditionFailed"
			}
			return honest(r, etag)
		})
		on(s).doctor(t, 8).says("conditional", check.Failed, "must succeed on the current version")
	})
	t.Run("weak ETags (A-07)", func(t *testing.T) {
		r := newRig(t)
		r.proxy.Add(faultproxy.Rule{Times: -1, Fault: faultproxy.ETag(func(tag string) string { return "W/" + tag })})
		c := r.ctl(t)
		c.t, c.change = t, unproved
		d := c.doctor(t, 8)
		d.says("conditional", check.Failed, "strong ETag")
		d.can("+-+-")
	})
}

// A bucket that keeps versions: nothing of a log is touched, and somebody is
// told to see to the former ones.
func TestDoctorOfVersionedBucket(t *testing.T) {
	r := newRig(t, localstack.Versioning())
	if _, err := r.Client(t).PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: &r.bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	}); err != nil {
		t.Fatal(err)
	}
	grown(t, r.direct, "log")
	before := r.keys(t)
	d := r.directly(t).doctor(t, 0, "--rounds", "4")
	d.says("versioning", check.Warning, "no rule removes former versions")
	d.says("delete", check.OK, "might leave a delete marker")
	d.can("+++?")
	if after := r.keys(t); !slices.Equal(before, after) {
		t.Errorf("%q are there, %q were", after, before)
	}
}

// With the profile that doctor prints, no proof precedes the first write of a
// process.
func TestDoctorThroughProfile(t *testing.T) {
	r := newRig(t)
	d := r.directly(t).doctor(t, 0, "--rounds", "4")
	d.profile("conditional,raced")
	r.proxy.Take()
	c := r.ctl(t)
	c.change = func(cfg *s3store.Config) { cfg.Profile = *d.Profile }
	c.want(0, `{"type":"note","data":1}`+"\n", "append", "log", "--create")
	if got := r.proxy.Take().Counts(); !maps.Equal(got, map[string]int{faultproxy.Put: 1}) {
		t.Errorf("an append with the profile takes %s", fmt.Sprint(got))
	}
}
