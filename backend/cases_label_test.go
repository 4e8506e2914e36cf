package backend_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// A label with a host and a process id is a word for people (C-12). Whether such a
// process runs here, or whether ours has the same one, decides nothing: who writes
// is decided by the conditional write, and every handle is a writer of its own.
func TestC12ProcessIDsDecideNothing(t *testing.T) {
	label := func(host string, pid int) string { return fmt.Sprintf("host=%s pid=%d", host, pid) }
	for name, tc := range map[string]struct{ first, second string }{
		"pid 1, which every host has":    {label("a", 1), label("b", 1)},
		"a pid that nobody has":          {label("a", 4_194_305), label("b", 77)},
		"our own pid, of another host":   {label("a", os.Getpid()), label("b", os.Getpid())},
		"the same label, to the letter":  {label("a", 1), label("a", 1)},
		"no label at all":                {"", ""},
		"a label that looks like an id":  {"01a22d37-0000-7000-8000-000000000000", label("b", 2)},
		"a label that is somebody's pid": {fmt.Sprint(os.Getpid()), fmt.Sprint(os.Getppid())},
	} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New(t)
			first := create(t, backend.New(mem, backend.Options{Label: tc.first}), "log")
			appendOne(t, first, event(0))

			second := backend.New(mem, backend.Options{Label: tc.second})
			quiet := backend.AdoptOptions{Quiet: time.Hour}
			_, aerr := second.Adopt(t.Context(), "log", quiet)
			_, _, rerr := second.Resume(t.Context(), "log", backend.ResumeOptions{AdoptOptions: quiet})
			for what, err := range map[string]error{"adopt": aerr, "resume": rerr} {
				if !errors.Is(err, backend.ErrHeld) || !strings.Contains(err.Error(), first.Writer()) || !strings.Contains(err.Error(), tc.first) {
					t.Errorf("%s: %v", what, err)
				}
			}
			appendOne(t, first, event(1)) // being looked at has not disturbed it

			quiet.TakeOver = true
			heir, _ := resume(t, second, "log", backend.ResumeOptions{AdoptOptions: quiet})
			appendOne(t, heir, event(2))
			if heir.Writer() == first.Writer() {
				t.Error("two handles are one writer")
			}
			for range 2 {
				_, err := first.Append(t.Context(), [][]byte{event(9)}, backend.AppendOptions{})
				if !errors.Is(err, backend.ErrFenced) || !strings.Contains(err.Error(), heir.Writer()) {
					t.Errorf("got %v", err)
				}
			}
			closeLog(t, heir)
			sameTypes(t, second.Reader, "log", chunk, chunk, mark, chunk)
			_ = first.Close(t.Context(), backend.CloseOptions{})
		})
	}
}
