package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/seedpath"
)

type checkFlags struct {
	pair        string
	open, close string
	id          string
	verify      bool
}

// defaultPair is the bracket that is asked about most: may a compaction begin?
const defaultPair = "compaction"

func newCheckCommand(g *globals) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check LOG",
		Short: "Judge a bracket: balanced, stale or live",
		Long: `Judge whether an opening event of a log still waits for its closing one.

  balanced  it does not
  stale     it does, but a boundary came after it: the lifecycle that wrote it
            has ended, and nobody is going to close it
  live      it does, and no boundary came after it

The exit code is 0 for balanced and stale, where the bracket is free, and 3 for
live. Position in the log decides, never age. Whether the owner of the log is
alive is another question, which its lease answers if it keeps one.

Brackets are judged from the manifest alone: one GET, for a log of any length.
Those that are paired by an id inside their events take reading the events from
the first to the last of the two types; what that cost is shown.`,
		Example: `  s3logctl check demo && start-compaction demo
  s3logctl check demo --pair approval --output json | jq .unmatched
  s3logctl check demo --open job/begin --close job/end --id jobId`,
		Args:              logArgs,
		ValidArgsFunction: g.completeLog(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			pair, err := f.find(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return runCheck(cmd.Context(), g, args[0], pair, f.verify)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.pair, "pair", defaultPair, "`NAME` of the bracket: "+strings.Join(pairNames(), ", "))
	fs.StringVar(&f.open, "open", "", "instead of --pair: `TYPE` of the opening event")
	fs.StringVar(&f.close, "close", "", "instead of --pair: `TYPE` of the closing event")
	fs.StringVar(&f.id, "id", "", "pair the two by this `MEMBER` of their data (a.b for one inside another)")
	fs.BoolVar(&f.verify, "verify", false, "derive the verdict again from the events, and compare")
	_ = cmd.RegisterFlagCompletionFunc("pair", cobra.FixedCompletions(pairCompletions(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func pairNames() []string { return slices.Sorted(maps.Keys(seedpath.Pairs)) }

func pairCompletions() (list []cobra.Completion) {
	for _, name := range pairNames() {
		p := seedpath.Pairs[name]
		list = append(list, cobra.CompletionWithDesc(name, p.Open+" … "+p.Close))
	}
	return list
}

// bracket is a pair and what it is called.
type bracket struct {
	name string // empty for one given by its types
	backend.Pair
}

// find is the bracket that the flags mean.
func (f *checkFlags) find(given func(flag string) bool) (bracket, error) {
	var b bracket
	switch byTypes := given("open") || given("close"); {
	case byTypes && given("pair"):
		return b, usagef("--pair names a bracket, --open and --close describe one: give one or the other")
	case byTypes && (f.open == "" || f.close == ""):
		return b, usagef("--open and --close go together")
	case byTypes && f.open == f.close:
		return b, usagef("--open and --close are two different types")
	case byTypes:
		b.Open, b.Close = f.open, f.close
	default:
		p, ok := seedpath.Pairs[f.pair]
		if !ok {
			return b, withHint(usagef("there is no bracket with the name %q", f.pair),
				"the names are "+strings.Join(pairNames(), ", ")+"; any other bracket is described by --open and --close")
		}
		b.name, b.Pair = f.pair, p
	}
	if given("id") {
		if f.id == "" {
			return b, usagef("--id names a member of data")
		}
		b.Pair = backend.Pair{Open: b.Open, Close: b.Close, ID: f.id}
	}
	return b, nil
}

// checked is a verdict in JSON.
type checked struct {
	Log        string          `json:"log"`
	Verdict    seedpath.Answer `json:"verdict"`
	Open       *checkedOpen    `json:"open"`
	Boundary   *infoBoundary   `json:"boundary"`
	Generation int64           `json:"generation"`
	Lease      infoLease       `json:"lease"`
	Revision   int64           `json:"revision"`
	Pair       checkedPair     `json:"pair"`
	Unmatched  []int64         `json:"unmatched"`
	WithoutID  int64           `json:"withoutId"`
	Replaced   bool            `json:"replaced"` // the writer of a live marker
	Owner      *infoOwner      `json:"owner"`
	Scan       *checkedScan    `json:"scan"` // null: the manifest alone told
}

// checkedOpen is the marker that nothing has closed.
type checkedOpen struct {
	Type       string `json:"type"`
	Seq        int64  `json:"seq"`
	Generation *int64 `json:"generation"` // null: inherited, or too long ago to know
}

type checkedPair struct {
	Name  *string `json:"name"`
	Open  string  `json:"open"`
	Close string  `json:"close"`
	ID    *string `json:"id"` // null: by position
}

// checkedScan is what reading the events cost.
type checkedScan struct {
	Events   int64 `json:"events"`
	Requests int64 `json:"requests"` // all of the check
	Bytes    int64 `json:"bytes"`
	Verified bool  `json:"verified"`
}

func runCheck(ctx context.Context, g *globals, id string, b bracket, verify bool) error {
	r, err := g.reader(ctx)
	if err != nil {
		return err
	}
	done := g.watch("reading " + quote(id))
	c, err := r.Check(ctx, id, b.Pair, backend.CheckOptions{Verify: verify})
	done()
	if err != nil {
		return err
	}
	out := newChecked(c, b)
	if b.ID != "" || verify || c.Scanned > 0 {
		cost := g.counts()
		out.Scan = &checkedScan{Events: c.Scanned, Requests: cost.Requests(), Bytes: cost.BytesIn, Verified: verify}
	}
	g.print(out, func(w io.Writer) { checkText(w, g.textWidth(), c, b, out) })
	g.live = c.Answer == seedpath.Live
	return nil
}

func newChecked(c backend.Check, b bracket) checked {
	out := checked{
		Log: c.Log, Verdict: c.Answer,
		Generation: c.Generation, Revision: c.Revision,
		Lease:     newLease(c.LeaseState, c.Lease),
		Pair:      checkedPair{Open: b.Open, Close: b.Close},
		Unmatched: c.Unmatched,
		WithoutID: c.WithoutID,
		Owner:     newOwner(c.Owner),
	}
	if b.name != "" {
		out.Pair.Name = &b.name
	}
	if b.ID != "" {
		out.Pair.ID = &b.ID
	}
	if out.Unmatched == nil {
		out.Unmatched = []int64{}
	}
	if c.Bound != nil {
		out.Boundary = &infoBoundary{c.Bound.Seq, c.Bound.Time}
	}
	if o := c.Open; o != nil {
		out.Open = &checkedOpen{Type: o.Type, Seq: o.Seq}
		if o.Generation > 0 {
			out.Open.Generation = &o.Generation
		}
		// Only a takeover that ends no lifecycle leaves a marker live.
		out.Replaced = c.Answer == seedpath.Live && o.Generation < c.Generation
	}
	return out
}

// checkText says the verdict and its evidence in words.
func checkText(out io.Writer, width int, c backend.Check, b bracket, j checked) {
	line, flush := fittedLines(out, width)
	defer flush()
	line("verdict", "%s", verdictWords(c, b))
	line("bracket", "%s", b.words())
	if n := len(c.Unmatched); b.ID != "" && n > 0 {
		line("unmatched", "%d: %s", n, seqList(c.Unmatched))
	}
	if c.WithoutID > 0 {
		line("left out", "%d %s without %s, which nothing can close", c.WithoutID, quote(b.Open), quote(b.ID))
	}
	if c.Open != nil {
		line("opened by", "%s", openerWords(c, j))
	}
	if c.Bound != nil {
		line("boundary", "seq %d, %s", c.Bound.Seq, timeText(c.Bound.Time))
	} else {
		line("boundary", "none")
	}
	if c.Owner != nil {
		line("owner", "generation %d, %s", c.Generation, ownerWords(c.Owner))
	}
	line("lease", "%s", leaseWords(c))
	line("evidence", "%s", evidenceWords(c, j))
}

func verdictWords(c backend.Check, b bracket) string {
	open, close := quote(b.Open), quote(b.Close)
	switch {
	case c.Answer == seedpath.Stale:
		return fmt.Sprintf("stale: %s at seq %d has no %s, but the boundary at seq %d came after it, so the lifecycle that wrote it has ended",
			open, c.Open.Seq, close, c.Bound.Seq)
	case c.Answer == seedpath.Live:
		return fmt.Sprintf("live: %s at seq %d has no %s, and no boundary came after it", open, c.Open.Seq, close)
	case b.ID != "" && c.WithoutID > 0:
		return fmt.Sprintf("balanced: every %s that has %s has its %s", open, quote(b.ID), close)
	case b.ID != "":
		return fmt.Sprintf("balanced: every %s has its %s", open, close)
	}
	return fmt.Sprintf("balanced: no %s waits for its %s", open, close)
}

func (b bracket) words() string {
	text := quote(b.Open) + " … " + quote(b.Close)
	if b.name != "" {
		text = b.name + ", " + text
	}
	if b.ID == "" {
		return text + ", by position"
	}
	return text + ", paired by " + quote(b.ID)
}

// mostSeqs is how many seqs a line for people has.
const mostSeqs = 10

func seqList(list []int64) string {
	shown := list[max(0, len(list)-mostSeqs):]
	var b strings.Builder
	b.WriteString("seq ")
	if len(shown) < len(list) {
		b.WriteString("…, ")
	}
	for i, seq := range shown {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, seq)
	}
	return b.String()
}

func openerWords(c backend.Check, j checked) string {
	text := "inherited, or too many takeovers ago to tell"
	if g := c.Open.Generation; g > 0 {
		text = fmt.Sprintf("generation %d", g)
	}
	if j.Replaced {
		return text + fmt.Sprintf("; its writer has been replaced: generation %d adopted the log without ending the lifecycle (`s3logctl resume` would)", c.Generation)
	}
	if c.Answer == seedpath.Live {
		return text + ", which nobody has replaced"
	}
	return text
}

func leaseWords(c backend.Check) string {
	if c.Lease == nil {
		return c.LeaseState + ": nothing says whether the owner is alive"
	}
	return fmt.Sprintf("%s, until %s", c.LeaseState, timeText(c.Lease.Until))
}

func evidenceWords(c backend.Check, j checked) string {
	text := fmt.Sprintf("revision %d", c.Revision)
	s := j.Scan
	if s == nil {
		return text + ", the manifest alone"
	}
	cost := fmt.Sprintf("%s, read by %s of %s", events(s.Events), words.Count(s.Requests, "request"), bytesText(s.Bytes))
	if s.Verified {
		return text + ", which agrees with " + cost
	}
	return text + ", " + cost
}
