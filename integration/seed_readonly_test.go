package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/localstack"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
)

// interruptedIn is a turn with an open compaction, behind a boundary.
const interruptedIn = `{"type":"session/end-seed","data":{}}
{"type":"turn/start","data":{"turn":1}}
{"type":"step/start","data":{"turn":1,"step":1}}
{"type":"compaction/start","data":{"compactionId":"c1","turn":1}}`

func splitLines(text string) (lines [][]byte) {
	for line := range strings.Lines(text) {
		lines = append(lines, []byte(strings.TrimSuffix(line, "\n")))
	}
	return lines
}

// audited is a log with segments and an interrupted turn, another one, and an
// auditor who may read the first one only.
func audited(t *testing.T) (r *rig, who localstack.Identity, want []string) {
	t.Helper()
	r = newRig(t)
	l, err := backend.New(r.direct, foreground).Create(auditedLog, backend.CreateOptions{Header: []byte(auditedHeader)})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, notes(t, 0, 300)...)
	mustAppend(t, l, notes(t, 300, 300)...)
	if _, err := l.Append(t.Context(), splitLines(interruptedIn), backend.AppendOptions{Boundary: true, Last: true}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, mustCreate(t, r.direct, "a", quick), note(0))
	who = r.user(t)
	r.SetPolicy(t, r.bucket, readPolicy(t, "auditor-of-one-log", r.bucket, who.AccessKey, auditedLog).String())
	return r, who, checkedRead(t, backend.NewReader(r.direct, quick), auditedLog)
}

const (
	auditedLog    = "a/log"
	auditedHeader = `{"type":"session","version":0,"id":"a/log","createdAt":1,"delegationDepth":0}`
)

// longer is the session of a log, and one event more.
func longer(lines []string) string {
	return fmt.Sprintf("%s\n{\"type\":\"note\",\"seq\":%d,\"time\":1,\"data\":0}\n", strings.Join(lines, "\n"), len(lines))
}

// versions are all objects of a bucket.
func versions(t *testing.T, store objstore.Store) map[string]objstore.Version {
	t.Helper()
	m := make(map[string]objstore.Version)
	for info, err := range store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		m[info.Key] = info.Version
	}
	return m
}

// Who may get the objects of one log and nothing else reads, follows, judges and
// verifies it, and is refused whatever writes, by name and at once.
func TestAuditorOfOneLog(t *testing.T) {
	r, who, want := audited(t)
	store := r.as(t, who)
	r.proxy.Take()
	if err := audit(t, store, auditedLog); err != nil {
		t.Error(err)
	}
	reader := backend.NewReader(store, quick)
	pair := seedpath.Pairs["compaction"]
	if c, err := reader.Check(t.Context(), auditedLog, pair, backend.CheckOptions{}); err != nil || c.Answer != seedpath.Live {
		t.Errorf("%+v, %v", c, err)
	}
	if got, err := read(t, store, auditedLog, 0); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d events, %v", len(got), err)
	}
	closers := 0
	for e, err := range reader.Inspect(t.Context(), auditedLog) {
		if err != nil {
			t.Error(err)
		}
		if e.Synthetic {
			closers++
		}
	}
	if closers != 2 {
		t.Errorf("inspect: %d closers", closers)
	}
	onlyReads(t, r.proxy.Take())
	for name, err := range map[string]error{
		"another log": audit(t, store, "a"),
		"listing":     firstOf(reader.List(t.Context(), backend.ListOptions{})),
	} {
		if !errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrMissing) {
			t.Errorf("%s: %v", name, err)
		}
	}

	before := versions(t, r.direct)
	more := each(splitLines(longer(want)))
	for name, do := range map[string]func(b *backend.Backend) error{
		"append":           func(b *backend.Backend) error { return firstAppend(t, b, backend.AppendOptions{}) },
		"append, and last": func(b *backend.Backend) error { return firstAppend(t, b, backend.AppendOptions{Key: "k", Last: true}) },
		"create or append": func(b *backend.Backend) error {
			l, err := b.Create(auditedLog, backend.CreateOptions{OrAdopt: true})
			return appendTo(t, l, err)
		},
		"create": func(b *backend.Backend) error {
			l, err := b.Create("new", backend.CreateOptions{})
			return appendTo(t, l, err)
		},
		"resume": func(b *backend.Backend) error {
			_, _, err := b.Resume(t.Context(), auditedLog, backend.ResumeOptions{})
			return err
		},
		"resume and release": func(b *backend.Backend) error {
			_, _, err := b.Resume(t.Context(), auditedLog, backend.ResumeOptions{Release: true})
			return err
		},
		"delayed resume": func(b *backend.Backend) error {
			l, _, err := b.Resume(t.Context(), auditedLog, backend.ResumeOptions{Delay: true})
			return appendTo(t, l, err)
		},
		"claim": func(b *backend.Backend) error {
			l, _, err := b.Resume(t.Context(), auditedLog, backend.ResumeOptions{Delay: true})
			if err == nil {
				_, err = l.Claim(t.Context())
			}
			return err
		},
		"fork of it": func(b *backend.Backend) error {
			at := int64(400)
			_, _, err := b.Fork(t.Context(), auditedLog, "child", backend.ForkOptions{At: &at})
			return err
		},
		"fork into it": func(b *backend.Backend) error {
			_, _, err := b.Fork(t.Context(), "a", auditedLog, backend.ForkOptions{Parent: backend.NewReader(r.direct, quick)})
			return err
		},
		"import of more": func(b *backend.Backend) error {
			_, err := b.Import(t.Context(), auditedLog, more, backend.ImportOptions{Header: []byte(auditedHeader)})
			return err
		},
		"import": func(b *backend.Backend) error {
			_, err := b.Import(t.Context(), "new", more, backend.ImportOptions{})
			return err
		},
		"replay": func(b *backend.Backend) error {
			_, _, err := b.Replay(t.Context(), "new", more, backend.ReplayOptions{})
			return err
		},
	} {
		for _, endpoint := range []string{"proved", "unknown"} {
			st := store
			if endpoint == "unknown" {
				st = openS3(t, r.proxy.URL, r.bucket, who.AccessKey, who.SecretKey, unproved)
			}
			r.proxy.Take()
			err := do(backend.New(st, foreground))
			if !errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrOutcomeUnknown) || hintOf(err) == "" {
				t.Errorf("%s, %s endpoint: %v, hint %q", name, endpoint, err, hintOf(err))
			}
			e := r.proxy.Take()
			for _, x := range e {
				if x.Op != faultproxy.Get && (x.Op != faultproxy.Put || x.Status != 403) {
					t.Errorf("%s, %s endpoint: %s %s answered %d", name, endpoint, x.Op, x.Key, x.Status)
				}
			}
			if n := e.Counts()[faultproxy.Put]; n > 1 {
				t.Errorf("%s, %s endpoint: tried %d times", name, endpoint, n)
			}
		}
	}
	if after := versions(t, r.direct); !maps.Equal(before, after) {
		t.Errorf("%d objects before, %d after", len(before), len(after))
	}
}

func firstOf[T any](seq func(func(T, error) bool)) (err error) {
	seq(func(_ T, e error) bool { err = e; return false })
	return err
}

func firstAppend(t *testing.T, b *backend.Backend, opt backend.AppendOptions) error {
	l, err := b.Adopt(t.Context(), auditedLog, backend.AdoptOptions{})
	if err == nil {
		_, err = l.Append(t.Context(), [][]byte{note(0)}, opt)
	}
	return err
}

func appendTo(t *testing.T, l *backend.Log, err error) error {
	if err == nil {
		_, err = l.Append(t.Context(), [][]byte{note(0)}, backend.AppendOptions{})
		_ = l.Close(context.WithoutCancel(t.Context()), backend.CloseOptions{})
	}
	return err
}

// A log that is not there is not found where the server says so. Where it says
// 403, as AWS does to whoever may not list, it may be either, and so it is said.
func TestAbsentOrDenied(t *testing.T) {
	r := newRig(t)
	who := r.user(t)
	r.SetPolicy(t, r.bucket, readPolicy(t, "auditor-of-one-log", r.bucket, who.AccessKey, "missing").String())
	reader := backend.NewReader(r.as(t, who), quick)
	ctl := r.ctl(t).as(who)
	if _, err := reader.Info(t.Context(), "missing"); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("%v", err)
	}
	ctl.want(5, "", "check", "missing")

	r.proxy.Add(faultproxy.Rule{Times: -1, Fault: faultproxy.DenyAbsent()})
	_, err := reader.Info(t.Context(), "missing")
	if !errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrNotFound) || !bothReadings(hintOf(err)) {
		t.Errorf("%v, hint %q", err, hintOf(err))
	}
	for _, verb := range []string{"cat", "tail", "info", "inspect", "check", "verify", "export", "append", "resume"} {
		got := ctl.want(7, string(note(0))+"\n", verb, "missing", "--output", "json")
		e := fields[errorJSON](t, got.stderr)
		if e.Code != "denied" || !bothReadings(e.Hint) || e.Key != manifest.Key("missing") || got.stdout != "" {
			t.Errorf("%s: %+v\n%s", verb, e, got.stdout)
		}
	}
	if e := r.proxy.Take(); len(e) != e.Counts()[faultproxy.Get] {
		t.Errorf("requests: %v", e.Counts())
	}
}

func bothReadings(hint string) bool {
	return strings.Contains(hint, "may not read") && strings.Contains(hint, "not exist") && strings.Contains(hint, "list the bucket")
}

// as is the command with a user's keys.
func (c command) as(who localstack.Identity) command {
	c.accessKey, c.secretKey = who.AccessKey, who.SecretKey
	return c
}

// The same from a shell.
func TestAuditorsAtTheCommandLine(t *testing.T) {
	r, who, want := audited(t)
	ctl := r.ctl(t).as(who)
	all := strings.Join(want, "\n") + "\n"
	file := filepath.Join(t.TempDir(), "session.jsonl")
	if err := os.WriteFile(file, []byte(auditedHeader+"\n"+longer(want)), 0o600); err != nil {
		t.Fatal(err)
	}
	before := versions(t, r.direct)
	r.proxy.Take()

	if got := ctl.want(0, "", "cat", auditedLog); got.stdout != all {
		t.Errorf("cat: %d bytes, want %d", len(got.stdout), len(all))
	}
	if got := ctl.want(0, "", "tail", auditedLog, "-n", "2"); got.stdout != strings.Join(want[len(want)-2:], "\n")+"\n" {
		t.Errorf("tail: %s", got.stdout)
	}
	if got := ctl.want(0, "", "inspect", auditedLog); !strings.HasPrefix(got.stdout, all) || strings.Count(got.stdout, "\n") != len(want)+2 {
		t.Errorf("inspect: %d lines", strings.Count(got.stdout, "\n"))
	}
	ctl.want(0, "", "inspect", auditedLog, "--raw")
	ctl.want(0, "", "export", auditedLog)
	info := fields[struct{ Root string }](t, ctl.want(0, "", "info", auditedLog, "--output", "json").stdout)
	ctl.want(0, "", "verify", auditedLog, "--since", info.Root)
	for _, flags := range [][]string{nil, {"--verify"}, {"--id", "compactionId"}} {
		got := ctl.want(3, "", append([]string{"check", auditedLog, "--output", "json"}, flags...)...)
		if c := fields[checkJSON](t, got.stdout); c.Verdict != "live" || c.Open.Seq != int64(len(want)-1) {
			t.Errorf("check %q: %s", flags, got.stdout)
		}
	}
	onlyReads(t, r.proxy.Take())

	const events = "{\"type\":\"note\",\"data\":0}\n"
	for _, unknown := range []bool{false, true} {
		if unknown {
			ctl.change = unproved
		}
		for _, args := range [][]string{
			{"append", auditedLog}, {"append", auditedLog, "--create"}, {"append", "new", "--create"}, {"append", auditedLog, "--stream"},
			{"resume", auditedLog}, {"fork", auditedLog, "child", "--at", "400"}, {"fork", "a", auditedLog},
			{"import", file, "--log", auditedLog}, {"import", file, "--log", "new"}, {"replay", "new", file}, {"ls"},
		} {
			got := ctl.want(7, events, append(args, "--output", "json")...)
			if e := fields[errorJSON](t, got.stderr); e.Code != "denied" || e.Hint == "" {
				t.Errorf("%q: %s", args, got.stderr)
			}
		}
	}
	if after := versions(t, r.direct); !maps.Equal(before, after) {
		t.Errorf("%d objects before, %d after", len(before), len(after))
	}

	// Whoever may read and list everything finds the logs, too.
	r.SetPolicy(t, r.bucket, readPolicy(t, "auditor", r.bucket, who.AccessKey, "").String())
	ctl.change = nil
	if got := ctl.want(0, "", "ls", "--output", "json"); strings.Count(got.stdout, "\n") != 2 {
		t.Error(got.stdout)
	}
	ctl.want(0, "", "verify", "--all")
	ctl.want(7, events, "append", "a", "--take-over")
}
