// Package backendtest is the contract of session storage as tests, for any
// store: what a harness that keeps its sessions in s3log may rely on, scenario
// by scenario (docs/contract.md says which ones there are, and which do not
// apply). Run it against a store of your own, or behind your own proxy. It tests
// neither the store's contract alone (package objstoretest does) nor how faults
// are survived.
package backendtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/plainlog"
	"github.com/s3log/s3log/manifest"
)

// scenario is one scenario of the contract.
type scenario struct {
	name string
	play func(k *kit)
}

// Run plays every scenario of the contract, each as a subtest with a store that
// open makes. The stores need not be empty, and may share their objects: logs
// have ids of their own. open arranges for whatever must be closed. A scenario
// makes some tens of small requests.
func Run(t *testing.T, open func(t *testing.T) objstore.Store) {
	t.Helper()
	for _, group := range []struct {
		name      string
		scenarios []scenario
	}{{"persistence", persistence}, {"coordinator", coordinator}} {
		t.Run(group.name, func(t *testing.T) {
			for i, s := range group.scenarios {
				t.Run(s.name, func(t *testing.T) {
					s.play(&kit{
						T: t, store: open(t),
						id: fmt.Sprintf("contract/%s/%d/%x", group.name, i, time.Now().UnixNano()),
					})
				})
			}
		})
	}
}

// kit is what a scenario works with. What must not fail ends it.
type kit struct {
	*testing.T
	store objstore.Store
	id    string // of the scenario's log
}

// process is a Backend that shares nothing with another but the store.
func (k *kit) process() *backend.Backend {
	return backend.New(k.store, backend.Options{Foreground: true, MinBackoff: time.Millisecond})
}

func (k *kit) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// is demands an error of a kind.
func (k *kit) is(err, want error) {
	k.Helper()
	if !errors.Is(err, want) {
		k.Errorf("%v, want %v", err, want)
	}
}

func (k *kit) create(b *backend.Backend, header string) *backend.Log {
	k.Helper()
	l, err := b.Create(k.id, backend.CreateOptions{Header: []byte(header)})
	k.must(err)
	return l
}

func (k *kit) adopt() *backend.Log {
	k.Helper()
	l, err := k.process().Adopt(k.Context(), k.id, backend.AdoptOptions{})
	k.must(err)
	return l
}

func (k *kit) resume(opt backend.ResumeOptions) (*backend.Log, backend.Receipt) {
	k.Helper()
	l, r, err := k.process().Resume(k.Context(), k.id, opt)
	k.must(err)
	return l, r
}

func (k *kit) append(l *backend.Log, events ...string) backend.Receipt {
	k.Helper()
	r, err := l.Append(k.Context(), raw(events), backend.AppendOptions{Boundary: true})
	k.must(err)
	return r
}

func (k *kit) close(l *backend.Log) {
	k.Helper()
	if err := l.Close(k.Context(), backend.CloseOptions{}); err != nil {
		k.Errorf("close: %v", err)
	}
}

// written makes the log of a process that has gone.
func (k *kit) written(header string, events ...string) {
	k.Helper()
	l := k.create(k.process(), header)
	k.append(l, events...)
	k.close(l)
}

// reader is an auditor of another process.
func (k *kit) reader() *backend.Reader { return backend.NewReader(k.store, backend.Options{}) }

func (k *kit) info() backend.Info {
	k.Helper()
	i, err := k.reader().Info(k.Context(), k.id)
	k.must(err)
	return i
}

// revision is what changes with every change of a log.
func (k *kit) revision() objstore.Version {
	k.Helper()
	info, err := k.store.Head(k.Context(), manifest.Key(k.id))
	k.must(err)
	return info.Version
}

// lines are the stored events from a seq on.
func (k *kit) lines(id string, from int64) (lines []string) {
	k.Helper()
	for ev, err := range k.reader().Events(k.Context(), id, backend.ReadOptions{From: from}) {
		k.must(err)
		if ev.Seq != from+int64(len(lines)) {
			k.Fatalf("seq %d where %d is next", ev.Seq, from+int64(len(lines)))
		}
		lines = append(lines, string(ev.Line))
	}
	return lines
}

// inspected is the balanced view.
func (k *kit) inspected() (lines []string) {
	k.Helper()
	for ev, err := range k.reader().Inspect(k.Context(), k.id) {
		k.must(err)
		lines = append(lines, string(ev.Line))
	}
	return lines
}

// holds compares the log with events, and verifies it.
func (k *kit) holds(want ...string) { k.Helper(); k.holdsAt(k.id, want...) }

func (k *kit) holdsAt(id string, want ...string) {
	k.Helper()
	if got := k.lines(id, 0); !slices.Equal(got, want) {
		k.Errorf("the log is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	rep, err := k.reader().Verify(k.Context(), id, backend.VerifyOptions{})
	if err != nil || !rep.OK() {
		k.Errorf("verify: %+v, %v", rep.Findings, err)
	}
}

// marked are events and the boundary behind them, at whatever time it has.
func (k *kit) marked(id string, events ...string) []string {
	k.Helper()
	got := k.lines(id, 0)
	n := len(events)
	if len(got) <= n {
		k.Fatalf("%d events, and no boundary behind %d", len(got), n)
	}
	head := fmt.Sprintf(`{"type":"session/end-seed","seq":%d,"time":`, n)
	if !strings.HasPrefix(got[n], head) || !strings.HasSuffix(got[n], `,"data":{}}`) {
		k.Errorf("%s is no boundary of %d events", got[n], n)
	}
	return append(slices.Clip(slices.Clone(events)), got[n])
}

// closers are what must end an interrupted turn.
func (k *kit) closers(events []string) []string {
	k.Helper()
	parsed, err := plainlog.ParseAll(raw(events))
	k.must(err)
	return plainlog.Closers(parsed)
}

func raw(events []string) (lines [][]byte) {
	for _, e := range events {
		lines = append(lines, []byte(e))
	}
	return lines
}

func sequence(events []string) func(yield func([]byte, error) bool) {
	return func(yield func([]byte, error) bool) {
		for _, e := range events {
			if !yield([]byte(e), nil) {
				return
			}
		}
	}
}

// number gives events their seqs: each is a type, and data behind a space.
func number(first int, events ...string) (lines []string) {
	for i, e := range events {
		typ, data, ok := strings.Cut(e, " ")
		if !ok {
			data = "{}"
		}
		surface := ""
		if typ == "user/message" || typ == "assistant/message" || typ == "tool/result" {
			surface = `,"surfaceOp":"append"`
		}
		lines = append(lines, fmt.Sprintf(`{"type":%q,"seq":%d,"time":%d,"data":%s%s}`, typ, first+i, 1000+first+i, data, surface))
	}
	return lines
}

// A turn as a harness writes it, in parts.
const (
	turnStart = `turn/start {"turn":1}`
	user      = `user/message {"id":"u","role":"user","content":[{"type":"text","text":"hello"}],"source":{"kind":"user"}}`
	stepStart = `step/start {"turn":1,"step":1}`
	answer    = `assistant/message {"turn":1,"step":1,"message":{"id":"m","role":"assistant","content":[{"type":"text","text":"hi"}],"source":{"kind":"model","provider":"p","model":"m"}}}`
	asks      = `assistant/message {"turn":1,"step":1,"message":{"id":"m","role":"assistant","content":[{"type":"tool-call","id":"c1","name":"x","arguments":"{}"}],"source":{"kind":"model","provider":"p","model":"m"}}}`
	call      = `tool/call {"turn":1,"step":1,"callId":"c1","name":"x","arguments":"{}"}`
	stepEnd   = `step/end {"turn":1,"step":1}`
	turnEnd   = `turn/end {"turn":1,"reason":{"kind":"completed"}}`
	mark      = `session/end-seed`
)

// wholeTurn is a turn of six events.
func wholeTurn() []string { return number(0, turnStart, user, stepStart, answer, stepEnd, turnEnd) }

const header = `{"type":"session","version":0,"id":"s","createdAt":1000,"cwd":"/work","delegationDepth":0}`
