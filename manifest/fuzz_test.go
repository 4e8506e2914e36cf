package manifest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/s3log/s3log/segment"
)

// FuzzDecode: no input makes Decode panic, every error is one of two, and
// whatever is accepted is written again as it was. The input is tried as it is
// and with a sum that fits, so that mutations reach what is behind the sum.
func FuzzDecode(f *testing.F) {
	for _, make := range records {
		f.Add(encode(f, make()))
	}
	body := encode(f, openRecord())
	f.Add(body[:len(body)-sumLen])
	f.Add(reseal(f, body, `"version":1`, `"version":2`))
	f.Add(reseal(f, body, `"critical":[]`, `"critical":["x"]`))
	f.Add(reseal(f, body, `"x-later"`, `"tail"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzDecode(t, b)
		if cut := len(b) - sumLen; cut > 0 && bytes.HasSuffix(b, []byte(sumEnd)) {
			b = b[:cut]
		}
		fuzzDecode(t, seal(string(b)))
	})
}

// FuzzDecodeEdited is FuzzDecode on good manifests with one edit: cut bytes of
// the original at some place give way to others, and the sum fits again.
func FuzzDecodeEdited(f *testing.F) {
	var originals []string
	for _, name := range []string{"open", "fresh", "deleted", "void"} {
		b := encode(f, records[name]())
		originals = append(originals, string(b[:len(b)-sumLen]))
	}
	f.Add(uint8(0), uint16(60), uint8(1), []byte("2"))
	f.Add(uint8(0), uint16(200), uint8(0), []byte(` "x":`))
	f.Add(uint8(1), uint16(0), uint8(0), []byte("\ufeff"))
	f.Add(uint8(3), uint16(255), uint8(0), []byte(`,"tail":""`))
	for i, s := range originals {
		for at := 0; at < len(s); at += 97 {
			f.Add(uint8(i), uint16(at), uint8(3), []byte(`\ud800`))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, cut uint8, insert []byte) {
		s := originals[int(which)%len(originals)]
		from := min(int(at), len(s))
		to := min(from+int(cut), len(s))
		fuzzDecode(t, seal(s[:from]+string(insert)+s[to:]))
	})
}

func fuzzDecode(t *testing.T, b []byte) {
	r, err := Decode(b)
	if err != nil {
		if errors.Is(err, segment.ErrCorrupt) == errors.Is(err, segment.ErrUnsupportedVersion) {
			t.Fatalf("Decode: %v; want one of ErrCorrupt, ErrUnsupportedVersion", err)
		}
		return
	}
	again, err := r.Encode()
	if err != nil {
		t.Fatalf("Encode of what was decoded: %v", err)
	}
	if !bytes.Equal(b, again) {
		t.Fatalf("Encode of what was decoded:\nread    %q\nwritten %q", b, again)
	}
}

// FuzzUnknown: members that a record carries along come back as they were, or
// the record is not written at all.
func FuzzUnknown(f *testing.F) {
	f.Add([]byte(`"x":1`), []byte(`{}`))
	f.Add([]byte(`"x":1,"y":[{"a":"\ud800"}]`), []byte(`{"a": 1,"a":2}`))
	f.Add([]byte(`"sum":"00000000"`), []byte("{\"a\":\r1}"))
	f.Add([]byte(`"x":1},{"y":2`), []byte(`{},"state":{}`))
	f.Fuzz(func(t *testing.T, unknown, header []byte) {
		r := freshRecord()
		r.Unknown, r.Header = unknown, header
		body, err := r.Encode()
		if err != nil {
			return
		}
		got, err := Decode(body)
		if err != nil {
			t.Fatalf("Decode of what was written: %v\n%q", err, body)
		}
		if !bytes.Equal(got.Unknown, unknown) || !bytes.Equal(got.Header, header) {
			t.Fatalf("came back as %q and %q", got.Unknown, got.Header)
		}
	})
}
