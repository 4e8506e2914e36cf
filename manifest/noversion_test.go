package manifest

import (
	"errors"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// portal answers a write in the store's place: success, and nothing was done.
func portal(func() (objstore.Info, error)) (objstore.Info, error) { return objstore.Info{}, nil }

// A reply of success without a version is no proof that anything was written:
// the segment is read back, and sent again if it is not there.
func TestSegmentWithoutAVersionIsReadBack(t *testing.T) {
	name, body := Name{Epoch: 1, Nonce: Nonce{1}}, []byte("segment")
	for what, tc := range map[string]struct {
		puts []putReply
		gets []getReply
		sent int
		want error
	}{
		"it is there":               {puts: []putReply{versionless}, sent: 1},
		"it is not":                 {puts: []putReply{portal, portal}, sent: 3},
		"a read fails in passing":   {puts: []putReply{versionless, lost(objstore.ErrPrecondition)}, gets: []getReply{getSays(objstore.ErrUndecided)}, sent: 2},
		"nobody may look":           {puts: []putReply{portal}, gets: []getReply{getSays(objstore.ErrDenied)}, sent: 1, want: ErrDenied},
		"the store comes back late": {puts: []putReply{portal, says(objstore.ErrUndecided), portal}, sent: 4},
	} {
		t.Run(what, func(t *testing.T) {
			st := memstore.New(t)
			s := &scripted{Store: st, puts: tc.puts, gets: tc.gets}
			err := PutSegment(t.Context(), s, theLog, name, body, quick)
			if !errors.Is(err, tc.want) || s.sent != tc.sent {
				t.Errorf("%d PUTs, %v", s.sent, err)
			}
			if _, gerr := st.Get(t.Context(), SegmentKey(theLog, name), objstore.GetOptions{}); (gerr == nil) != (err == nil) {
				t.Errorf("%v, and reading it gives %v", err, gerr)
			}
		})
	}
}

// The same of a manifest. Nobody is told "not committed" after a success that
// could not be confirmed: it may have been the store's after all.
func TestCommitWithoutAVersion(t *testing.T) {
	t.Run("in between", func(t *testing.T) {
		st, head := begun(t)
		s := &scripted{Store: st, puts: []putReply{portal, portal}}
		res, err := Commit(t.Context(), s, head, adding("owner"), quick)
		if err != nil || res.Head.Record.Next != 2 || s.sent != 3 {
			t.Errorf("%+v, %v, %d PUTs", res.Head.Record, err, s.sent)
		}
	})
	t.Run("for ever", func(t *testing.T) {
		st, head := begun(t)
		s := &scripted{Store: st, puts: []putReply{portal, portal, portal, portal, portal, portal, portal, portal}}
		_, err := Commit(t.Context(), s, head, adding("owner"), quick)
		if !errors.Is(err, ErrOutcomeUnknown) || !strings.Contains(err.Error(), ErrUnsupportedStore.Error()) {
			t.Errorf("got %v", err)
		}
		var ce *CommitError
		if !errors.As(err, &ce) || ce.Intent.Token() == "" {
			t.Errorf("%+v has no token", err)
		}
	})
}
