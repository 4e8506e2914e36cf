package manifest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/s3log/s3log/segment"
)

// TestEveryByteCounts: the sum finds every change of a single byte, and every
// cut.
func TestEveryByteCounts(t *testing.T) {
	body := encode(t, openRecord())
	for i := range body {
		was := body[i]
		for x := 1; x < 256; x++ {
			body[i] = was ^ byte(x)
			if _, err := Decode(body); !errors.Is(err, segment.ErrCorrupt) {
				t.Fatalf("byte %d changed from %q to %q: %v; want ErrCorrupt", i, was, body[i], err)
			}
		}
		body[i] = was
	}
	for n := range body {
		if _, err := Decode(body[:n]); !errors.Is(err, segment.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v; want ErrCorrupt", n, err)
		}
	}
	if _, err := Decode(body); err != nil {
		t.Fatal(err)
	}
}

func TestSumComesFirst(t *testing.T) {
	// A newer version with a wrong sum is damage; with the right one, news.
	newer := reseal(t, encode(t, openRecord()), `"version":1`, `"version":2`)
	if _, err := Decode(newer); !errors.Is(err, segment.ErrUnsupportedVersion) || errors.Is(err, segment.ErrCorrupt) {
		t.Errorf("newer version: %v; want ErrUnsupportedVersion", err)
	}
	newer[20] ^= 1
	if _, err := Decode(newer); !errors.Is(err, segment.ErrCorrupt) || errors.Is(err, segment.ErrUnsupportedVersion) {
		t.Errorf("newer version, damaged: %v; want ErrCorrupt", err)
	}
}

func TestUnsupported(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"version 2", `"version":1`, `"version":2`, "version 2"},
		{"version 10", `"version":1`, `"version":10`, "version 10"},
		{"version of a far future", `"version":1`, `"version":99999999999999999999999`, "upgrade"},
		{"another shape behind the version", `"critical":[],`, ``, ""}, // of version 1 it is damage
		{"critical", `"critical":[]`, `"critical":["x-later"]`, `"x-later"`},
		{"critical, second", `"critical":[]`, `"critical":["x\u0031","y"]`, `"x1"`},
		{"critical that names a known field", `"critical":[]`, `"critical":["tail"]`, `"tail"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode(reseal(t, encode(t, openRecord()), tt.old, tt.new))
			if tt.want == "" {
				if !errors.Is(err, segment.ErrCorrupt) {
					t.Errorf("Decode: %v; want ErrCorrupt", err)
				}
				return
			}
			if !errors.Is(err, segment.ErrUnsupportedVersion) || errors.Is(err, segment.ErrCorrupt) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Decode: %v; want ErrUnsupportedVersion that says %s", err, tt.want)
			}
		})
	}
	// Whatever follows the version, a later format may have given it another meaning.
	for _, rest := range []string{"", `,"x":`, `,{{{`, "\n"} {
		if _, err := Decode(seal(head + "2," + rest)); !errors.Is(err, segment.ErrUnsupportedVersion) {
			t.Errorf("version 2 followed by %q: %v; want ErrUnsupportedVersion", rest, err)
		}
	}
}

// TestHostile: manifests with the right sum and something wrong inside. Each is
// refused as damage, by a message that says what is wrong.
func TestHostile(t *testing.T) {
	name := openRecord().Segments[0].Name.String()
	root := openRecord().Content.Tree.Root.String()
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for _, tt := range []struct{ name, old, new, want string }{
		{"another format", `"s3log.manifest"`, `"s3log.segment"`, "format"},
		{"version 0", `"version":1`, `"version":0`, "version"},
		{"version 01", `"version":1`, `"version":01`, "version"},
		{"version -1", `"version":1`, `"version":-1`, "version"},
		{"version 1.0", `"version":1`, `"version":1.0`, "version"},
		{"version as text", `"version":1`, `"version":"1"`, "version"},
		{"no version", `"version":1,`, ``, "format"},
		{"white space before the version", `"version":1`, `"version": 1`, "version"},

		{"segment elsewhere", name, "../../../manifests/other.json", "not the name of a segment"},
		{"segment elsewhere, same length", name, "../../../../../../../../../../../../../x.jsonl.zst/", "not the name of a segment"},
		{"segment name in upper case", "-00000001-0000000000000001.", "-0000000A-0000000000000001.", "not the name of a segment"},
		{"retired elsewhere", `[["0000000000001001-00000002`, `[["../0000000000001001-0002`, "not the name of a segment"},
		{"segment name escaped", `["0000000000000000-`, `["\u0030000000000000000-`, "not the name of a segment"},

		{"huge number", `"revision":12`, `"revision":9007199254740993`, "revision"},
		{"number beyond int64", `"revision":12`, `"revision":99999999999999999999`, "revision"},
		{"exponent", `"revision":12`, `"revision":12e0`, "revision"},
		{"fraction", `"revision":12`, `"revision":12.0`, "revision"},
		{"minus zero", `"closers":1`, `"closers":-0`, "canonical"},
		{"number as text", `"revision":12`, `"revision":"12"`, "revision"},
		{"null revision", `"revision":12`, `"revision":null`, "revision"},
		{"epoch beyond 32 bits", `"epoch":3`, `"epoch":4294967296`, "epoch"},
		{"negative epoch", `"epoch":3`, `"epoch":-3`, "epoch"},
		{"negative next", `"next":2013`, `"next":-2013`, "next"},
		{"next beyond the events", `"next":2013`, `"next":2014`, ""},
		{"state", `"state":"open"`, `"state":"shut"`, ""},
		{"state of another shape", `"state":"open"`, `"state":"void"`, ""},
		{"open without its header", `"header":null,`, ``, ""},

		{"field missing", `"next":2013,`, ``, `"next"`},
		{"fields swapped", `"revision":12,"epoch":3`, `"epoch":3,"revision":12`, `"revision"`},
		{"field in upper case", `"revision":`, `"Revision":`, `"revision"`},
		{"field name escaped", `"revision":`, `"revisio\u006e":`, "canonical"},
		{"field twice", `"epoch":3`, `"epoch":3,"epoch":3`, `"epoch"`},
		{"field again behind", `"x-later"`, `"revision":12,"x-later"`, `"revision"`},
		{"field again behind, escaped", `"x-later"`, `"revisio\u006e":12,"x-later"`, `"revision"`},
		{"unknown field in front", `"revision":`, `"x":1,"revision":`, `"x"`},
		{"unknown field twice", `"x-later"`, `"y":1,"x-later"`, "twice"},
		{"member of a part twice", `"at":1790000100123`, `"at":1790000100123,"at":1`, `"at"`},
		{"unknown member in a part", `"released":true`, `"released":true,"x":1`, `"released"`},
		{"part cut", `"writer":"0b1c2d3e-0000-4000-8000-000000000002","generation":2,`, ``, `"writer"`},
		{"null part", `{"until":1790000160000}`, `{"until":null}`, `"until"`},
		{"null owner", `"owner":{`, `"owner":null,"x":{`, `"owner"`},
		{"null origin", `"origin":{`, `"origin":null,"x":{`, `"origin"`},
		{"null lifecycle", `"lifecycle":{`, `"lifecycle":null,"x":{`, `"lifecycle"`},
		{"null state", `"state":"open"`, `"state":null`, `"state"`},
		{"null log", `"log":"`, `"log":null,"x":"`, `"log"`},
		{"null tree", `"tree":{`, `"tree":null,"x":{`, `"tree"`},
		{"null types", `"types":{`, `"types":null,"x":{`, `"types"`},
		{"null commit", `"commit":{`, `"commit":null,"x":{`, `"commit"`},
		{"parent null in a fork", `"parent":{`, `"parent":null,"x":{`, `"parent"`},
		{"list of another length", `["0123456789abcdef",2012,1,"fedcba9876543210"]`, `["0123456789abcdef",2012,1]`, `"keys"`},
		{"list with one more", `"fedcba9876543210"]`, `"fedcba9876543210",1]`, `"keys"`},
		{"list not closed", `"generations":[`, `"generations":[[`, `"generations"`},
		{"object for a list", `"keys":[`, `"keys":{"x":`, ""},
		{"types with a duplicate", `"compaction/start":[0,0,0]`, `"turn/start":[0,0,0]`, `"types"`},
		{"released as a number", `"released":true`, `"released":1`, `"released"`},

		{"white space", `"revision":12`, `"revision": 12`, "canonical"},
		{"newline", `,"revision":12`, ",\n\"revision\":12", "canonical"},
		{"needless escape", `"s3logctl 0.1.0"`, `"s3logct\u006c 0.1.0"`, "canonical"},
		{"escaped slash", `"proj\/parent"`, ``, ""},
		{"surrogate in the id", `"log":"proj`, `"log":"\ud800proj`, `"log"`},
		{"raw surrogate in the id", `"log":"proj`, "\"log\":\"\xed\xa0\x80proj", `"log"`},
		{"not UTF-8 in the header", `"note":2`, "\"note\":\"\xff\"", "UTF-8"},
		{"raw control character", `"log":"proj`, "\"log\":\"\x01proj", `"log"`},

		{"tail not base64", `"tail":"KLUv`, `"tail":"KL*v`, "tail"},
		{"tail without padding", `AD/",`, `AD/A",`, ""},
		{"tail with bits left over", `IAD/","tree"`, `IAB=","tree"`, "tail"},
		{"tail with a newline", `"tail":"KLUv`, `"tail":"KL\nUv`, "tail"},
		{"tail not text", `"tail":"`, `"tail":1,"x":"`, "tail"},
		{"root cut", root, root[:62], "hex"},
		{"root in upper case", root, strings.ToUpper(root), "hex"},
		{"root wrong", root, strings.Repeat("0", 64), "tree"},

		{"deep nesting", `"note":2`, `"note":` + deep, "header"},
		{"deep nesting in an unknown member", `"y":-0`, `"y":` + deep, `"y"`},
		{"header is a list", `"header":{`, `"header":[{`, `"header"`},
		{"ends early", `,"x-later"`, `}{"x-later"`, ""},
		{"value behind", `"y":-0`, `"y":-0}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := encode(t, openRecord())
			if !strings.Contains(string(body), tt.old) {
				// Made for another spelling: the test would say nothing.
				switch tt.name {
				case "open without its header":
					body = encode(t, freshRecord())
				case "escaped slash":
					tt.old, tt.new, tt.want = `"proj/parent"`, `"proj\/parent"`, "canonical"
				}
			}
			_, err := Decode(reseal(t, body, tt.old, tt.new))
			if !errors.Is(err, segment.ErrCorrupt) || errors.Is(err, segment.ErrUnsupportedVersion) {
				t.Fatalf("Decode: %v; want ErrCorrupt", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Decode: %v; want a message with %q", err, tt.want)
			}
			if len(err.Error()) > 400 {
				t.Errorf("Decode: message of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestNoManifest(t *testing.T) {
	good := encode(t, openRecord())
	for _, tt := range []struct{ name, body, want string }{
		{"empty", "", "empty"},
		{"a web page", "<html><body>404</body></html>", "no manifest"},
		{"an S3 error", `<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>`, "no manifest"},
		{"zeros", strings.Repeat("\x00", 4096), "no manifest"},
		{"only a sum", `,"sum":"00000000"}` + "\n", "format"},
		{"cut", string(good[:len(good)/2]), "cut off"},
		{"without its newline", string(good[:len(good)-1]), "cut off"},
		{"newline too many", string(good) + "\n", "cut off"},
		{"twice", string(good) + string(good), "sum"},
		{"CR LF", strings.TrimSuffix(string(good), "\n") + "\r\n", "cut off"},
		{"byte order mark", "\ufeff" + string(good), "sum"},
		{"sum in upper case", strings.ToUpper(string(good)), "cut off"},
		{"sum is no hex", string(good[:len(good)-11]) + "0x00000g\"}\n", "hex"},
		{"too large", strings.Repeat("x", maxInput+1), "more than any manifest"},
		{"another JSON object", string(seal(`{"type":"session"`)), "format"},
		{"format only", string(seal(strings.TrimSuffix(head, `,"version":`))), "format"},
		{"ends with the version's colon", string(seal(head)), "version"},
		{"ends with the version", string(seal(head + "1")), "version"},
		{"two in a row", string(seal(string(good) + strings.TrimSuffix(string(good), "\n"))), "something follows"},
		{"nothing behind the version", string(seal(head + "1,")), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode([]byte(tt.body))
			if !errors.Is(err, segment.ErrCorrupt) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Decode: %v; want ErrCorrupt with %q", err, tt.want)
			}
		})
	}
}

// TestManyUnknownMembers: their number costs no more than their size.
func TestManyUnknownMembers(t *testing.T) {
	var b strings.Builder
	for i := 0; b.Len() < MaxUnknown-16; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%x":0`, i)
	}
	r := openRecord()
	r.Unknown = []byte(b.String())
	if _, err := Decode(encode(t, r)); err != nil {
		t.Error(err)
	}
}

// A decoder that comes to the end of its input where something is to follow, says
// so, whatever it is asked for then.
func TestDecoderAtTheEnd(t *testing.T) {
	for _, in := range []string{"", `"`, `"abc`, `"abc\`, `"abc\"`, `"abc\\\"`} {
		d := newDecoder([]byte(in))
		if text := d.quoted(); text != nil || d.err == nil {
			t.Errorf("%s: %q, %v", in, text, d.err)
		}
		first := d.err
		if d.str() != "" || d.int() != 0 || d.bool() || d.null() || d.intOrNull() != nil || d.objectOrNull() != nil ||
			d.hash() != (segment.Hash{}) || d.segmentName() != (Name{}) || d.base64() != nil || d.any() != nil || list(d, d.int) != nil {
			t.Errorf("%s: a value after %v", in, d.err)
		}
		if d.finish(); d.err != first {
			t.Errorf("%s: %v, then %v", in, first, d.err)
		}
	}
	d := newDecoder([]byte(`"abc\\"`))
	if text := d.quoted(); string(text) != `abc\\` || d.err != nil {
		t.Errorf("%q, %v", text, d.err)
	}
}
