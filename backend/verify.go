package backend

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// Finding is one thing that a verification found wrong.
type Finding struct {
	// Kind is missing, denied, damaged, version, state (the manifest or an index
	// contradicts the events), root, since, parent, or duplicate-result: a second
	// result for a call that was not made again, which is no damage but as it was
	// appended, and makes some providers refuse the turn.
	Kind   string
	Key    string // the object
	Seq    int64  // the first seq that is concerned, -1 if none
	Detail string
}

const duplicateResult = "duplicate-result"

// Report is what a verification found and did.
type Report struct {
	Log      string
	Events   int64        // that were read, of objects that are what the manifest means
	Segments int          // that the manifest names
	Intact   int          // of these, with nothing missing or damaged
	Root     segment.Hash // over the events, where all of them could be read
	Size     int64        // of the log, as its manifest says
	Findings []Finding
	// Checked says what was checked, in words, also what could not be.
	Checked []string
	// Parent is what came of comparing the inherited events of a fork with its
	// parent's; empty where the log is no fork.
	Parent ParentState
}

// ParentState is what a fork's parent says about the events that were inherited.
type ParentState string

const (
	ParentAgrees  ParentState = "agrees"  // it has them still
	ParentDiffers ParentState = "differs" // it has others, or fewer: a finding of kind parent
	ParentUnread  ParentState = "unread"  // it could not be read, which is no finding
)

// OK reports whether the log is intact: nothing was found, or nothing but
// remarks on what was appended.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind != duplicateResult })
}

// read is how many events of the log were read, in words.
func (r *Report) read() string {
	if r.Events == r.Size {
		return words.Count(r.Events, "event")
	}
	return fmt.Sprintf("%d of %s", r.Events, words.Count(r.Size, "event"))
}

// Point is a size of a log and its Merkle root at that size, noted elsewhere.
type Point struct {
	Size int64
	Root segment.Hash
}

// ParsePoint reads SIZE:ROOT.
func ParsePoint(text string) (Point, error) {
	size, root, ok := strings.Cut(text, ":")
	var p Point
	var err error
	if p.Size, err = strconv.ParseInt(size, 10, 64); err != nil || !ok || p.Size < 0 {
		return Point{}, fmt.Errorf("%q is not SIZE:ROOT", text)
	}
	if err := p.Root.UnmarshalText([]byte(root)); err != nil {
		return Point{}, fmt.Errorf("%q is not SIZE:ROOT: %w", text, err)
	}
	return p, nil
}

// String is SIZE:ROOT.
func (p Point) String() string { return fmt.Sprintf("%d:%s", p.Size, p.Root) }

// VerifyOptions say what a verification takes for given.
type VerifyOptions struct {
	// Since, unless nil, is an earlier state of the log: the report proves that
	// the log extends it, or has a finding of kind since.
	Since *Point
	// Parent reads the parent of a fork, to compare what was inherited; nil: this
	// Reader. Where it cannot be read the report says so and that is no finding.
	Parent *Reader
	// Progress, unless nil, is told after each segment how many events were read, and
	// how many there are.
	Progress func(events, total int64)
}

// Verify reads everything of a log with GetObject only and derives again
// whatever can be derived: the hash of every segment, every frame, index and
// envelope, the continuity of the seqs, the state of the log (types, times,
// activity, turn, boundary) in every index and in the manifest, the Merkle root,
// and for a fork its parent's root. It keeps going after damage, as far as the
// rest can be read: behind a gap it goes on from the next index. The error is
// for what leaves nothing to verify (no manifest, or one that cannot be read), and
// for what a store could not answer and so says nothing about the log; the
// report then has what was found all the same.
func (r *Reader) Verify(ctx context.Context, id string, opt VerifyOptions) (Report, error) {
	head, err := r.open(ctx, id)
	if err != nil {
		return Report{}, opError("verify", id, err)
	}
	for reread := 0; ; reread++ {
		v := &verifier{r: r, rec: head.Record, opt: opt}
		if err := v.run(ctx); err != nil {
			return v.rep, opError("verify", id, err)
		}
		if len(v.lacking) == 0 || reread == maxRereads {
			return v.rep, nil
		}
		// Segments may have been replaced under our hands: it is a finding only
		// where the manifest still names what is not there.
		fresh, err := r.open(ctx, id)
		if err != nil {
			return Report{}, opError("verify", id, err)
		}
		named := func(name manifest.Name) bool {
			return slices.ContainsFunc(fresh.Record.Segments, func(s manifest.SegmentRef) bool { return s.Name == name })
		}
		if slices.ContainsFunc(v.lacking, named) {
			return v.rep, nil
		}
		head = fresh
	}
}
