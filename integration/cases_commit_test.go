package integration

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/localstack"
	"github.com/s3log/s3log/manifest"
)

// The tests named A… are reports of users of similar software, replayed on a
// real server through a proxy that makes the fault. docs/cases.md lists them all.

// conditions are the conditions of the manifest's PUTs among some requests.
func conditions(e faultproxy.Entries) (list []string) {
	for _, r := range e.Of(faultproxy.Put, "/manifests/") {
		c, _, _ := strings.Cut(r.Condition, ":")
		list = append(list, c)
	}
	return list
}

// one's own write is answered 412, because an earlier copy of it landed
// whose reply was lost. It counts once, and the next write builds on it.
func TestA01OwnWriteAnswered412(t *testing.T) {
	faults := map[string]faultproxy.Fault{
		"reply lost":           faultproxy.LoseReply(),
		"request lost":         faultproxy.LoseRequest(),
		"request cut":          faultproxy.CutRequest(100),
		"reply cut":            faultproxy.CutReply(0),
		"sent twice":           faultproxy.Repeat(),
		"applied, then 500":    faultproxy.ApplyThen(500, "InternalError", ""),
		"applied, then 503":    faultproxy.ApplyThen(503, "SlowDown", ""),
		"applied, then a page": faultproxy.ApplyThen(502, "", ""),
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			l := mustCreate(t, r.store, "log", quick)
			// The first, an append and a takeover meet it.
			for i := range 4 {
				if i == 2 {
					l = mustAdopt(t, r.store, "log", quick)
				}
				r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Key: "manifests/", Fault: fault})
				got := mustAppend(t, l, note(i))
				if got.First != int64(i) || got.Count != 1 || got.Next != int64(i)+1 || got.Duplicate {
					t.Errorf("receipt %+v of event %d", got, i)
				}
			}
			mustAppend(t, l, note(4))
			holds(t, r.direct, "log", 0, 1, 2, 3, 4)
		})
	}

	// The same replies, but the write that landed is another's.
	for name, cond := range map[string]int{"create": 0, "append": 1} {
		t.Run("foreign "+name, func(t *testing.T) {
			r := newRig(t)
			l := mustCreate(t, r.store, "log", quick)
			for i := range cond {
				mustAppend(t, l, note(i))
			}
			var rival *backend.Log
			r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Key: "manifests/", Fault: func(x *faultproxy.Exchange) {
				var err error
				if rival, err = backend.New(r.direct, quick).Create("log", backend.CreateOptions{OrAdopt: true}); err == nil {
					_, err = rival.Append(t.Context(), [][]byte{note(77)}, backend.AppendOptions{})
				}
				if err != nil {
					t.Error(err)
				}
				x.HangUp()
			}})
			_, err := l.Append(t.Context(), [][]byte{note(9)}, backend.AppendOptions{})
			if name == "create" {
				if !errors.Is(err, backend.ErrExists) {
					t.Errorf("got %v", err)
				}
				holds(t, r.direct, "log", 77)
				return
			}
			if !errors.Is(err, backend.ErrFenced) || !strings.Contains(err.Error(), rival.Writer()) {
				t.Errorf("got %v, want one that names %s", err, rival.Writer())
			}
			holds(t, r.direct, "log", 0, 77)
		})
	}
}

// 409 means neither "exists" nor "lost": the same request goes again.
func TestA02ConflictIsRepeated(t *testing.T) {
	for _, code := range []string{"ConditionalRequestConflict", "OperationAborted"} {
		r := newRig(t)
		l := mustCreate(t, r.store, "log", quick)
		for i := range 2 {
			r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Key: "manifests/", Times: 2, Fault: faultproxy.Refuse(409, code, "")})
			r.proxy.Take()
			mustAppend(t, l, note(i))
			e := r.proxy.Take()
			if len(e) != 3 || e[0].Sum != e[2].Sum || e[0].Condition != e[2].Condition || e.Counts()[faultproxy.Put] != 3 {
				t.Errorf("%s: requests %+v, want the same PUT three times", code, e.Counts())
			}
		}
		holds(t, r.direct, "log", 0, 1)
	}

	t.Run("then 412", func(t *testing.T) {
		r := newRig(t)
		l := mustCreate(t, r.store, "log", quick)
		r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Fault: func(x *faultproxy.Exchange) {
			mustAppend(t, mustCreate(t, r.direct, "log", quick), note(77))
			x.Answer(faultproxy.Error(409, "ConditionalRequestConflict", ""))
		}})
		if _, err := l.Append(t.Context(), [][]byte{note(0)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrExists) {
			t.Errorf("got %v", err)
		}
		holds(t, r.direct, "log", 77)
	})
}

// the manifest was deleted under a writer's feet: 404 on If-Match. That
// log is gone, and must not come back with only its newest events.
func TestA03VanishedLogIsNotBegunAgain(t *testing.T) {
	for name, batch := range map[string]int{"tail": 1, "segment": 300} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			l := mustCreate(t, r.store, "log", foreground)
			mustAppend(t, l, note(0))
			if err := r.direct.Delete(t.Context(), manifest.Key("log")); err != nil {
				t.Fatal(err)
			}
			r.proxy.Take()
			for range 2 {
				_, err := l.Append(t.Context(), notes(t, 0, batch), backend.AppendOptions{})
				if !errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrOutcomeUnknown) {
					t.Errorf("got %v", err)
				}
			}
			if got := conditions(r.proxy.Take()); len(got) != 1 || got[0] != "If-Match" {
				t.Errorf("manifest PUTs with %q", got)
			}
			if _, err := r.direct.Head(t.Context(), manifest.Key("log")); !errors.Is(err, objstore.ErrNotExist) {
				t.Errorf("the manifest: %v", err)
			}
		})
	}
}

// a server that does not recognise its own ETags answers 412 for ever,
// although nothing has changed. That is no other writer.
func TestA06ETagThatNeverMatches(t *testing.T) {
	r := newRig(t)
	l := mustCreate(t, r.store, "log", quick)
	mustAppend(t, l, note(0))
	tag, err := r.direct.Head(t.Context(), manifest.Key("log"))
	if err != nil {
		t.Fatal(err)
	}
	r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Times: -1, Fault: faultproxy.Refuse(412, "PreconditionFailed", "")})
	r.proxy.Take()
	_, err = l.Append(t.Context(), [][]byte{note(1)}, backend.AppendOptions{})
	if !errors.Is(err, backend.ErrUnsupportedStore) || errors.Is(err, backend.ErrFenced) {
		t.Errorf("got %v", err)
	}
	e := r.proxy.Take().Of(faultproxy.Put, "")
	if len(e) == 0 || len(e) > 6 {
		t.Errorf("%d PUTs", len(e))
	}
	for _, p := range e {
		if p.Condition != "If-Match: "+tag.Version.Token() {
			t.Errorf("PUT with %q, the ETag is %s", p.Condition, tag.Version)
		}
	}
	holds(t, r.direct, "log", 0)
}

// a proxy weakens or removes ETags. Reading works; a write that would
// need one is not sent.
func TestA07NoUsableETag(t *testing.T) {
	for name, rewrite := range map[string]func(string) string{
		"weak":    func(s string) string { return "W/" + s },
		"removed": func(string) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			mustAppend(t, mustCreate(t, r.direct, "log", quick), note(0))
			r.proxy.Add(faultproxy.Rule{Times: -1, Fault: faultproxy.ETag(rewrite)})
			holds(t, r.store, "log", 0)

			r.proxy.Take()
			_, err := mustAdopt(t, r.store, "log", quick).Append(t.Context(), [][]byte{note(1)}, backend.AppendOptions{})
			if !errors.Is(err, backend.ErrUnsupportedStore) || !strings.Contains(err.Error(), "proxy") {
				t.Errorf("got %v", err)
			}
			if n := r.proxy.Take().Counts()[faultproxy.Put]; n != 0 {
				t.Errorf("%d PUTs", n)
			}

			// A create needs none, what follows it does.
			l := mustCreate(t, r.store, "other", quick)
			mustAppend(t, l, note(0))
			if _, err := l.Append(t.Context(), [][]byte{note(1)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrUnsupportedStore) {
				t.Errorf("got %v", err)
			}
			if got := conditions(r.proxy.Take()); len(got) != 1 || got[0] != "If-None-Match" {
				t.Errorf("manifest PUTs with %q", got)
			}
			holds(t, r.direct, "log", 0)
			holds(t, r.direct, "other", 0)
		})
	}
}

// on a versioned bucket a deleted manifest is a delete marker, over which
// a create succeeds. A live writer never tries; whoever asks for a new log gets
// one.
func TestA16DeleteMarker(t *testing.T) {
	// To a client, S3 answers as it does where nothing ever was.
	t.Run("as S3 has it", func(t *testing.T) {
		r := newRig(t)
		l := mustCreate(t, r.store, "log", quick)
		mustAppend(t, l, note(0))
		mustAppend(t, l, note(1))
		before, err := backend.NewReader(r.store, quick).Info(t.Context(), "log")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.store.Delete(t.Context(), manifest.Key("log")); err != nil {
			t.Fatal(err)
		}
		r.proxy.Take()
		r.proxy.Add(faultproxy.Rule{Op: faultproxy.Get, Fault: faultproxy.Edit(func(p *faultproxy.Reply) {
			p.Header.Set("X-Amz-Delete-Marker", "true")
		})})
		_, err = backend.NewReader(r.store, quick).Info(t.Context(), "log")
		if !errors.Is(err, backend.ErrNotFound) || !strings.Contains(hintOf(err), "delete marker") {
			t.Errorf("info: %v, hint %q", err, hintOf(err))
		}
		if _, err := l.Append(t.Context(), [][]byte{note(2)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("append: %v", err)
		}
		if got := conditions(r.proxy.Take()); len(got) != 1 || got[0] != "If-Match" {
			t.Errorf("manifest PUTs with %q", got)
		}
		mustAppend(t, mustCreate(t, r.store, "log", quick), note(5))
		holds(t, r.direct, "log", 5)
		if after, err := backend.NewReader(r.direct, quick).Info(t.Context(), "log"); err != nil || after.UID == before.UID {
			t.Errorf("uid %s, before it %s, %v", after.UID, before.UID, err)
		}
	})

	// versitygw still compares with the version before the marker: a writer goes
	// on as if nothing had happened, a create is refused.
	t.Run("as versitygw has it", func(t *testing.T) {
		r := newRig(t, localstack.Versioning())
		if _, err := r.Client(t).PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
			Bucket: &r.bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
		}); err != nil {
			t.Fatal(err)
		}
		writers := map[string]*backend.Log{}
		for _, id := range []string{"live", "new"} {
			writers[id] = mustCreate(t, r.store, id, quick)
			mustAppend(t, writers[id], note(0))
			mustAppend(t, writers[id], note(1))
			if err := r.store.Delete(t.Context(), manifest.Key(id)); err != nil {
				t.Fatal(err)
			}
			if _, err := backend.NewReader(r.store, quick).Info(t.Context(), id); !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("info: %v", err)
			}
		}
		r.proxy.Take()
		switch _, err := writers["live"].Append(t.Context(), [][]byte{note(2)}, backend.AppendOptions{}); {
		case err == nil:
			holds(t, r.direct, "live", 0, 1, 2)
		case !errors.Is(err, backend.ErrNotFound):
			t.Errorf("append: %v", err)
		}
		if got := conditions(r.proxy.Take()); len(got) != 1 || got[0] != "If-Match" {
			t.Errorf("manifest PUTs with %q", got)
		}
		switch _, err := mustCreate(t, r.store, "new", quick).Append(t.Context(), [][]byte{note(5)}, backend.AppendOptions{}); {
		case err == nil:
			holds(t, r.direct, "new", 5)
		case !errors.Is(err, backend.ErrUnsupportedStore):
			t.Errorf("create: %v", err)
		}
	})
}

// absence after a time-out is not final: the PUT may still be on its way.
// It is repeated with the same bytes, so that it is recognised.
func TestA17LateCreate(t *testing.T) {
	t.Run("lands before the repetition", func(t *testing.T) {
		r := newRig(t)
		held := faultproxy.NewHeld()
		r.proxy.Add(
			faultproxy.Rule{Op: faultproxy.Put, Fault: held.Hold()},
			faultproxy.Rule{Op: faultproxy.Put, Fault: func(x *faultproxy.Exchange) {
				if late := held.Release(); late.Status != 200 {
					t.Errorf("the late PUT: %d", late.Status)
				}
				x.Answer(x.Forward())
			}},
		)
		l := mustCreate(t, r.store, "log", quick)
		got := mustAppend(t, l, note(0))
		e := r.proxy.Take().Of(faultproxy.Put, "")
		if len(e) != 2 || e[0].Sum != e[1].Sum || e[1].Status != 412 || got.First != 0 || got.Revision != 1 {
			t.Errorf("%d PUTs, the second answered %d, receipt %+v", len(e), e[1].Status, got)
		}
		mustAppend(t, l, note(1))
		holds(t, r.direct, "log", 0, 1)
	})
	t.Run("lands after it", func(t *testing.T) {
		r := newRig(t)
		held := faultproxy.NewHeld()
		r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Fault: held.Hold()})
		l := mustCreate(t, r.store, "log", quick)
		mustAppend(t, l, note(0))
		mustAppend(t, l, note(1))
		if late := held.Release(); late.Status != 412 {
			t.Errorf("the late PUT: %d", late.Status)
		}
		mustAppend(t, l, note(2))
		holds(t, r.direct, "log", 0, 1, 2)
	})
	for name, first := range map[string]int{"create": 0, "append": 1} {
		t.Run("given up, "+name, func(t *testing.T) {
			for _, landed := range []bool{false, true} {
				r := newRig(t)
				opt := quick
				opt.CommitTimeout = patience(200 * time.Millisecond)
				l := mustCreate(t, r.store, "log", opt)
				var want []int
				for i := range first {
					mustAppend(t, l, note(i))
					want = append(want, i)
				}
				held := faultproxy.NewHeld()
				r.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Times: -1, Fault: held.Hold()})
				_, err := l.Append(t.Context(), [][]byte{note(9)}, backend.AppendOptions{})
				if !errors.Is(err, backend.ErrOutcomeUnknown) || backend.Token(err) == "" {
					t.Fatalf("got %v", err)
				}
				if landed {
					if late := held.Release(); late.Status != 200 {
						t.Errorf("the late PUT: %d", late.Status)
					}
					want = append(want, 9)
				}
				b := backend.New(r.direct, quick)
				d, derr := b.Decide(t.Context(), backend.Token(err))
				if derr != nil || d.Committed != landed {
					t.Errorf("decided %+v, %v, it did land: %v", d, derr, landed)
				}
				// What was answered stays true, whatever else is still under way.
				for held.Waiting() > 0 {
					if late := held.Release(); late.Status == 200 {
						t.Error("a late PUT landed after the decision")
					}
				}
				if want == nil {
					if _, err := b.Info(t.Context(), "log"); !errors.Is(err, backend.ErrNotFound) {
						t.Errorf("info: %v", err)
					}
					continue
				}
				holds(t, r.direct, "log", want...)
			}
		})
	}
}

// a writer that was replaced goes on: what it uploads is never seen, and
// has a name of its own.
func TestA29ZombieWriter(t *testing.T) {
	r := newRig(t)
	zombie := mustCreate(t, r.store, "log", foreground)
	mustAppend(t, zombie, note(0))
	heir := mustAdopt(t, r.direct, "log", foreground)
	mustAppend(t, heir, note(1))

	r.proxy.Take()
	_, err := zombie.Append(t.Context(), notes(t, 0, 300), backend.AppendOptions{})
	if !errors.Is(err, backend.ErrFenced) || !strings.Contains(err.Error(), heir.Writer()) || !strings.Contains(err.Error(), "at seq 1") {
		t.Errorf("got %v, want one that names %s and seq 1", err, heir.Writer())
	}
	e := r.proxy.Take()
	orphans := e.Of(faultproxy.Put, "/segments/")
	if got := conditions(e); len(got) != 1 || len(orphans) != 1 {
		t.Errorf("%d segments and %q", len(orphans), got)
	}
	if _, err := zombie.Append(t.Context(), [][]byte{note(3)}, backend.AppendOptions{}); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("once more: %v", err)
	}
	if e := r.proxy.Take(); len(e) != 0 {
		t.Errorf("a fenced writer sent %v", e.Counts())
	}

	mustAppend(t, heir, notes(t, 0, 300)...)
	info, err := backend.NewReader(r.direct, quick).Info(t.Context(), "log")
	if err != nil || len(info.Segments) != 1 {
		t.Fatalf("%+v, %v", info.Segments, err)
	}
	if named := manifest.SegmentKey("log", info.Segments[0].Name); strings.HasSuffix(orphans[0].Key, named) {
		t.Errorf("both writers uploaded %s", named)
	}
	if got := checkedRead(t, backend.NewReader(r.direct, quick), "log"); len(got) != 302 {
		t.Errorf("%d events", len(got))
	}
}
