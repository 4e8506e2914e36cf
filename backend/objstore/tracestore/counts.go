package tracestore

import "sync/atomic"

// PageSize is how many objects one LIST request returns on S3.
const PageSize = 1000

// Counts are requests by kind, as an S3 server would count and bill them, and
// the bytes of object bodies. A conditional Get that answers "not modified" is
// a Get; a List is one request per started page of PageSize objects, and at
// least one.
type Counts struct {
	Put, Get, Head, List, Delete, Copy int64

	BytesIn  int64 // received from the store: bodies of Get
	BytesOut int64 // sent to the store: bodies of Put, also of those that failed
}

// Sub is what was counted between o and c.
func (c Counts) Sub(o Counts) Counts {
	return Counts{
		Put: c.Put - o.Put, Get: c.Get - o.Get, Head: c.Head - o.Head,
		List: c.List - o.List, Delete: c.Delete - o.Delete, Copy: c.Copy - o.Copy,
		BytesIn: c.BytesIn - o.BytesIn, BytesOut: c.BytesOut - o.BytesOut,
	}
}

// Requests is the number of requests of all kinds.
func (c Counts) Requests() int64 {
	return c.Put + c.Get + c.Head + c.List + c.Delete + c.Copy
}

// counters are Counts in the making.
type counters struct {
	put, get, head, list, delete, copy, in, out atomic.Int64
}

func (c *counters) load() Counts {
	return Counts{
		Put: c.put.Load(), Get: c.get.Load(), Head: c.head.Load(),
		List: c.list.Load(), Delete: c.delete.Load(), Copy: c.copy.Load(),
		BytesIn: c.in.Load(), BytesOut: c.out.Load(),
	}
}
