package sessionfile_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/s3log/s3log/sessionfile"
)

func ExampleReader() {
	const file = `{"type":"session","version":0,"id":"s1","createdAt":1000,"delegationDepth":0}
{"type":"text-chunks","seq0":0,"time0":1000,"data":{"turn":1,"step":1,"index":0,"dt":[12],"texts":["Hel","lo"]}}
{"type":"turn/en`

	r, err := sessionfile.NewReader(strings.NewReader(file), sessionfile.Options{Salvage: sessionfile.SalvageTorn})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("session", r.HeaderID())
	for line, err := range r.Events() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d: %s\n", line.LineNo, line.Bytes)
	}
	for _, d := range r.Dropped() {
		fmt.Println("dropped", d.Bytes, "bytes:", d.Err)
	}
	// Output:
	// session s1
	// 2: {"type":"assistant/chunk","seq":0,"time":1000,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"Hel"}}}
	// 2: {"type":"assistant/chunk","seq":1,"time":1012,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"lo"}}}
	// dropped 16 bytes: line 3: torn at the end: the JSON text ends too early
}

func ExampleWriter() {
	w, err := sessionfile.NewWriter(os.Stdout, sessionfile.WriterOptions{Pack: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	header, err := sessionfile.DefaultHeader("s1", 1000)
	if err == nil {
		err = w.WriteHeader(header)
	}
	for i, text := range []string{"Hel", "lo", "!"} {
		if err != nil {
			break
		}
		err = w.WriteEvent(fmt.Appendf(nil, `{"type":"assistant/chunk","seq":%d,"time":%d,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":%q}}}`, i, 1000+i, text))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"type":"session","version":0,"id":"s1","createdAt":1000,"delegationDepth":0}
	// {"type":"text-chunks","seq0":0,"time0":1000,"data":{"turn":1,"step":1,"index":0,"dt":[1,1],"texts":["Hel","lo","!"]}}
}
