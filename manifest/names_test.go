package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/s3log/s3log/segment"
)

func TestEscapeID(t *testing.T) {
	for _, tt := range []struct{ name, id, want string }{
		{"plain", "019b2c4e-7d1f_A.z", "019b2c4e-7d1f_A.z"},
		{"slash", "a/b", "a=2Fb"},
		{"parent", "..", "=2E."},
		{"dot", ".", "=2E"},
		{"hidden", ".s3log", "=2Es3log"},
		{"traversal", "a/../../b", "a=2F..=2F..=2Fb"},
		{"equals", "a=b", "a=3Db"},
		{"looks escaped", "=2F", "=3D2F"},
		{"looks hashed", "a==b", "a=3D=3Db"},
		{"nul and newline", "a\x00\n", "a=00=0A"},
		{"space, percent, plus", " %+", "=20=25=2B"},
		{"back slash", `a\b`, "a=5Cb"},
		{"umlaut", "ü", "=C3=BC"},
		{"beyond the BMP", "𝄞", "=F0=9D=84=9E"},
		{"as long as may be", strings.Repeat("x", 200), strings.Repeat("x", 200)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := EscapeID(tt.id)
			if got != tt.want {
				t.Fatalf("EscapeID(%q) = %q, want %q", tt.id, got, tt.want)
			}
			id, exact, ok := UnescapeID(got)
			if id != tt.id || !exact || !ok {
				t.Errorf("UnescapeID(%q) = %q, %v, %v", got, id, exact, ok)
			}
		})
	}
}

func TestEscapeLongID(t *testing.T) {
	sum := func(id string) string {
		h := sha256.Sum256([]byte(id))
		return hex.EncodeToString(h[:])[:32]
	}
	for _, tt := range []struct{ name, id, head string }{
		{"one too many", strings.Repeat("x", 201), strings.Repeat("x", 120)},
		{"only when escaped", strings.Repeat("/", 67), strings.Repeat("=2F", 40)},
		{"cut after =", strings.Repeat("x", 119) + strings.Repeat("/", 50), strings.Repeat("x", 119) + "="},
		{"cut inside an escape", strings.Repeat("x", 118) + strings.Repeat("/", 50), strings.Repeat("x", 118) + "=2"},
		{"longest", strings.Repeat("é", 512), strings.Repeat("=C3=A9", 20)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.head + "==" + sum(tt.id)
			got := EscapeID(tt.id)
			if got != want {
				t.Fatalf("EscapeID = %q, want %q", got, want)
			}
			id, exact, ok := ParseKey(Key(tt.id))
			if id != "" || exact || !ok {
				t.Errorf("ParseKey(%q) = %q, %v, %v; want a key whose id the manifest tells", Key(tt.id), id, exact, ok)
			}
		})
	}
}

func TestEscapedLengthBoundary(t *testing.T) {
	// 200 bytes escaped stand for themselves, whatever they are made of.
	id := strings.Repeat("/", 66) + "xx"
	if got := EscapeID(id); len(got) != 200 || strings.Contains(got, "==") {
		t.Errorf("EscapeID of 200 bytes escaped = %q", got)
	}
	if got := EscapeID(id + "x"); len(got) != 154 {
		t.Errorf("EscapeID of 201 bytes escaped has %d bytes, want 154", len(got))
	}
}

func TestUnescapeRefuses(t *testing.T) {
	hash := strings.Repeat("0", 32)
	for _, tt := range []struct{ name, esc string }{
		{"empty", ""},
		{"slash", "a/b"},
		{"leading dot", ".a"},
		{"parent", ".."},
		{"escape of a plain byte", "=41"},
		{"lower-case escape", "a=2f"},
		{"cut escape", "a=2"},
		{"lone =", "a="},
		{"not hex", "a=GG"},
		{"== in a short one", "a==b"},
		{"raw space", "a b"},
		{"raw non-ASCII", "ü"},
		{"not UTF-8", "=FF"},
		{"half a rune", "=C3"},
		{"too long", strings.Repeat("x", 201)},
		{"hash with upper-case hex", strings.Repeat("x", 120) + "==" + strings.Repeat("A", 32)},
		{"hash behind a leading dot", "." + strings.Repeat("x", 119) + "==" + hash},
		{"hash behind a slash", strings.Repeat("x", 119) + "/==" + hash},
		{"hash behind a wrong escape", strings.Repeat("x", 117) + "=2f==" + hash},
		{"hash behind a wrong cut escape", strings.Repeat("x", 118) + "=x==" + hash},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if id, exact, ok := UnescapeID(tt.esc); ok || exact || id != "" {
				t.Errorf("UnescapeID(%q) = %q, %v, %v; want a refusal", tt.esc, id, exact, ok)
			}
		})
	}
}

func TestCheckID(t *testing.T) {
	for _, tt := range []struct {
		name, id string
		ok       bool
	}{
		{"one byte", "x", true},
		{"control characters", "\x00\n", true},
		{"longest", strings.Repeat("x", MaxID), true},
		{"empty", "", false},
		{"too long", strings.Repeat("x", MaxID+1), false},
		{"not UTF-8", "a\xff", false},
		{"encoded surrogate", "\xed\xa0\x80", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := CheckID(tt.id); (err == nil) != tt.ok {
				t.Errorf("CheckID = %v, want ok %v", err, tt.ok)
			}
		})
	}
	if err := CheckID(strings.Repeat("x", MaxID+1)); !errors.Is(err, segment.ErrTooLarge) {
		t.Errorf("id too long: %v, want ErrTooLarge", err)
	}
}

func TestKeys(t *testing.T) {
	n := Name{First: 42, Epoch: 0xab, Nonce: Nonce{1, 2, 3, 4, 5, 6, 7, 0xff}}
	for _, tt := range []struct{ name, got, want string }{
		{"manifest", Key("a/b"), "manifests/a=2Fb.json"},
		{"prefix", SegmentPrefix("a/b"), "segments/a=2Fb/"},
		{"segment", SegmentKey("a/b", n), "segments/a=2Fb/0000000000000042-000000ab-01020304050607ff.jsonl.zst"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

func TestParseKey(t *testing.T) {
	for _, tt := range []struct {
		key   string
		id    string
		exact bool
		ok    bool
	}{
		{"manifests/a.json", "a", true, true},
		{"manifests/a.json.json", "a.json", true, true},
		{"manifests/=2E.json", ".", true, true},
		{"manifests/.json", "", false, false},
		{"manifests/a", "", false, false},
		{"manifests/a/b.json", "", false, false},
		{"manifests/../a.json", "", false, false},
		{"segments/a.json", "", false, false},
		{"a.json", "", false, false},
		{"", "", false, false},
	} {
		id, exact, ok := ParseKey(tt.key)
		if id != tt.id || exact != tt.exact || ok != tt.ok {
			t.Errorf("ParseKey(%q) = %q, %v, %v; want %q, %v, %v", tt.key, id, exact, ok, tt.id, tt.exact, tt.ok)
		}
	}
}

func TestName(t *testing.T) {
	for _, tt := range []struct {
		name Name
		want string
	}{
		{Name{}, "0000000000000000-00000000-0000000000000000.jsonl.zst"},
		{Name{First: 1, Epoch: 1, Nonce: Nonce{7: 1}}, "0000000000000001-00000001-0000000000000001.jsonl.zst"},
		{
			Name{First: segment.MaxSeq, Epoch: 1<<32 - 1, Nonce: Nonce{255, 255, 255, 255, 255, 255, 255, 255}},
			"9007199254740991-ffffffff-ffffffffffffffff.jsonl.zst",
		},
	} {
		if got := tt.name.String(); got != tt.want {
			t.Errorf("String = %q, want %q", got, tt.want)
		}
		got, err := ParseName(tt.want)
		if err != nil || got != tt.name {
			t.Errorf("ParseName(%q) = %+v, %v; want %+v", tt.want, got, err, tt.name)
		}
	}
}

func TestParseNameRefuses(t *testing.T) {
	good := "0000000000000042-000000ab-01020304050607ff.jsonl.zst"
	if _, err := ParseName(good); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, s string }{
		{"empty", ""},
		{"parent", "../x"},
		{"path of the right length", "../../../../../../../../etc/passwd/xxxxxxx.jsonl.zst"},
		{"prefix", "x/" + good},
		{"upper-case epoch", strings.Replace(good, "ab", "AB", 1)},
		{"upper-case nonce", strings.Replace(good, "ff", "FF", 1)},
		{"hex seq", "000000000000004a" + good[16:]},
		{"sign", "+000000000000042" + good[16:]},
		{"beyond MaxSeq", "9007199254740992" + good[16:]},
		{"wrong separator", strings.Replace(good, "-", "_", 1)},
		{"wrong suffix", strings.Replace(good, "jsonl", "jsonx", 1)},
		{"short", good[1:]},
		{"long", "0" + good},
		{"newline", good + "\n"},
		{"underscore digit", "000000000000_042" + good[16:]},
		{"space nonce", good[:26] + " 1020304050607ff.jsonl.zst"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if n, err := ParseName(tt.s); !errors.Is(err, segment.ErrCorrupt) || n != (Name{}) {
				t.Errorf("ParseName(%q) = %+v, %v; want ErrCorrupt", tt.s, n, err)
			}
		})
	}
}

func TestNamesSortBySeq(t *testing.T) {
	a := Name{First: 9, Epoch: 7, Nonce: NewNonce()}
	b := Name{First: 10, Epoch: 2, Nonce: NewNonce()}
	if a.String() >= b.String() {
		t.Errorf("%s does not sort before %s", a, b)
	}
}

func TestNewNonce(t *testing.T) {
	a, b := NewNonce(), NewNonce()
	if a == b || a == (Nonce{}) {
		t.Errorf("nonces %s and %s are not fresh", a, b)
	}
	if s := a.String(); len(s) != 16 || !lowerHex(s) {
		t.Errorf("String = %q, want 16 lower-case hex digits", s)
	}
}

func FuzzEscapeID(f *testing.F) {
	for _, id := range []string{"a", "a/b", "..", ".", "=2E", "==", "a=b", strings.Repeat("/", 67), strings.Repeat("x", 201), "\x00", "ü"} {
		f.Add(id, id+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ea, eb := EscapeID(a), EscapeID(b)
		if a != b && ea == eb {
			t.Fatalf("%q and %q both escape to %q", a, b, ea)
		}
		if strings.ContainsRune(ea, '/') || strings.HasPrefix(ea, ".") || len(ea) > 200 {
			t.Fatalf("EscapeID(%q) = %q", a, ea)
		}
		for i := range len(ea) {
			if ea[i] != '=' && !plainByte(ea[i]) {
				t.Fatalf("EscapeID(%q) = %q holds %q", a, ea, ea[i])
			}
		}
		id, exact, ok := UnescapeID(ea)
		if valid := CheckID(a) == nil; exact && (id != a || !valid) || valid && !ok || !exact && id != "" {
			t.Fatalf("UnescapeID(EscapeID(%q)) = %q, %v, %v", a, id, exact, ok)
		}
		if k := SegmentKey(a, Name{First: segment.MaxSeq}); len(k) > 1024 || strings.Count(k, "/") != 2 || !utf8.ValidString(k) {
			t.Fatalf("SegmentKey(%q) = %q", a, k)
		}
	})
}

func FuzzUnescapeID(f *testing.F) {
	for _, esc := range []string{"a", "=2E", "=2e", "==", strings.Repeat("x", 120) + "==" + strings.Repeat("0", 32)} {
		f.Add(esc)
	}
	f.Fuzz(func(t *testing.T, esc string) {
		id, exact, ok := UnescapeID(esc)
		if exact && EscapeID(id) != esc {
			t.Fatalf("UnescapeID(%q) = %q, which escapes to %q", esc, id, EscapeID(id))
		}
		if exact && !ok || exact && CheckID(id) != nil {
			t.Fatalf("UnescapeID(%q) = %q, %v, %v", esc, id, exact, ok)
		}
	})
}

func FuzzParseName(f *testing.F) {
	f.Add("0000000000000042-000000ab-01020304050607ff.jsonl.zst")
	f.Add("9007199254740992-000000ab-01020304050607ff.jsonl.zst")
	f.Add("../x")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err == nil && n.String() != s {
			t.Fatalf("ParseName(%q).String() = %q", s, n)
		}
	})
}
