package main

import (
	"encoding/json"
	"strconv"

	"github.com/s3log/s3log/backend/objstore/tracestore"
)

// Prices of requests in billionths of a US dollar: Amazon S3 pricing
// (https://aws.amazon.com/s3/pricing/), S3 Standard in US East (N. Virginia):
// PUT, COPY, POST and LIST 0.005 USD per 1,000, GET, SELECT and all others
// 0.0004 USD per 1,000, DELETE free. Storage and transfer are not in it.
const (
	priceWrite = 5000 // PUT, LIST, COPY
	priceRead  = 400  // GET, HEAD
)

// requestReport is what was asked of the store in one run.
type requestReport struct {
	Requests requestCounts `json:"requests"`
	BytesIn  int64         `json:"bytesIn"`
	BytesOut int64         `json:"bytesOut"`
	USD      json.Number   `json:"usd"`
}

type requestCounts struct {
	Put    int64 `json:"PUT"`
	Get    int64 `json:"GET"`
	Head   int64 `json:"HEAD"`
	List   int64 `json:"LIST"`
	Delete int64 `json:"DELETE"`
	Copy   int64 `json:"COPY"`
}

func newRequestCounts(c tracestore.Counts) requestCounts {
	return requestCounts{Put: c.Put, Get: c.Get, Head: c.Head, List: c.List, Delete: c.Delete, Copy: c.Copy}
}

func newRequestReport(c tracestore.Counts) requestReport {
	return requestReport{Requests: newRequestCounts(c), BytesIn: c.BytesIn, BytesOut: c.BytesOut, USD: cost(c)}
}

// cost is the price of requests in US dollars, without an exponent.
func cost(c tracestore.Counts) json.Number {
	return json.Number(strconv.FormatFloat(float64(nanoUSD(c))/1e9, 'f', -1, 64))
}

// nanoUSD is the price in billionths of a US dollar.
func nanoUSD(c tracestore.Counts) int64 {
	return priceWrite*(c.Put+c.List+c.Copy) + priceRead*(c.Get+c.Head)
}

// reportRequests prints the report, whatever the command came to.
func (g *globals) reportRequests() {
	if !g.requests {
		return
	}
	writeJSON(g.err, newRequestReport(g.counts()))
}

// counts is what was asked so far of all stores.
func (g *globals) counts() (sum tracestore.Counts) {
	for _, t := range g.opened() {
		c := t.Counts()
		sum.Put, sum.Get, sum.Head = sum.Put+c.Put, sum.Get+c.Get, sum.Head+c.Head
		sum.List, sum.Delete, sum.Copy = sum.List+c.List, sum.Delete+c.Delete, sum.Copy+c.Copy
		sum.BytesIn, sum.BytesOut = sum.BytesIn+c.BytesIn, sum.BytesOut+c.BytesOut
	}
	return sum
}
