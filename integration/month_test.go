package integration

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/tracestore"
	"github.com/s3log/s3log/sessiongen"
)

// The month that docs/operating.md reckons with, and list prices in US dollars,
// as the page names them.
const (
	monthSessions  = 90_000
	monthDays      = 30
	sessionEvents  = 200
	sessionAppends = 10 // by a new process each
	sessionReads   = 2
	sessionChecks  = 10
	keptDays       = 7 // former versions of manifests
	usdWrite       = 0.005 / 1000
	usdRead        = 0.0004 / 1000
	usdGBMonth     = 0.023
)

// usage is what something costs a store.
type usage struct{ puts, gets, lists, sent, usd float64 }

func usageOf(c tracestore.Counts, times float64) usage {
	u := usage{puts: float64(c.Put+c.Copy) * times, gets: float64(c.Get+c.Head) * times, lists: float64(c.List) * times, sent: float64(c.BytesOut) * times}
	u.usd = (u.puts+u.lists)*usdWrite + u.gets*usdRead
	return u
}

// TestWorkedMonth reckons the month of docs/operating.md again, from the requests
// that its parts make of a store.
func TestWorkedMonth(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	trace := tracestore.New(memstore.New(t), tracestore.Options{})
	options := backend.Options{Foreground: true}
	var before tracestore.Counts
	since := func() tracestore.Counts {
		c := trace.Counts()
		d := c.Sub(before)
		before = c
		return d
	}
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	const id = "session"
	g := sessiongen.New(sessiongen.Options{Seed: 1, Events: sessionEvents})
	raw := 0
	for i := range sessionAppends {
		var batch [][]byte
		for range sessionEvents / sessionAppends {
			line, _ := g.Next()
			raw += len(line) + 1
			batch = append(batch, bytes.Clone(line))
		}
		b := backend.New(trace, options) // a process that knows nothing yet
		var l *backend.Log
		if i == 0 {
			l, err = b.Create(id, backend.CreateOptions{})
		} else {
			l, err = b.Adopt(t.Context(), id, backend.AdoptOptions{})
		}
		fatal(err)
		_, err := l.Append(t.Context(), batch, backend.AppendOptions{Last: true, Boundary: true})
		fatal(err)
	}
	appends := usageOf(since(), monthSessions)
	_, _, err = backend.New(trace, options).Resume(t.Context(), id, backend.ResumeOptions{Release: true})
	fatal(err)
	resumes := usageOf(since(), monthSessions)
	for range sessionReads {
		for _, err := range backend.NewReader(trace, options).Events(t.Context(), id, backend.ReadOptions{}) {
			fatal(err)
		}
	}
	for range sessionChecks {
		_, err := backend.NewReader(trace, options).Check(t.Context(), id, backend.Pair{Open: "compaction/start", Close: "compaction/end"}, backend.CheckOptions{})
		fatal(err)
	}
	reads := usageOf(since(), monthSessions)
	info, err := backend.NewReader(trace, options).Info(t.Context(), id)
	fatal(err)
	if len(info.Segments) > 0 {
		t.Errorf("the session has %d segments: the page says that it is one object", len(info.Segments))
	}
	since()
	for _, err := range backend.New(trace, options).GC(t.Context(), backend.GCOptions{}) {
		fatal(err)
	}
	collections := usageOf(since(), monthDays)
	// One LIST for each thousand logs and about as many HEADs as logs are wanted:
	// TestNewestOfTenThousandLogs counts them.
	listings := usageOf(tracestore.Counts{List: monthSessions / 1000, Head: 24}, monthDays*24*60)
	sum := usage{}
	for _, u := range []usage{appends, resumes, reads, collections} {
		sum.puts, sum.gets, sum.lists, sum.sent, sum.usd = sum.puts+u.puts, sum.gets+u.gets, sum.lists+u.lists, sum.sent+u.sent, sum.usd+u.usd
	}

	const gb = 1e9
	stored := float64(info.Bytes) * monthSessions / gb
	kept := sum.sent / monthDays * keptDays / gb
	for row, want := range map[string][]float64{
		"appends, 10 to a session":                    {appends.puts, appends.gets, 0, appends.usd},
		"a resume of each":                            {resumes.puts, resumes.gets, 0, resumes.usd},
		"2 loads and 10 verdicts of each":             {0, reads.gets, 0, reads.usd},
		"`gc`, once a day":                            {0, 0, collections.lists, collections.usd},
		"together":                                    {sum.puts, sum.gets, sum.lists, sum.usd},
		"the newest 20 of 90,000 logs, once a minute": {0, listings.gets, listings.lists, listings.usd},
		"events":                         {float64(raw) * monthSessions / gb, 0},
		"sent":                           {sum.sent / gb, 0},
		"stored at the end of the month": {stored, stored * usdGBMonth},
		"former manifests of 7 days, if versioned":             {kept, kept * usdGBMonth},
		"former manifests of a month, if nothing expires them": {sum.sent / gb, sum.sent / gb * usdGBMonth},
	} {
		cells, err := tableRow(string(page), row)
		if err != nil || len(cells) != len(want) {
			t.Errorf("no row %q with %d numbers (%v): they are %.2f", row, len(want), err, want)
			continue
		}
		for i, cell := range cells {
			if math.Abs(cell-want[i]) > max(0.05*want[i], 0.005) {
				t.Errorf("%q: the page says %v, it is %.2f", row, cells, want)
				break
			}
		}
	}
}

// tableRow finds the row of a table that begins with a text, and reads its
// numbers; an empty cell is 0.
func tableRow(page, name string) (numbers []float64, err error) {
	m := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(name) + ` \|(.*)\|$`).FindStringSubmatch(page)
	if m == nil {
		return nil, fmt.Errorf("there is none")
	}
	for cell := range strings.SplitSeq(m[1], "|") {
		cell = strings.ReplaceAll(strings.TrimSpace(cell), ",", "")
		if cell == "" {
			cell = "0"
		}
		n, err := strconv.ParseFloat(cell, 64)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
