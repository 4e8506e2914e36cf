package backend

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/manifest"
)

// Where nobody wants to be told anything, what is on the way of an append costs
// no allocation, and the store is the caller's own.
func TestNobodyWatches(t *testing.T) {
	store := memstore.New(t)
	b := New(store, Options{})
	if b.tel != nil || b.store != store {
		t.Fatal("a Backend is watched that was not asked for it")
	}
	ops := []*appendOp{{}, {}}
	failure := errors.New("failure")
	ctx := context.Background()
	allocs := testing.AllocsPerRun(100, func() {
		ctx, o := b.tel.begin(ctx, "append", "log")
		ops[0].from(ctx, b.tel)
		cctx, links := b.tel.callers(ctx, ops)
		if cctx != ctx || links != nil {
			t.Error("a context or a link was made")
		}
		b.tel.slowed(ctx, "log", time.Second)
		b.tel.decided(ctx, "log", true, 1)
		b.tel.takeover(ctx, manifest.KindDecide)
		o.end(ctx, Receipt{Log: "log"}, nil)
		o.upkeep(ctx, nil, failure)
		o.folded(ctx, FoldOptions{}, nil, nil)
		o.collected(ctx, nil, nil)
	})
	if allocs != 0 || ops[0].span != nil {
		t.Errorf("%.0f allocations, span %v", allocs, ops[0].span)
	}
}
