package backendtest_test

import (
	"testing"

	"github.com/s3log/s3log/backend/backendtest"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/objstoretest"
)

// What docs/adding-a-store.md and docs/contract.md show.

func open(t *testing.T) objstore.Store {
	store, err := filestore.Open(t.TempDir(), filestore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestMyObjects(t *testing.T) {
	objstoretest.Run(t, open, objstoretest.Options{}) // Metadata: true, if the store keeps it
}

func TestMyStore(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) objstore.Store { return open(t) })
}
