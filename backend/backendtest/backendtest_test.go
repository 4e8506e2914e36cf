package backendtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/s3log/s3log/backend/backendtest"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemstore(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) objstore.Store { return memstore.New(t) })
}

// One store for all scenarios, as a bucket is.
func TestMemstoreShared(t *testing.T) {
	store := memstore.New(t)
	backendtest.Run(t, func(*testing.T) objstore.Store { return store })
}

func TestFilestore(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) objstore.Store {
		store, err := filestore.Open(t.TempDir(), filestore.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return store
	})
}
