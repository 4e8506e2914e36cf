package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/segment"
)

// What the links of a chain say again and again is said once.
func TestErrorText(t *testing.T) {
	const key, seg = "manifests/log.json", "segments/log/0.zst"
	at := func(op, log, key string, seq int64, err error) error {
		return &backend.OpError{Op: op, Log: log, Key: key, Seq: seq, Err: err}
	}
	wrap := func(format string, args ...any) error { return fmt.Errorf(format, args...) }
	gone := &objstore.Error{Op: "Get", Key: key, Class: objstore.ErrNotExist, Code: "NoSuchKey", Status: 404}
	denied := &objstore.Error{Op: "Put", Key: "probe/1", Class: objstore.ErrDenied, Code: "AccessDenied", Status: 403, Err: errors.New("Access Denied")}
	for _, test := range []struct {
		name string
		err  error
		verb string
		want string
	}{
		{"nothing", nil, "cat", ""},
		{"no error of ours", errors.New("disk is full"), "cat", "disk is full"},
		{"no such log", at("load", "log", key, -1, wrap("%w: %w", backend.ErrNotFound, gone)), "cat",
			`cat "log" (object "manifests/log.json"): no such log`},
		{"steps of one log", at("append", "log", "", -1, at("append", "log", key, -1, at("commit", "log", key, -1, backend.ErrFenced))), "append",
			`append "log" (object "manifests/log.json"): fenced`},
		{"behind what cmd says", wrap("stdin, line 3: %w", at("append", "log", key, -1, &segment.EventError{Index: 2, Type: "note", Reason: "no data", Err: segment.ErrInvalidEvent})), "append",
			`stdin, line 3: append "log" (object "manifests/log.json"): invalid event: type "note": no data`},
		{"a segment that is not there", at("copy", "log", "", -1, wrap("source: %w", at("read", "log", seg, 3,
			wrap("%w: segment of seqs 3 to 5: %w", backend.ErrMissing, &objstore.Error{Op: "Get", Key: seg, Class: objstore.ErrNotExist})))), "cp",
			`cp "log" (object "segments/log/0.zst") at seq 3: source: object is missing: segment of seqs 3 to 5`},
		{"another object that is not there", at("read", "log", key, -1, wrap("%w: %w", backend.ErrMissing, &objstore.Error{Op: "Get", Key: seg, Class: objstore.ErrNotExist})), "cat",
			`cat "log" (object "manifests/log.json"): object is missing: Get segments/log/0.zst: object does not exist`},
		{"another object of the log", at("append", "log", key, -1, at("seal", "log", seg, 3, errors.New("it broke"))), "append",
			`append "log" (object "manifests/log.json"): (object "segments/log/0.zst") at seq 3: it broke`},
		{"another log", at("fork", "child", "", -1, wrap("parent: %w", at("load", "log", key, -1, backend.ErrCorrupt))), "fork",
			`fork "child": parent: read "log" (object "manifests/log.json"): damaged`},
		{"without a verb", at("load", "log", key, -1, backend.ErrCorrupt), "", `"log" (object "manifests/log.json"): damaged`},
		{"without a log", at("list", "", "", -1, &objstore.Error{Op: "List", Key: "manifests/", Class: objstore.ErrDenied}), "", "List manifests/: access denied"},
		{"denied below a proof", at("append", "log", key, -1, &objstore.Error{Op: "Put", Key: key, Class: objstore.ErrDenied, Err: wrap("store proof: %w", denied)}), "append",
			`append "log" (object "manifests/log.json"): Put: access denied: store proof: Put probe/1: (AccessDenied, HTTP 403): Access Denied`},
		{"a read without an answer", at("load", "log", key, -1, &objstore.Error{Op: "Get", Key: key, Class: objstore.ErrUndecided, Err: errors.New("refused")}), "cat",
			`cat "log" (object "manifests/log.json"): Get: no answer: refused`},
		{"a write without an answer", at("append", "log", key, -1, wrap("%w: %w", backend.ErrOutcomeUnknown, &objstore.Error{Op: "Put", Key: key, Class: objstore.ErrUndecided, Status: 500})), "append",
			`append "log" (object "manifests/log.json"): outcome unknown: Put: no decisive reply (HTTP 500)`},
		{"two causes", at("append", "log", key, -1, errors.Join(backend.ErrDenied, context.Canceled)), "append",
			"append \"log\" (object \"manifests/log.json\"): refused: access denied\ninterrupted"},
		{"an odd id", at("load", "a\x1bb", "manifests/a=1Bb.json", -1, backend.ErrNotFound), "cat", `cat "a\x1bb" (object "manifests/a=1Bb.json"): no such log`},
	} {
		if got := errorText(test.err, test.verb); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}
