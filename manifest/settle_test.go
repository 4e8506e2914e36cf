package manifest

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// TestJudge: what a manifest says about a commit, row by row as
// docs/consistency.md has it.
func TestJudge(t *testing.T) {
	// A log of 10 events in its third generation, of which the first has scrolled
	// out: "second" owned it up to seq 6, "third" owns it.
	log := func(change func(r *Record)) *Record {
		r := &Record{State: StateOpen, UID: "uid", Next: 10, Commit: CommitInfo{ID: "head"}, Owner: &Owner{Writer: "third", Generation: 3},
			Generations: []Takeover{{Generation: 2, Writer: "second", First: 4}, {Generation: 3, Writer: "third", First: 6}}}
		if change != nil {
			change(r)
		}
		return r
	}
	void := &Record{State: StateVoid, Commit: CommitInfo{ID: "void"}}
	deleted := log(func(r *Record) { r.State = StateDeleted })
	create := Intent{Kind: IntentCreate, UID: "uid", Generation: 1}
	takeover := Intent{Kind: IntentTakeover, UID: "uid", Writer: "third", Generation: 3, Base: "base"}
	appended := Intent{Kind: IntentAppend, UID: "uid", Writer: "third", Generation: 3, Start: 8, End: 10, Base: "base"}
	before := Intent{Kind: IntentAppend, UID: "uid", Writer: "second", Generation: 2, Base: "base"}
	maintain := Intent{Kind: IntentMaintain, UID: "uid", Commit: "mine", Base: "base"}
	but := func(in Intent, change func(in *Intent)) Intent {
		change(&in)
		return in
	}
	for _, tc := range []struct {
		name string
		in   Intent
		head *Record
		want Verdict
	}{
		{"a create, and nothing is there", create, nil, Unmoved},
		{"a create on a void, and nothing is there", but(create, func(in *Intent) { in.Base = "void" }), nil, Gone},
		{"a create on the void that is there", but(create, func(in *Intent) { in.Base = "void" }), void, Unmoved},
		{"a create, and a void is there", create, void, StartOver},
		{"a create, and another log is there", but(create, func(in *Intent) { in.UID = "other" }), log(nil), StartOver},
		{"a create, and another log was there", but(create, func(in *Intent) { in.UID = "other" }), deleted, Deleted},
		{"a create that landed", but(create, func(in *Intent) { in.Generation = 3 }), log(nil), Committed},
		{"a create that landed, taken over since", create, log(nil), CommittedFenced},
		{"a create, and of its events not all are there", but(create, func(in *Intent) { in.End = 11 }), log(nil), Unknown},
		{"a create that landed, deleted since", create, deleted, CommittedFenced},

		{"a takeover that landed", takeover, log(nil), Committed},
		{"a takeover that landed, taken over since", but(takeover, func(in *Intent) { in.Writer, in.Generation = "second", 2 }), log(nil), CommittedFenced},
		{"a takeover, and another has that generation", but(takeover, func(in *Intent) { in.Writer = "fourth" }), log(nil), StartOver},
		{"the same, deleted since", but(takeover, func(in *Intent) { in.Writer = "fourth" }), deleted, Deleted},
		{"a takeover whose generation has scrolled out", but(takeover, func(in *Intent) { in.Generation = 1 }), log(nil), Unknown},
		{"a takeover of the version that is there", but(takeover, func(in *Intent) { in.Generation, in.Base = 4, "head" }), log(nil), Unmoved},
		{"a takeover of another version", but(takeover, func(in *Intent) { in.Generation = 4 }), log(nil), StartOver},
		{"a takeover of what was removed", takeover, nil, Gone},
		{"a takeover of another log", but(takeover, func(in *Intent) { in.UID = "other" }), log(nil), Unknown},

		{"an append that landed", appended, log(nil), Committed},
		{"an append that landed, and more since", but(appended, func(in *Intent) { in.Start, in.End = 6, 8 }), log(nil), Committed},
		{"an append to the version that is there", but(appended, func(in *Intent) { in.Start, in.End, in.Base = 10, 12, "head" }), log(nil), Unmoved},
		{"an append, and maintenance came between", but(appended, func(in *Intent) { in.Start, in.End = 10, 12 }), log(nil), Rebase},
		{"the same, of a tombstone that kept the generation", but(appended, func(in *Intent) { in.Start, in.End = 10, 12 }), deleted, Deleted},
		{"an append behind the end of an older manifest", but(appended, func(in *Intent) { in.Start, in.End = 12, 14 }), log(nil), Unknown},
		{"an append in a generation to come", but(appended, func(in *Intent) { in.Generation = 4 }), log(nil), Unknown},
		{"an append that landed, taken over since", but(before, func(in *Intent) { in.Start, in.End = 5, 6 }), log(nil), CommittedFenced},
		{"an append, and the next generation began where it would", but(before, func(in *Intent) { in.Start, in.End = 6, 8 }), log(nil), Fenced},
		{"the same, deleted since", but(before, func(in *Intent) { in.Start, in.End = 6, 8 }), deleted, Deleted},
		{"an append, and the next generation began within it", but(before, func(in *Intent) { in.Start, in.End = 5, 8 }), log(nil), Unknown},
		{"an append whose next generation has scrolled out", but(appended, func(in *Intent) { in.Generation, in.Start, in.End = 0, 1, 2 }), log(nil), Unknown},
		{"an append, and another has that generation", but(appended, func(in *Intent) { in.Writer = "fourth" }), log(nil), Unknown},
		{"an append, and another had that generation", but(before, func(in *Intent) { in.Writer, in.Start, in.End = "fourth", 5, 6 }), log(nil), Unknown},
		{"an append, and what was left of its generation was made a log again", but(before, func(in *Intent) { in.Start, in.End = 5, 6 }),
			log(func(r *Record) {
				r.Generations = []Takeover{{Generation: 3, Writer: "third", Kind: KindRebuild, First: 6}}
			}), Unknown},
		{"an append to another log", but(appended, func(in *Intent) { in.UID = "other" }), log(nil), Unknown},

		{"maintenance that landed", but(maintain, func(in *Intent) { in.Commit = "head" }), log(nil), Committed},
		{"maintenance of the version that is there", but(maintain, func(in *Intent) { in.Base = "head" }), log(nil), Unmoved},
		{"maintenance, and another commit is there", maintain, log(nil), StartOver},
		{"a void, and nothing is there", but(maintain, func(in *Intent) { in.Base = "" }), nil, Unmoved},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Judge(tc.in, tc.head)
			if got != tc.want {
				t.Errorf("%s, not %s", got, tc.want)
			}
			if landed := tc.want == Committed || tc.want == CommittedFenced; got.Landed() != landed {
				t.Errorf("%s landed: %v", got, got.Landed())
			}
		})
	}
}

func TestVerdictString(t *testing.T) {
	want := []string{"unknown", "unmoved", "committed", "committed, then fenced", "fenced", "rebase", "start over", "deleted", "gone"}
	var got []string
	for v := Unknown; v <= Gone; v++ {
		got = append(got, v.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLookupKey(t *testing.T) {
	r := &Record{Keys: []KeyEntry{{Key: "a", Digest: "1", First: 3}, {Key: "b", Digest: "2", First: 5}}}
	for _, tc := range []struct {
		r           *Record
		key, digest string
		first       int64
		found       bool
		want        error
	}{
		{r, "a", "1", 3, true, nil},
		{r, "b", "2", 5, true, nil},
		{r, "a", "2", 3, true, ErrKeyConflict},
		{r, "c", "1", 0, false, nil},
		{r, "", "1", 0, false, nil},
		{nil, "a", "1", 0, false, nil},
	} {
		e, found, err := tc.r.LookupKey(tc.key, tc.digest)
		if e.First != tc.first || found != tc.found || !errors.Is(err, tc.want) {
			t.Errorf("%q %q: %+v, %v, %v", tc.key, tc.digest, e, found, err)
		}
	}
}

func TestToken(t *testing.T) {
	in := Intent{Kind: IntentAppend, Log: "l/ü", UID: "u", Commit: "c", Writer: "w", Generation: 2, Start: 3, End: 5, Base: "b", Revision: 7,
		Keys: []KeyEntry{{Key: "k", First: 3, Count: 2, Digest: "d"}}, First: 3, Count: 1}
	got, err := ParseToken(in.Token())
	if diff := cmp.Diff(in, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for token, want := range map[string]string{
		"":          "not a decide token",
		"?":         "illegal base64",
		encode("{"): "unexpected end of JSON",
		encode(`{"kind":"append","log":"l","commit":"c"}`):              "names no commit",
		encode(`{"kind":"append","log":"l","writer":"w"}`):              "names no commit",
		encode(`{"kind":"append","writer":"w","commit":"c"}`):           "names no commit",
		encode(`{"kind":"\u001b","log":"l","writer":"w","commit":"c"}`): `unknown kind "\x1b"`,
	} {
		if _, err := ParseToken(token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// TestSettle: it writes only where position does not answer, and what it then
// answers stays true.
func TestSettle(t *testing.T) {
	settler := Writer{ID: "settler"}
	propose := func(t *testing.T, base Head, step Step) *Proposal {
		t.Helper()
		p, err := step(t.Context(), base)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	send := func(t *testing.T, st objstore.Store, base Head, p *Proposal) error {
		a := newAttempt(p, base)
		_, err := st.Put(t.Context(), a.key, p.Body, a.cond, objstore.PutOptions{})
		return err
	}
	t.Run("an append that landed", func(t *testing.T) {
		st, head := begun(t)
		p := propose(t, head, adding("owner"))
		if err := send(t, st, head, p); err != nil {
			t.Fatal(err)
		}
		s, err := Settle(t.Context(), st, p.Intent, settler, quick)
		if err != nil || s.Verdict != Committed || s.Head.Record.Revision != 2 {
			t.Errorf("%v: %+v", err, s)
		}
	})
	t.Run("an append that may arrive later", func(t *testing.T) {
		st, head := begun(t)
		p := propose(t, head, adding("owner"))
		s, err := Settle(t.Context(), st, p.Intent, settler, quick)
		if err != nil || s.Verdict != Fenced || !s.Head.Record.Owner.Released || s.Head.Record.Owner.Writer != "settler" {
			t.Errorf("%v: %+v", err, s)
		}
		if err := send(t, st, head, p); !errors.Is(err, objstore.ErrPrecondition) {
			t.Errorf("it arrives: %v", err)
		}
	})
	t.Run("a create that may arrive later", func(t *testing.T) {
		st := memstore.New(t)
		p := propose(t, Head{}, creating("w"))
		s, err := Settle(t.Context(), st, p.Intent, settler, quick)
		if err != nil || s.Verdict != StartOver || s.Head.Record.State != StateVoid || s.Head.Record.Epoch != 1 {
			t.Errorf("%v: %+v", err, s)
		}
		if err := send(t, st, Head{}, p); !errors.Is(err, objstore.ErrPrecondition) {
			t.Errorf("it arrives: %v", err)
		}
		// On the void it is the same: a new revision of it.
		again := propose(t, s.Head, creating("w"))
		s2, err := Settle(t.Context(), st, again.Intent, settler, quick)
		if err != nil || s2.Verdict != StartOver || s2.Head.Record.State != StateVoid || s2.Head.Record.Revision != 2 {
			t.Errorf("%v: %+v", err, s2)
		}
		if err := send(t, st, s.Head, again); !errors.Is(err, objstore.ErrPrecondition) {
			t.Errorf("it arrives: %v", err)
		}
	})
	t.Run("maintenance, and others have committed since", func(t *testing.T) {
		st, head := begun(t)
		p := propose(t, head, barring)
		if _, err := Commit(t.Context(), st, head, adding("owner"), quick); err != nil {
			t.Fatal(err)
		}
		s, err := Settle(t.Context(), st, p.Intent, settler, quick)
		if err != nil || s.Verdict != Unknown {
			t.Errorf("%v: %+v", err, s)
		}
	})
	t.Run("nobody may read", func(t *testing.T) {
		st, head := begun(t)
		p := propose(t, head, adding("owner"))
		s := &scripted{Store: st, gets: []getReply{getSays(objstore.ErrDenied)}}
		if _, err := Settle(t.Context(), s, p.Intent, settler, quick); !errors.Is(err, ErrDenied) {
			t.Error(err)
		}
	})
	t.Run("nobody may write", func(t *testing.T) {
		st, head := begun(t)
		p := propose(t, head, adding("owner"))
		s := &scripted{Store: st, puts: []putReply{says(objstore.ErrDenied)}}
		if _, err := Settle(t.Context(), s, p.Intent, settler, quick); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), p.Intent.Commit) {
			t.Error(err)
		}
	})
	t.Run("a writer that the log cannot hold", func(t *testing.T) {
		st, head := begun(t)
		p := propose(t, head, adding("owner"))
		if _, err := Settle(t.Context(), st, p.Intent, Writer{}, quick); err == nil {
			t.Error("it was settled by nobody")
		}
		c := propose(t, Head{}, creating("w"))
		if _, err := Settle(t.Context(), memstore.New(t), c.Intent, Writer{}, quick); err == nil {
			t.Error("it was settled by nobody")
		}
	})
	t.Run("a takeover of a tombstone", func(t *testing.T) {
		// No tombstone is ever the base of a commit; a token that says so is refused.
		head := Head{Record: tombstone()}
		in := Intent{Kind: IntentTakeover, Log: head.Record.Log, UID: head.Record.UID, Commit: "c", Writer: "w", Generation: 4, Base: head.Record.Commit.ID}
		if p, err := settle(in, head.Record, settler, storeTime); !errors.Is(err, ErrDeleted) {
			t.Errorf("%v, %v", p, err)
		}
	})
}

// TestFencedError names who took over from the writer, and where.
func TestFencedError(t *testing.T) {
	head := &Record{Owner: &Owner{Writer: "c", Generation: 3, Label: "night\n"}, Generations: []Takeover{
		{Generation: 1, Writer: "a", Kind: KindFresh}, {Generation: 2, Writer: "b", Kind: KindResume, First: 4}, {Generation: 3, Writer: "c", Kind: KindDelete, First: 9},
	}}
	for writer, want := range map[string]string{
		"a":       `writer b took over at seq 4 (generation 2, resume)`,
		"b":       `writer c ("night\n") took over at seq 9 (generation 3, delete)`,
		"unknown": `writer c ("night\n") took over at seq 9 (generation 3, delete)`,
	} {
		if err := FencedError(head, writer); !errors.Is(err, ErrFenced) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", writer, err)
		}
	}
}
