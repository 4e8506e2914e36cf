package objstoretest_test

import (
	"io"
	"testing"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/objstoretest"
	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// The suite writes without a condition on purpose, so the stores are without a
// judge here: they return what they would report.
func TestMemstore(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store { return memstore.New(nil) }, objstoretest.Options{Metadata: true})
}

func TestMemstoreContentVersions(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		return memstore.NewWith(nil, memstore.Options{ContentVersions: true, WholeSeconds: true})
	}, objstoretest.Options{Metadata: true})
}

func TestFaultstore(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store { return faultstore.New(memstore.New(nil)) }, objstoretest.Options{Metadata: true})
}

func TestTracestore(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		return tracestore.New(memstore.New(nil), tracestore.Options{Out: io.Discard, Mask: tracestore.NewMasker()})
	}, objstoretest.Options{Metadata: true})
}

// The races hold although replies are lost, requests repeated and both asked
// for again: what the suite itself needs on real networks.
func TestUnderFaults(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		counter := faultstore.And(faultstore.Op("Put"), func(_, key string, body []byte) bool {
			return len(body) > 8 && (body[0] == '[' || string(body[:7]) == "create ") // the two races
		})
		s := faultstore.New(memstore.New(nil))
		for n := 10; n < 200; n += 10 {
			s.Inject(faultstore.Rule{Match: counter, Nth: n, Fault: faultstore.LostReply()})
			s.Inject(faultstore.Rule{Match: counter, Nth: n + 1, Fault: faultstore.Conflict()})
			s.Inject(faultstore.Rule{Match: counter, Nth: n + 2, Fault: faultstore.Duplicate()})
			s.Inject(faultstore.Rule{Match: counter, Nth: n + 3, Fault: faultstore.Throttled()})
		}
		return s
	}, objstoretest.Options{Metadata: true})
}
