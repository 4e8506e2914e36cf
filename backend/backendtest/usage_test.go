package backendtest_test

import (
	"testing"

	"github.com/s3log/s3log/backend/backendtest"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/objstoretest"
)

// What docs/adding-a-store.md and docs/contract.md show.

func open(t *testing.T) objstore.Store { return memstore.New(t) }

func TestMyObjects(t *testing.T) {
	objstoretest.Run(t, open, objstoretest.Options{Metadata: true})
}

func TestMyLogs(t *testing.T) {
	backendtest.Run(t, open)
}

func TestMyStore(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) objstore.Store { return open(t) })
}
