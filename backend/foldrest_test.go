package backend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// What is left of a tail behind a fold is encoded anew, and in other frames the
// same events may not fit into the manifest any more: then the fold takes all.
func TestFoldOfATailThatDoesNotFitWithoutItsBeginning(t *testing.T) {
	mem := memstore.New(t)
	owner := create(t, backend.New(mem, backend.Options{}), "log")
	appendOne(t, owner, event(0))
	// Two events that hold the same fit together into one frame, as they are
	// appended, but not with what comes before them. What does not compress is
	// interrupted often, so that the encoder looks for it again.
	var pad strings.Builder
	for i := range 125 << 10 / 96 {
		_, noise, _ := strings.Cut(string(tagged(fmt.Sprint(i), 64)), `"pad":"`)
		pad.WriteString(noise[:64] + strings.Repeat(".", 32))
	}
	large := func(tag string) []byte {
		return fmt.Appendf(nil, `{"type":"note","data":{"tag":%q,"pad":%q}}`, tag, pad.String())
	}
	store := faultstore.New(mem, faultstore.Rule{Match: faultstore.Puts("manifests/"), Nth: 1, Fault: faultstore.Before(func() {
		appendOne(t, owner, fmt.Appendf(nil, `{"type":"note","data":%q}`, strings.Repeat("-", 20<<10)))
		if _, err := owner.Append(t.Context(), [][]byte{large("one"), large("two")}, backend.AppendOptions{}); err != nil {
			t.Error(err)
		}
	})})
	rep, err := backend.New(store, backend.Options{}).Fold(t.Context(), "log", backend.FoldOptions{Tail: backend.FoldTailTake})
	if err != nil || rep.Conflicts != 1 || rep.After.Tail != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	closeLog(t, owner)
	if got := read(t, backend.NewReader(mem, backend.Options{}), "log", 0); len(got) != 4 {
		t.Errorf("%d events", len(got))
	}
	verifyClean(t, backend.NewReader(mem, backend.Options{}), "log")
}
