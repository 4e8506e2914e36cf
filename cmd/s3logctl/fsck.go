package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
)

type fsckFlags struct {
	apply
	readData, rebuild, restored bool
	grace                       time.Duration
	save                        string
}

func newFsckCommand(g *globals) *cobra.Command {
	var f fsckFlags
	cmd := &cobra.Command{
		Use:   "fsck [LOG…]",
		Short: "Check a whole store, or make a lost manifest again",
		Long: `Compare what is on the store with what the manifests say, of the whole store or
of the logs that are named: manifests that cannot be read or were put back from
an older copy, segments that are missing or have another size, objects that no
manifest names and what the next gc makes of them, and keys that are not
s3log's. Nothing is written, and segments are not read, unless with --read-data,
which verifies every log as well.

With --rebuild, the manifest of one log is made again from its segments, where
it is missing or cannot be read. What was only in the manifest is lost, above
all the newest events, and is said. Where an older manifest was put back, it is
kept, and raised above everything that is there. A manifest that can be read is
never replaced. Events that are intact in a damaged one and cannot become part
of the log are written to the file that --save names. Without --apply nothing
is written. No gc may be under way.`,
		Example: `  s3logctl fsck
  s3logctl fsck --read-data --output json | jq 'select(.ok == false)'
  s3logctl fsck --rebuild demo
  s3logctl fsck --rebuild demo --apply`,
		Args: func(_ *cobra.Command, args []string) error {
			if f.rebuild && len(args) != 1 {
				return usagef("--rebuild takes one log id, not %d", len(args))
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
			if err := f.check(cmd); err != nil {
				return err
			}
			if f.rebuild {
				return runRebuild(cmd.Context(), g, args[0], f)
			}
			return runFsck(cmd.Context(), g, args, f)
		},
	}
	f.addFlags(cmd)
	cmd.Flags().BoolVar(&f.readData, "read-data", false, "read and verify everything that is stored, too")
	cmd.Flags().BoolVar(&f.rebuild, "rebuild", false, "make the manifest of one log again from its segments")
	cmd.Flags().BoolVar(&f.restored, "restored", false, "with --rebuild: an older manifest was put back, whatever it looks like")
	cmd.Flags().StringVar(&f.save, "save", "", "with --rebuild: write to this `file` which intact events of the damaged manifest are left out")
	cmd.Flags().DurationVar(&f.grace, "grace", backend.DefaultGrace, "`time` that the next gc will spare readers and uploads for")
	return cmd
}

// check refuses flags that do not go together.
func (f *fsckFlags) check(cmd *cobra.Command) error {
	if err := f.apply.check(cmd); err != nil {
		return err
	}
	switch {
	case f.rebuild && f.readData:
		return usagef("--rebuild reads everything anyway: --read-data does not go with it")
	case !f.rebuild && f.apply.apply:
		return withHint(usagef("a check writes nothing"), "--apply goes with --rebuild; gc removes what no log needs")
	case !f.rebuild && f.save != "":
		return usagef("--save goes with --rebuild")
	case !f.rebuild && f.restored:
		return usagef("--restored goes with --rebuild")
	case f.grace <= 0:
		return graceTooShort(f.grace)
	}
	return nil
}

// examined is what was found of one log, in JSON.
type examined struct {
	Log      *string   `json:"log"` // null where it is not known, and of what is no log's
	Key      string    `json:"key"`
	OK       bool      `json:"ok"`
	State    *string   `json:"state"`
	Revision *int64    `json:"revision"`
	Epoch    *uint32   `json:"epoch"`
	Next     *int64    `json:"next"`
	Segments int       `json:"segments"`
	Bytes    int64     `json:"bytes"`
	Unnamed  []unnamed `json:"unnamed"`
	Findings []finding `json:"findings"`
	Verified *verified `json:"verified"`
	Error    string    `json:"error,omitempty"`
	Code     string    `json:"code,omitempty"`
	from     *backend.FsckLog
}

// noLog reports whether nothing of a log was found there: keys that are not
// s3log's, or leftovers of store proofs.
func noLog(l *backend.FsckLog) bool {
	if l.Err != nil || l.State != "" || l.Verified != nil {
		return false
	}
	strange := !slices.ContainsFunc(l.Findings, func(f backend.Finding) bool { return f.Kind != "foreign" })
	return strange && !slices.ContainsFunc(l.Unnamed, func(o backend.FsckObjects) bool { return o.Fate != backend.FateProbe })
}

// unnamed are objects that no manifest names.
type unnamed struct {
	Fate    string `json:"fate"`
	Goes    bool   `json:"goes"`
	Objects int    `json:"objects"`
	Bytes   int64  `json:"bytes"`
	Oldest  int64  `json:"oldest"`
}

func newExamined(l *backend.FsckLog) examined {
	out := examined{
		Key: l.Key, OK: l.OK(), Segments: l.Segments, Bytes: l.Bytes,
		Unnamed: []unnamed{}, Findings: newFindings(l.Findings), from: l,
	}
	switch {
	case noLog(l) && l.Log != "":
		out.Key = manifest.SegmentPrefix(l.Log)
	case l.Log != "":
		out.Log = &l.Log
	}
	if l.State != "" {
		state := string(l.State)
		out.State, out.Revision, out.Epoch, out.Next = &state, &l.Revision, &l.Epoch, &l.Next
	}
	for _, o := range l.Unnamed {
		out.Unnamed = append(out.Unnamed, unnamed{string(o.Fate), o.Goes, o.Objects, o.Bytes, o.Oldest.UnixMilli()})
	}
	if l.Verified != nil {
		v := newVerified(*l.Verified)
		out.Verified = &v
	}
	if l.Err != nil {
		_, out.Code = classify(l.Err)
		out.Error = errorText(l.Err, "")
	}
	return out
}

// summary is what a check comes to, in JSON.
type summary struct {
	Logs     int       `json:"logs"`
	OK       int       `json:"ok"`
	Damaged  int       `json:"damaged"`
	Failed   int       `json:"failed"` // that could not be looked at
	Segments int       `json:"segments"`
	Bytes    int64     `json:"bytes"`
	Unnamed  []unnamed `json:"unnamed"`
}

func (s *summary) add(l *backend.FsckLog) {
	for _, o := range l.Unnamed {
		i := slices.IndexFunc(s.Unnamed, func(u unnamed) bool { return u.Fate == string(o.Fate) && u.Goes == o.Goes })
		if i < 0 {
			i = len(s.Unnamed)
			s.Unnamed = append(s.Unnamed, unnamed{Fate: string(o.Fate), Goes: o.Goes, Oldest: o.Oldest.UnixMilli()})
		}
		s.Unnamed[i].Objects += o.Objects
		s.Unnamed[i].Bytes += o.Bytes
		s.Unnamed[i].Oldest = min(s.Unnamed[i].Oldest, o.Oldest.UnixMilli())
	}
	slices.SortFunc(s.Unnamed, func(a, b unnamed) int { return cmp.Compare(a.Fate, b.Fate) })
	if noLog(l) || l.State == "" && l.OK() { // objects without a manifest, which nothing says is missing
		return
	}
	s.Logs++
	s.Segments += l.Segments
	s.Bytes += l.Bytes
	switch {
	case l.OK():
		s.OK++
	case l.Err != nil:
		s.Failed++
	default:
		s.Damaged++
	}
}

func runFsck(ctx context.Context, g *globals, ids []string, f fsckFlags) error {
	r, err := g.reader(ctx)
	if err != nil {
		return err
	}
	sum := summary{Unnamed: []unnamed{}}
	damaged := false
	complain := func(err error) {
		if err != nil {
			g.complain(err)
			exit, _ := classify(err)
			damaged = damaged || exit == exitDamaged
		}
	}
	done := g.watch("checking")
	defer func() { done() }()
	for l, err := range r.Fsck(ctx, backend.FsckOptions{Logs: ids, ReadData: f.readData, Grace: f.grace}) {
		done()
		if err != nil {
			complain(err)
		} else {
			sum.add(&l)
			out := newExamined(&l)
			if g.asJSON() || len(ids) > 0 || f.readData || !out.OK || len(out.Unnamed)+len(out.Findings) > 0 {
				g.print(out, out.text)
			}
			complain(fsckError(&l))
		}
		done = g.watch("checking")
	}
	if damaged {
		g.exit = exitDamaged
	}
	g.print(struct {
		Summary summary `json:"summary"`
	}{sum}, sum.text)
	return nil
}

// fsckError is what a log comes to; nil if it is fine.
func fsckError(l *backend.FsckLog) error {
	var worst backend.Finding
	var cause error
	var n int64
	for _, f := range l.Findings {
		var is error
		switch f.Kind {
		case "foreign", "ahead", "headless":
			continue
		case "rolled-back":
			is = backend.ErrRolledBack
		case "lost":
			is = backend.ErrMissing
		default:
			is = kindError(f.Kind)
		}
		if n++; cause == nil || severity(is) > severity(cause) {
			worst, cause = f, is
		}
	}
	switch {
	case cause != nil:
		hint := "`s3logctl verify LOG` reads the log and says what of it is left; " + backend.HintPutBack
		if cause == backend.ErrDenied || cause == backend.ErrUnsupportedVersion {
			hint = findingHints[worst.Kind]
		}
		if worst.Kind == "epoch" {
			hint = "no gc removes such an object: find out where it comes from, and move it away if it is not this log's"
		}
		if cause == backend.ErrRolledBack || cause == backend.ErrMissing && worst.Kind == "lost" || worst.Key == l.Key {
			hint = "`s3logctl fsck --rebuild` says what can be made of its segments; run no gc before that"
		}
		return &backend.OpError{Op: "fsck", Log: l.Log, Key: worst.Key, Seq: worst.Seq, Hint: hint,
			Err: worstOf(cause, n, worst)}
	case l.Err != nil:
		return l.Err
	case l.Verified != nil && !l.Verified.OK():
		return findingsError(*l.Verified)
	}
	return nil
}

func (c examined) text(w io.Writer) {
	l := c.from
	name := quote(c.Key)
	if c.Log != nil {
		name = quote(l.Log)
	}
	switch {
	case noLog(l):
		fmt.Fprintf(w, "%s: not a log", name)
	case c.OK && l.State == "":
		fmt.Fprintf(w, "%s: no manifest", name)
	case l.Err != nil:
		fmt.Fprintf(w, "%s: not checked to the end\n", name)
	case !c.OK:
		fmt.Fprintf(w, "%s: NOT OK", name)
	default:
		fmt.Fprintf(w, "%s: ok", name)
	}
	if l.Err == nil {
		switch l.State {
		case manifest.StateOpen:
			fmt.Fprintf(w, ", %s, %s of %s, revision %d", events(l.Next), words.Count(l.Segments, "segment"), bytesText(l.Bytes), l.Revision)
		case "":
		default:
			fmt.Fprintf(w, ", %s", l.State)
		}
		fmt.Fprintln(w)
	}
	for _, f := range l.Findings {
		fmt.Fprintf(w, "  %s: %s: %s\n", f.Kind, quote(f.Key), oneLine(f.Detail))
	}
	if l.Verified != nil {
		for _, f := range l.Verified.Findings {
			if slices.Contains(l.Findings, f) {
				continue
			}
			fmt.Fprintf(w, "  %s: %s: %s\n", f.Kind, quote(f.Key), oneLine(f.Detail))
		}
	}
	for _, o := range l.Unnamed {
		unnamedText(w, "  ", unnamed{string(o.Fate), o.Goes, o.Objects, o.Bytes, o.Oldest.UnixMilli()})
	}
}

func unnamedText(w io.Writer, indent string, o unnamed) {
	what := "stays"
	if o.Goes {
		what = "goes with the next gc"
	}
	oldest := ""
	if o.Oldest > 0 {
		oldest = ", the oldest written " + ageText(time.Since(time.UnixMilli(o.Oldest))) + " ago"
	}
	fmt.Fprintf(w, "%s%s: %s %s (%s%s)\n", indent, what, words.Count(o.Objects, "object"), fateText[manifest.Fate(o.Fate)], bytesText(o.Bytes), oldest)
}

func (s summary) text(w io.Writer) {
	fmt.Fprintf(w, "%s checked: %d ok", words.Count(s.Logs, "log"), s.OK)
	if s.Damaged > 0 {
		fmt.Fprintf(w, ", %d NOT OK", s.Damaged)
	}
	if s.Failed > 0 {
		fmt.Fprintf(w, ", %d could not be looked at", s.Failed)
	}
	fmt.Fprintf(w, "; %s of %s\n", words.Count(s.Segments, "segment"), bytesText(s.Bytes))
	for _, o := range s.Unnamed {
		unnamedText(w, "", o)
	}
}
