package backend_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// typed are events of these types.
func typed(types ...string) (events [][]byte) {
	for _, typ := range types {
		events = append(events, fmt.Appendf(nil, `{"type":%q,"time":1790000000000,"data":{"turn":1}}`, typ))
	}
	return events
}

// begin begins a log, whose writer then goes away without a word.
func begin(b *backend.Backend, id string, types ...string) {
	ctx := context.Background()
	l, err := b.Create(id, backend.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := l.Append(ctx, typed(types...), backend.AppendOptions{}); err != nil {
		log.Fatal(err)
	}
	if err := l.Close(ctx, backend.CloseOptions{}); err != nil {
		log.Fatal(err)
	}
}

// show prints seqs and types of a log.
func show(r *backend.Reader, id string) {
	for e, err := range r.Events(context.Background(), id, backend.ReadOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		ev, err := e.Parse()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ev.Seq, ev.Type)
	}
}

// A writer has died within a turn, and within a compaction. Until somebody resumes
// the session, nobody can know that from the log, and the marker is live; from
// then on it is stale, and the turn has been closed.
func ExampleBackend_Resume() {
	ctx := context.Background()
	b := backend.New(memstore.New(nil), backend.Options{})
	begin(b, "session-1", "turn/start", "compaction/start")

	compaction := backend.Pair{Open: "compaction/start", Close: "compaction/end"}
	before, err := b.Check(ctx, "session-1", compaction, backend.CheckOptions{}) // one GET; anybody who may read can ask
	if err != nil {
		log.Fatal(err)
	}
	l, receipt, err := b.Resume(ctx, "session-1", backend.ResumeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx, backend.CloseOptions{})
	after, err := b.Check(ctx, "session-1", compaction, backend.CheckOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(before.Answer, "before,", after.Answer, "after", receipt.Count, "more events; generation", receipt.Generation)
	show(b.Reader, "session-1")
	// Output:
	// live before, stale after 2 more events; generation 2
	// 0 turn/start
	// 1 compaction/start
	// 2 turn/end
	// 3 session/end-seed
}

// A function does not know yet whether it will have something to say. Its resume
// is pending: what it has to write comes with the first append, in one PUT, and
// if there is none, nothing was written.
func ExampleResumeOptions_delay() {
	ctx := context.Background()
	b := backend.New(memstore.New(nil), backend.Options{Foreground: true})
	begin(b, "session-1", "note")

	l, _, err := b.Resume(ctx, "session-1", backend.ResumeOptions{Delay: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the next append goes to seq", l.Next())
	if _, err := l.Append(ctx, typed("note"), backend.AppendOptions{Last: true}); err != nil {
		log.Fatal(err)
	}
	if err := l.Close(ctx, backend.CloseOptions{}); err != nil {
		log.Fatal(err)
	}
	show(b.Reader, "session-1")
	// Output:
	// the next append goes to seq 2
	// 0 note
	// 1 session/end-seed
	// 2 note
}

// A fork is a log of its own, with the first events of another one. Repeating it
// is told of the first, so that a retry is safe.
func ExampleBackend_Fork() {
	ctx := context.Background()
	b := backend.New(memstore.New(nil), backend.Options{})
	begin(b, "session-1", "turn/start", "turn/end", "turn/start")

	at := int64(1)
	for range 2 {
		_, r, err := b.Fork(ctx, "session-1", "what-if", backend.ForkOptions{At: &at, Release: true})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Count, "events, duplicate", r.Duplicate)
	}
	show(b.Reader, "what-if")
	// Output:
	// 3 events, duplicate false
	// 3 events, duplicate true
	// 0 turn/start
	// 1 turn/end
	// 2 session/end-seed
}

// A session that was kept elsewhere begins a log, with its events and a boundary.
func ExampleBackend_Replay() {
	ctx := context.Background()
	b := backend.New(memstore.New(nil), backend.Options{})
	events := func(yield func([]byte, error) bool) { // as a file or a query yields them
		for line := range slices.Values(typed("turn/start", "turn/end")) {
			if !yield(line, nil) {
				return
			}
		}
	}
	l, receipt, err := b.Replay(ctx, "session-1", events, backend.ReplayOptions{Header: []byte(`{"type":"session","id":"session-1"}`)})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx, backend.CloseOptions{})
	fmt.Println(receipt.Count, "events")
	show(b.Reader, "session-1")
	// Output:
	// 3 events
	// 0 turn/start
	// 1 turn/end
	// 2 session/end-seed
}

// Verdict and opening of a bracket are one atomic step: the append lands only
// where the log is still what the verdict was about.
func ExampleLog_Check() {
	ctx := context.Background()
	b := backend.New(memstore.New(nil), backend.Options{})
	begin(b, "session-1", "note")
	l, err := b.Adopt(ctx, "session-1", backend.AdoptOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx, backend.CloseOptions{})

	verdict, next, err := l.Check(ctx, "compaction/start", "compaction/end") // no request
	if err != nil {
		log.Fatal(err)
	}
	if verdict.Answer == backend.Live {
		return // somebody else is at it
	}
	receipt, err := l.Append(ctx, typed("compaction/start"), backend.AppendOptions{ExpectNext: &next})
	if err != nil {
		log.Fatal(err) // ErrSeqMismatch or ErrFenced: somebody else was first
	}
	fmt.Println(verdict.Answer, "so it was opened, at seq", receipt.First)
	// Output:
	// balanced so it was opened, at seq 1
}
