package manifest

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/s3log/s3log/segment"
)

// Rebuilt is a log as far as its segments tell of it.
type Rebuilt struct {
	Log      string
	UID      string
	Header   []byte
	Origin   *Origin
	Segments []SegmentRef  // from seq 0 on
	Tail     []byte        // frames of the events behind them
	Content  segment.State // after the last one
	// Above is the highest epoch that the log may have had: that of any listed segment,
	// at least.
	Above uint32
	// Over says that a manifest is there which cannot be read: the commit is then
	// to be conditioned on its version, else on absence.
	Over bool
}

// Rebuild proposes a manifest for a log that has lost its own. It begins a
// generation of kind KindRebuild, which is released: of those before it nothing is
// known. Its number is that of the epoch, which is above those of all generations
// that have left anything; Judge gives no answer to writers of others. Keys, retired
// segments and the lease are lost, and so is the rule of names for once: these
// segments were uploaded by others. So nobody may be about to remove them, which
// nobody is for a log whose manifest cannot be read.
func Rebuild(r Rebuilt, w Writer, at int64) (*Proposal, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	if r.Above == math.MaxUint32 {
		return nil, fmt.Errorf("manifest: no epoch above %d", r.Above)
	}
	epoch := r.Above + 1
	g := int64(epoch)
	next := &Record{
		Version: Version, Log: r.Log, UID: r.UID, Header: r.Header, State: StateOpen,
		Revision: 1, Epoch: epoch, ActivityRule: RuleUserPrompt,
		Commit:      CommitInfo{ID: newCommitID(), Writer: w.ID, At: at, Software: w.Software},
		Owner:       &Owner{Writer: w.ID, Generation: g, Label: w.Label, Released: true},
		Next:        r.Content.Tree.Size,
		Generations: []Takeover{{Generation: g, Writer: w.ID, Kind: KindRebuild, First: r.Content.Tree.Size, At: at}},
		Content:     r.Content, Origin: r.Origin, Lifecycle: lifecycleOf(r, at), Segments: slices.Clone(r.Segments), Tail: r.Tail,
	}
	in := Intent{
		Kind: IntentTakeover, Log: r.Log, UID: r.UID, Commit: next.Commit.ID, Writer: w.ID,
		Generation: g, Start: next.Next, End: next.Next, Revision: next.Revision,
	}
	if r.Over {
		in.Base = "damaged" // no commit's id: what is there has none that can be read
	}
	body, err := next.Encode()
	if err != nil {
		return nil, err
	}
	return &Proposal{Record: next, Body: body, Intent: in}, nil
}

// lifecycleOf is the newest lifecycle as far as the events tell: it began behind
// the newest boundary. How many events closed a turn before that is not known.
func lifecycleOf(r Rebuilt, at int64) *Lifecycle {
	b, o := r.Content.Boundary, r.Origin
	l := &Lifecycle{Kind: o.Kind, Inherited: o.Inherited, First: o.Inherited, At: at}
	if b == nil {
		return l
	}
	if b.Time >= 0 {
		l.At = b.Time
	}
	if o.Kind == KindFresh || b.Seq > o.Inherited {
		l.Kind, l.Inherited = KindResume, b.Seq
	}
	l.First = max(l.First, b.Seq+1)
	return l
}

// ParseOrigin reads an origin as the index of a segment holds it, or a manifest
// that somebody has saved again with white space.
func ParseOrigin(raw []byte) (*Origin, error) {
	value := jsontext.Value(bytes.Clone(raw))
	if err := value.Compact(); err != nil {
		return nil, fmt.Errorf("%w: origin: %w", segment.ErrCorrupt, err)
	}
	d := newDecoder(slices.Concat([]byte(`{"origin":`), value, []byte("}\n")))
	d.begin('{')
	o := d.origin()
	d.end('}')
	d.finish()
	if d.err != nil {
		return nil, fmt.Errorf("%w: origin: %w", segment.ErrCorrupt, d.err)
	}
	return o, nil
}
