package manifest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// scripted answers the first requests as it is told, and the others as the
// store below does.
type scripted struct {
	objstore.Store
	puts []putReply
	gets []getReply
	sent int // PUTs
}

type (
	putReply func(put func() (objstore.Info, error)) (objstore.Info, error)
	getReply func(get func() (objstore.Object, error)) (objstore.Object, error)
)

func (s *scripted) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	s.sent++
	put := func() (objstore.Info, error) { return s.Store.Put(ctx, key, body, cond, opt) }
	if len(s.puts) == 0 {
		return put()
	}
	next := s.puts[0]
	s.puts = s.puts[1:]
	return next(put)
}

func (s *scripted) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	get := func() (objstore.Object, error) { return s.Store.Get(ctx, key, opt) }
	if len(s.gets) == 0 {
		return get()
	}
	next := s.gets[0]
	s.gets = s.gets[1:]
	return next(get)
}

func failure(class error) error { return &objstore.Error{Op: "Put", Key: "k", Class: class} }

// says answers without doing anything; lost does it and says something else.
func says(class error) putReply {
	return func(func() (objstore.Info, error)) (objstore.Info, error) { return objstore.Info{}, failure(class) }
}

func lost(class error) putReply {
	return func(put func() (objstore.Info, error)) (objstore.Info, error) {
		_, _ = put()
		return objstore.Info{}, failure(class)
	}
}

// cut is what a driver says when nobody waits any longer.
func cut(func() (objstore.Info, error)) (objstore.Info, error) {
	return objstore.Info{}, &objstore.Error{Op: "Put", Key: "k", Class: objstore.ErrUndecided, Err: context.Canceled}
}

// versionless does it and gives no version.
func versionless(put func() (objstore.Info, error)) (objstore.Info, error) {
	info, err := put()
	info.Version = objstore.Version{}
	return info, err
}

func getSays(class error) getReply {
	return func(func() (objstore.Object, error)) (objstore.Object, error) {
		return objstore.Object{}, failure(class)
	}
}

// retagged gives another version at every read.
func retagged(name string) getReply {
	return func(get func() (objstore.Object, error)) (objstore.Object, error) {
		obj, err := get()
		obj.Version = objstore.NewVersion(name)
		return obj, err
	}
}

var quick = Options{Clock: &objstore.Clock{}, MinBackoff: 1, MaxBackoff: 1}

// begun is a store with a log of one event, and its head.
func begun(t *testing.T) (*memstore.Store, Head) {
	t.Helper()
	st := memstore.New(t)
	res, err := Commit(t.Context(), st, Head{}, creating("owner"), quick)
	if err != nil {
		t.Fatal(err)
	}
	return st, res.Head
}

func creating(writer string) Step {
	return func(_ context.Context, base Head) (*Proposal, error) {
		d, err := Create(base.Record, Writer{ID: writer}, Birth{Log: theLog, Origin: Origin{Kind: KindFresh}}, storeTime)
		return noted(d, err)
	}
}

// adding appends one event: as the owner, or by taking over.
func adding(writer string) Step {
	return func(_ context.Context, base Head) (*Proposal, error) {
		if base.Record.Owner != nil && base.Record.Owner.Writer == writer {
			return noted(Continue(base.Record, Writer{ID: writer}, storeTime))
		}
		return noted(TakeOver(base.Record, Writer{ID: writer, Label: "the new one"}, KindAdopt, storeTime))
	}
}

func noted(d *Draft, err error) (*Proposal, error) {
	if err != nil {
		return nil, err
	}
	d.Append(event('x', d.Next()))
	d.SetTail([]byte(strings.Repeat("x", int(d.Next()))))
	return d.Finish()
}

// barring raises the epoch.
func barring(_ context.Context, base Head) (*Proposal, error) {
	return Removal{Now: storeTime}.Barrier(base.Record, theLog, Writer{ID: "gc"}, nil)
}

func deleting(_ context.Context, base Head) (*Proposal, error) {
	d, err := TakeOver(base.Record, Writer{ID: "deleter"}, KindDelete, storeTime)
	if err != nil {
		return nil, err
	}
	d.Delete()
	return d.Finish()
}

// before lets somebody else commit first.
func before(t *testing.T, st objstore.Store, step Step) putReply {
	return func(put func() (objstore.Info, error)) (objstore.Info, error) {
		t.Helper()
		head, err := Load(t.Context(), st, theLog, LoadOptions{})
		if err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		if _, err := Commit(t.Context(), st, head, step, quick); err != nil {
			t.Fatal(err)
		}
		return put()
	}
}

// TestCommitReplies: what each reply, and each series of replies, comes to.
func TestCommitReplies(t *testing.T) {
	undecided, conflict, denied := says(objstore.ErrUndecided), says(objstore.ErrConflict), says(objstore.ErrDenied)
	precondition := says(objstore.ErrPrecondition)
	for _, tc := range []struct {
		name    string
		puts    func(st objstore.Store) []putReply
		gets    []getReply
		sent    int   // PUTs
		want    error // nil: it landed
		verdict Verdict
		says    string // part of the message
	}{
		{name: "done", sent: 1},
		{name: "done, without a version", puts: fixed(versionless), sent: 1},
		{name: "done, without a version, and a read that fails in passing", puts: fixed(versionless), gets: []getReply{getSays(objstore.ErrUndecided)}, sent: 1},
		{name: "lost reply", puts: fixed(lost(objstore.ErrUndecided)), sent: 2},
		{name: "no reply", puts: fixed(undecided), sent: 2},
		{name: "no reply, twice", puts: fixed(undecided, cut), sent: 3},
		{name: "throttled", puts: fixed(says(objstore.ErrThrottled)), sent: 2},
		{name: "conflict", puts: fixed(conflict, conflict), sent: 3},
		{name: "a copy was answered", puts: fixed(lost(objstore.ErrPrecondition)), sent: 1},
		{name: "a condition that holds is refused once", puts: fixed(precondition), sent: 2},
		{name: "a condition that holds is refused for ever", puts: fixed(precondition, precondition, precondition, precondition, precondition), sent: 5,
			want: ErrUnsupportedStore, verdict: Unmoved, says: "refuses a condition that holds"},
		{name: "the same, with a request that may be under way", puts: fixed(undecided, precondition, precondition, precondition, precondition, precondition), sent: 6,
			want: ErrOutcomeUnknown, says: "refuses a condition that holds"},
		{name: "denied", puts: fixed(denied), sent: 1, want: ErrDenied, verdict: Rebase},
		{name: "malformed", puts: fixed(says(objstore.ErrRejected)), sent: 1, want: objstore.ErrRejected, verdict: Rebase},
		{name: "denied, with a request that may be under way", puts: fixed(undecided, denied), sent: 2, want: ErrOutcomeUnknown, says: "access denied"},
		{name: "nobody may look", puts: fixed(precondition), gets: []getReply{getSays(objstore.ErrDenied)}, sent: 1, want: ErrOutcomeUnknown, says: "access denied"},
		{name: "another version at one read", puts: fixed(precondition), gets: []getReply{retagged("other")}, sent: 3},
		{name: "another version at every read", puts: fixed(precondition, precondition, precondition, precondition, precondition, precondition),
			gets: []getReply{retagged("1"), retagged("2"), retagged("3"), retagged("4"), retagged("5")}, sent: 5, want: ErrUnsupportedStore, verdict: Unmoved,
			says: "another version of the same manifest"},
		{name: "no version at a read", puts: fixed(precondition), gets: []getReply{retagged("")}, sent: 1, want: ErrUnsupportedStore, verdict: Rebase, says: "gave no version"},
		{name: "maintained before", puts: func(st objstore.Store) []putReply { return []putReply{before(t, st, barring)} }, sent: 2},
		{name: "taken over before", puts: func(st objstore.Store) []putReply { return []putReply{before(t, st, adding("other"))} }, sent: 1,
			want: ErrFenced, verdict: Fenced, says: `writer other ("the new one") took over at seq 1 (generation 2, adopt)`},
		{name: "deleted before", puts: func(st objstore.Store) []putReply { return []putReply{before(t, st, deleting)} }, sent: 1, want: ErrFenced, verdict: Deleted, says: "deleted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st, head := begun(t)
			s := &scripted{Store: st, gets: tc.gets}
			if tc.puts != nil {
				s.puts = tc.puts(st)
			}
			res, err := Commit(t.Context(), s, head, adding("owner"), quick)
			if tc.verdict == Deleted {
				tc.want = ErrDeleted
			}
			if !errors.Is(err, tc.want) || s.sent != tc.sent || res.Attempts != tc.sent {
				t.Fatalf("%v after %d PUTs (%d counted), want %v after %d", err, s.sent, res.Attempts, tc.want, tc.sent)
			}
			if tc.want == nil {
				now, err := Load(t.Context(), st, theLog, LoadOptions{})
				if err != nil || res.Proposal == nil || now.Record.Commit.ID != res.Proposal.Intent.Commit || now.Version != res.Head.Version || now.Record.Next != 2 {
					t.Errorf("%v: %+v, the log is %+v", err, res, now.Record)
				}
				if throttled := res.Throttled; throttled != strings.Count(tc.name, "throttled") {
					t.Errorf("throttled %d times", throttled)
				}
				return
			}
			ce, ok := errors.AsType[*CommitError](err)
			if !ok || ce.Verdict != tc.verdict || ce.Intent.Kind != IntentAppend || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%#v", err)
			}
		})
	}
}

func fixed(replies ...putReply) func(objstore.Store) []putReply {
	return func(objstore.Store) []putReply { return replies }
}

// TestCommitOthers: what a create and a takeover meet.
func TestCommitOthers(t *testing.T) {
	t.Run("a create meets a log", func(t *testing.T) {
		st, _ := begun(t)
		_, err := Commit(t.Context(), st, Head{}, creating("late"), quick)
		if !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "it has 1 event, and its owner is writer owner") {
			t.Error(err)
		}
	})
	t.Run("a create meets a void", func(t *testing.T) {
		st := memstore.New(t)
		s := &scripted{Store: st, puts: []putReply{before(t, st, barring)}}
		res, err := Commit(t.Context(), s, Head{}, creating("w"), quick)
		if err != nil || res.Head.Record.Epoch != 2 || res.Head.Record.Revision != 2 {
			t.Errorf("%v: %+v", err, res.Head.Record)
		}
	})
	t.Run("taken over behind it", func(t *testing.T) {
		st, head := begun(t)
		s := &scripted{Store: st, puts: []putReply{func(put func() (objstore.Info, error)) (objstore.Info, error) {
			_, _ = put()
			return before(t, st, adding("third"))(put)
		}}}
		res, err := Commit(t.Context(), s, head, adding("second"), quick)
		if err != nil || !res.Fenced || res.Head.Record.Generation() != 3 {
			t.Errorf("%v: %+v", err, res)
		}
	})
	t.Run("its manifest was removed", func(t *testing.T) {
		_, head := begun(t)
		_, err := Commit(t.Context(), memstore.New(t), head, adding("owner"), quick)
		if ce, ok := errors.AsType[*CommitError](err); !ok || ce.Verdict != Gone || !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	})
	t.Run("another log is in its place", func(t *testing.T) {
		_, head := begun(t)
		st, _ := begun(t)
		head.Version = objstore.NewVersion("of the one before")
		_, err := Commit(t.Context(), st, head, adding("owner"), quick)
		if ce, ok := errors.AsType[*CommitError](err); !ok || ce.Verdict != Unknown || ce.Head.Record == nil || !errors.Is(err, ErrOutcomeUnknown) {
			t.Error(err)
		}
	})
	t.Run("nothing to write", func(t *testing.T) {
		st, head := begun(t)
		res, err := Commit(t.Context(), st, head, func(context.Context, Head) (*Proposal, error) { return nil, nil }, quick)
		if err != nil || res.Proposal != nil || res.Head.Version != head.Version || res.Attempts != 0 {
			t.Errorf("%v: %+v", err, res)
		}
	})
	t.Run("a step that fails", func(t *testing.T) {
		st, head := begun(t)
		if _, err := Commit(t.Context(), st, head, creating("other"), quick); !errors.Is(err, ErrExists) {
			t.Error(err)
		}
	})
}

// TestCommitGivesUp: the end of the time is "not committed" only if every reply
// has surely decided against it.
func TestCommitGivesUp(t *testing.T) {
	for _, tc := range []struct {
		name string
		put  putReply // before the time ends; nil: it has ended already
		want error
		says string
	}{
		{"before it was sent", nil, context.Canceled, "context canceled"},
		{"after a conflict", says(objstore.ErrConflict), context.Canceled, "last reply"},
		{"after no reply", says(objstore.ErrUndecided), ErrOutcomeUnknown, "no decisive reply"},
		{"after a condition that failed", says(objstore.ErrPrecondition), ErrOutcomeUnknown, "precondition failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st, head := begun(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := &scripted{Store: st, puts: []putReply{func(put func() (objstore.Info, error)) (objstore.Info, error) {
				cancel()
				return tc.put(put)
			}}, gets: []getReply{func(func() (objstore.Object, error)) (objstore.Object, error) {
				return st.Get(t.Context(), Key(theLog), objstore.GetOptions{})
			}}}
			if tc.put == nil {
				cancel()
			}
			// The default waits are long enough for the end to come first.
			_, err := Commit(ctx, s, head, adding("owner"), Options{})
			if !errors.Is(err, tc.want) || errors.Is(err, ErrOutcomeUnknown) != (tc.want == ErrOutcomeUnknown) || !strings.Contains(err.Error(), tc.says) {
				t.Error(err)
			}
		})
	}
}

// TestStoreTime: without a clock of the store ours is asked.
func TestStoreTime(t *testing.T) {
	if ours, now := (Options{}).now(), time.Now().UnixMilli(); ours > now || ours < now-60_000 {
		t.Errorf("%d, now is %d", ours, now)
	}
	c := &objstore.Clock{}
	c.Observe(time.UnixMilli(storeTime))
	if got := (Options{Clock: c}).now(); got < storeTime || got > storeTime+60_000 {
		t.Errorf("%d, the store says %d", got, storeTime)
	}
}

// TestPutSegment: an upload is done when its very bytes are there.
func TestPutSegment(t *testing.T) {
	name := Name{First: 0, Epoch: 1, Nonce: Nonce{1}}
	body := []byte("segment")
	reads := func(body string, err error) getReply {
		return func(func() (objstore.Object, error)) (objstore.Object, error) {
			return objstore.Object{Body: []byte(body)}, err
		}
	}
	for _, tc := range []struct {
		name string
		puts []putReply
		gets []getReply
		ends bool // the time ends with the last of puts
		want error
		says string
	}{
		{name: "done"},
		{name: "lost reply", puts: []putReply{lost(objstore.ErrUndecided)}},
		{name: "no reply, twice", puts: []putReply{says(objstore.ErrUndecided), says(objstore.ErrThrottled)}},
		{name: "a copy was answered", puts: []putReply{lost(objstore.ErrPrecondition)}},
		{name: "the same, and a read that fails in passing", puts: []putReply{lost(objstore.ErrPrecondition)}, gets: []getReply{getSays(objstore.ErrUndecided)}},
		{name: "another object is there", puts: []putReply{says(objstore.ErrPrecondition)}, gets: []getReply{reads("another", nil)}, want: objstore.ErrPrecondition, says: "another object"},
		{name: "a larger one is there", puts: []putReply{says(objstore.ErrPrecondition)}, gets: []getReply{reads("", failure(objstore.ErrTooLarge))}, want: objstore.ErrPrecondition, says: "another object"},
		{name: "nobody may look", puts: []putReply{says(objstore.ErrPrecondition)}, gets: []getReply{getSays(objstore.ErrDenied)}, want: ErrDenied, says: "reading back"},
		{name: "conflict", puts: []putReply{says(objstore.ErrConflict)}},
		{name: "denied", puts: []putReply{says(objstore.ErrDenied)}, want: ErrDenied},
		{name: "the time ends within the second try", puts: []putReply{says(objstore.ErrThrottled), cut}, ends: true, want: context.Canceled, says: "throttled"},
		{name: "success by nobody knows whom, and the time ends", puts: []putReply{portal}, ends: true, want: context.Canceled, says: "without a version"},
		{name: "no reply, and the time ends", puts: []putReply{says(objstore.ErrUndecided)}, ends: true, want: context.Canceled, says: "last reply"},
		{name: "collected before it is read back, and the time ends", puts: []putReply{says(objstore.ErrPrecondition)}, gets: []getReply{getSays(objstore.ErrNotExist)}, ends: true, want: context.Canceled, says: "not there"},
		{name: "success by nobody knows whom, not there, and the time ends", puts: []putReply{portal}, gets: []getReply{getSays(objstore.ErrNotExist)}, ends: true, want: context.Canceled, says: "not there"},
		{name: "cannot be read back, and the time ends", puts: []putReply{says(objstore.ErrPrecondition)}, gets: []getReply{getSays(objstore.ErrUndecided)}, ends: true, want: objstore.ErrUndecided, says: "reading back"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			st := memstore.New(t)
			s := &scripted{Store: st, puts: tc.puts, gets: tc.gets}
			opt := quick
			if tc.ends {
				opt = Options{} // waits long enough for the end to come first
				last := s.puts[len(s.puts)-1]
				s.puts = append(slices.Clone(s.puts[:len(s.puts)-1]), func(put func() (objstore.Info, error)) (objstore.Info, error) {
					cancel()
					return last(put)
				})
			}
			err := PutSegment(ctx, s, theLog, name, body, opt)
			if !errors.Is(err, tc.want) || err != nil && (!strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), SegmentKey(theLog, name))) {
				t.Fatal(err)
			}
			if errors.Is(err, objstore.ErrNotExist) {
				t.Errorf("%v: that reads as if there were no log", err)
			}
			if _, gerr := st.Get(t.Context(), SegmentKey(theLog, name), objstore.GetOptions{}); (gerr == nil) != (err == nil) {
				t.Errorf("%v, and reading it gives %v", err, gerr)
			}
		})
	}
}

// What can be done about an upload that a store refuses is the store's to say.
func TestUploadKeepsTheStoresHint(t *testing.T) {
	err := uploadError("log", "segments/log/x", &objstore.Error{Op: "Put", Class: objstore.ErrRejected, Hint: "free some space"})
	oe, ok := errors.AsType[*OpError](err)
	if !ok || !strings.HasPrefix(oe.Hint, "free some space; nothing was committed") {
		t.Errorf("%v, hint %q", err, oe.Hint)
	}
}
