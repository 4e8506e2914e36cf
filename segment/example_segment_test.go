package segment_test

import (
	"fmt"
	"log"
	"os"

	"github.com/s3log/s3log/segment"
)

// The index says where an event is; reading it takes that frame alone.
func ExampleOpen() {
	f, err := os.Open("testdata/v1-first.jsonl.zst")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		log.Fatal(err)
	}
	r, err := segment.Open(segment.NewCodec(), f, info.Size())
	if err != nil {
		log.Fatal(err)
	}
	x := r.Index()
	fmt.Printf("%s: %d events from seq %d in %d frames\n", x.Log, x.Count, x.First, len(x.Frames))
	fmt.Println("seq 99 is in frame", r.Find(99))
	for line, err := range r.Lines(99) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%.48s\n", line)
	}
	// Output:
	// golden/1: 100 events from seq 0 in 6 frames
	// seq 99 is in frame 5
	// {"type":"assistant/chunk","seq":99,"time":178540
}
