package backend_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"slices"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// Reading a part of a log: it takes its manifest, and the segments that the part
// is in.
func ExampleReader_Events() {
	store := memstore.New(nil)
	begin(backend.New(store, backend.Options{}), "session-1", "a", "b", "c", "d")

	r := backend.NewReader(store, backend.Options{}) // its store may be one that can only be read
	for e, err := range r.Events(context.Background(), "session-1", backend.ReadOptions{From: 1, Last: 2}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s\n", e.Seq, e.Line)
	}
	// Output:
	// 2 {"type":"c","seq":2,"time":1790000000000,"data":{"turn":1}}
	// 3 {"type":"d","seq":3,"time":1790000000000,"data":{"turn":1}}
}

// Following a log: what is there, and then what is appended, until the caller has
// had enough.
func ExampleReader_Follow() {
	ctx, enough := context.WithCancel(context.Background())
	defer enough()
	b := backend.New(memstore.New(nil), backend.Options{PollInterval: 1})
	begin(b, "session-1", "turn/start")

	for e, err := range b.Follow(ctx, "session-1", 0) {
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		ev, err := e.Parse()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ev.Seq, ev.Type)
		switch ev.Type {
		case "turn/start":
			l, err := b.Adopt(ctx, "session-1", backend.AdoptOptions{})
			if err != nil {
				log.Fatal(err)
			}
			if _, err := l.Append(ctx, typed("note", "turn/end"), backend.AppendOptions{Last: true}); err != nil {
				log.Fatal(err)
			}
			if err := l.Close(ctx, backend.CloseOptions{}); err != nil {
				log.Fatal(err)
			}
		case "turn/end":
			enough()
		}
	}
	// Output:
	// 0 turn/start
	// 1 note
	// 2 turn/end
}

// That nobody has changed the past shows against a root that was noted where
// whoever may write to the store cannot reach it.
func ExampleReader_Verify() {
	ctx := context.Background()
	b := backend.New(memstore.New(nil), backend.Options{})
	begin(b, "session-1", "a", "b")
	first, err := b.Verify(ctx, "session-1", backend.VerifyOptions{})
	if err != nil {
		log.Fatal(err)
	}
	noted := backend.Point{Size: first.Size, Root: first.Root}.String()

	if _, _, err := b.Resume(ctx, "session-1", backend.ResumeOptions{Release: true}); err != nil {
		log.Fatal(err)
	}
	since, err := backend.ParsePoint(noted)
	if err != nil {
		log.Fatal(err)
	}
	report, err := b.Verify(ctx, "session-1", backend.VerifyOptions{Since: &since})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.OK(), report.Events, "events,", len(report.Findings), "findings")
	// Output:
	// true 3 events, 0 findings
}

// The newest sessions come first: by what people wrote, not by what was written
// to the store.
func ExampleReader_List() {
	b := backend.New(memstore.New(nil), backend.Options{})
	for i, id := range []string{"monday", "tuesday"} {
		l, err := b.Create(id, backend.CreateOptions{Header: fmt.Appendf(nil, `{"type":"session","createdAt":%d}`, 1_700_000_000_000+i*86_400_000)})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := l.Append(context.Background(), typed("note"), backend.AppendOptions{Last: true}); err != nil {
			log.Fatal(err)
		}
		if err := l.Close(context.Background(), backend.CloseOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	for e, err := range b.List(context.Background(), backend.ListOptions{Limit: 20}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Log)
	}
	// Output:
	// tuesday
	// monday
}

// A caller stops waiting while its append is under way, and cannot know whether it
// is in the log. The token settles that, from any process.
func ExampleToken() {
	store := faultstore.New(memstore.New(nil))
	b := backend.New(store, backend.Options{})
	begin(b, "session-1", "note")
	l, err := b.Adopt(context.Background(), "session-1", backend.AdoptOptions{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	left := make(chan struct{})
	store.Inject(faultstore.Rule{Match: faultstore.Op("Put"), Nth: 1, Fault: faultstore.Before(func() {
		stop() // now, as the request has been made
		<-left
	})})

	_, err = l.Append(ctx, typed("note"), backend.AppendOptions{})
	close(left)
	_ = l.Close(context.Background(), backend.CloseOptions{}) // it waits for what is under way
	if token := backend.Token(err); token != "" {
		fmt.Println(backend.Code(err))
		d, err := b.Decide(context.Background(), token)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("committed:", d.Committed, "at seq", d.First)
	}
	// Output:
	// outcome-unknown
	// committed: true at seq 1
}

// Two processes believe that a log is theirs. The library can say so, beside
// returning ErrFenced to the one that was replaced; OpenTelemetry gets spans and
// metrics in the same way.
func ExampleOptions_logger() {
	short := func(_ []string, a slog.Attr) slog.Attr {
		if slices.Contains([]string{slog.LevelKey, slog.MessageKey, "log", "kind"}, a.Key) {
			return a
		}
		return slog.Attr{} // times, ids and errors differ
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: short}))

	ctx := context.Background()
	b := backend.New(memstore.New(nil), backend.Options{Logger: logger, Label: "host-1"})
	begin(b, "session-1", "note")
	var handles []*backend.Log
	for range 2 {
		l, err := b.Adopt(ctx, "session-1", backend.AdoptOptions{})
		if err != nil {
			log.Fatal(err)
		}
		defer l.Close(ctx, backend.CloseOptions{})
		if _, err := l.Append(ctx, typed("note"), backend.AppendOptions{}); err != nil {
			log.Fatal(err)
		}
		handles = append(handles, l)
	}
	_, err := handles[0].Append(ctx, typed("note"), backend.AppendOptions{})
	fmt.Println(errors.Is(err, backend.ErrFenced), backend.Code(err))
	// Output:
	// level=INFO msg="took the log over" log=session-1 kind=adopt
	// level=INFO msg="took the log over" log=session-1 kind=adopt
	// level=INFO msg="commit took more than one request" log=session-1
	// level=WARN msg="fenced: another writer took the log over" log=session-1
	// true fenced
}
