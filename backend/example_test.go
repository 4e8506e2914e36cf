package backend_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/filestore"
)

// A log is begun by its first append, and read by whoever may read its objects.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "s3log")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	b := backend.New(store, backend.Options{Label: "example"})

	l, err := b.Create("session-1", backend.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := l.Append(ctx, [][]byte{
		[]byte(`{"type":"turn/start","time":1790000000000,"data":{"turn":1}}`),
		[]byte(`{"type":"note","time":1790000000001,"data":"hello"}`),
	}, backend.AppendOptions{Key: "job-17"}) // durable when it returns; the key makes it safe to repeat
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d events from seq %d on\n", receipt.Count, receipt.First)
	if err := l.Close(ctx, backend.CloseOptions{Release: true}); err != nil {
		log.Fatal(err)
	}

	for event, err := range b.Events(ctx, "session-1", backend.ReadOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", event.Line)
	}
	// Output:
	// 2 events from seq 0 on
	// {"type":"turn/start","seq":0,"time":1790000000000,"data":{"turn":1}}
	// {"type":"note","seq":1,"time":1790000000001,"data":"hello"}
}

// A retry with the same key is told where the events are, and appends nothing.
func ExampleAppendOptions_key() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "s3log")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	b := backend.New(store, backend.Options{})

	for range 2 { // as two runs of one job would
		l, err := b.Create("jobs", backend.CreateOptions{OrAdopt: true})
		if err != nil {
			log.Fatal(err)
		}
		event := []byte(`{"type":"job/done","time":1790000000000,"data":{"job":17}}`)
		r, err := l.Append(ctx, [][]byte{event}, backend.AppendOptions{Key: "job-17", Last: true})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("seq", r.First, "duplicate", r.Duplicate)
		if err := l.Close(ctx, backend.CloseOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// seq 0 duplicate false
	// seq 0 duplicate true
}
