package manifest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/segment"
)

// TestDraftRefuses: what no commit may do, each as its own error.
func TestDraftRefuses(t *testing.T) {
	owner := Writer{ID: openRecord().Owner.Writer}
	types := make([]string, segment.MaxTypes+1)
	for i := range types {
		types[i] = fmt.Sprint("type/", i)
	}
	merge := func(inputs ...Name) func() (*Draft, error) {
		return func() (*Draft, error) {
			base := openRecord()
			d, err := Continue(base, owner, 1)
			d.Merge(Upload{Ref: SegmentRef{Name: Name{Epoch: 3, Nonce: Nonce{9}}, Count: 2000}, Inputs: inputs, TailFirst: -1})
			return d, err
		}
	}
	segs := openRecord().Segments
	for _, tc := range []struct {
		name  string
		begin func() (*Draft, error)
		want  error // nil: an error that has no name
		says  string
	}{
		{"a create of no id", func() (*Draft, error) { return Create(nil, owner, Birth{}, 1) }, nil, "id is empty"},
		{"a create of too many types", func() (*Draft, error) { return Create(nil, owner, Birth{Log: "l", Types: types}, 1) }, segment.ErrTooLarge, "types"},
		{"a create of a header too large", func() (*Draft, error) {
			return Create(nil, owner, Birth{Log: "l", Header: []byte(`{"a":"` + strings.Repeat("x", MaxHeader) + `"}`), Origin: Origin{Kind: KindFresh}}, 1)
		}, segment.ErrTooLarge, "header"},
		{"a create on a log", func() (*Draft, error) { return Create(openRecord(), owner, Birth{Log: "l"}, 1) }, ErrExists, "2013 events"},
		{"a takeover of nothing", func() (*Draft, error) { return TakeOver(nil, owner, KindAdopt, 1) }, ErrNotFound, ""},
		{"a takeover of a void", func() (*Draft, error) { return TakeOver(void(), owner, KindAdopt, 1) }, ErrNotFound, ""},
		{"maintenance of nothing", func() (*Draft, error) { return Maintain(nil, owner, 1) }, ErrNotFound, ""},
		{"an append by another", func() (*Draft, error) { return Continue(openRecord(), Writer{ID: "w"}, 1) }, ErrFenced, "took over at seq 2010"},
		{"an event of another seq", func() (*Draft, error) {
			d, err := Continue(openRecord(), owner, 1)
			d.Append(event('x', 2012))
			d.Append(event('x', 2014)) // the first error counts
			return d, err
		}, segment.ErrSeqMismatch, "event carries seq 2012, the log continues at 2013"},
		{"inheriting by an owner", func() (*Draft, error) {
			d, err := Continue(openRecord(), owner, 1)
			d.Inherit(segment.NewState(), nil)
			return d, err
		}, nil, "only a create without events inherits"},
		{"inheriting behind an event", func() (*Draft, error) {
			d, err := Create(nil, owner, Birth{Log: "l", Origin: Origin{Kind: KindReplay}}, 1)
			d.Append(event('x', 0))
			d.Inherit(segment.NewState(), nil)
			return d, err
		}, nil, "only a create without events inherits"},
		{"a merge of nothing", merge(), ErrStaleUpload, "not named any more"},
		{"a merge of what is not named", merge(Name{}), ErrStaleUpload, "not named any more"},
		{"a merge of more than is named", merge(segs[1].Name, segs[0].Name), ErrStaleUpload, "not named any more"},
		{"a merge of what is not in a row", merge(segs[0].Name, segs[0].Name), ErrStaleUpload, "not named any more"},
		{"a segment of another epoch", func() (*Draft, error) {
			d, err := Continue(openRecord(), owner, 1)
			d.Seal(Upload{Ref: SegmentRef{Name: Name{First: 2000, Epoch: 2}, Count: 13}, TailFirst: 2000})
			return d, err
		}, ErrStaleUpload, "begun in epoch 2, this commit results in 3"},
		{"a tail too large", func() (*Draft, error) {
			d, err := Continue(openRecord(), owner, 1)
			d.SetTail(make([]byte, MaxTail))
			return d, err
		}, segment.ErrTooLarge, "tail"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := tc.begin()
			if err == nil {
				_, err = d.Finish()
			}
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Error(err)
			}
		})
	}
}

// TestDraftTells: what a draft says of itself while it is being made.
func TestDraftTells(t *testing.T) {
	parent := &Parent{Log: "parent", UID: "p", UpTo: 2, Root: segment.Hash{1}}
	before := (&explorer{contents: map[string]segment.State{}}).stateOf("ab")
	d, err := Create(nil, NewWriter("label", ""), Birth{Log: "child", Header: []byte(`{"a":1}`), Origin: Origin{Kind: KindFork}}, storeTime)
	if err != nil {
		t.Fatal(err)
	}
	d.Inherit(before, parent)
	d.Begin(KindFork, 2, 0)
	d.Append(event('c', 2))
	d.Keyed(KeyEntry{Key: hash16("k"), First: 2, Count: 1, Digest: hash16("lines")})
	lines, n := d.Lines()
	if want := string(event('c', 2).Line) + "\n"; string(lines) != want || n != 1 || d.Next() != 3 || d.Epoch() != 1 || d.Base() != nil {
		t.Errorf("%q, %d lines, next %d, epoch %d, base %v", lines, n, d.Next(), d.Epoch(), d.Base())
	}
	if at := d.MaxTime(); at == nil || *at != storeTime+'c' || d.Rule() != RuleUserPrompt || d.UID() != d.CommitID() {
		t.Errorf("newest time %v, rule %q, uid %q of commit %q", at, d.Rule(), d.UID(), d.CommitID())
	}
	header, origin := d.Birth()
	want := `{"kind":"fork","inherited":2,"parent":{"log":"parent","uid":"p","upTo":2,"root":"` + parent.Root.String() + `"}}`
	if got := string(AppendOrigin(nil, origin)); string(header) != `{"a":1}` || got != want {
		t.Errorf("header %s, origin %s", header, got)
	}
	if e, found, err := d.LookupKey(hash16("k"), hash16("lines")); !found || err != nil || e.First != 2 {
		t.Errorf("its own key: %+v, %v, %v", e, found, err)
	}
	after := (&explorer{contents: map[string]segment.State{}}).stateOf("abc")
	if diff := cmp.Diff(after, d.State()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if p := d.Preview(); p.Next != 3 || !cmp.Equal(p.Content, after) {
		t.Errorf("%+v", p)
	}
	d.SetTail([]byte("abc"))
	p, err := d.Finish()
	if err != nil {
		t.Fatal(err)
	}
	// A later draft counts from where its base ends.
	d, err = Continue(p.Record, Writer{ID: p.Record.Owner.Writer}, storeTime)
	if err != nil {
		t.Fatal(err)
	}
	d.Append(event('d', 3))
	if lines, n := d.Lines(); n != 1 || string(lines) != string(event('d', 3).Line)+"\n" || d.Base() != p.Record {
		t.Errorf("%d lines: %q", n, lines)
	}
	d.Release()
	d.SetTail([]byte("abcd"))
	released, err := d.Finish()
	if err != nil || !released.Record.Owner.Released || p.Record.Owner.Released {
		t.Errorf("%v: %+v", err, released)
	}
}

// TestDraftLease: a lease is that of the newest commit of the owner, and nobody
// else's commit touches it but one that takes the log over.
func TestDraftLease(t *testing.T) {
	owner := openRecord().Owner.Writer
	until := openRecord().Lease.Until
	for _, tc := range []struct {
		name  string
		begin func() (*Draft, error)
		want  int64 // 0: none
	}{
		{"by the owner", func() (*Draft, error) {
			return Continue(openRecord(), Writer{ID: owner, Lease: time.Minute}, storeTime)
		}, storeTime + 60_000},
		{"by the owner, who asks for none", func() (*Draft, error) { return Continue(openRecord(), Writer{ID: owner}, storeTime) }, until},
		{"by maintenance", func() (*Draft, error) { return Maintain(openRecord(), Writer{ID: "w", Lease: time.Minute}, storeTime) }, until},
		{"by a takeover", func() (*Draft, error) {
			return TakeOver(openRecord(), Writer{ID: "w", Lease: time.Minute}, KindAdopt, storeTime)
		}, storeTime + 60_000},
		{"by a takeover that asks for none", func() (*Draft, error) { return TakeOver(openRecord(), Writer{ID: "w"}, KindAdopt, storeTime) }, 0},
		{"by a create", func() (*Draft, error) {
			return Create(nil, Writer{ID: "w", Lease: time.Minute}, Birth{Log: "l", Origin: Origin{Kind: KindFresh}}, storeTime)
		}, storeTime + 60_000},
		{"by the last commit", func() (*Draft, error) {
			d, err := Continue(openRecord(), Writer{ID: owner, Lease: time.Minute}, storeTime)
			d.Release()
			return d, err
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := tc.begin()
			if err != nil {
				t.Fatal(err)
			}
			p, err := d.Finish()
			if err != nil {
				t.Fatal(err)
			}
			var got int64
			if p.Record.Lease != nil {
				got = p.Record.Lease.Until
			}
			if got != tc.want {
				t.Errorf("until %d, not %d", got, tc.want)
			}
		})
	}
}

// TestShorten: a tombstone that has nothing to drop any more stays too large.
func TestShorten(t *testing.T) {
	r := tombstone()
	r.Keys, r.Generations = nil, r.Generations[2:]
	if r.shorten() {
		t.Error("it dropped the only takeover")
	}
}

// TestWriterCheck finds what no commit could hold, before there is one.
func TestWriterCheck(t *testing.T) {
	for _, tc := range []struct {
		w    Writer
		says string
	}{
		{NewWriter("a label", "test 1"), ""},
		{Writer{}, "no writer"},
		{Writer{ID: strings.Repeat("x", MaxToken+1)}, "writer"},
		{Writer{ID: "w", Label: strings.Repeat("x", MaxLabel+1)}, "label"},
		{Writer{ID: "w", Software: "\xff"}, "software"},
		{Writer{ID: "w", Lease: MinLease}, ""},
		{Writer{ID: "w", Lease: MinLease - 1}, "lease"},
		{Writer{ID: "w", Lease: maxLease + 1}, "lease"},
		{Writer{ID: "w", Lease: -1}, "lease"},
	} {
		err := tc.w.Check()
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v: %v", tc.w, err)
		}
	}
}

// The store's clock is known by the second: what it seems to go back by is not
// stored. A clock that is really wrong is not repeated.
func TestTimesDoNotGoBackABit(t *testing.T) {
	base := freshRecord()
	for _, tc := range []struct{ back, want int64 }{{-7, 7}, {0, 0}, {1, 0}, {clockSteps, 0}, {clockSteps + 1, -clockSteps - 1}} {
		at, want := base.Commit.At-tc.back, base.Commit.At+tc.want
		d, err := TakeOver(base, NewWriter("", "test"), KindResume, at)
		if err != nil {
			t.Fatal(err)
		}
		d.Begin(KindResume, base.Next, 0)
		p, err := d.Finish()
		if err != nil {
			t.Fatal(err)
		}
		r := p.Record
		if g := r.Generations[len(r.Generations)-1]; r.Commit.At != want || g.At != want || r.Lifecycle.At != want {
			t.Errorf("%d ms back: commit %d, generation %d, lifecycle %d after it", tc.back, r.Commit.At-base.Commit.At, g.At-base.Commit.At, r.Lifecycle.At-base.Commit.At)
		}
	}
}
