package manifest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What is left of a damaged manifest is what it said, wherever the damage is.
func TestSalvage(t *testing.T) {
	tail := []byte("sixteen bytes of")
	text := base64.StdEncoding.EncodeToString(tail)
	origin := `{"kind":"fresh","inherited":0,"parent":null}`
	whole := `{"format":"x","uid":"u\u0031","epoch":7,"header":{"a":"b"},"origin":` + origin + `,"tail":"` + text + `","tree":{},"sum":"0"}` + "\n"
	for _, tc := range []struct {
		name, body  string
		uid, header string
		origin      bool
		tail        int
		all         bool
	}{
		{"intact", whole, "u1", `{"a":"b"}`, true, 16, true},
		{"empty", "", "", "", false, 0, false},
		{"no object", "[" + whole[1:], "", "", false, 16, true},
		{"a name is broken", strings.Replace(whole, `"header`, `"\header`, 1), "u1", "", false, 16, true},
		{"a value is broken", strings.Replace(whole, `"fresh"`, `"\fresh`, 1), "u1", `{"a":"b"}`, false, 16, true},
		{"no name", strings.Replace(whole, `"origin"`, `origin"`, 1), "u1", `{"a":"b"}`, false, 16, true},
		{"no header", strings.Replace(whole, `{"a":"b"}`, "null", 1), "u1", "", true, 16, true},
		{"no origin", strings.Replace(whole, origin, `{"kind":7}`, 1), "u1", `{"a":"b"}`, false, 16, true},
		{"in the header, too", strings.Replace(whole, `{"a":"b"}`, `{"tail":"AAAA"}`, 1), "u1", `{"tail":"AAAA"}`, true, 16, true},
		{"cut in the tail", whole[:strings.Index(whole, text)+10], "u1", `{"a":"b"}`, true, 7, false},
		{"in the header alone", strings.Replace(strings.Replace(whole, `{"a":"b"}`, `{"tail":"AAAA"}`, 1), `,"tail":"`+text, `,"tale":"`+text, 1), "u1", `{"tail":"AAAA"}`, true, 0, false},
		{"in the header, and cut before the tail", strings.Replace(whole[:strings.Index(whole, `,"tail":"`+text)], `{"a":"b"}`, `{"tail":"AAAA"}`, 1), "u1", `{"tail":"AAAA"}`, true, 0, false},
		{"cut behind a digit", whole[:strings.Index(whole, text)+9], "u1", `{"a":"b"}`, true, 6, false},
		{"cut before the tail", whole[:strings.Index(whole, `,"tail":"`+text)], "u1", `{"a":"b"}`, true, 0, false},
		{"the tail is broken", strings.Replace(whole, text, text[:9]+"*"+text[10:], 1), "u1", `{"a":"b"}`, true, 16, false},
		{"a quote in the tail", strings.Replace(whole, text, text[:9]+`"`+text[10:], 1), "u1", `{"a":"b"}`, true, 16, false},
		{"bits left over", strings.Replace(whole, text, text[:len(text)-3]+"h==", 1), "u1", `{"a":"b"}`, true, 16, true},
		{"far too long", strings.Replace(whole, text, strings.Repeat("AAAA", MaxTail), 1), "u1", `{"a":"b"}`, true, MaxTail / 4 * 3, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := Salvage([]byte(tc.body))
			if r.UID != tc.uid || string(r.Header) != tc.header || (r.Origin != nil) != tc.origin || len(r.Tail) != tc.tail || !slices.Equal(r.Counts, []uint32{7}[:min(1, len(tc.body))]) || r.Whole != tc.all {
				t.Errorf("%.400s", fmt.Sprintf("%+v", r))
			}
			if !bytes.HasPrefix(tail, r.Tail[:min(6, len(r.Tail))]) && tc.tail <= 16 {
				t.Errorf("%q", r.Tail)
			}
		})
	}
	// Damage behind the tail does not reach into it, and nothing makes it fail.
	end := strings.Index(whole, text) + len(text)
	for n := range whole {
		for _, c := range []byte("\x00\"\\{}[]") {
			b := []byte(whole)
			b[n] = c
			if r := Salvage(b); n >= end && !bytes.HasPrefix(r.Tail, tail) || len(r.Tail) > len(whole) {
				t.Errorf("byte %d: %q", n, r.Tail)
			}
		}
	}
}
