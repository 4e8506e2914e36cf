package seedpath_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
	"github.com/s3log/s3log/segment"
)

func ptr[T any](v T) *T { return &v }

// The boundary's time is never before anything that it ends.
func TestBoundary(t *testing.T) {
	for _, tc := range []struct {
		now  int64
		max  *int64
		want string
	}{
		{30, nil, `{"type":"session/end-seed","seq":7,"time":30,"data":{}}`},
		{30, ptr(int64(29)), `{"type":"session/end-seed","seq":7,"time":30,"data":{}}`},
		{30, ptr(int64(31)), `{"type":"session/end-seed","seq":7,"time":31,"data":{}}`},
		{-3, nil, `{"type":"session/end-seed","seq":7,"time":-3,"data":{}}`},
		{-3, ptr(int64(-9)), `{"type":"session/end-seed","seq":7,"time":-3,"data":{}}`},
		{0, ptr(int64(segment.MaxSeq)), `{"type":"session/end-seed","seq":7,"time":9007199254740991,"data":{}}`},
	} {
		if e, err := seedpath.Boundary(7, tc.now, tc.max); err != nil || string(e.Line) != tc.want {
			t.Errorf("%s, %v, want %s", e.Line, err, tc.want)
		}
	}
	if _, err := seedpath.Boundary(7, segment.MaxSeq+1, nil); err == nil {
		t.Error("a time that no event can have")
	}
	if _, err := seedpath.Boundary(-1, 0, nil); err == nil {
		t.Error("a seq that no event can have")
	}
}

func TestMarked(t *testing.T) {
	for _, tc := range []struct {
		log  []string
		want bool
	}{
		{nil, false},
		{[]string{"note"}, false},
		{[]string{"session/end-seed"}, true},
		{[]string{"session/end-seed", "note"}, false},
		{[]string{`turn/start {"turn":1}`, "session/end-seed"}, false},
		{[]string{`turn/start {"turn":1}`, `turn/end {"turn":1}`, "session/end-seed"}, true},
		{[]string{`turn/start {"turn":1}`, "session/end-seed", `turn/end {"turn":1}`}, false},
	} {
		if got := seedpath.Marked(fold(t, logOf(tc.log...)), int64(len(tc.log))); got != tc.want {
			t.Errorf("%q: %v", tc.log, got)
		}
	}
}

// An empty seed is marked, too: at seq 0, at the clock's time.
func TestResumeOfNoEvents(t *testing.T) {
	d := resumeDraft(t, record(t, nil), seedpath.ResumeOptions{})
	if got := drafted(d); len(got) != 1 || got[0] != `{"type":"session/end-seed","seq":0,"time":30,"data":{}}` {
		t.Errorf("%q", got)
	}
}

func TestCut(t *testing.T) {
	rec := record(t, logOf("note", `turn/start {"turn":1}`, `turn/end {"turn":1}`, "note", `turn/start {"turn":2}`))
	unended := record(t, logOf(`turn/start {"turn":1}`))
	many := make([]string, segment.MaxTypes+1)
	for i := range many {
		many[i] = "type/" + strings.Repeat("x", i%100) + strings.Repeat("y", i/100)
	}
	for _, tc := range []struct {
		name string
		rec  *manifest.Record
		at   *int64
		clip bool
		want int64
		err  error
	}{
		{"all", rec, nil, false, 5, nil},
		{"at the first", rec, ptr(int64(0)), false, 1, nil},
		{"at the last", rec, ptr(int64(4)), false, 5, nil},
		{"beyond", rec, ptr(int64(5)), false, 0, segment.ErrSeqMismatch},
		{"before", rec, ptr(int64(-1)), false, 0, segment.ErrSeqMismatch},
		{"clipped", rec, nil, true, 3, nil},
		{"no turn has ended", unended, nil, true, 0, seedpath.ErrOpenTurn},
		{"empty", record(t, nil), nil, false, 0, nil},
		{"at in an empty one", record(t, nil), ptr(int64(0)), false, 0, segment.ErrSeqMismatch},
	} {
		if got, err := seedpath.Cut(tc.rec, tc.at, tc.clip); got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: %d, %v", tc.name, got, err)
		}
	}
	if _, err := seedpath.Cut(rec, ptr(int64(1)), true); err == nil {
		t.Error("both at a seq and clipped")
	}
	if _, err := seedpath.Cut(record(t, logOf(many...)), nil, true); err == nil || !strings.Contains(err.Error(), "give the seq") {
		t.Errorf("clipped where turn/end may be counted with other types: %v", err)
	}
}

func TestSameFork(t *testing.T) {
	p := manifest.Parent{Log: "p", UID: "u", UpTo: 3, Root: segment.Hash{1}}
	have := func(change func(*manifest.Record)) *manifest.Record {
		parent := p
		r := &manifest.Record{State: manifest.StateOpen, Origin: &manifest.Origin{Kind: manifest.KindFork, Parent: &parent}}
		change(r)
		return r
	}
	for name, tc := range map[string]struct {
		change func(*manifest.Record)
		want   bool
	}{
		"same":          {func(*manifest.Record) {}, true},
		"renamed":       {func(r *manifest.Record) { r.Origin.Parent.Log = "copy" }, true}, // the uid tells
		"other parent":  {func(r *manifest.Record) { r.Origin.Parent.UID = "v" }, false},
		"other cut":     {func(r *manifest.Record) { r.Origin.Parent.UpTo = 2 }, false},
		"other events":  {func(r *manifest.Record) { r.Origin.Parent.Root = segment.Hash{} }, false},
		"replay":        {func(r *manifest.Record) { r.Origin.Kind = manifest.KindReplay }, false},
		"without":       {func(r *manifest.Record) { r.Origin.Parent = nil }, false},
		"deleted since": {func(r *manifest.Record) { r.State = manifest.StateDeleted }, false},
	} {
		if got := seedpath.SameFork(have(tc.change), p); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Whom a resume or an adoption may replace. The clock decides about courtesies
// only.
func TestHeld(t *testing.T) {
	const at = int64(100_000)
	base := func(change func(*manifest.Record)) *manifest.Record {
		r := record(t, logOf("note"))
		r.Commit.At = at - 10_000
		change(r)
		return r
	}
	lease := func(until int64) func(*manifest.Record) {
		return func(r *manifest.Record) { r.Lease = &manifest.Lease{Until: until} }
	}
	nothing := func(*manifest.Record) {}
	for name, tc := range map[string]struct {
		base *manifest.Record
		opt  seedpath.AdoptOptions
		held string // a part of the error; empty: may be taken
	}{
		"nobody asked":        {base(nothing), seedpath.AdoptOptions{}, ""},
		"lease":               {base(lease(at + 60_000)), seedpath.AdoptOptions{}, "with a lease until 1970-01-01T00:02:40Z"},
		"lease just ended":    {base(lease(at - 1000)), seedpath.AdoptOptions{}, "lease"},
		"lease ended":         {base(lease(at - 2001)), seedpath.AdoptOptions{}, ""},
		"lease, taken over":   {base(lease(at + 60_000)), seedpath.AdoptOptions{TakeOver: true}, ""},
		"active":              {base(nothing), seedpath.AdoptOptions{Quiet: time.Minute}, `("the first") has not released it and committed 10s ago, and keeps it for 1m0s after a commit`},
		"quiet":               {base(nothing), seedpath.AdoptOptions{Quiet: 5 * time.Second}, ""},
		"active, taken over":  {base(nothing), seedpath.AdoptOptions{Quiet: time.Minute, TakeOver: true}, ""},
		"active, let go":      {base(func(r *manifest.Record) { r.Owner.Released = true }), seedpath.AdoptOptions{Quiet: time.Minute}, ""},
		"of a clock ahead":    {base(func(r *manifest.Record) { r.Commit.At = at + 5000 }), seedpath.AdoptOptions{Quiet: time.Second}, "0s ago"},
		"without a label":     {base(func(r *manifest.Record) { r.Owner.Label = ""; r.Lease = &manifest.Lease{Until: at} }), seedpath.AdoptOptions{}, "by writer " + writer.ID + ", with"},
		"its own, after all":  {base(func(r *manifest.Record) { r.Owner.Writer = next.ID; r.Lease = &manifest.Lease{Until: at} }), seedpath.AdoptOptions{}, ""},
		"an ahead clock only": {base(func(r *manifest.Record) { r.Commit.At = at + 5000 }), seedpath.AdoptOptions{}, ""},
	} {
		for _, open := range []seedpath.Opening{
			seedpath.Adopt(next, tc.opt), seedpath.Resume(next, seedpath.ResumeOptions{AdoptOptions: tc.opt}),
		} {
			d, err := open(t.Context(), tc.base, at)
			switch {
			case tc.held == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case tc.held != "" && (!errors.Is(err, manifest.ErrHeld) || !strings.Contains(err.Error(), tc.held) || !strings.Contains(err.Error(), writer.ID) || d != nil):
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for until, want := range map[int64]string{at: "held", at - 2000: "held", at - 2001: "expired", at + 1: "held"} {
		if got := seedpath.LeaseState(base(lease(until)), at); got != want {
			t.Errorf("lease until %d: %s", until, got)
		}
	}
	if got := seedpath.LeaseState(base(nothing), at); got != "none" {
		t.Error(got)
	}
}

// What is not there, or not there any more, is not taken over; what is, is not
// created.
func TestOpenings(t *testing.T) {
	birth := manifest.Birth{Log: "log"}
	log := record(t, logOf("note"))
	deleted, void := &manifest.Record{State: manifest.StateDeleted}, &manifest.Record{State: manifest.StateVoid, Log: "log", Epoch: 3, Revision: 4}
	for _, tc := range []struct {
		name  string
		open  seedpath.Opening
		base  *manifest.Record
		err   error
		begin int64  // generation
		adds  string // events
	}{
		{"fresh on nothing", seedpath.Fresh(next, birth), nil, nil, 1, ""},
		{"fresh on a void", seedpath.Fresh(next, birth), void, nil, 1, ""},
		{"fresh on a log", seedpath.Fresh(next, birth), log, manifest.ErrExists, 0, ""},
		{"fresh on a tombstone", seedpath.Fresh(next, birth), deleted, manifest.ErrDeleted, 0, ""},
		{"adopt nothing", seedpath.Adopt(next, seedpath.AdoptOptions{}), nil, manifest.ErrNotFound, 0, ""},
		{"adopt a void", seedpath.Adopt(next, seedpath.AdoptOptions{}), void, manifest.ErrNotFound, 0, ""},
		{"adopt a tombstone", seedpath.Adopt(next, seedpath.AdoptOptions{}), deleted, manifest.ErrDeleted, 0, ""},
		{"adopt", seedpath.Adopt(next, seedpath.AdoptOptions{}), log, nil, 2, ""},
		{"either on nothing", seedpath.FreshOrAdopt(next, birth, seedpath.AdoptOptions{}), nil, nil, 1, ""},
		{"either on a void", seedpath.FreshOrAdopt(next, birth, seedpath.AdoptOptions{}), void, nil, 1, ""},
		{"either on a log", seedpath.FreshOrAdopt(next, birth, seedpath.AdoptOptions{}), log, nil, 2, ""},
		{"either on a tombstone", seedpath.FreshOrAdopt(next, birth, seedpath.AdoptOptions{}), deleted, manifest.ErrDeleted, 0, ""},
		{"resume nothing", seedpath.Resume(next, seedpath.ResumeOptions{}), nil, manifest.ErrNotFound, 0, ""},
		{"resume a void", seedpath.Resume(next, seedpath.ResumeOptions{}), void, manifest.ErrNotFound, 0, ""},
		{"resume a tombstone", seedpath.Resume(next, seedpath.ResumeOptions{}), deleted, manifest.ErrDeleted, 0, ""},
		{"resume", seedpath.Resume(next, seedpath.ResumeOptions{}), log, nil, 2, "boundary"},
	} {
		d, err := tc.open(t.Context(), tc.base, resumed)
		if !errors.Is(err, tc.err) || (err == nil) != (tc.begin > 0) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err != nil {
			continue
		}
		if g := d.Preview().Generation(); g != tc.begin {
			t.Errorf("%s: generation %d", tc.name, g)
		}
		if n := len(drafted(d)); n != len(strings.Fields(tc.adds)) {
			t.Errorf("%s: %d events", tc.name, n)
		}
	}
}

// A boundary that no event can hold ends the resume, not the process.
func TestResumeAtAnImpossibleTime(t *testing.T) {
	if _, err := seedpath.Resume(next, seedpath.ResumeOptions{})(t.Context(), record(t, logOf("note")), segment.MaxSeq+1); !errors.Is(err, segment.ErrInvalidEvent) {
		t.Error(err)
	}
}
