package integration

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
)

// readFault is what happens to a request of a reader.
type readFault struct {
	name  string
	on    string
	make  func(c *readCell) faultproxy.Fault
	once  verdict
	hangs bool // nothing comes back
	// The errors that such a fault may lead to. No fault leads to another one, and
	// none of these is one that another kind of fault would have.
	errs []error
	// old: what is handed out may be what the log was before its newest append.
	old bool
}

// kinds are the errors that tell people what is wrong with a log or a store.
var kinds = []error{backend.ErrCorrupt, backend.ErrMissing, backend.ErrNotFound, backend.ErrDenied, backend.ErrUnsupportedStore, backend.ErrRolledBack, backend.ErrUnsupportedVersion}

func steady(f faultproxy.Fault) func(*readCell) faultproxy.Fault {
	return func(*readCell) faultproxy.Fault { return f }
}

func edited(change func(r *faultproxy.Reply)) func(*readCell) faultproxy.Fault {
	return steady(faultproxy.Edit(change))
}

func flip(r *faultproxy.Reply) {
	if len(r.Body) > 0 && r.Status < 300 {
		r.Body[len(r.Body)/3] ^= 0x04
	}
}

// sums gives a reply the checksums of its body, as a proxy does that makes them
// anew.
func sums(r *faultproxy.Reply) {
	sum := md5.Sum(r.Body)
	r.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	crc := binary.BigEndian.AppendUint32(nil, crc32.Checksum(r.Body, crc32.MakeTable(crc32.Castagnoli)))
	r.Header.Set("X-Amz-Checksum-Crc32c", base64.StdEncoding.EncodeToString(crc))
	r.Header.Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
}

const anyRead = "GET HEAD LIST"

var (
	passing   = []error{objstore.ErrUndecided}
	refusing  = []error{objstore.ErrRefused}
	damaging  = []error{backend.ErrCorrupt}
	denying   = []error{backend.ErrDenied}
	vanishing = []error{backend.ErrNotFound, backend.ErrMissing}
)

var readFaults = []readFault{
	{name: "request lost", on: anyRead, make: steady(faultproxy.LoseRequest()), once: passes, errs: passing},
	{name: "reply lost", on: anyRead, make: steady(faultproxy.LoseReply()), once: passes, errs: passing},
	{name: "reply's header cut", on: anyRead, make: steady(faultproxy.CutHeader()), once: passes, errs: passing},
	{name: "reply's body cut at once", on: "GET LIST", make: steady(faultproxy.CutReply(0)), once: passes, errs: passing},
	{name: "reply's body cut in the middle", on: "GET LIST", make: steady(func(x *faultproxy.Exchange) { faultproxy.CutReply(300)(x) }), once: passes, errs: passing},
	{name: "last byte lost", on: "GET LIST", make: steady(faultproxy.CutReply(1 << 30)), once: passes, errs: passing},
	{name: "sent twice", on: anyRead, make: steady(faultproxy.Repeat()), once: passes, errs: passing},
	{name: "slow to answer", on: anyRead, make: steady(faultproxy.Unanswered()), once: passes, errs: passing, hangs: true},
	{name: "body that hangs", on: "GET LIST", make: steady(faultproxy.Drip(100, 1<<40)), once: passes, errs: passing, hangs: true},
	{name: "body that drips", on: "GET LIST", make: steady(faultproxy.Drip(64<<10, 1<<20)), once: passes},
	{name: "surplus behind the reply", on: "GET LIST", make: steady(faultproxy.Surplus("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")), once: passes, errs: passing, hangs: true},

	{name: "500 InternalError", on: anyRead, make: steady(faultproxy.Refuse(500, "InternalError", "")), once: passes, errs: passing},
	{name: "502 page", on: anyRead, make: steady(faultproxy.Instead(faultproxy.Page(502))), once: passes, errs: passing},
	{name: "503 SlowDown", on: anyRead, make: steady(faultproxy.Refuse(503, "SlowDown", "")), once: passes, errs: passing},
	{name: "504", on: anyRead, make: steady(faultproxy.Refuse(504, "", "")), once: passes, errs: passing},
	{name: "429", on: anyRead, make: steady(faultproxy.Refuse(429, "TooManyRequests", "")), once: passes, errs: passing},
	{name: "412 to a read", on: "GET", make: steady(faultproxy.Refuse(412, "PreconditionFailed", "")), errs: passing},
	{name: "409 to a read", on: "GET", make: steady(faultproxy.Refuse(409, "OperationAborted", "")), errs: passing},

	{name: "403", on: anyRead, make: steady(faultproxy.Refuse(403, "AccessDenied", "Access Denied")), errs: denying},
	{name: "403 page", on: anyRead, make: steady(faultproxy.Instead(faultproxy.Page(403))), errs: passing},
	{name: "404", on: "GET", make: steady(faultproxy.Refuse(404, "NoSuchKey", "")), errs: vanishing},
	{name: "404 page", on: anyRead, make: steady(faultproxy.Instead(faultproxy.Page(404))), errs: passing},
	{name: "404 NoSuchBucket", on: "GET LIST", make: steady(faultproxy.Refuse(404, "NoSuchBucket", "The specified bucket does not exist")), errs: refusing},
	{name: "301 with its region", on: anyRead, make: steady(faultproxy.Redirect("eu-x")), once: fails, errs: refusing},
	{name: "301 without a region", on: anyRead, make: steady(faultproxy.Refuse(301, "PermanentRedirect", "")), once: fails, errs: refusing},
	{name: "307 elsewhere", on: anyRead, make: func(c *readCell) faultproxy.Fault { return faultproxy.Moved(307, c.elsewhere) }, once: fails, errs: refusing},
	{name: "400 AuthorizationHeaderMalformed", on: "GET LIST", make: steady(faultproxy.Refuse(400, "AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong; expecting 'eu-x'")), once: fails, errs: refusing},
	{name: "400 ExpiredToken", on: "GET LIST", make: steady(faultproxy.Refuse(400, "ExpiredToken", "The provided token has expired.")), errs: refusing},
	{name: "403 RequestTimeTooSkewed", on: "GET LIST", make: steady(faultproxy.Refuse(403, "RequestTimeTooSkewed", "")), errs: refusing},

	{name: "200 page", on: anyRead, make: steady(faultproxy.Instead(faultproxy.Page(200))), once: passes, errs: passing},
	{name: "200 of nothing", on: "GET LIST", make: steady(faultproxy.Instead(&faultproxy.Reply{Status: 200})), once: passes, errs: passing},
	{name: "200 with an error in it", on: "GET LIST", make: steady(faultproxy.Instead(faultproxy.Error(200, "InternalError", ""))), once: passes, errs: passing},
	{name: "endless body", on: "GET LIST", make: steady(faultproxy.Endless()), errs: []error{backend.ErrCorrupt, objstore.ErrUndecided}},
	{name: "endless error", on: "GET LIST", make: steady(func(x *faultproxy.Exchange) {
		faultproxy.EndlessReply(faultproxy.Error(500, "InternalError", strings.Repeat("x", 1000)))(x)
	}), once: passes, errs: passing},

	{name: "bit flipped", on: "GET", make: edited(flip), errs: damaging},
	{name: "bit flipped, with sums to match", on: "GET", make: edited(func(r *faultproxy.Reply) { flip(r); sums(r) }), errs: damaging},
	{name: "bit flipped, with the old sums", on: "GET", make: edited(func(r *faultproxy.Reply) { sums(r); flip(r) }), errs: damaging},
	{name: "body shortened, as announced", on: "GET", make: edited(func(r *faultproxy.Reply) { r.Body = r.Body[:len(r.Body)*2/3] }), errs: []error{backend.ErrCorrupt, objstore.ErrUndecided}},
	{name: "list shortened, as announced", on: "LIST", make: edited(func(r *faultproxy.Reply) { r.Body = r.Body[:len(r.Body)*2/3] }), errs: passing},
	{name: "body emptied", on: "GET", make: edited(func(r *faultproxy.Reply) { r.Body = nil }), errs: []error{backend.ErrCorrupt, objstore.ErrUndecided}},
	{name: "bytes behind the body", on: "GET", make: edited(func(r *faultproxy.Reply) { r.Body = append(r.Body, "\x00\x00\x00\x00"...) }), errs: []error{backend.ErrCorrupt, objstore.ErrUndecided}},
	{name: "compressed on the way", on: "GET", make: steady(faultproxy.Gzip()), once: fails, errs: []error{backend.ErrUnsupportedStore}},
	{name: "ranges ignored", on: "GET", make: func(c *readCell) faultproxy.Fault {
		return func(x *faultproxy.Exchange) {
			if x.Header.Get("Range") == "" {
				x.Answer(x.Forward())
				return
			}
			obj, err := c.direct.Get(c.Context(), c.key(x), objstore.GetOptions{})
			if err != nil {
				c.Error(err)
			}
			x.Answer(&faultproxy.Reply{Status: 200, Header: http.Header{"Etag": {obj.Version.Token()}}, Body: obj.Body})
		}
	}, once: passes},
	{name: "another range", on: "GET", make: edited(func(r *faultproxy.Reply) {
		if len(r.Header.Get("Content-Range")) > 0 {
			r.Header.Set("Content-Range", "bytes 0-99/100")
			r.Body = r.Body[:min(100, len(r.Body))]
		}
	}), errs: passing},

	{name: "ETag weakened", on: "GET", make: steady(faultproxy.ETag(func(s string) string { return "W/" + s })), once: passes},
	{name: "ETag removed", on: "GET", make: steady(faultproxy.ETag(func(string) string { return "" })), once: passes},
	{name: "another ETag at every read", on: "GET", make: func(c *readCell) faultproxy.Fault {
		n := 0
		return faultproxy.ETag(func(string) string { n++; return fmt.Sprintf(`"etag-%d"`, n) })
	}, once: passes},
	{name: "older body, all else as it is", on: "GET", make: older(func(r, old *faultproxy.Reply) { r.Body = old.Body }), old: true, errs: []error{backend.ErrUnsupportedStore}},
	{name: "older body and metadata", on: "GET", make: older(func(r, old *faultproxy.Reply) {
		etag := r.Header.Get("ETag")
		*r = *old.Clone()
		r.Header.Set("ETag", etag)
	}), old: true, errs: []error{backend.ErrRolledBack}},
	{name: "older ETag", on: "GET", make: older(func(r, old *faultproxy.Reply) { r.Header.Set("ETag", old.Header.Get("ETag")) }), once: passes},
	{name: "older version as a whole", on: "GET", make: older(func(r, old *faultproxy.Reply) { *r = *old.Clone() }), old: true, errs: []error{backend.ErrRolledBack}},
}

// older changes replies to reads of a manifest with the one before it.
func older(change func(r, old *faultproxy.Reply)) func(*readCell) faultproxy.Fault {
	return func(c *readCell) faultproxy.Fault {
		return faultproxy.Edit(func(r *faultproxy.Reply) {
			if r.Status == http.StatusOK && c.before != nil && r.Header.Get("X-Amz-Meta-S3log-Commit") != "" {
				change(r, c.before)
			}
		})
	}
}

// readCell is a cell of a reader.
type readCell struct {
	*cell
	reader    *backend.Reader
	fault     readFault
	elsewhere string            // a server that nobody is to be led to
	before    *faultproxy.Reply // the manifest before its newest commit
}

// key is that of an exchange, below the cell's prefix.
func (c *readCell) key(x *faultproxy.Exchange) string {
	_, key, _ := strings.Cut(x.Key, "/")
	return key
}

// full reports whether n events, or lines behind seq from, are all there are.
func (c *readCell) full(n int) bool { return n == len(c.there) || c.fault.old && n == len(c.there)-1 }

// lines checks the lines that a read has handed out, from seq from on.
func (c *readCell) lines(got []string, from int, err error) {
	c.Helper()
	if from+len(got) > len(c.there) || !slices.Equal(got, c.there[from:from+len(got)]) {
		c.Errorf("%d lines from seq %d on are not those of the log", len(got), from)
	}
	if err == nil && !c.full(from+len(got)) {
		c.Errorf("%d of %d lines, and no error", from+len(got), len(c.there))
	}
}

// readOperation is something that a reader does. What it hands out it checks
// itself.
type readOperation struct {
	name    string
	touches []string
	skip    int  // requests of these that are let through first
	often   bool // every fault also comes for ever, not in the long run alone
	run     func(c *readCell) error
}

func readOperations() []readOperation {
	events := func(opt backend.ReadOptions) func(c *readCell) error {
		return func(c *readCell) error {
			opt := opt
			if opt.Last > 0 {
				opt.From = int64(len(c.there)) - opt.Last
			}
			got, err := lines(c.reader.Events(c.ctx, "log", opt))
			if opt.Last == 0 || err != nil || len(got) != int(opt.Last) || got[0] != c.there[len(c.there)-len(got)-1] || !c.fault.old {
				c.lines(got, int(opt.From), err)
			}
			return err
		}
	}
	return []readOperation{
		{name: "info", touches: []string{"GET manifests/"}, run: func(c *readCell) error {
			info, err := c.reader.Info(c.ctx, "log")
			if err == nil && !c.full(int(info.Next)) {
				c.Errorf("%d events", info.Next)
			}
			return err
		}},
		{name: "check", touches: []string{"GET manifests/"}, run: func(c *readCell) error {
			v, err := c.reader.Check(c.ctx, "log", backend.Pair{Open: "compaction/start", Close: "compaction/end"}, backend.CheckOptions{})
			if err == nil && v.Answer != seedpath.Live && (!c.fault.old || v.Answer != seedpath.Balanced) {
				c.Errorf("%v", v.Answer)
			}
			return err
		}},
		{name: "cat", touches: []string{"GET manifests/", "GET segments/"}, often: true, run: events(backend.ReadOptions{})},
		{name: "cat from the middle of a segment", touches: []string{"GET segments/"}, run: events(backend.ReadOptions{From: 200})},
		{name: "cat from the middle of a segment, its frames", touches: []string{"GET segments/"}, skip: 1, run: events(backend.ReadOptions{From: 200})},
		{name: "tail", touches: []string{"GET manifests/"}, run: events(backend.ReadOptions{Last: 2})},
		{name: "verify", touches: []string{"GET manifests/", "GET segments/"}, run: func(c *readCell) error {
			rep, err := c.reader.Verify(c.ctx, "log", backend.VerifyOptions{})
			if err != nil {
				return err
			}
			if rep.OK() {
				if !c.full(int(rep.Events)) {
					c.Errorf("%d events", rep.Events)
				}
				return nil
			}
			kind := map[string]error{"damaged": backend.ErrCorrupt, "missing": backend.ErrMissing, "denied": backend.ErrDenied}[rep.Findings[0].Kind]
			if kind == nil || !strings.HasPrefix(rep.Findings[0].Key, "segments/") {
				c.Errorf("%+v", rep.Findings)
			}
			return &backend.OpError{Op: "verify", Log: "log", Key: rep.Findings[0].Key, Seq: -1, Err: kind, Hint: "a finding"}
		}},
		{name: "list", touches: []string{"LIST manifests/", "HEAD manifests/log.json"}, often: true, run: func(c *readCell) error {
			var ids []string
			for e, err := range c.reader.List(c.ctx, backend.ListOptions{}) {
				switch {
				case err != nil:
					return err
				case e.Err != nil:
					return e.Err
				case e.Log == "log" && !c.full(int(e.Next)):
					c.Errorf("%d events", e.Next)
				}
				ids = append(ids, e.Log)
			}
			if slices.Sort(ids); !slices.Equal(ids, []string{"log", "other"}) {
				c.Errorf("listed %q", ids)
			}
			return nil
		}},
		{name: "follow", touches: []string{"GET manifests/", "GET segments/"}, run: followed},
		{name: "follow, its first poll", touches: []string{"GET manifests/"}, skip: 1, run: followed},
	}
}

// newest is the last line of the log.
func (c *cell) newest() string {
	c.Helper()
	got, err := lines(backend.NewReader(c.direct, quick).Events(c.Context(), "log", backend.ReadOptions{Last: 1}))
	if err != nil {
		c.Error(err)
	}
	return lastOf(got)
}

// thick are few events that take much room.
func thick(from, n int) (batch [][]byte) {
	for i := from; i < from+n; i++ {
		batch = append(batch, fmt.Appendf(nil, `{"type":"note","data":{"n":%d,"noise":%q}}`, i, noise(uint64(i), 1500)))
	}
	return batch
}

// followed follows the log until it has all that is there and one event more.
func followed(c *readCell) error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	var got []string
	grown := false
	for ev, err := range c.reader.Follow(ctx, "log", 0) {
		if err != nil {
			c.lines(got, 0, err)
			return err
		}
		got = append(got, string(ev.Line))
		switch {
		case strings.HasSuffix(lastOf(got), `"data":300}`):
			c.lines(got, 0, nil)
			return nil
		case !grown && c.full(len(got)):
			grown = true
			l := mustAdopt(c, c.direct, "log", quick)
			mustAppend(c, l, note(300))
			c.there = append(c.there, c.newest())
		}
	}
	c.Error("following has ended without an error")
	return nil
}

// TestFaultsOfReaders: every request of every operation of a reader meets every
// fault, once, and every time from then on.
func TestFaultsOfReaders(t *testing.T) {
	g := newGround(t)
	tmpl := templateOf(t, func(s objstore.Store) {
		for i, batch := range [][][]byte{thick(0, 280), thick(280, 5), thick(285, 5), {note(1), note(2)}} {
			l, err := backend.New(s, backend.Options{}).Create("log", backend.CreateOptions{OrAdopt: true})
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, l, batch...)
			if err := l.Close(t.Context(), backend.CloseOptions{Seal: i < 3, Release: true}); err != nil {
				t.Fatal(err)
			}
		}
		mustAppend(t, mustCreate(t, s, "other", quick), note(0))
	})
	if n := segmentsIn(t, tmpl, "log"); n != 3 {
		t.Fatalf("%d segments", n)
	}
	elsewhere := faultproxy.Start(t, g.server.Endpoint)
	type which struct {
		op        readOperation
		kind, key string
		fault     readFault
		times     int
	}
	var cells []which
	var names []string
	nth := 0
	for _, op := range readOperations() {
		for _, touch := range op.touches {
			kind, key, _ := strings.Cut(touch, " ")
			for _, f := range readFaults {
				if !strings.Contains(" "+f.on+" ", " "+kind+" ") {
					continue
				}
				for _, times := range howOften(op.often, false) {
					if nth++; left(nth) {
						continue
					}
					cells = append(cells, which{op, kind, key, f, times})
					names = append(names, cellName(op.name, touch, f.name, times))
				}
			}
		}
	}
	inParallel(t, names, func(t *testing.T, i int) {
		w := cells[i]
		within := patient
		if w.times < 0 {
			within = impatient
		}
		c := &readCell{cell: g.newCell(t, within, silence(within, w.fault.hangs)), fault: w.fault, elsewhere: elsewhere.URL}
		c.lay(tmpl)
		c.there = slices.Clone(tmpl.lines)
		c.before = &faultproxy.Reply{Status: 200, Header: http.Header{}, Body: tmpl.objects[manifest.Key("log")]}
		for name, value := range tmpl.meta[manifest.Key("log")] {
			c.before.Header.Set("X-Amz-Meta-"+name, value)
		}
		sums(c.before)
		l := mustAdopt(c, c.direct, "log", quick)
		mustAppend(c, l, []byte(`{"type":"compaction/start","data":{}}`))
		c.there = append(c.there, c.newest())
		c.reader = backend.NewReader(c.store, backend.Options{PollInterval: c.opt.PollInterval, Prefetch: 1})

		if w.times < 0 {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			c.ctx = ctx
		}
		c.proxy.Add(faultproxy.Rule{Op: w.kind, Key: w.key, Skip: w.op.skip, Times: w.times, Fault: w.fault.make(c)})
		err := w.op.run(c)
		if w.times == 1 && err != nil && w.fault.once == passes {
			t.Errorf("it does not pass: %v", err)
		}
		if w.times == 1 && err == nil && w.fault.once == fails && w.kind != faultproxy.Head { // then the manifest is read
			t.Error("it passes")
		}
		if err == nil {
			return
		}
		if errors.Is(err, context.DeadlineExceeded) && w.times < 0 && !slices.ContainsFunc(kinds, func(k error) bool { return errors.Is(err, k) }) {
			c.proxy.Reset()
			return // nobody had the time to find out
		}
		if w.op.name != "list" { // which is of no log
			helpful(c, err, "log")
		}
		if !slices.ContainsFunc(w.fault.errs, func(want error) bool { return errors.Is(err, want) }) {
			t.Errorf("got %v, want one of %v", err, w.fault.errs)
		}
		for _, kind := range kinds {
			if errors.Is(err, kind) && !slices.ContainsFunc(w.fault.errs, func(want error) bool { return errors.Is(kind, want) }) {
				t.Errorf("%v is called %v", err, kind)
			}
		}
	})
	if n := len(elsewhere.Take()); n != 0 {
		t.Errorf("%d requests went where a redirect led", n)
	}
}
