package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/s3log/s3log/backend"
)

// Exit codes, which are those of s3logctl.
const (
	exitFree    = 0 // balanced or stale: nobody is at work inside the bracket
	exitFailure = 1
	exitUsage   = 2
	exitLive    = 3 // somebody opened it, and that lifecycle has not ended
	exitMissing = 5 // no such log
	exitDamaged = 6 // what is there is not what was written
	exitDenied  = 7
	exitVersion = 8 // written by a newer s3log
)

// exits are the exit codes of errors that a reader meets, by their names.
var exits = map[string]int{
	"not-found": exitMissing, "deleted": exitMissing,
	"corrupt": exitDamaged, "missing": exitDamaged, "rolled-back": exitDamaged,
	"denied":              exitDenied,
	"unsupported-version": exitVersion,
}

func exitOf(err error) int {
	if code, known := exits[backend.Code(err)]; known {
		return code
	}
	return exitFailure
}

// compaction is the bracket that is judged.
var compaction = backend.Pair{Open: "compaction/start", Close: "compaction/end"}

// judge tells whether a compaction is under way, with the evidence, from one GET.
// What comes from the log is quoted: it may hold anything.
func judge(ctx context.Context, r *backend.Reader, id string, out io.Writer) int {
	c, err := r.Check(ctx, id, compaction, backend.CheckOptions{})
	if err != nil {
		fmt.Fprintln(out, "cannot be judged:", err)
		return exitOf(err)
	}
	fmt.Fprintf(out, "verdict: %s, as of revision %d and generation %d\n", c.Answer, c.Revision, c.Generation)
	if c.Open != nil {
		fmt.Fprintf(out, "opened: %s at seq %d, by generation %d\n", c.Open.Type, c.Open.Seq, c.Open.Generation)
	}
	if c.Bound != nil {
		fmt.Fprintf(out, "boundary: at seq %d\n", c.Bound.Seq)
	}
	if c.Answer == backend.Stale {
		fmt.Fprintln(out, "the boundary came later: the lifecycle that opened it has ended")
	}
	if o := c.Owner; o != nil {
		fmt.Fprintf(out, "owner: %q, released: %t, lease: %s\n", o.Label, o.Released, c.LeaseState)
	}
	if c.Answer == backend.Live {
		return exitLive
	}
	return exitFree
}

// prove reads everything, and derives everything again. since is what an earlier
// audit has noted: the log must have grown from it.
func prove(ctx context.Context, r *backend.Reader, id string, since *backend.Point, out io.Writer) int {
	began := time.Now()
	rep, err := r.Verify(ctx, id, backend.VerifyOptions{Since: since})
	if err != nil {
		fmt.Fprintln(out, "cannot be verified:", err)
		return exitOf(err)
	}
	for _, f := range rep.Findings {
		fmt.Fprintf(out, "finding: %s, object %q, seq %d: %q\n", f.Kind, f.Key, f.Seq, f.Detail)
	}
	if !rep.OK() {
		return exitDamaged
	}
	fmt.Fprintf(out, "verified: %d events in %s\n", rep.Events, time.Since(began).Round(time.Millisecond))
	fmt.Fprintf(out, "note this elsewhere: %s\n", backend.Point{Size: rep.Size, Root: rep.Root})
	return exitFree
}
