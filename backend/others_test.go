package backend_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// What others do to a log, behind the back of whoever appends to it: commits
// made by package manifest alone.

// commitBy makes a commit of a fresh writer on what is there.
func commitBy(t testing.TB, st objstore.Store, id string, build func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error)) {
	t.Helper()
	ctx := context.Background()
	base, err := manifest.Load(ctx, st, id, manifest.LoadOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	w := manifest.NewWriter("somebody else", "test")
	step := func(_ context.Context, base manifest.Head) (*manifest.Proposal, error) {
		d, err := build(base.Record, w)
		if err != nil {
			return nil, err
		}
		return d.Finish()
	}
	if _, err := manifest.Commit(ctx, st, base, step, manifest.Options{}); err != nil {
		t.Errorf("the other's commit: %v", err)
	}
}

// maintain commits without changing anything.
func maintain(t testing.TB, st objstore.Store, id string) {
	t.Helper()
	commitBy(t, st, id, func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
		return manifest.Maintain(base, w, base.Commit.At)
	})
}

// barrier raises the epoch, as a collector does before it removes what nobody
// names.
func barrier(t testing.TB, st objstore.Store, id string, highest uint32) {
	t.Helper()
	commitBy(t, st, id, func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
		d, err := manifest.Maintain(base, w, base.Commit.At)
		if err == nil {
			d.Barrier(highest)
		}
		return d, err
	})
}

// putSegment uploads events as a segment of a log.
func putSegment(t testing.TB, st objstore.Store, base *manifest.Record, raw []byte, first int64, state segment.State, level segment.Level) manifest.SegmentRef {
	t.Helper()
	name := manifest.Name{First: first, Epoch: base.Epoch, Nonce: manifest.NewNonce()}
	w := segment.NewWriter(segment.NewCodec(), level, segment.FrameRaw, first)
	for line, err := range segment.Lines(raw) {
		if err == nil {
			err = w.Add(line)
		}
		if err != nil {
			t.Error(err)
		}
	}
	foot := segment.Footer{Nonce: name.Nonce.String(), State: state}
	if first == 0 {
		foot.UID, foot.Log, foot.Header, foot.Origin = base.UID, base.Log, base.Header, manifest.AppendOrigin(nil, base.Origin)
	}
	object, index, err := w.Finish(foot)
	if err == nil {
		err = manifest.PutSegment(context.Background(), st, base.Log, name, object, manifest.Options{})
	}
	if err != nil {
		t.Error(err)
		return manifest.SegmentRef{}
	}
	return manifest.SegmentRef{Name: name, Count: index.Count, Bytes: int64(len(object)), Raw: int64(len(raw)), SHA256: sha256.Sum256(object)}
}

// fold moves the tail into a segment, as a collector of many small tails might.
func fold(t testing.TB, st objstore.Store, id string) {
	t.Helper()
	commitBy(t, st, id, func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
		d, err := manifest.Maintain(base, w, base.Commit.At)
		if err != nil || len(base.Tail) == 0 {
			return d, err
		}
		raw, err := segment.NewCodec().DecodeFrames(base.Tail, 64<<20)
		if err != nil {
			return nil, err
		}
		ref := putSegment(t, st, base, raw, base.TailFirst(), base.Content, segment.LevelFast)
		d.Seal(manifest.Upload{Ref: ref, TailFirst: base.TailFirst()})
		d.SetTail(nil)
		return d, nil
	})
}

// rewrite replaces every segment by another with the same events, and removes
// the old ones at once, as a collector without grace would.
func rewrite(t testing.TB, mem *memstore.Store, id string) {
	t.Helper()
	var old []manifest.Name
	commitBy(t, mem, id, func(base *manifest.Record, w manifest.Writer) (*manifest.Draft, error) {
		d, err := manifest.Maintain(base, w, base.Commit.At)
		if err != nil {
			return nil, err
		}
		for _, s := range base.Segments {
			obj, err := mem.Get(context.Background(), manifest.SegmentKey(id, s.Name), objstore.GetOptions{})
			if err != nil {
				return nil, err
			}
			r, err := segment.OpenBytes(segment.NewCodec(), obj.Body)
			if err != nil {
				return nil, err
			}
			var raw bytes.Buffer
			for line := range r.Lines(s.Name.First) {
				raw.Write(line)
				raw.WriteByte('\n')
			}
			ref := putSegment(t, mem, base, raw.Bytes(), s.Name.First, r.Index().State, segment.LevelFast)
			d.Merge(manifest.Upload{Ref: ref, Inputs: []manifest.Name{s.Name}, TailFirst: -1})
			old = append(old, s.Name)
		}
		return d, nil
	})
	for _, name := range old {
		if err := mem.Delete(context.Background(), manifest.SegmentKey(id, name)); err != nil {
			t.Error(err)
		}
	}
}

// takeOver appends one tagged event by another handle, claims it, and returns
// that handle's id; empty if there is no log yet.
func takeOver(t testing.TB, st objstore.Store, id, tag string, c *claims) (writer string) {
	t.Helper()
	ctx := context.Background()
	b := backend.New(st, backend.Options{Foreground: true, Label: tag})
	l, err := b.Adopt(ctx, id, backend.AdoptOptions{TakeOver: true})
	if err != nil {
		return ""
	}
	r, err := l.Append(ctx, [][]byte{tagged(tag, 10)}, backend.AppendOptions{})
	if err != nil {
		t.Errorf("the other's append: %v", err)
	}
	if err := c.acked(r, tag); err != nil {
		t.Error(err)
	}
	if err := l.Close(ctx, backend.CloseOptions{}); err != nil {
		t.Errorf("the other's close: %v", err)
	}
	return l.Writer()
}
