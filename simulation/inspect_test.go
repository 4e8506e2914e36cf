package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/seedpath"
)

// inspect looks at everything when nothing happens any more, without faults.
func (r *run) inspect() {
	ctx := context.Background()
	reader := backend.NewReader(r.service.mem, backend.Options{})
	for _, id := range []string{mainLog, childLog} {
		l := r.witness.log(id)
		began := time.Now()
		head, err := manifest.Load(ctx, r.service.mem, id, manifest.LoadOptions{})
		rec := l.newest()
		switch {
		case rec == nil && errors.Is(err, backend.ErrNotFound):
			r.count("ended: nothing there", 1)
			continue
		case err != nil || rec == nil || head.Record.Commit.ID != rec.Commit.ID:
			r.fail("LOSTACK", "%s is at the end not what was written last: %v", id, err)
			continue
		}
		r.count("ended: "+string(rec.State), 1)
		if rec.State != manifest.StateOpen {
			continue
		}
		r.count("events at the end", len(l.lines))
		r.count("segments at the end", len(rec.Segments))
		if err := r.inspectEvents(ctx, reader, id, l, began); err != nil {
			r.fail("DAMAGE", "%s at the end: %v", id, err)
		}
		report, err := reader.Verify(ctx, id, backend.VerifyOptions{})
		if err != nil || !report.OK() || report.Events != rec.Next {
			r.fail("DAMAGE", "%s at the end: %v, %+v", id, err, report)
		}
		for _, name := range []string{"compaction", "turn"} {
			pair := seedpath.Pairs[name]
			c, err := reader.Check(ctx, id, pair, backend.CheckOptions{Verify: true})
			if want := l.judged(rec.Next, pair.Open, pair.Close); err != nil || string(c.Answer) != want {
				r.fail("STATE", "%s of %s at the end: %s, %v; a backward scan says %s", name, id, c.Answer, err, want)
			}
		}
	}
	r.book.close()
	r.history()
}

func (r *run) inspectEvents(ctx context.Context, reader *backend.Reader, id string, l *record, began time.Time) error {
	var lines [][]byte
	for ev, err := range reader.Events(ctx, id, backend.ReadOptions{}) {
		if err != nil {
			return err
		}
		lines = append(lines, bytes.Clone(ev.Line))
	}
	if len(lines) != len(l.lines) {
		return fmt.Errorf("%d events, and %d were written", len(lines), len(l.lines))
	}
	for i, line := range lines {
		if !bytes.Equal(line, l.lines[i]) {
			return fmt.Errorf("seq %d is %.200s, and was %.200s", i, line, l.lines[i])
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observed("end", id, began, lines)
	return nil
}
