package backend_test

import (
	"testing"
	"testing/synctest"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

// An upload whose reply was lost is repeated, meets its own object, and finds
// that a collector has removed it before it can be read back. The append goes on:
// whether the segment may still be named is for its commit to find out.
func TestUploadCollectedBeforeItIsReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.NewWith(t, memstore.Options{LateRetries: true})
		store := faultstore.New(mem)
		store.Inject(faultstore.Rule{Match: faultstore.Puts("segments/"), Nth: 1, Fault: faultstore.LostReply()})
		collected := store.Inject(faultstore.Rule{
			Match: faultstore.And(faultstore.Op("Get"), faultstore.Prefix("segments/")), Nth: 1,
			Fault: faultstore.Before(func() {
				for key := range mem.Snapshot("segments/") {
					if err := mem.Delete(t.Context(), key); err != nil {
						t.Error(err)
					}
				}
			}),
		})
		b := backend.New(store, backend.Options{})
		l := create(t, b, "log")
		r, err := l.Append(t.Context(), [][]byte{tagged("large", 3*sealing)}, backend.AppendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		closeLog(t, l)
		c := newClaims()
		if err := c.acked(r, "large"); err != nil {
			t.Error(err)
		}
		if err := audit(t.Context(), mem, "log", c); err != nil {
			t.Error(err)
		}
		if collected.Hits() != 1 {
			t.Error("nothing was collected")
		}
	})
}
