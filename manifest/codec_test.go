package manifest

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/s3log/s3log/segment"
)

var update = flag.Bool("update", false, "write golden files anew")

// TestGolden: files of released versions are read for ever, and written in the
// same way as long as the version lasts.
func TestGolden(t *testing.T) {
	for name, make := range records {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "v1", name+".json")
			got := encode(t, make())
			if *update {
				if err := os.WriteFile(path, got, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("encoding changed (-want +got):\n%s", diff)
			}
			r, err := Decode(want)
			if err != nil {
				t.Fatalf("Decode: %v", err)
			}
			if diff := cmp.Diff(make(), r, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("decoded record differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSpelling states the stored form of a small record, byte for byte.
func TestSpelling(t *testing.T) {
	r := freshRecord()
	r.UID, r.Commit = "u", CommitInfo{ID: "u", Writer: "w", At: 5, Software: "s"}
	want := seal(`{"format":"s3log.manifest","version":1,"critical":[],"log":"a","uid":"u","header":null,"state":"open","revision":1,"epoch":1,` +
		`"commit":{"id":"u","writer":"w","at":5,"software":"s"},"owner":{"writer":"w","generation":1,"label":"","released":false},` +
		`"generations":[[1,"w","fresh",0,0]],"keys":[],"next":0,"lastTime":null,"maxTime":null,"activity":null,"activityRule":"user-message/user",` +
		`"origin":{"kind":"fresh","inherited":0,"parent":null},"lifecycle":{"kind":"fresh","inherited":0,"closers":0,"first":0,"at":0},` +
		`"boundary":null,"types":{},"turn":null,"segments":[],"retired":[],"tail":"",` +
		`"tree":{"size":0,"root":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","range":[]},"lease":null`)
	if diff := cmp.Diff(string(want), string(encode(t, r))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !bytes.HasSuffix(want, []byte("\"}\n")) || bytes.Count(want, []byte("\n")) != 1 {
		t.Error("a manifest ends in its only newline")
	}
	v := &Record{Version: 1, Log: "a", State: StateVoid, Revision: 1, Epoch: 2, Commit: r.Commit, Unknown: []byte(`"x":1`)}
	want = seal(`{"format":"s3log.manifest","version":1,"critical":[],"log":"a","state":"void","revision":1,"epoch":2,` +
		`"commit":{"id":"u","writer":"w","at":5,"software":"s"},"x":1`)
	if diff := cmp.Diff(string(want), string(encode(t, v))); diff != "" {
		t.Errorf("void (-want +got)\n%s", diff)
	}
}

func TestFieldOrder(t *testing.T) {
	body := string(encode(t, openRecord()))
	at := 0
	for _, name := range fields {
		i := strings.Index(body[at:], `"`+name+`":`)
		if i < 0 {
			t.Fatalf("%q does not follow in its place", name)
		}
		at += i
	}
	// The order of the design, spelled once more.
	want := "format version critical log uid header state revision epoch commit owner generations keys next lastTime maxTime " +
		"activity activityRule origin lifecycle boundary types turn segments retired tail tree lease sum"
	if got := strings.Join(fields, " "); got != want {
		t.Errorf("fields are %s", got)
	}
}

func TestAppendTo(t *testing.T) {
	want := encode(t, openRecord())
	got, err := openRecord().AppendTo([]byte("before"))
	if err != nil || string(got) != "before"+string(want) {
		t.Errorf("AppendTo = %q, %v", got, err)
	}
	bad := openRecord()
	bad.Owner = nil
	if got, err := bad.AppendTo([]byte("before")); err == nil || string(got) != "before" {
		t.Errorf("AppendTo of a broken record = %q, %v", got, err)
	}
}

func TestDecodeSharesNothing(t *testing.T) {
	body := encode(t, openRecord())
	r, err := Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = 'X'
	}
	if diff := cmp.Diff(openRecord(), r, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("record changed with its source (-want +got):\n%s", diff)
	}
}

func TestLimits(t *testing.T) {
	body := encode(t, limitRecord())
	t.Logf("at every limit at once: %d bytes, %.1f KiB", len(body), float64(len(body))/1024)
	if len(body) > MaxManifest {
		t.Errorf("%d bytes at every limit at once, at most %d are allowed", len(body), MaxManifest)
	}
	r, err := Decode(body)
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	if diff := cmp.Diff(limitRecord(), r, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b Nonce) bool { return true })); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestSizes notes what manifests take, against the budgets of the design.
func TestSizes(t *testing.T) {
	long := benchRecord(40)
	long.Tail = make([]byte, MaxTail/4*3)
	for _, tt := range []struct {
		name  string
		r     *Record
		limit int
	}{
		{"fresh", freshRecord(), 2 << 10},
		{"10^7 events: 40 segments, 256 types, a full tail", long, 256 << 10},
		{"tombstone", tombstone(), MaxTombstone},
		{"void", void(), 1 << 10},
	} {
		n := len(encode(t, tt.r))
		t.Logf("%s: %d bytes", tt.name, n)
		if n > tt.limit {
			t.Errorf("%s: %d bytes, budget %d", tt.name, n, tt.limit)
		}
	}
}

func TestWholeTooLarge(t *testing.T) {
	r := tombstone()
	r.Keys = nil
	for i := range MaxKeys {
		r.Keys = append(r.Keys, KeyEntry{Key: "0123456789abcdef", First: int64(i), Count: 1, Digest: "0123456789abcdef"})
	}
	r.Unknown = []byte(`"x":"` + strings.Repeat("u", MaxUnknown-6) + `"`)
	if _, err := r.Encode(); err != nil {
		t.Fatalf("just fits: %v", err)
	}
	r.Log = strings.Repeat("\x01", MaxID)
	if b, err := r.Encode(); !errors.Is(err, segment.ErrTooLarge) || b != nil {
		t.Errorf("a tombstone too large: %d bytes, %v; want ErrTooLarge", len(b), err)
	}
	if _, err := Decode(r.appendSealed(nil)); !errors.Is(err, segment.ErrCorrupt) || errors.Is(err, segment.ErrTooLarge) {
		t.Errorf("a tombstone too large, read: %v; want ErrCorrupt", err)
	}
}

func TestEncodeMistakes(t *testing.T) {
	// A broken rule is a mistake of the program that builds the record, not
	// damage: it matches no sentinel.
	r := openRecord()
	r.Content.Tree.Size++
	_, err := r.Encode()
	for _, sentinel := range []error{segment.ErrCorrupt, segment.ErrTooLarge, segment.ErrUnsupportedVersion} {
		if err == nil || errors.Is(err, sentinel) {
			t.Errorf("Encode: %v; want an error that is not %v", err, sentinel)
		}
	}
}

func TestUnknownMembersSurvive(t *testing.T) {
	for name, make := range records {
		for _, unknown := range []string{
			`"a":1`,
			`"a":1,"b":2`,
			`"b":2,"a":1`, // order is kept
			`"a":{"b":[1,2,{"c":null}]}`,
			`"a":{"x":1,"x":2}`,               // duplicates inside
			`"a":[ 1 , 2.50e+1 ]`,             // white space and numbers inside
			`"a":"\ud800\u00e9é<&>"`,          // escapes, lone surrogates
			`"caf\u00e9":1`,                   // an escaped name
			`"":0`,                            // an empty one
			`"Format":1`, `"sums":"00000000"`, // almost known
			`"x":"\",\"sum\":\"00000000\"}\n"`, // looks like the end
			`"x":` + strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200),
		} {
			r := make()
			r.Unknown = []byte(unknown)
			body := encode(t, r)
			if !strings.Contains(string(body), ","+unknown+sumStart) {
				t.Errorf("%s: %s is not before the sum", name, unknown)
			}
			got, err := Decode(body)
			if err != nil {
				t.Errorf("%s: %s: %v", name, unknown, err)
				continue
			}
			if string(got.Unknown) != unknown {
				t.Errorf("%s: %s came back as %s", name, unknown, got.Unknown)
			}
		}
	}
}

func TestUnknownRuleAndKindsSurvive(t *testing.T) {
	r := openRecord()
	r.ActivityRule = "newest-tool-call"
	r.Generations[0].Kind, r.Lifecycle.Kind, r.Origin.Kind = "graft", "nap", "graft"
	got, err := Decode(encode(t, r))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestHeaderIsVerbatim(t *testing.T) {
	for _, h := range []string{
		`{}`,
		`{ "b" : 1 , "a" : 1.0e2, "b":2 }`,
		"{\"a\":\t1\r}",
		`{"x":"\ud800\ude00 \udc00 \/ <&>  é \u00e9"}`,
		`{"a":` + strings.Repeat("[", 9_998) + strings.Repeat("]", 9_998) + `}`,
		`{"a":"` + strings.Repeat("[{", 6_000) + `\"]"}`,
	} {
		r := openRecord()
		r.Header = []byte(h)
		got, err := Decode(encode(t, r))
		if err != nil {
			t.Errorf("header %.60s: %v", h, err)
		} else if string(got.Header) != h {
			t.Errorf("header %.60s came back as %.60s", h, got.Header)
		}
	}
}

func TestCheckLog(t *testing.T) {
	r := openRecord()
	if err := r.CheckLog(r.Log); err != nil {
		t.Error(err)
	}
	if err := r.CheckLog(strings.ToUpper(r.Log)); !errors.Is(err, segment.ErrCorrupt) || !strings.Contains(err.Error(), "PROJ/") {
		t.Errorf("manifest of another log: %v; want ErrCorrupt that names both", err)
	}
}

func TestCommonPrefix(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 0}, {"ab", "ab", 2}, {"ab", "abc", 2}, {"abd", "abc", 2}, {"x", "abc", 0}} {
		if got := commonPrefix([]byte(tc.a), []byte(tc.b)); got != tc.want {
			t.Errorf("%q and %q: %d, not %d", tc.a, tc.b, got, tc.want)
		}
	}
}
