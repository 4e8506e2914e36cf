package segment

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// TestBrokenConnectionIsNoDamage: net/http says io.EOF of a connection that broke
// before an answer. Within another error that does not mean that the object ends.
func TestBrokenConnectionIsNoDamage(t *testing.T) {
	object, _ := makeSegment(t, sessionLines(40, 1), 0, 1, LevelFast)
	size := int64(len(object))
	for _, err := range []error{fmt.Errorf("Get \"http://h/\": %w", io.EOF), fmt.Errorf("closed: %w", io.ErrUnexpectedEOF), io.ErrUnexpectedEOF} {
		if _, got := Open(NewCodec(), &source{object: object, err: err}, size); !errors.Is(got, err) || errors.Is(got, ErrCorrupt) {
			t.Errorf("opening: %v", got)
		}
		// A frame that is not within the bytes that opening has read.
		src := &source{object: object}
		r, oerr := Open(NewCodec(), src, size)
		if oerr != nil {
			t.Fatal(oerr)
		}
		r.end, src.err = nil, err
		if _, got := r.Frame(0); !errors.Is(got, err) || errors.Is(got, ErrCorrupt) {
			t.Errorf("a frame: %v", got)
		}
	}
	// The end of the object itself is damage.
	if _, err := Open(NewCodec(), &source{object: object[:len(object)-1]}, size); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte less: %v", err)
	}
}
