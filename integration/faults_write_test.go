package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/faultproxy"
)

// writeFault is what happens to a request of a writer.
type writeFault struct {
	name string
	on   string // the kinds of requests that it can happen to
	make func(c *cell) faultproxy.Fault
	// once says what a write does that meets it once: passes, fails, or either.
	once  verdict
	hangs bool // nothing comes back
	// lateFirst: late requests arrive before an unknown outcome is settled, not
	// after.
	lateFirst bool
}

type verdict uint8

const (
	either verdict = iota
	passes
	fails
)

// always is the same fault every time.
func always(f faultproxy.Fault) func(*cell) faultproxy.Fault {
	return func(*cell) faultproxy.Fault { return f }
}

const (
	anyRequest = "PUT GET COPY HEAD"
	anyWrite   = "PUT COPY"
)

var writeFaults = []writeFault{
	{name: "request lost", on: anyRequest, make: always(faultproxy.LoseRequest()), once: passes},
	{name: "request cut", on: "PUT", make: always(func(x *faultproxy.Exchange) { faultproxy.CutRequest(len(x.Body) / 2)(x) }), once: passes},
	{name: "reply lost", on: anyRequest, make: always(faultproxy.LoseReply()), once: passes},
	{name: "reply's header cut", on: anyRequest, make: always(faultproxy.CutHeader()), once: passes},
	{name: "reply's body cut", on: "GET COPY", make: always(func(x *faultproxy.Exchange) { faultproxy.CutReply(100)(x) }), once: passes},
	{name: "sent twice", on: anyRequest, make: always(faultproxy.Repeat()), once: passes},
	{name: "sent twice at a time", on: anyRequest, make: always(faultproxy.RepeatAtOnce()), once: passes},
	{name: "late", on: anyWrite, make: func(c *cell) faultproxy.Fault { return c.held.Hold() }, once: passes},
	{name: "late, and there before it is settled", on: anyWrite, make: func(c *cell) faultproxy.Fault { return c.held.Hold() }, lateFirst: true, once: passes},
	{name: "slow to arrive", on: anyWrite, make: func(c *cell) faultproxy.Fault { return c.held.Stall() }, once: passes, hangs: true},
	{name: "slow to answer", on: anyRequest, make: always(faultproxy.Unanswered()), once: passes, hangs: true},
	{name: "body that hangs", on: "GET COPY", make: always(faultproxy.Drip(50, 1<<40)), once: passes, hangs: true},
	{name: "body that drips", on: "GET COPY", make: always(func(x *faultproxy.Exchange) { faultproxy.Drip(4<<10, 1<<20)(x) }), once: passes},
	{name: "endless body", on: anyWrite, make: always(faultproxy.Endless()), once: passes},
	{name: "surplus behind the reply", on: anyRequest, make: always(faultproxy.Surplus("HTTP/1.1 200 OK\r\nETag: \"other\"\r\nContent-Length: 0\r\n\r\n")), once: passes, hangs: true},

	{name: "500 InternalError", on: anyRequest, make: always(faultproxy.Refuse(500, "InternalError", "We encountered an internal error.")), once: passes},
	{name: "500, applied", on: anyWrite, make: always(faultproxy.ApplyThen(500, "InternalError", "")), once: passes},
	{name: "502 page", on: anyRequest, make: always(faultproxy.Instead(faultproxy.Page(502))), once: passes},
	{name: "502 page, applied", on: anyWrite, make: always(func(x *faultproxy.Exchange) { x.Forward(); x.Answer(faultproxy.Page(502)) }), once: passes},
	{name: "503 SlowDown", on: anyRequest, make: always(faultproxy.Refuse(503, "SlowDown", "Please reduce your request rate.")), once: passes},
	{name: "503, applied", on: anyWrite, make: always(faultproxy.ApplyThen(503, "ServiceUnavailable", "")), once: passes},
	{name: "504, applied", on: anyWrite, make: always(faultproxy.ApplyThen(504, "", "")), once: passes},
	{name: "429", on: anyRequest, make: always(faultproxy.Refuse(429, "TooManyRequests", "")), once: passes},
	{name: "429, applied", on: anyWrite, make: always(faultproxy.ApplyThen(429, "", "")), once: passes},
	{name: "400 RequestTimeout", on: anyRequest, make: always(faultproxy.Refuse(400, "RequestTimeout", "Your socket connection to the server was not read from or written to within the timeout period.")), once: passes},
	{name: "409 ConditionalRequestConflict", on: "PUT", make: always(faultproxy.Refuse(409, "ConditionalRequestConflict", "")), once: passes},
	{name: "409 OperationAborted", on: "PUT", make: always(faultproxy.Refuse(409, "OperationAborted", "")), once: passes},
	{name: "412 to one's own", on: "PUT", make: always(faultproxy.ApplyThen(412, "PreconditionFailed", "")), once: passes},
	{name: "412 without cause", on: "PUT", make: always(faultproxy.Refuse(412, "PreconditionFailed", ""))},
	{name: "404 NoSuchKey", on: "PUT COPY", make: always(faultproxy.Refuse(404, "NoSuchKey", ""))},
	{name: "404 page", on: anyRequest, make: always(faultproxy.Instead(faultproxy.Page(404)))},
	{name: "404 NoSuchBucket", on: "PUT GET COPY", make: always(faultproxy.Refuse(404, "NoSuchBucket", "The specified bucket does not exist")), once: fails},

	{name: "403 AccessDenied", on: anyRequest, make: always(faultproxy.Refuse(403, "AccessDenied", "Access Denied")), once: fails},
	{name: "403 page", on: anyRequest, make: always(faultproxy.Instead(faultproxy.Page(403)))},
	{name: "403 RequestTimeTooSkewed", on: anyRequest, make: always(faultproxy.Refuse(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large."))},
	{name: "400 ExpiredToken", on: anyRequest, make: always(faultproxy.Refuse(400, "ExpiredToken", "The provided token has expired."))},
	{name: "400 AuthorizationHeaderMalformed", on: anyRequest, make: always(faultproxy.Refuse(400, "AuthorizationHeaderMalformed", "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-x'")), once: fails},
	{name: "301 with its region", on: anyRequest, make: always(faultproxy.Redirect("eu-x")), once: fails},
	{name: "301 without a region", on: anyRequest, make: always(faultproxy.Refuse(301, "PermanentRedirect", "")), once: fails},
	{name: "307 to nowhere", on: anyRequest, make: always(faultproxy.Moved(307, "http://127.0.0.1:1/elsewhere")), once: fails},
	{name: "501 NotImplemented", on: anyWrite, make: always(faultproxy.Refuse(501, "NotImplemented", "A header you provided implies functionality that is not implemented.")), once: fails},

	{name: "200 page", on: "PUT GET COPY", make: always(faultproxy.Instead(faultproxy.Page(200))), once: passes},
	{name: "200 page, applied", on: anyWrite, make: always(func(x *faultproxy.Exchange) { x.Forward(); x.Answer(faultproxy.Page(200)) }), once: passes},
	{name: "200 of nothing", on: "PUT GET COPY", make: always(faultproxy.Instead(&faultproxy.Reply{Status: 200})), once: passes},
	{name: "200 with an error in it", on: "PUT GET COPY", make: always(faultproxy.Instead(faultproxy.Error(200, "InternalError", "We encountered an internal error."))), once: passes},
	{name: "ETag weakened", on: "PUT", make: always(faultproxy.ETag(func(s string) string { return "W/" + s })), once: passes},
	{name: "ETag removed", on: "PUT", make: always(faultproxy.ETag(func(string) string { return "" })), once: passes},
	{name: "another ETag", on: "PUT GET", make: always(faultproxy.ETag(func(string) string { return `"0123456789abcdef0123456789abcdef"` })), once: passes},
	{name: "compressed reply", on: "GET", make: always(faultproxy.Gzip())},
	{name: "bit flipped", on: "GET", make: always(faultproxy.Edit(func(r *faultproxy.Reply) { r.Body[len(r.Body)/2] ^= 1 }))},
	{name: "body shortened", on: "GET", make: always(faultproxy.Edit(func(r *faultproxy.Reply) { r.Body = r.Body[:len(r.Body)/2] }))},
}

// operation is something that a writer does.
type operation struct {
	name    string
	touches []string // the requests that it makes, as kind and part of the key
	from    string   // the template that it begins with
	log     string   // that it changes; "log" if empty
	// ready is done before anything goes wrong.
	ready func(c *cell)
	// run is what meets the fault. It notes in c.batch what is to be in the log if
	// there is no error.
	run func(c *cell) error
	// bears: what happens to its reads or uploads of segments never fails it.
	bears  bool
	often  bool // every fault also comes for ever, not in the long run alone
	seldom bool // it takes part in the long run alone
}

// adopted opens a handle and appends with it.
func adopted(events ...[]byte) func(c *cell) error {
	return func(c *cell) error {
		c.batch = nil
		for _, e := range events {
			c.batch = append(c.batch, string(e[strings.Index(string(e), `"data"`):]))
		}
		l, err := backend.New(c.store, c.opt).Adopt(c.ctx, "log", backend.AdoptOptions{})
		if err != nil {
			return err
		}
		c.log = l
		_, err = l.Append(c.ctx, events, backend.AppendOptions{})
		return err
	}
}

func operations(t *testing.T) []operation {
	return []operation{
		{name: "create", touches: []string{"PUT manifests/"}, run: func(c *cell) error {
			c.log = mustCreate(c, c.store, "log", c.opt)
			c.batch = []string{`"data":1}`}
			_, err := c.log.Append(c.ctx, [][]byte{note(1)}, backend.AppendOptions{})
			return err
		}},
		{name: "append", touches: []string{"PUT manifests/"}, from: "small", often: true, ready: func(c *cell) {
			// The handle is in a hurry, and this is not what is tested.
			for c.log == nil || c.log.Err() != nil {
				c.log = mustAdopt(c, c.store, "log", c.opt)
				_, err := c.log.Append(c.ctx, [][]byte{note(1)}, backend.AppendOptions{Key: "first"})
				if c.ctx.Err() != nil {
					c.Fatal(err)
				}
			}
			c.there = append(c.there, `"data":1}`)
		}, run: func(c *cell) error {
			c.batch = []string{`"data":2}`, `"data":3}`}
			_, err := c.log.Append(c.ctx, [][]byte{note(2), note(3)}, backend.AppendOptions{})
			return err
		}},
		{name: "adopt", touches: []string{"GET manifests/", "PUT manifests/"}, from: "small", run: adopted(note(1))},
		{name: "seal", touches: []string{"PUT segments/", "PUT manifests/"}, from: "small", often: true, run: adopted(notes(t, 0, 300)...)},
		{name: "merge", touches: []string{"GET segments/", "PUT segments/"}, from: "unmerged", run: adopted(note(1)), bears: true},
		{name: "merge", touches: []string{"PUT manifests/"}, from: "unmerged", run: adopted(note(1))},
		{name: "resume", touches: []string{"GET manifests/", "PUT manifests/"}, from: "open turn", run: func(c *cell) error {
			c.batch = []string{`"step/end"`, `"turn/end"`, `"session/end-seed"`}
			l, _, err := backend.New(c.store, c.opt).Resume(c.ctx, "log", backend.ResumeOptions{})
			if l != nil {
				c.log = l
			}
			return err
		}},
		{name: "replay", touches: []string{"PUT manifests/"}, log: "child", run: func(c *cell) error {
			c.batch = []string{`"data":1}`, `"session/end-seed"`}
			l, _, err := backend.New(c.store, c.opt).Replay(c.ctx, "child", func(yield func([]byte, error) bool) { yield(note(1), nil) }, backend.ReplayOptions{})
			if l != nil {
				c.log = l
			}
			return err
		}},
		{name: "fork", touches: []string{"GET manifests/", "GET segments/", "PUT segments/", "PUT manifests/"}, from: "unmerged", log: "child", run: forkAll},
		{name: "fork by copies", touches: []string{"COPY segments/"}, from: "large", log: "child", run: forkAll, bears: true},
		{name: "fork by copies", touches: []string{"HEAD segments/"}, from: "large", log: "child", run: forkAll, bears: true, seldom: true},
		{name: "decide", touches: []string{"GET manifests/", "PUT manifests/"}, from: "small", often: true, ready: unsettled, run: func(c *cell) error {
			d, err := backend.New(c.store, c.opt).Decide(c.ctx, c.token)
			if err == nil && !d.Committed {
				c.batch = nil
			}
			return err
		}},
	}
}

// forkAll forks the whole log.
func forkAll(c *cell) error {
	c.batch = append(c.there, `"session/end-seed"`)
	c.there = nil
	l, _, err := backend.New(c.store, c.opt).Fork(c.ctx, "log", "child", backend.ForkOptions{})
	if l != nil {
		c.log = l
	}
	return err
}

// unsettled leaves an append behind whose outcome is unknown: it is late.
func unsettled(c *cell) {
	opt := c.opt
	opt.CommitTimeout = patience(impatient / 5)
	c.proxy.Add(faultproxy.Rule{Op: faultproxy.Put, Times: -1, Fault: c.held.Hold()})
	for c.token == "" { // on a busy machine the time may be over before it is sent
		l, err := backend.New(c.store, opt).Adopt(c.ctx, "log", backend.AdoptOptions{})
		if err != nil {
			c.Fatal(err)
		}
		_, err = l.Append(c.ctx, [][]byte{note(1)}, backend.AppendOptions{})
		c.token = backend.Token(err)
		_ = l.Close(context.Background(), backend.CloseOptions{}) // its error was told
	}
	c.batch = []string{`"data":1}`}
	c.reroute() // it may not even have arrived yet, and is held when it does
}

// templates are the logs that operations begin with.
func templates(t *testing.T) map[string]template {
	t.Helper()
	build := func(store objstore.Store, batches ...[][]byte) {
		for _, batch := range batches {
			l, err := backend.New(store, backend.Options{}).Create("log", backend.CreateOptions{OrAdopt: true})
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, l, batch...)
			seal := len(batches) > 1
			if err := l.Close(t.Context(), backend.CloseOptions{Seal: seal, Release: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	large := func(n int) (batch [][]byte) {
		for range 150 {
			batch = append(batch, fmt.Appendf(nil, `{"type":"note","data":{"n":%d,"text":%q}}`, n, strings.Repeat("sixteen letters ", 1200)))
		}
		return batch
	}
	all := map[string]template{
		"":      {},
		"small": templateOf(t, func(s objstore.Store) { build(s, [][]byte{note(0)}) }),
		"open turn": templateOf(t, func(s objstore.Store) {
			build(s, [][]byte{
				[]byte(`{"type":"turn/start","data":{"turn":1}}`), []byte(`{"type":"step/start","data":{"turn":1,"step":1}}`),
			})
		}),
		"unmerged": templateOf(t, func(s objstore.Store) {
			build(s, notes(t, 0, 20), notes(t, 20, 20), notes(t, 40, 20), notes(t, 60, 20))
		}),
		"large": templateOf(t, func(s objstore.Store) { build(s, large(0), large(1), large(2)) }),
	}
	for name, want := range map[string]int{"small": 0, "open turn": 0, "unmerged": 4, "large": 3} {
		if n := segmentsIn(t, all[name], "log"); n != want {
			t.Fatalf("%q has %d segments, want %d", name, n, want)
		}
	}
	return all
}

// TestFaultsOfWriters: every request of every operation of a writer meets every
// fault, once, and every time from then on.
func TestFaultsOfWriters(t *testing.T) {
	g, tmpls := newGround(t), templates(t)
	type which struct {
		op    operation
		kind  string
		key   string
		fault writeFault
		times int
	}
	var cells []which
	var names []string
	nth := 0
	for _, op := range operations(t) {
		for _, touch := range op.touches {
			kind, key, _ := strings.Cut(touch, " ")
			for _, f := range writeFaults {
				if !strings.Contains(" "+f.on+" ", " "+kind+" ") {
					continue
				}
				for _, times := range howOften(op.often, op.seldom) {
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
		if w.times < 0 && !w.op.bears {
			within = impatient
		}
		c := g.newCell(t, within, silence(within, w.fault.hangs))
		c.lay(tmpls[w.op.from])
		c.there = slices.Clone(tmpls[w.op.from].lines)
		if w.op.log != "" {
			c.id = w.op.log
		}
		if w.op.ready != nil {
			w.op.ready(c)
		}
		c.proxy.Add(faultproxy.Rule{Op: w.kind, Key: w.key, Times: w.times, Fault: w.fault.make(c)})
		err := w.op.run(c)
		if c.ctx.Err() != nil {
			t.Errorf("it took longer than %v", 20*within)
		}
		if w.times == 1 {
			switch {
			case err != nil && (w.fault.once == passes || w.op.bears):
				t.Errorf("it does not pass: %v", err)
			case err == nil && w.fault.once == fails && !w.op.bears:
				t.Error("it passes")
			}
		}
		c.audit(err, w.fault.lateFirst)
	})
}
