package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/s3log/s3log/segment"
)

// Writer is who commits. Its ID is fresh for every open handle: a generation is
// owned by a handle, never by a host, a process or a function's name.
type Writer struct {
	ID       string
	Label    string // for people: at most MaxLabel bytes of JSON
	Software string // name and version of the program
	// Lease is for how long every commit of this writer, as the owner, asks
	// others not to take the log over; 0 asks nothing, else at least MinLease.
	Lease time.Duration
}

// NewWriter gives a writer with a fresh id.
func NewWriter(label, software string) Writer {
	return Writer{ID: uuid.NewString(), Label: label, Software: software}
}

// Birth is what a log is created with and keeps for ever.
type Birth struct {
	Log    string
	Header []byte // session header, raw JSON; nil if there is none
	Rule   string // activity rule; empty means RuleUserPrompt
	Types  []string
	Origin Origin
	// Activity is the header's createdAt, ms; nil if it has none.
	Activity *int64
}

// Upload is a segment that this writer wrote to the store itself and a commit
// is about to name, with what the rule of names needs to know of it.
type Upload struct {
	Ref SegmentRef
	// Inputs are the segments that a merge replaces, in order.
	Inputs []Name
	// TailFirst is the first seq that came out of the tail or out of the commit's
	// own events, -1 where the upload holds neither (a merge).
	TailFirst int64
	// Commit is the id of the only commit that may name it, when it holds events
	// that are not committed yet; else empty.
	Commit string
}

// end is the seq after the upload's last event.
func (u *Upload) end() int64 { return u.Ref.Name.First + u.Ref.Count }

// Draft builds the next manifest from the version it will be conditioned on.
// It is one of the legal transitions, begun by Create, TakeOver, Continue or
// Maintain, followed by any of the methods, and ended by Finish. A draft changes
// neither its base nor anything outside itself. Not safe for concurrent use.
type Draft struct {
	base    *Record
	next    *Record
	fold    *Fold
	kind    IntentKind
	uploads []Upload
	keys    []KeyEntry
	lines   []byte // of the events added, each with LF
	// inherited counts the events that Inherit brought.
	inherited int64
	err       error
}

// Create begins a log on nothing (base nil) or on a void. at is the store's
// time in ms.
func Create(base *Record, w Writer, b Birth, at int64) (*Draft, error) {
	if base != nil && base.State != StateVoid {
		return nil, existing(base)
	}
	if err := CheckID(b.Log); err != nil {
		return nil, err
	}
	rule := b.Rule
	if rule == "" {
		rule = RuleUserPrompt
	}
	next := &Record{Version: Version, Log: b.Log, Header: b.Header, State: StateOpen, Revision: 1, Epoch: 1, ActivityRule: rule}
	if base != nil {
		next.Revision, next.Epoch = base.Revision+1, base.Epoch+1
		next.Critical, next.Unknown = base.Critical, base.Unknown
	}
	origin := b.Origin
	next.Origin = &origin
	next.Lifecycle = &Lifecycle{Kind: origin.Kind, Inherited: origin.Inherited, First: origin.Inherited, At: notBefore(base, at)}
	next.Content = segment.NewState()
	next.Content.Activity = b.Activity
	if err := next.Content.Types.Reserve(b.Types); err != nil {
		return nil, err
	}
	d := &Draft{base: base, next: next, kind: IntentCreate}
	d.own(w, origin.Kind, 0, at)
	next.UID = next.Commit.ID
	return d, d.startFold()
}

// TakeOver begins the first commit of another writer on an open log. kind is
// KindAdopt, KindResume, KindClaim, KindDelete or KindDecide.
func TakeOver(base *Record, w Writer, kind string, at int64) (*Draft, error) {
	d, err := modify(base, IntentTakeover)
	if err != nil {
		return nil, err
	}
	d.next.Epoch++
	d.own(w, kind, base.Next, at)
	return d, d.startFold()
}

// Continue begins a further commit of the owner. The error is ErrFenced where
// somebody else owns the log by now.
func Continue(base *Record, w Writer, at int64) (*Draft, error) {
	d, err := modify(base, IntentMaintain) // until events are added
	if err != nil {
		return nil, err
	}
	if base.Owner == nil || base.Owner.Writer != w.ID {
		return nil, FencedError(base, w.ID)
	}
	if w.Lease > 0 {
		d.next.Lease = w.lease(at)
	}
	d.sign(w, at)
	return d, d.startFold()
}

// Maintain begins a commit by anybody that changes no event and no owner.
func Maintain(base *Record, w Writer, at int64) (*Draft, error) {
	d, err := modify(base, IntentMaintain)
	if err != nil {
		return nil, err
	}
	d.sign(w, at)
	return d, d.startFold()
}

func modify(base *Record, kind IntentKind) (*Draft, error) {
	switch {
	case base == nil || base.State == StateVoid:
		return nil, ErrNotFound
	case base.State == StateDeleted:
		return nil, ErrDeleted
	}
	next := *base
	next.Revision++
	return &Draft{base: base, next: &next, kind: kind}, nil
}

// lease is what a commit of w at the time at asks for.
func (w Writer) lease(at int64) *Lease {
	if w.Lease == 0 {
		return nil
	}
	return &Lease{Until: at + w.Lease.Milliseconds()}
}

// own makes w the owner of a new generation. The lease of the one before is over.
func (d *Draft) own(w Writer, kind string, first, at int64) {
	g := d.base.Generation() + 1
	d.next.Owner = &Owner{Writer: w.ID, Generation: g, Label: w.Label}
	d.next.Lease = w.lease(at)
	d.sign(w, at)
	d.next.Generations = appendCapped(d.next.Generations, MaxGenerations,
		Takeover{Generation: g, Writer: w.ID, Kind: kind, First: first, At: d.next.Commit.At})
}

// sign makes it a commit of w, which forgets on this occasion what was retired
// long ago.
func (d *Draft) sign(w Writer, at int64) {
	d.dropRetired(Removal{Now: at, Grace: KeepRetired})
	d.next.Commit = CommitInfo{ID: newCommitID(), Writer: w.ID, At: notBefore(d.base, at), Software: w.Software}
}

// clockSteps is by how much the store's clock may seem to go backwards from one
// commit to the next: it is read from replies that say whole seconds, and in a
// process that has had none yet it is the local clock. By more, one of two clocks
// is wrong, and nobody can say which.
const clockSteps = 5000 // ms

// notBefore is the time of a commit, or that of its base if it is a little later:
// times of a log are in the order of its commits as far as clocks go.
func notBefore(base *Record, at int64) int64 {
	if base != nil && base.Commit.At > at && base.Commit.At-at <= clockSteps {
		return base.Commit.At
	}
	return at
}

func (d *Draft) startFold() (err error) {
	d.fold, err = NewFold(d.next.Content, d.next.ActivityRule)
	return err
}

// CommitID is the id that this commit will have.
func (d *Draft) CommitID() string { return d.next.Commit.ID }

// Base is the record that the draft builds on; nil for a create on nothing.
func (d *Draft) Base() *Record { return d.base }

// Next is the seq of the next event.
func (d *Draft) Next() int64 { return d.next.Next }

// Epoch is the epoch that this commit results in: the one that a segment must
// carry which is uploaded for it.
func (d *Draft) Epoch() uint32 { return d.next.Epoch }

// MaxTime is the greatest time of any event so far, nil if there is none.
func (d *Draft) MaxTime() *int64 { return d.fold.state.MaxTime }

// Append adds the next event.
func (d *Draft) Append(e segment.Event) {
	if d.next.State != StateOpen {
		d.fail(ErrDeleted)
		return
	}
	if e.Seq != d.next.Next {
		d.fail(fmt.Errorf("%w: event carries seq %d, the log continues at %d", segment.ErrSeqMismatch, e.Seq, d.next.Next))
		return
	}
	d.fold.Add(e)
	d.lines = append(append(d.lines, e.Line...), '\n')
	d.next.Next++
	if d.kind == IntentMaintain {
		d.kind = IntentAppend
	}
}

// Preview is the record as it would be with the events added so far, for whoever
// judges it before it is committed. It is not to be encoded.
func (d *Draft) Preview() *Record {
	r := *d.next
	r.Content = d.fold.State()
	return &r
}

// Lines are the events added so far, each with its LF, and how many they are.
func (d *Draft) Lines() (raw []byte, count int64) {
	var first int64
	if d.base != nil {
		first = d.base.Next
	}
	return d.lines, d.next.Next - first - d.inherited
}

// Inherit begins a log with events that were encoded elsewhere: state is that
// after the last of them, parent where they come from, if from another log. It
// comes before every Append, on a create only.
func (d *Draft) Inherit(state segment.State, parent *Parent) {
	if d.kind != IntentCreate || d.next.Next != 0 {
		d.fail(errors.New("manifest: only a create without events inherits"))
		return
	}
	fold, err := NewFold(state, d.next.ActivityRule)
	if err != nil {
		d.fail(err)
		return
	}
	d.fold = fold
	d.inherited, d.next.Next = state.Tree.Size, state.Tree.Size
	d.next.Origin = &Origin{Kind: d.next.Origin.Kind, Inherited: state.Tree.Size, Parent: parent}
}

// Begin says that a new lifecycle starts with the next event.
func (d *Draft) Begin(kind string, inherited, closers int64) {
	d.next.Lifecycle = &Lifecycle{Kind: kind, Inherited: inherited, Closers: closers, First: d.next.Next, At: d.next.Commit.At}
}

// Keyed notes the receipt of a keyed append whose events were just added.
func (d *Draft) Keyed(e KeyEntry) {
	d.keys = append(d.keys, e)
	d.next.Keys = appendCapped(d.next.Keys, MaxKeys, e)
}

// LookupKey is Record.LookupKey on the base and on what was keyed since.
func (d *Draft) LookupKey(key, digest string) (entry KeyEntry, found bool, err error) {
	return d.next.LookupKey(key, digest)
}

// Rule is the log's activity rule.
func (d *Draft) Rule() string { return d.next.ActivityRule }

// UID is the uid of the log.
func (d *Draft) UID() string { return d.next.UID }

// Birth gives what the first segment of a log carries of its manifest.
func (d *Draft) Birth() (header []byte, origin *Origin) { return d.next.Header, d.next.Origin }

// AppendOrigin appends an origin's JSON, as manifests and segments hold it.
func AppendOrigin(dst []byte, o *Origin) []byte { return o.appendJSON(dst) }

// SetTail replaces the encoded tail: zstd frames with all events that no
// segment of the next manifest holds.
func (d *Draft) SetTail(frames []byte) { d.next.Tail = frames }

// Seal names a segment that takes over events of the tail, or of this commit,
// up to its last one. The caller sets the tail that remains.
func (d *Draft) Seal(u Upload) {
	d.uploads = append(d.uploads, u)
	d.next.Segments = append(slices.Clip(slices.Clone(d.next.Segments)), u.Ref)
}

// Merge names a segment in the place of its inputs, which are retired.
func (d *Draft) Merge(u Upload) {
	i := slices.IndexFunc(d.next.Segments, func(s SegmentRef) bool { return len(u.Inputs) > 0 && s.Name == u.Inputs[0] })
	if i < 0 || i+len(u.Inputs) > len(d.next.Segments) {
		d.fail(fmt.Errorf("%w: %s: its inputs are not named any more", ErrStaleUpload, u.Ref.Name))
		return
	}
	for j, in := range u.Inputs {
		if d.next.Segments[i+j].Name != in {
			d.fail(fmt.Errorf("%w: %s: its input %s is not named any more", ErrStaleUpload, u.Ref.Name, in))
			return
		}
		d.next.Retired = appendCapped(d.next.Retired, MaxRetired, Retired{Name: in, At: d.next.Commit.At})
	}
	d.uploads = append(d.uploads, u)
	d.next.Segments = slices.Concat(d.next.Segments[:i], []SegmentRef{u.Ref}, d.next.Segments[i+len(u.Inputs):])
}

// Release says that the owner knows this commit to be its last.
func (d *Draft) Release() {
	owner := *d.next.Owner
	owner.Released = true
	d.next.Owner = &owner
	d.next.Lease = nil
}

// Delete makes a takeover (kind KindDelete) leave a tombstone: it keeps what
// decides about commits and keys (uid, counters, generations, keys, next and
// what this version does not know) and drops the rest. No event may be added.
func (d *Draft) Delete() {
	n := d.next
	if d.kind != IntentTakeover || n.Next != d.base.Next {
		d.fail(errors.New("manifest: only a takeover without events deletes a log"))
		return
	}
	n.State = StateDeleted
	n.Header, n.ActivityRule, n.Origin, n.Lifecycle = nil, "", nil, nil
	n.Segments, n.Retired, n.Tail, n.Lease = nil, nil, nil, nil
}

// Barrier makes a maintenance commit raise the epoch above its own and above
// highest, so that no upload that has begun by now can be named any more.
func (d *Draft) Barrier(highest uint32) {
	above := max(d.next.Epoch, highest)
	if d.kind != IntentMaintain || above == math.MaxUint32 {
		d.fail(fmt.Errorf("manifest: no barrier above epoch %d by a commit of kind %s", above, d.kind))
		return
	}
	d.next.Epoch = above + 1
}

func (d *Draft) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// State is the state of the log after the events added so far.
func (d *Draft) State() segment.State { return d.fold.State() }

// Proposal is a finished manifest: what the commit loop sends.
type Proposal struct {
	Record *Record
	Body   []byte // its encoding; every attempt sends these bytes
	Intent Intent
}

// Finish checks the rule of names and every bound, and encodes the manifest.
// Errors: ErrStaleUpload where a segment may not be named by this commit,
// segment.ErrTooLarge where a bound is exceeded.
func (d *Draft) Finish() (*Proposal, error) {
	if d.err != nil {
		return nil, d.err
	}
	next := d.next
	next.Content = segment.State{} // of a tombstone
	if next.State == StateOpen {
		next.Content = d.fold.State()
	}
	if err := rules.names(d.base, next, d.uploads); err != nil {
		return nil, err
	}
	in := Intent{
		Kind: d.kind, Log: next.Log, UID: next.UID, Commit: next.Commit.ID, Writer: next.Commit.Writer,
		Generation: next.Generation(), End: next.Next, Revision: next.Revision, Keys: d.keys,
	}
	if d.base != nil {
		in.Start, in.Base = d.base.Next, d.base.Commit.ID
	}
	body, err := next.Encode()
	for next.State == StateDeleted && errors.Is(err, segment.ErrTooLarge) && next.shorten() {
		body, err = next.Encode()
	}
	if err != nil {
		return nil, err
	}
	return &Proposal{Record: next, Body: body, Intent: in}, nil
}

// shorten drops the oldest receipt of a tombstone, which has less room than a
// log, and when none is left the oldest takeover: as with further appends and
// takeovers, what they would have told is unknown then, never wrong. It reports
// whether there was anything to drop.
func (r *Record) shorten() bool {
	switch {
	case len(r.Keys) > 0:
		r.Keys = r.Keys[1:]
	case len(r.Generations) > 1:
		r.Generations = r.Generations[1:]
	default:
		return false
	}
	return true
}

// rules are the functions that the protocol's safety rests on, gathered so that
// the explorer in the tests can break each and must notice.
var rules = struct {
	judge func(Intent, *Record) Verdict
	names func(base, next *Record, uploads []Upload) error
}{Judge, checkNames}

// checkNames is the rule of names (docs/consistency.md): a commit may newly name a
// segment only if its epoch is the one that this commit results in, and if its
// content still fits the version that the commit is conditioned on. Nobody
// names an object that it did not upload itself.
func checkNames(base, next *Record, uploads []Upload) error {
	var before []SegmentRef
	var tailFirst, committed int64
	if base != nil {
		before, tailFirst, committed = base.Segments, base.TailFirst(), base.Next
	}
	named := func(n Name) bool {
		i, found := slices.BinarySearchFunc(before, n.First, func(s SegmentRef, first int64) int { return cmp.Compare(s.Name.First, first) })
		return found && before[i].Name == n
	}
	for _, u := range uploads {
		if named(u.Ref.Name) {
			return fmt.Errorf("%w: %s: is named already", ErrStaleUpload, u.Ref.Name)
		}
	}
	for _, ref := range next.Segments {
		if named(ref.Name) {
			continue
		}
		i := slices.IndexFunc(uploads, func(u Upload) bool { return u.Ref.Name == ref.Name })
		if i < 0 {
			return fmt.Errorf("%w: %s: not uploaded by this writer", ErrStaleUpload, ref.Name)
		}
		u := &uploads[i]
		if err := checkEpoch(u, next); err != nil {
			return err
		}
		if err := checkContent(u, next, named, tailFirst, committed); err != nil {
			return err
		}
		if u.TailFirst >= 0 {
			tailFirst = u.end() // where a further upload of the same commit goes on
		}
		if base != nil && slices.ContainsFunc(base.Retired, func(r Retired) bool { return r.Name == ref.Name }) {
			return fmt.Errorf("%w: %s: was named before", ErrStaleUpload, ref.Name)
		}
	}
	return nil
}

func checkEpoch(u *Upload, next *Record) error {
	if u.Ref.Name.Epoch != next.Epoch {
		return fmt.Errorf("%w: %s: begun in epoch %d, this commit results in %d", ErrStaleUpload, u.Ref.Name, u.Ref.Name.Epoch, next.Epoch)
	}
	return nil
}

func checkContent(u *Upload, next *Record, named func(Name) bool, tailFirst, committed int64) error {
	for _, in := range u.Inputs {
		if !named(in) {
			return fmt.Errorf("%w: %s: its input %s is not named any more", ErrStaleUpload, u.Ref.Name, in)
		}
	}
	if u.TailFirst >= 0 && u.TailFirst != tailFirst {
		return fmt.Errorf("%w: %s: its tail part starts at %d, the tail now at %d", ErrStaleUpload, u.Ref.Name, u.TailFirst, tailFirst)
	}
	// Where the log ends now says nothing about an upload that was made of
	// uncommitted events: others may stand in their place.
	own := u.Commit != "" || u.end() > committed
	if own && u.Commit != next.Commit.ID || u.end() > next.Next {
		return fmt.Errorf("%w: %s: holds events that this commit does not commit", ErrStaleUpload, u.Ref.Name)
	}
	return nil
}

// TailFirst is the seq of the first event of the tail: the number of events in
// segments.
func (r *Record) TailFirst() int64 {
	if r == nil || len(r.Segments) == 0 {
		return 0
	}
	last := r.Segments[len(r.Segments)-1]
	return last.Name.First + last.Count
}

// appendCapped appends to a list that keeps its newest max entries, without
// touching the array that the base's list may share.
func appendCapped[T any](list []T, max int, e T) []T {
	if len(list) >= max {
		list = list[len(list)-max+1:]
	}
	return append(slices.Clip(list), e)
}

// newCommitID gives a fresh id; tests that compare manifests replace it.
var newCommitID = func() string {
	return uuid.Must(uuid.NewV7()).String()
}
