package manifest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOpError(t *testing.T) {
	cause := errors.New("fenced: by w2 at seq 3")
	for _, tt := range []struct {
		name string
		err  OpError
		want string
	}{
		{"log", OpError{Op: "append", Log: "id", Seq: -1, Err: cause}, `append "id": fenced: by w2 at seq 3`},
		{"hint stays out", OpError{Op: "append", Log: "id", Seq: -1, Err: ErrHeld, Hint: "wait"}, `append "id": log is held`},
		{"key and seq", OpError{Op: "load", Log: "id", Key: "segments/id/x", Seq: 7, Err: ErrMissing},
			`load "id" (object "segments/id/x") at seq 7: object is missing`},
		{"hostile id", OpError{Op: "load", Log: "a\x1b[31m\n\u202e", Seq: -1, Err: ErrNotFound},
			`load "a\x1b[31m\n\u202e": no such log`},
		{"no log", OpError{Op: "list", Seq: -1, Err: ErrRolledBack}, `list: manifest was rolled back`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.err.Error()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if !errors.Is(&tt.err, tt.err.Err) {
				t.Error("the cause cannot be found")
			}
		})
	}
}
