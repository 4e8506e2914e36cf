package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/backend/objstore/s3store"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/localstack"
	"github.com/s3log/s3log/manifest"
)

// The tests of files faults_… let every request of every operation meet every
// fault, on the way to a real server and back. Whatever happens, what was
// acknowledged is there, once and in order; what was said not to be is not,
// also when late requests have arrived; what was said to be unknown has a token
// that settles it; readers get a right beginning or an error that helps.

// ground is a server and a bucket that many cells share, each with a prefix of
// its own.
type ground struct {
	server *localstack.Server
	bucket string
	mu     sync.Mutex
	cells  int
}

func newGround(t *testing.T) *ground {
	t.Helper()
	t.Setenv("AWS_CA_BUNDLE", "") // is read for every cell
	// net/http logs what comes unasked for, which is one of the faults.
	out := log.Writer()
	log.SetOutput(io.Discard)
	t.Cleanup(func() { log.SetOutput(out) })
	server := localstack.Start(t)
	return &ground{server: server, bucket: server.Bucket(t)}
}

// cell is one operation that meets faults.
type cell struct {
	*testing.T
	ctx    context.Context // of the operation
	proxy  *faultproxy.Proxy
	held   *faultproxy.Held // requests that are late
	direct *s3store.Store
	store  *s3store.Store // through the proxy
	// reroute makes another proxy, which requests that are still under way to the
	// one before do not meet.
	reroute func()
	opt     backend.Options
	id      string       // the log that the operation changes, or reads
	log     *backend.Log // the handle that it uses, if it uses one that stays
	token   string       // of an append whose outcome is to be settled

	there []string // lines of the log before the operation
	batch []string // what it adds: parts of the lines
}

const (
	patient   = 10 * time.Second       // for what passes
	impatient = 250 * time.Millisecond // for what does not
)

// silence is how long a cell waits for a server: not long, where it says nothing.
func silence(within time.Duration, hangs bool) time.Duration {
	if hangs {
		return min(within/4, 300*time.Millisecond)
	}
	return within
}

// newCell makes a cell in which nobody waits longer than within for a commit, nor
// longer than silence for a server that says nothing.
func (g *ground) newCell(t *testing.T, within, silence time.Duration) *cell {
	t.Helper()
	g.mu.Lock()
	g.cells++
	prefix := fmt.Sprintf("cell-%d", g.cells)
	g.mu.Unlock()
	within = patience(within)
	c := &cell{T: t, held: faultproxy.NewHeld(), id: "log", opt: backend.Options{
		MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, CommitTimeout: within,
		PollInterval: 5 * time.Millisecond, Foreground: true,
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*within)
	t.Cleanup(cancel)
	c.ctx = ctx
	open := func(endpoint string, reply time.Duration) *s3store.Store {
		return openS3(t, endpoint, g.bucket, g.server.AccessKey, g.server.SecretKey, func(s *s3store.Config) {
			s.Prefix, s.ReplyTimeout = prefix, reply
		})
	}
	c.direct = open(g.server.Endpoint, time.Minute)
	c.reroute = func() {
		c.proxy = faultproxy.Start(t, g.server.Endpoint)
		c.store = open(c.proxy.URL, patience(silence))
	}
	c.reroute()
	return c
}

// template is objects that cells begin with.
type template struct {
	objects map[string][]byte
	meta    map[string]map[string]string
	lines   []string // of the log
}

// templateOf makes a template of what build writes.
func templateOf(t *testing.T, build func(objstore.Store)) template {
	t.Helper()
	mem := memstore.New(t)
	build(mem)
	tmpl := template{objects: mem.Snapshot(""), meta: map[string]map[string]string{}}
	got, err := lines(backend.NewReader(mem, quick).Events(t.Context(), "log", backend.ReadOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	tmpl.lines = got
	for key := range tmpl.objects {
		info, err := mem.Head(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		tmpl.meta[key] = info.Metadata
	}
	return tmpl
}

// lay puts the objects of a template on the store.
func (c *cell) lay(tmpl template) {
	c.Helper()
	for key, body := range tmpl.objects {
		contentType := "application/zstd"
		if strings.HasPrefix(key, "manifests/") {
			contentType = "application/json"
		}
		if _, err := c.direct.Put(c.Context(), key, body, objstore.IfAbsent(), objstore.PutOptions{Metadata: tmpl.meta[key], ContentType: contentType}); err != nil {
			c.Fatal(err)
		}
	}
}

// inParallel runs named tests, several at a time: most of them wait for
// something.
func inParallel(t *testing.T, names []string, run func(t *testing.T, i int)) {
	t.Helper()
	width := make(chan struct{}, 6)
	var wg sync.WaitGroup
	for i, name := range names {
		width <- struct{}{}
		wg.Go(func() {
			defer func() { <-width }()
			t.Run(name, func(t *testing.T) { run(t, i) })
		})
	}
	wg.Wait()
}

// howOften is how often a fault comes: once, and for ever.
func howOften(often, seldom bool) []int {
	switch {
	case long(), often && !raceDetector:
		return []int{1, -1}
	case seldom:
		return nil
	}
	return []int{1}
}

// left reports whether a cell is left to other runs: under the race detector two
// thirds are.
func left(nth int) bool { return raceDetector && !long() && nth%3 != 0 }

func cellName(op, touch, fault string, times int) string {
	return strings.Join([]string{op, touch, fault, map[int]string{1: "once", -1: "for ever"}[times]}, "/")
}

// outcome is what an operation said about its batch.
type outcome uint8

const (
	notCommitted outcome = iota
	committed
	unknown
)

func (o outcome) String() string {
	return [...]string{"not committed", "committed", "unknown"}[o]
}

// said is what an error says about a batch.
func said(err error) outcome {
	switch {
	case err == nil:
		return committed
	case errors.Is(err, backend.ErrOutcomeUnknown):
		return unknown
	}
	return notCommitted
}

// helpful checks that an error names the log and an object, and says what to do.
func helpful(t testing.TB, err error, id string) {
	t.Helper()
	oe, ok := errors.AsType[*backend.OpError](err)
	switch {
	case !ok:
		t.Errorf("%v is no OpError", err)
	case !strings.Contains(err.Error(), strconv.Quote(id)):
		t.Errorf("%v does not name log %q", err, id)
	case !strings.Contains(err.Error(), "manifests/") && !strings.Contains(err.Error(), "segments/"):
		t.Errorf("%v names no object", err)
	case oe.Hint == "":
		t.Errorf("%v has no hint", err)
	case errors.Is(err, backend.ErrOutcomeUnknown) != (backend.Token(err) != ""):
		t.Errorf("%v has token %q", err, backend.Token(err))
	}
}

// arrive lets late requests arrive, after everything else.
func (c *cell) arrive() {
	for c.held.Waiting() > 0 {
		c.held.Release()
	}
}

// audit ends a cell: what its operation said is compared with what is there,
// now that all faults are over. lateFirst lets late requests arrive before an
// unknown outcome is settled.
func (c *cell) audit(err error, lateFirst bool) {
	c.Helper()
	c.proxy.Reset()
	says := said(err)
	if err != nil && c.token != "" {
		says = unknown // still: it was to be settled
	}
	if err != nil {
		helpful(c, err, c.id)
	}
	if lateFirst {
		c.arrive()
	}
	want := c.there
	if c.log != nil {
		// The handle goes on, or says for ever why it does not. It may be in a hurry.
		_, again := c.log.Append(c.Context(), [][]byte{note(100)}, backend.AppendOptions{})
		if cerr := c.log.Close(context.Background(), backend.CloseOptions{}); (cerr == nil) != (again == nil) {
			c.Errorf("closed with %v, appended with %v", cerr, again)
		}
		if err == nil && errors.Is(again, backend.ErrOutcomeUnknown) && c.settle(backend.Token(again)) {
			again = nil
		}
		switch {
		case err == nil && again != nil && !errors.Is(again, context.DeadlineExceeded):
			c.Errorf("the handle does not go on: %v", again)
		case err != nil && again == nil:
			c.Errorf("the handle goes on after %v", err)
		case again == nil:
			c.batch = append(c.batch, `"data":100}`)
		}
	}
	in := says == committed
	if says == unknown {
		token := backend.Token(err)
		if c.token != "" {
			token = c.token
		}
		in = c.settle(token)
	}
	c.arrive()
	if in {
		want = append(want[:len(want):len(want)], c.batch...)
	}
	l, err := backend.New(c.direct, quick).Create(c.id, backend.CreateOptions{OrAdopt: true, AdoptOptions: backend.AdoptOptions{TakeOver: true}})
	if err == nil {
		_, err = l.Append(c.Context(), [][]byte{note(200)}, backend.AppendOptions{Last: true})
	}
	if err != nil {
		c.Errorf("%s, and then nobody can append: %v", says, err)
	}
	c.holdsLines(append(want[:len(want):len(want)], `"data":200}`))
}

// settle decides whether what a token is about is in the log, past all faults.
func (c *cell) settle(token string) bool {
	c.Helper()
	d, err := backend.New(c.direct, quick).Decide(c.Context(), token)
	if err != nil {
		c.Errorf("token %q cannot be settled: %v", token, err)
	}
	return d.Committed
}

// holdsLines checks what is on the store, line by line and as a whole.
func (c *cell) holdsLines(want []string) {
	c.Helper()
	r := backend.NewReader(c.direct, quick)
	got, err := lines(r.Events(c.Context(), c.id, backend.ReadOptions{}))
	if err != nil {
		c.Errorf("reading it all: %v", err)
	}
	if len(got) != len(want) {
		c.Errorf("%d events, want %d; the last one is %.200s", len(got), len(want), lastOf(got))
		return
	}
	for i := range got {
		if !strings.Contains(got[i], want[i]) {
			c.Errorf("seq %d: %s", i, cmp.Diff(want[i], got[i]))
			return
		}
	}
	if rep, err := r.Verify(c.Context(), c.id, backend.VerifyOptions{}); err != nil || !rep.OK() {
		c.Errorf("verify: %+v, %v", rep.Findings, err)
	}
}

func lastOf(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// segmentsIn is the number of segments that a log has.
func segmentsIn(t *testing.T, tmpl template, id string) (n int) {
	t.Helper()
	for key := range tmpl.objects {
		if strings.HasPrefix(key, manifest.SegmentPrefix(id)) {
			n++
		}
	}
	return n
}
