package backendtest

import (
	"context"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
)

// coordinator are the scenarios of several processes, one after the other or at a
// time, with their numbers. Those that are missing do not concern storage.
var coordinator = []scenario{
	{"01 a live session is there after a reload", func(k *kit) {
		l := k.create(k.process(), header)
		k.append(l, wholeTurn()...)
		k.holds(wholeTurn()...) // while its writer lives
		k.close(l)
	}},
	{"02 no repair of a session that is alive", func(k *kit) {
		owner := k.create(k.process(), header)
		k.append(owner, number(0, turnStart)...)
		asked := backend.ResumeOptions{AdoptOptions: backend.AdoptOptions{Quiet: time.Hour}}
		_, _, err := k.process().Resume(k.Context(), k.id, asked)
		k.is(err, backend.ErrHeld)
		k.append(owner, number(1, turnEnd)...)
		k.must(owner.Close(k.Context(), backend.CloseOptions{Release: true}))
		l, r := k.resume(asked)
		k.close(l)
		if r.First != 2 || r.Count != 1 { // the turn as it was completed
			k.Errorf("%+v", r)
		}
		k.holds(k.marked(k.id, number(0, turnStart, turnEnd)...)...)
	}},
	{"03 ownership is judged when it is taken", func(k *kit) {
		owner := k.create(k.process(), header)
		k.append(owner, number(0, turnStart)...)
		l, _ := k.resume(backend.ResumeOptions{Delay: true})
		k.append(owner, number(1, turnEnd)...)
		k.append(l, `{"type":"note","time":1,"data":1}`)
		want := append(k.marked(k.id, number(0, turnStart, turnEnd)...), `{"type":"note","seq":3,"time":1,"data":1}`)
		k.holds(want...)
		_, err := owner.Append(k.Context(), raw(number(2, "note")), backend.AppendOptions{})
		k.is(err, backend.ErrFenced)
		k.close(l)
	}},
	{"04 a session without events is not there", func(k *kit) {
		l := k.create(k.process(), header)
		_, err := k.reader().Info(k.Context(), k.id)
		k.is(err, backend.ErrNotFound)
		k.close(l)
	}},
	{"05 06 38 headers come back", func(k *kit) {
		h := `{"type":"session","version":0,"id":"s","createdAt":1000,"parentSession":"p","seedLength":3,"delegationDepth":2,"x":[1.0,"\ud800"]}`
		k.written(h, wholeTurn()...)
		l, _ := k.resume(backend.ResumeOptions{})
		k.close(l)
		if got := string(k.info().Header); got != h {
			k.Errorf("the header became %s", got)
		}
	}},
	{"07 12 an append takes a copy", func(k *kit) {
		l := k.create(k.process(), header)
		buffer := []byte(wholeTurn()[0])
		_, err := l.Append(k.Context(), [][]byte{buffer}, backend.AppendOptions{})
		k.must(err)
		for i := range buffer {
			buffer[i] = 'x'
		}
		k.append(l, wholeTurn()[1:]...)
		k.close(l)
		k.holds(wholeTurn()...)
	}},
	{"08 what was read is the reader's own", func(k *kit) {
		k.written(header, wholeTurn()...)
		r := k.reader()
		for range 2 {
			i := 0
			for ev, err := range r.Events(k.Context(), k.id, backend.ReadOptions{}) {
				k.must(err)
				if string(ev.Line) != wholeTurn()[i] {
					k.Errorf("%s", ev.Line)
				}
				clear(ev.Line)
				i++
			}
		}
		k.holds(wholeTurn()...)
	}},
	{"13 a fork's seed is written once", func(k *kit) {
		k.written(header, wholeTurn()...)
		child := k.id + " child"
		l, r, err := k.process().Fork(k.Context(), k.id, child, backend.ForkOptions{})
		k.must(err)
		k.must(l.Flush(k.Context()))
		if r := k.append(l); r.Count != 0 {
			k.Errorf("%+v", r)
		}
		k.close(l)
		if r.Next != 7 {
			k.Errorf("%+v", r)
		}
		k.holdsAt(child, k.marked(child, wholeTurn()...)...)
		k.holds(wholeTurn()...)
	}},
	{"14 a resume goes on behind the boundary", func(k *kit) {
		k.written(header, wholeTurn()...)
		l, _ := k.resume(backend.ResumeOptions{})
		more := number(7, `turn/start {"turn":2}`, `turn/end {"turn":2}`)
		k.append(l, more...)
		k.close(l)
		k.holds(append(k.marked(k.id, wholeTurn()...), more...)...)
	}},
	{"16 closing waits for what was accepted", func(k *kit) {
		b := backend.New(k.store, backend.Options{Foreground: true, Linger: time.Second})
		l := k.create(b, header)
		k.append(l, number(0, "note")...)
		var wg sync.WaitGroup
		accepted := make(chan error, 5)
		for range cap(accepted) {
			wg.Go(func() {
				_, err := l.Append(k.Context(), raw([]string{`{"type":"note","data":{}}`}), backend.AppendOptions{})
				accepted <- err
			})
		}
		time.Sleep(20 * time.Millisecond) // they linger
		k.close(l)
		wg.Wait()
		close(accepted)
		n := 1
		for err := range accepted {
			if err == nil {
				n++
			}
		}
		if got := k.info().Next; got != int64(n) {
			k.Errorf("%d events, %d were accepted", got, n)
		}
	}},
	{"17 another process goes on with a session", func(k *kit) {
		k.written(header, wholeTurn()...)
		l := k.adopt()
		more := number(6, `turn/start {"turn":2}`, `turn/end {"turn":2}`)
		k.append(l, more...)
		k.close(l)
		k.holds(append(wholeTurn(), more...)...)
	}},
	{"18 27 what a session has more is appended", func(k *kit) {
		k.written(header, wholeTurn()[:2]...)
		r, err := k.process().Import(k.Context(), k.id, sequence(wholeTurn()), backend.ImportOptions{Header: []byte(header)})
		k.must(err)
		if r.First != 2 || r.Count != 4 || r.Duplicate {
			k.Errorf("%+v", r)
		}
		k.holds(wholeTurn()...)
	}},
	{"19 the real end of an open turn wins", func(k *kit) {
		k.written(header, wholeTurn()[:3]...)
		l := k.adopt() // a live session knows better than any closer
		k.append(l, wholeTurn()[3:]...)
		k.close(l)
		k.holds(wholeTurn()...)
	}},
	{"20 25 34 an id that is taken", func(k *kit) {
		k.written(header, wholeTurn()...)
		k.lines(k.id, 0)
		for range 2 {
			l := k.create(k.process(), header)
			_, err := l.Append(k.Context(), raw(wholeTurn()), backend.AppendOptions{})
			k.is(err, backend.ErrExists)
			_ = l.Close(k.Context(), backend.CloseOptions{})
		}
		_, _, err := k.process().Fork(k.Context(), k.id, k.id, backend.ForkOptions{})
		k.is(err, backend.ErrExists)
		_, _, err = k.process().Replay(k.Context(), k.id, sequence(wholeTurn()), backend.ReplayOptions{})
		k.is(err, backend.ErrExists)
		k.holds(wholeTurn()...)
	}},
	{"21 an id of which nothing came is free", func(k *kit) {
		l := k.create(k.process(), `{"abandoned":true}`)
		k.close(l)
		k.written(header, wholeTurn()...)
		k.holds(wholeTurn()...)
	}},
	{"22 a session that ended keeps its id", func(k *kit) {
		b := k.process()
		l := k.create(b, header)
		k.append(l, wholeTurn()...)
		k.must(l.Close(k.Context(), backend.CloseOptions{Release: true}))
		_, err := l.Append(k.Context(), raw(number(6, "note")), backend.AppendOptions{})
		k.is(err, backend.ErrClosed)
		again := k.create(b, header)
		_, err = again.Append(k.Context(), raw(number(0, "note")), backend.AppendOptions{})
		k.is(err, backend.ErrExists)
		_ = again.Close(k.Context(), backend.CloseOptions{})
		k.holds(wholeTurn()...)
	}},
	{"23 beginning twice is beginning once", func(k *kit) {
		for i := range 2 {
			l, err := k.process().Create(k.id, backend.CreateOptions{Header: []byte(header), OrAdopt: true})
			k.must(err)
			r, err := l.Append(k.Context(), raw([]string{`{"type":"note","time":1,"data":0}`, `{"type":"note","time":1,"data":1}`, `{"type":"note","time":1,"data":2}`}),
				backend.AppendOptions{Key: "beginning"})
			if err != nil || r.Duplicate != (i == 1) || r.First != 0 || r.Count != 3 {
				k.Errorf("%+v, %v", r, err)
			}
			k.close(l)
		}
		if n := k.info().Next; n != 3 {
			k.Errorf("%d events", n)
		}
	}},
	{"24 a seed of nobody's gets a boundary", func(k *kit) {
		l, r, err := k.process().Replay(k.Context(), k.id, sequence(wholeTurn()), backend.ReplayOptions{Header: []byte(header)})
		k.must(err)
		k.close(l)
		if r.Next != 7 {
			k.Errorf("%+v", r)
		}
		k.holds(k.marked(k.id, wholeTurn()...)...)
	}},
	{"26 a seed that ends in its boundary is complete", func(k *kit) {
		events := append(wholeTurn(), number(6, mark)...)
		k.written(header, events...)
		before := k.revision()
		l, r := k.resume(backend.ResumeOptions{})
		k.close(l)
		if r.Count != 0 || k.revision() != before {
			k.Errorf("%+v", r)
		}
		r, err := k.process().Import(k.Context(), k.id, sequence(events), backend.ImportOptions{Header: []byte(header)})
		if err != nil || !r.Duplicate || k.revision() != before {
			k.Errorf("%+v, %v", r, err)
		}
		child := k.id + " child"
		l, r, err = k.process().Fork(k.Context(), k.id, child, backend.ForkOptions{})
		k.must(err)
		k.close(l)
		if r.Next != 7 {
			k.Errorf("%+v", r)
		}
		k.holdsAt(child, events...)
	}},
	{"28 29 30 a session of another place is refused", func(k *kit) {
		k.written(header, wholeTurn()...)
		for _, other := range []string{strings.Replace(header, "/work", "/other", 1), strings.Replace(header, `"cwd":"/work",`, "", 1), ""} {
			_, err := k.process().Import(k.Context(), k.id, sequence(append(wholeTurn(), number(6, "note")...)), backend.ImportOptions{Header: []byte(other)})
			k.is(err, backend.ErrExists)
		}
		events := wholeTurn()
		events[1] = strings.Replace(events[1], "hello", "other", 1)
		_, err := k.process().Import(k.Context(), k.id, sequence(append(events, number(6, "note")...)), backend.ImportOptions{Header: []byte(header)})
		k.is(err, backend.ErrExists)
		k.holds(wholeTurn()...)
	}},
	{"31 an append to a session that is only stored", func(k *kit) {
		k.written(header, wholeTurn()...)
		l, err := k.process().Create(k.id, backend.CreateOptions{OrAdopt: true})
		k.must(err)
		r := k.append(l, `{"type":"note","time":1006,"data":{}}`, `{"type":"note","time":1007,"data":{}}`)
		k.close(l)
		if r.First != 6 || r.Next != 8 {
			k.Errorf("%+v", r)
		}
		k.holds(append(wholeTurn(), number(6, "note", "note")...)...)
	}},
	{"32 an empty append is nothing", func(k *kit) {
		l := k.create(k.process(), header)
		if r := k.append(l); r.Count != 0 || r.Next != 0 {
			k.Errorf("%+v", r)
		}
		k.close(l)
		if k.listed() {
			k.Error("it is listed")
		}
	}},
	{"33 a missing id", func(k *kit) {
		r := k.reader()
		failed := map[string]error{}
		for _, err := range r.Events(k.Context(), k.id, backend.ReadOptions{}) {
			failed["events"] = err
		}
		for _, err := range r.Inspect(k.Context(), k.id) {
			failed["inspect"] = err
		}
		_, failed["info"] = r.Info(k.Context(), k.id)
		_, failed["check"] = r.Check(k.Context(), k.id, seedpath.Pairs["compaction"], backend.CheckOptions{})
		_, failed["verify"] = r.Verify(k.Context(), k.id, backend.VerifyOptions{})
		_, _, failed["resume"] = k.process().Resume(k.Context(), k.id, backend.ResumeOptions{})
		_, failed["adopt"] = k.process().Adopt(k.Context(), k.id, backend.AdoptOptions{})
		_, _, failed["fork"] = k.process().Fork(k.Context(), k.id, k.id+" child", backend.ForkOptions{})
		if len(failed) != 8 {
			k.Errorf("%v", failed)
		}
		for what, err := range failed {
			k.is(err, backend.ErrNotFound)
			if err == nil || !strings.Contains(err.Error(), "no such log") {
				k.Errorf("%s: %v", what, err)
			}
		}
	}},
	{"35 36 another version", func(k *kit) {
		k.written(header, wholeTurn()...)
		for _, tc := range []struct {
			version string
			want    error
		}{{"99", backend.ErrUnsupportedVersion}, {"-1", backend.ErrCorrupt}} {
			k.reversion(tc.version)
			_, err := k.reader().Info(k.Context(), k.id)
			k.is(err, tc.want)
			_, _, err = k.process().Resume(k.Context(), k.id, backend.ResumeOptions{})
			k.is(err, tc.want)
			if tc.version == "99" && !strings.Contains(fmt.Sprint(err), "version") {
				k.Errorf("%v", err)
			}
		}
		k.reversion("1") // nothing was damaged
		k.holds(wholeTurn()...)
	}},
	{"37 events of unknown types are kept", func(k *kit) {
		events := append(wholeTurn(), `{"type":"future/thing","seq":6,"time":1,"data":null,"ignorable":true}`, `{"type":"future/other","seq":7,"time":2,"data":[1.0]}`)
		k.written(header, events...)
		k.holds(events...)
		l, _ := k.resume(backend.ResumeOptions{})
		k.close(l)
		k.holds(k.marked(k.id, events...)...)
	}},
	{"39 appends from the first moment on", func(k *kit) {
		l := k.create(k.process(), header)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := l.Append(k.Context(), raw([]string{`{"type":"note","data":{}}`}), backend.AppendOptions{}); err != nil {
					k.Error(err)
				}
			})
		}
		wg.Wait()
		k.must(l.Flush(k.Context()))
		k.close(l)
		if n := len(k.lines(k.id, 0)); n != 3 {
			k.Errorf("%d events", n)
		}
	}},
	{"40 an upload that was torn off, and an open turn", func(k *kit) {
		events := append(wholeTurn(), number(6, `turn/start {"turn":2}`, `step/start {"turn":2,"step":1}`)...)
		k.written(header, events...)
		k.orphan(8)
		l, r := k.resume(backend.ResumeOptions{})
		closers := k.closers(events)
		if r.First != 8 || r.Next != 11 {
			k.Errorf("%+v", r)
		}
		more := number(11, `turn/start {"turn":3}`, `turn/end {"turn":3}`)
		k.append(l, more...)
		k.close(l)
		k.holds(append(k.marked(k.id, append(events, closers...)...), more...)...)
	}},
}

// orphan puts a segment of the log on the store that no manifest names, as a
// writer leaves it that died before its commit.
func (k *kit) orphan(first int64) {
	k.Helper()
	name := manifest.Name{First: first, Epoch: 1, Nonce: manifest.NewNonce()}
	_, err := k.store.Put(k.Context(), manifest.SegmentKey(k.id, name), []byte("torn off"), objstore.IfAbsent(), objstore.PutOptions{})
	k.must(err)
}

// reversion changes what version the log's manifest says that it has.
func (k *kit) reversion(version string) {
	k.Helper()
	key := manifest.Key(k.id)
	object, err := k.store.Get(k.Context(), key, objstore.GetOptions{})
	k.must(err)
	body := string(object.Body)
	from := strings.Index(body, `"version":`) + len(`"version":`)
	to := from + strings.IndexByte(body[from:], ',')
	body = body[:from] + version + body[to:]
	body = body[:strings.LastIndex(body, `,"sum":`)] + fmt.Sprintf(`,"once-%s":1`, version) // unknown, and so no manifest comes back
	sum := crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli))
	body += fmt.Sprintf(`,"sum":"%08x"}`+"\n", sum)
	_, err = k.store.Put(context.WithoutCancel(k.Context()), key, []byte(body), objstore.IfVersion(object.Version), objstore.PutOptions{})
	k.must(err)
}
