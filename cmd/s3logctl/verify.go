package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

func newVerifyCommand(g *globals) *cobra.Command {
	var since string
	var all bool
	cmd := &cobra.Command{
		Use:   "verify LOG…",
		Short: "Check everything that is stored of a log",
		Long: `Read everything of a log and derive again whatever can be derived: the hash of
every segment, frames, checksums and indexes, the envelope and the seq of every
event, the state that the manifest keeps, and the Merkle root; of a fork also
whether its parent has the inherited events, if the parent can be read. Nothing
but the right to read objects is needed. What is wrong is named, and the rest is
read all the same; what was checked and what was not is said.

With --since, a SIZE:ROOT that was noted elsewhere (info shows it), it is also
proved that the log extends what it was then.

The exit code is 6 if something is damaged or missing, 7 if objects may not be
read.`,
		Example: `  s3logctl verify demo demo-2
  s3logctl verify demo --since "$(cat noted-root)"
  s3logctl verify --all --output json | jq 'select(.ok | not)'`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return usagef("--all is every log of the store: name none")
			case all && since != "":
				return usagef("--since is about one log, and --all about many")
			case !all && len(args) == 0:
				return withHint(usagef("%s takes log ids", verbName(cmd)), "--all is every log of the store")
			case since != "" && len(args) > 1:
				return usagef("--since is about one log, not %d", len(args))
			}
			for _, id := range args {
				if err := checkLog(id); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
			return g.logIDs(cmd.Context(), begin), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var opt backend.VerifyOptions
			if cmd.Flags().Changed("since") {
				p, err := backend.ParsePoint(since)
				if err != nil {
					return withHint(usagef("--since %w", err), "`s3logctl info LOG --output json | jq -r .root` prints it")
				}
				opt.Since = &p
			}
			return runVerify(cmd.Context(), g, args, all, opt)
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "an earlier `SIZE:ROOT` of the log, which it must extend")
	cmd.Flags().BoolVar(&all, "all", false, "every log of the store")
	return cmd
}

// verified is a report in JSON.
type verified struct {
	Log      string    `json:"log"`
	OK       bool      `json:"ok"`
	Events   int64     `json:"events"`   // that were read and are what was written
	Size     int64     `json:"size"`     // of the log
	Segments int       `json:"segments"` // of the log
	Intact   int       `json:"intact"`   // segments with nothing missing or damaged
	Root     *string   `json:"root"`     // SIZE:ROOT; null where not all events could be read
	Findings []finding `json:"findings"`
	Checked  []string  `json:"checked"`
}

type finding struct {
	Kind   string `json:"kind"`
	Key    string `json:"key"`
	Seq    *int64 `json:"seq"`
	Detail string `json:"detail"`
}

func newVerified(r backend.Report) verified {
	out := verified{Log: r.Log, OK: r.OK(), Events: r.Events, Size: r.Size, Segments: r.Segments, Intact: r.Intact, Findings: newFindings(r.Findings), Checked: r.Checked}
	if r.Root != (segment.Hash{}) {
		root := backend.Point{Size: r.Size, Root: r.Root}.String()
		out.Root = &root
	}
	return out
}

func newFindings(found []backend.Finding) []finding {
	out := []finding{}
	for _, f := range found {
		j := finding{Kind: f.Kind, Key: f.Key, Detail: f.Detail}
		if f.Seq >= 0 {
			j.Seq = &f.Seq
		}
		out = append(out, j)
	}
	return out
}

// runVerify verifies one log after the other, also after one that is damaged. The
// exit code is that of the first complaint, unless any was about damage.
func runVerify(ctx context.Context, g *globals, ids []string, all bool, opt backend.VerifyOptions) error {
	r, err := g.reader(ctx)
	if err != nil {
		return err
	}
	logs := named(ids)
	if all {
		logs = every(ctx, r)
	}
	damaged, none := false, true
	for id, err := range logs {
		none = false
		if ctx.Err() != nil {
			err = fmt.Errorf("%s: not verified: %w", rest(id), ctx.Err())
		} else if err == nil {
			err = verifyLog(ctx, g, r, id, opt)
		}
		if all && g.passOver(id, err) {
			continue
		}
		if err != nil {
			g.complain(err)
			exit, _ := classify(err)
			damaged = damaged || exit == exitDamaged
		}
		if ctx.Err() != nil {
			break
		}
	}
	if damaged {
		g.exit = exitDamaged
	}
	if none {
		g.noLogs(false)
	}
	return nil
}

// rest is what a command that ends at a log does not come to.
func rest(id string) string {
	if id == "" { // it was still looking for it
		return "what follows"
	}
	return quote(id) + " and what follows"
}

func named(ids []string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}

// every yields the logs of the store, and what went wrong in finding them.
func every(ctx context.Context, r *backend.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for e, err := range r.List(ctx, backend.ListOptions{By: backend.ByName}) {
			if err == nil {
				err = e.Err
			}
			if !yield(e.Log, err) {
				return
			}
		}
	}
}

// passOver reports, and says, that a log of the store's was deleted since it was
// listed. Who asked for all logs did not ask for that one.
func (g *globals) passOver(id string, err error) bool {
	if !errors.Is(err, backend.ErrDeleted) {
		return false
	}
	g.notice("%s was deleted in the meantime", quote(id))
	return true
}

func verifyLog(ctx context.Context, g *globals, r *backend.Reader, id string, opt backend.VerifyOptions) error {
	p := g.newProgress("verifying "+quote(id), events, 0)
	opt.Progress = p.set
	rep, err := r.Verify(ctx, id, opt)
	p.done()
	if err != nil {
		return err
	}
	out := newVerified(rep)
	g.print(out, out.text)
	if rep.OK() {
		return nil
	}
	return findingsError(rep)
}

// findingsError is what a report with findings comes to.
func findingsError(r backend.Report) error {
	var worst backend.Finding
	var cause error
	var n int64
	for _, f := range r.Findings {
		if f.Kind == "duplicate-result" {
			continue
		}
		n++
		if is := kindError(f.Kind); cause == nil || severity(is) > severity(cause) {
			worst, cause = f, is
		}
	}
	hint := findingHints[worst.Kind]
	if worst.Kind == "damaged" && worst.Key == manifest.Key(r.Log) {
		hint = "put back an older version of the manifest, or see what `s3logctl fsck --rebuild LOG` says"
	}
	return &backend.OpError{Op: "verify", Log: r.Log, Key: worst.Key, Seq: worst.Seq, Err: worstOf(cause, n, worst), Hint: hint}
}

// findingHints say what can be done about a finding, by its kind.
var findingHints = map[string]string{
	"damaged": backend.HintPutBack + ". `s3logctl cat LOG --salvage` prints what can be read",
	"missing": "somebody has removed the object; " + backend.HintPutBack + ". `s3logctl cat LOG --salvage` prints the other events",
	"denied":  "these credentials may not read the object (s3:GetObject, and kms:Decrypt if a KMS key encrypts it)",
	"version": "use a newer s3log",
	"since":   "the history of the log is not the one that was noted: look for who has changed it (versions of the manifest, access logs)",
	"parent":  "`s3logctl diff PARENT CHILD --verify` shows where they part; the fork itself is whole",
}

// worstOf is the worst of n findings, which is of a kind.
func worstOf(kind error, n int64, worst backend.Finding) error {
	if n == 1 {
		return fmt.Errorf("%w: %s", kind, worst.Detail)
	}
	return fmt.Errorf("%w: %s, the worst: %s", kind, words.Count(n, "finding"), worst.Detail)
}

// kindError is the error that a kind of finding is.
func kindError(kind string) error {
	switch kind {
	case "denied":
		return backend.ErrDenied
	case "version":
		return backend.ErrUnsupportedVersion
	case "missing":
		return backend.ErrMissing
	}
	return backend.ErrCorrupt
}

// severity orders what findings are: what is known to be wrong before what could
// not be looked at.
func severity(err error) int {
	switch err { //nolint:errorlint // those of kindError
	case backend.ErrCorrupt:
		return 3
	case backend.ErrMissing, backend.ErrRolledBack:
		return 2
	case backend.ErrDenied:
		return 1
	}
	return 0
}

// partOf is so many of all things, in words.
func partOf(n, all int64, thing string) string {
	if n == all {
		return words.Count(n, thing)
	}
	return fmt.Sprintf("%d of %s", n, words.Count(all, thing))
}

func (v verified) text(w io.Writer) {
	verdict := "ok"
	if !v.OK {
		verdict = "NOT OK"
	}
	fmt.Fprintf(w, "%s: %s, %s in %s and the manifest", quote(v.Log), verdict, partOf(v.Events, v.Size, "event"), partOf(int64(v.Intact), int64(v.Segments), "segment"))
	if v.OK && v.Root != nil { // a root that somebody notes is one of an intact log
		fmt.Fprintf(w, ", root %s", *v.Root)
	}
	fmt.Fprintln(w)
	for _, f := range v.Findings {
		at := ""
		if f.Seq != nil {
			at = fmt.Sprintf(", seq %d", *f.Seq)
		}
		fmt.Fprintf(w, "  %s: %s%s: %s\n", f.Kind, quote(f.Key), at, oneLine(f.Detail))
	}
	for _, c := range v.Checked {
		what := "checked"
		if rest, not := strings.CutPrefix(c, "not "); not {
			what, c = "not checked", rest
		}
		fmt.Fprintf(w, "  %s: %s\n", what, oneLine(c))
	}
}
