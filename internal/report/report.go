// Package report makes a page of one log that an auditor can look at: one HTML
// file that needs nothing but a browser, with what happened turn by turn, the
// verdicts on brackets and the evidence for them, lineage, owners, size over
// time, and the result of a verification. It only reads.
//
// Whatever comes from a log is untrusted. In HTML it appears escaped, with
// invisible characters made visible; the events themselves are in the page as
// compressed base64, which the page's script shows as text and nothing else; and
// a content security policy lets nothing run but that script.
package report

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/s3log/s3log/backend"
)

// Options say what a report is made with. The zero value will do.
type Options struct {
	Now      time.Time // when it is made
	Software string    // by which program, and version
	Store    string    // where the log is, for people; never with credentials
	// Since is an earlier state of the log, which it must extend.
	Since *backend.Point
	// Parent reads the log's parents, where these are in another store.
	Parent *backend.Reader
	// Progress, unless nil, is called with each number of events that were taken in.
	Progress func(n int64)
	// Limits bound the page.
	Limits Limits
}

// Limits bound what a page holds of a log, and so its size and the memory that
// it takes to make and to look at it. 0 means the default.
type Limits struct {
	Text    int   // bytes of an event's line; 4 KiB
	Preview int   // bytes of a message in the timeline; 400
	Events  int64 // bytes of all events, compressed and in base64; 24 MiB. Further ones are without their text
	Rows    int64 // the same with events that have no text; 32 MiB. Further ones are left out
	Items   int   // steps, messages, calls; 60,000. Turns behind them have no more than a line
	Blocks  int   // turns, and what is between them; 10,000. Further ones are put together
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&l.Text, 4<<10)
	set(&l.Preview, 400)
	set(&l.Items, 60_000)
	set(&l.Blocks, 10_000)
	if l.Events <= 0 {
		l.Events = 24 << 20
	}
	if l.Rows <= 0 {
		l.Rows = 32 << 20
	}
	return l
}

// Facts are about a report that was written.
type Facts struct {
	Log    string
	Events int64 // that the page is about
	Unread int64 // of these, that could not be read
	// Root is as of Events, and proved; nil where the log is not intact.
	Root *backend.Point
	// Verified is the result of the verification that is in the page.
	Verified backend.Report
	// Damage is what was met in reading the events behind that; nil if nothing was.
	Damage error
}

// Write verifies a log, reads all of its events, and writes the page. A log that
// is damaged has a page, too, which says so; the error is for what leaves nothing
// to show, for a store that does not answer, and for w. Nothing is written to w
// before all was read.
//
// The requests are those of Verify, and of Events once more, and one GET for
// each ancestor of a fork. Memory is bounded by the limits and by
// Options.Prefetch segments, not by the log.
func Write(ctx context.Context, w io.Writer, r *backend.Reader, id string, opt Options) (Facts, error) {
	opt.Limits = opt.Limits.withDefaults()
	info, err := r.Info(ctx, id)
	if err != nil {
		return Facts{}, err
	}
	since := opt.Since
	if since == nil {
		// The log may grow until it is verified: that what is verified extends what
		// the page shows is then proved.
		since = &backend.Point{Size: info.Next, Root: info.Content.Tree.Root}
	}
	checked, err := r.Verify(ctx, id, backend.VerifyOptions{Since: since, Parent: opt.Parent})
	if err != nil {
		return Facts{}, err
	}
	if opt.Since == nil && checked.Size <= info.Next {
		// Nobody has asked about that point, which is the log itself.
		checked.Checked = slices.DeleteFunc(checked.Checked, func(what string) bool { return strings.Contains(what, "the log extends "+since.String()) })
	}
	t := newTimeline(&info, opt.Limits)
	if err := gather(ctx, r, &info, t, opt.Progress); err != nil {
		return Facts{}, err
	}
	lineage := ancestors(ctx, r, &info, opt.Parent)
	p, err := newPage(&info, checked, t, lineage, opt)
	if err != nil {
		return Facts{}, err
	}
	facts := Facts{Log: info.Log, Events: info.Next, Unread: t.unread, Verified: checked, Damage: t.damage}
	if p.OK {
		facts.Root = &backend.Point{Size: info.Next, Root: info.Content.Tree.Root}
	}
	return facts, p.write(w)
}
