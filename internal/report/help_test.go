package report

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/sessiongen"
)

// world is a store with a log "log".
type world struct {
	t   testing.TB
	mem *memstore.Store
	b   *backend.Backend
}

func newWorld(t testing.TB, events ...string) *world {
	t.Helper()
	mem := memstore.New(t)
	w := &world{t, mem, backend.New(mem, backend.Options{Foreground: true, Label: "tester"})}
	if len(events) > 0 {
		w.append("log", false, events...)
	}
	return w
}

// append appends events, given as a type and, behind a space, data; their times
// are their places, in seconds, unless data is a whole event.
func (w *world) append(id string, seal bool, events ...string) {
	w.t.Helper()
	first := int64(0)
	if info, err := w.b.Info(w.t.Context(), id); err == nil {
		first = info.Next
	}
	var lines [][]byte
	for i, e := range events {
		typ, data, ok := strings.Cut(e, " ")
		if !ok {
			data = "{}"
		}
		line := fmt.Appendf(nil, `{"type":%q,"seq":%d,"time":%d,"data":%s}`, typ, first+int64(i), (first+int64(i))*1000, data)
		if strings.HasPrefix(e, "{") {
			line = []byte(e)
		}
		lines = append(lines, line)
	}
	w.lines(id, seal, nil, lines)
}

func (w *world) lines(id string, seal bool, header []byte, lines [][]byte) {
	w.t.Helper()
	l, err := w.b.Create(id, backend.CreateOptions{OrAdopt: true, Header: header})
	if err != nil {
		w.t.Fatal(err)
	}
	for part := range slices.Chunk(lines, 10_000) {
		if _, err := l.Append(w.t.Context(), part, backend.AppendOptions{Boundary: true}); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := l.Close(w.t.Context(), backend.CloseOptions{Seal: seal, Release: true}); err != nil {
		w.t.Fatal(err)
	}
}

// session makes a log of a generated session, and returns its lines.
func (w *world) session(id string, opt sessiongen.Options) (lines [][]byte) {
	w.t.Helper()
	g := sessiongen.New(opt)
	for line, ok := g.Next(); ok; line, ok = g.Next() {
		lines = append(lines, bytes.Clone(line))
	}
	w.lines(id, false, g.Header(), lines)
	return lines
}

func (w *world) resume(id string) backend.Receipt {
	w.t.Helper()
	l, r, err := w.b.Resume(w.t.Context(), id, backend.ResumeOptions{Claim: true})
	if err == nil {
		err = l.Close(w.t.Context(), backend.CloseOptions{Release: true})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// reader sees the store as it is, whatever was seen before.
func (w *world) reader() *backend.Reader { return backend.NewReader(w.mem, backend.Options{}) }

var made = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

// page writes a report.
func (w *world) page(id string, opt Options) (string, Facts) {
	w.t.Helper()
	return pageOf(w.t, w.reader(), id, opt)
}

func pageOf(t testing.TB, r *backend.Reader, id string, opt Options) (string, Facts) {
	t.Helper()
	opt.Now = made
	var out bytes.Buffer
	facts, err := Write(t.Context(), &out, r, id, opt)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), facts
}

// timeline gathers a log as Write does.
func (w *world) timeline(id string, l Limits) *timeline {
	w.t.Helper()
	r := w.reader()
	info, err := r.Info(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	t := newTimeline(&info, l.withDefaults())
	if err := gather(w.t.Context(), r, &info, t, nil); err != nil {
		w.t.Fatal(err)
	}
	return t
}

// row is an event as the page's script sees it.
type row struct {
	Seq, Time, Bytes int64
	Type             string
	Line             *string
	Cut              bool
}

// unpack reads the packed events of a page, as its script does.
func unpack(t testing.TB, html string) (all []row) {
	t.Helper()
	doc := parseHTML(t, html)
	var data pageData
	var parts []*node
	for _, n := range doc.all("script") {
		if n.attr["id"] == "data" {
			if err := json.Unmarshal([]byte(n.text), &data); err != nil {
				t.Fatal(err)
			}
		}
		if n.attr["class"] == "part" {
			parts = append(parts, n)
		}
	}
	for _, n := range parts {
		packed, err := base64.StdEncoding.DecodeString(n.text)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
		if err != nil {
			t.Fatal(err)
		}
		var rows [][]any
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&rows); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		num := func(v any) int64 {
			n, err := v.(json.Number).Int64()
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		var seq, next, at int64
		if _, err := fmt.Sscan(n.attr["data-first"], &seq); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(n.attr["data-next"], &next); err != nil {
			t.Fatal(err)
		}
		if next-seq != int64(len(rows)) {
			t.Errorf("a part of %d rows says that it has the seqs %d to %d", len(rows), seq, next-1)
		}
		for _, r := range rows {
			at += num(r[1])
			one := row{Seq: seq, Time: at, Bytes: num(r[2])}
			if typ := num(r[0]); typ >= 0 {
				one.Type = data.Types[typ]
			}
			if len(r) > 3 {
				line := r[3].(string)
				one.Line = &line
			}
			one.Cut = len(r) > 4
			all = append(all, one)
			seq++
		}
	}
	return all
}
