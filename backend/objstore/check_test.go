package objstore

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckKey(t *testing.T) {
	good := []string{
		"a", "manifests/x.json", "segments/=2Fa/0000000000000000-00000001-0123456789abcdef.jsonl.zst",
		"a=b/c..d/.e/f+g%h_i-j", "...", strings.Repeat("k", MaxKey),
	}
	for _, key := range good {
		if err := CheckKey(key); err != nil {
			t.Errorf("CheckKey(%q) = %v", key, err)
		}
	}
	bad := []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/./b", "../a", "a/..", "a b", "a\x00", "a\nb", `a\b`,
		"ü", "\x7f", strings.Repeat("k", MaxKey+1),
	}
	for _, key := range bad {
		if CheckKey(key) == nil {
			t.Errorf("CheckKey(%q) accepts it", key)
		}
	}
}

func TestCheckMetadata(t *testing.T) {
	for _, m := range []map[string]string{nil, {"s3log-next": "12"}, {"a": ""}, {"a1": "with space ~"}} {
		if err := CheckMetadata(m); err != nil {
			t.Errorf("CheckMetadata(%q) = %v", m, err)
		}
	}
	for _, m := range []map[string]string{{"": "x"}, {"A": "x"}, {"a_b": "x"}, {"a": "ü"}, {"a": "x\n"}, {"a": "\x7f"}} {
		if CheckMetadata(m) == nil {
			t.Errorf("CheckMetadata(%q) accepts it", m)
		}
	}
}

func TestSpan(t *testing.T) {
	for _, tc := range []struct {
		opt         GetOptions
		size        int64
		off, length int64
		err         error
	}{
		{GetOptions{}, 10, 0, 10, nil},
		{GetOptions{}, 0, 0, 0, nil},
		{GetOptions{Offset: 2, Length: 3}, 10, 2, 3, nil},
		{GetOptions{Offset: 9, Length: 5}, 10, 9, 1, nil},
		{GetOptions{Length: 1 << 62}, 10, 0, 10, nil},
		{GetOptions{Offset: 1, Length: 1<<63 - 1}, 10, 1, 9, nil},
		{GetOptions{Offset: 10, Length: 1}, 10, 0, 0, ErrRange},
		{GetOptions{Length: 1}, 0, 0, 0, ErrRange},
		{GetOptions{Limit: 10}, 10, 0, 10, nil},
		{GetOptions{Limit: 9}, 10, 0, 0, ErrTooLarge},
		{GetOptions{Offset: 5, Length: 9, Limit: 5}, 10, 5, 5, nil},
		{GetOptions{Offset: 1}, 10, 0, 0, ErrRejected},
		{GetOptions{Offset: -1, Length: 2}, 10, 0, 0, ErrRejected},
		{GetOptions{Length: -1}, 10, 0, 0, ErrRejected},
		{GetOptions{Limit: -1}, 10, 0, 0, ErrRejected},
	} {
		off, length, err := tc.opt.Span(tc.size)
		if off != tc.off || length != tc.length || !errors.Is(err, tc.err) {
			t.Errorf("%+v of %d: %d+%d, %v; want %d+%d, %v", tc.opt, tc.size, off, length, err, tc.off, tc.length, tc.err)
		}
	}
}
