package manifest

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/s3log/s3log/segment"
)

// Bounds of a record. Those in bytes count the JSON encoding, of a string
// without its quotes.
const (
	MaxManifest    = 512 << 10 // bytes of the manifest of an open log
	MaxTombstone   = 32 << 10  // bytes of a tombstone or void
	MaxHeader      = 32 << 10  // bytes of Header
	MaxUnknown     = 16 << 10  // bytes of Critical and Unknown together
	MaxTail        = 128 << 10 // bytes of Tail in base64
	MaxLabel       = 128       // bytes of Owner.Label
	MaxSoftware    = 128       // bytes of CommitInfo.Software
	MaxToken       = 64        // bytes of UID, and of ids of commits and writers
	MaxRule        = 64        // bytes of ActivityRule
	MaxKind        = 32        // bytes of a kind
	MaxGenerations = 64
	MaxKeys        = 256
	MaxSegments    = 512
	MaxRetired     = 256
)

// Validate checks every rule between the fields of r and every bound but that
// of the whole (which AppendTo and Decode check). A part that is larger than a
// caller may make it is segment.ErrTooLarge.
func (r *Record) Validate() error {
	if r.Version != Version {
		return fmt.Errorf("version %d is not %d", r.Version, Version)
	}
	if err := r.validateBasics(); err != nil {
		return err
	}
	switch r.State {
	case StateOpen:
		return cmp.Or(r.validateOwnership(), r.validateContent())
	case StateDeleted:
		return cmp.Or(r.validateOwnership(), r.validateAbsence())
	case StateVoid:
		return r.validateAbsence()
	}
	return fmt.Errorf("state %.40q is none of %q, %q, %q", r.State, StateOpen, StateDeleted, StateVoid)
}

// Check reports what is wrong with what a writer says of itself, before any of
// its commits is refused for it.
func (w Writer) Check() error {
	return cmp.Or(
		checkToken("writer", w.ID),
		checkText("label", w.Label, MaxLabel),
		checkText("software", w.Software, MaxSoftware),
		checkLease(w.Lease),
	)
}

// MinLease is the shortest lease: below it the precision of clocks, which is a
// few seconds, would be a part of it that matters.
const MinLease = 15 * time.Second

func checkLease(term time.Duration) error {
	if term != 0 && (term < MinLease || term > maxLease) {
		return fmt.Errorf("a lease of %s: it must be at least %s, and at most %s", term, MinLease, maxLease)
	}
	return nil
}

// maxLease is longer than anybody can want to keep a dead writer's log locked.
const maxLease = 30 * 24 * time.Hour

// validateBasics checks what every state has.
func (r *Record) validateBasics() error {
	if err := CheckID(r.Log); err != nil {
		return err
	}
	if err := checkCritical(r.Critical); err != nil {
		return err
	}
	if n := len(r.Unknown); n > MaxUnknown {
		return tooLarge("unknown members", n, MaxUnknown)
	}
	if err := checkUnknown(r.Unknown); err != nil {
		return err
	}
	switch {
	case r.Revision < 1 || !safe(r.Revision):
		return fmt.Errorf("revision %d", r.Revision)
	case r.Epoch < 1:
		return fmt.Errorf("epoch %d", r.Epoch)
	}
	return cmp.Or(
		checkToken("id of the commit", r.Commit.ID),
		checkToken("writer of the commit", r.Commit.Writer),
		checkText("software of the commit", r.Commit.Software, MaxSoftware),
		checkTime("commit", r.Commit.At),
	)
}

// validateAbsence checks that nothing is set that a tombstone or a void drops.
func (r *Record) validateAbsence() error {
	s := &r.Content
	rest := r.Header != nil || r.ActivityRule != "" || r.Origin != nil || r.Lifecycle != nil ||
		len(r.Segments) > 0 || len(r.Retired) > 0 || len(r.Tail) > 0 || r.Lease != nil ||
		s.LastTime != nil || s.MaxTime != nil || s.Activity != nil || s.Boundary != nil || s.Turn != nil ||
		len(s.Types.Entries) > 0 || s.Types.Overflow != nil || s.Tree.Size != 0 || len(s.Tree.Range) > 0
	if r.State == StateVoid {
		rest = rest || r.UID != "" || r.Owner != nil || len(r.Generations) > 0 || len(r.Keys) > 0 || r.Next != 0
	}
	if rest {
		return fmt.Errorf("state %s with fields that it does not have", r.State)
	}
	return nil
}

// validateOwnership checks owner, generations, keys and next.
func (r *Record) validateOwnership() error {
	if err := checkToken("uid", r.UID); err != nil {
		return err
	}
	if r.Next < 0 || !safe(r.Next) {
		return fmt.Errorf("next %d", r.Next)
	}
	if r.Owner == nil {
		return errors.New("no owner")
	}
	if err := cmp.Or(checkToken("owner", r.Owner.Writer), checkText("label", r.Owner.Label, MaxLabel)); err != nil {
		return err
	}
	if err := r.validateGenerations(); err != nil {
		return err
	}
	if n := len(r.Keys); n > MaxKeys {
		return fmt.Errorf("%d keys, at most %d are kept", n, MaxKeys)
	}
	free := int64(0) // first seq that no earlier keyed append has
	for _, k := range r.Keys {
		if len(k.Key) != 16 || !lowerHex(k.Key) || len(k.Digest) != 16 || !lowerHex(k.Digest) {
			return fmt.Errorf("key %.40q with digest %.40q: each must be 16 lower-case hex digits", k.Key, k.Digest)
		}
		if k.First < free || k.Count < 1 || k.Count > r.Next-k.First {
			return fmt.Errorf("key %s has %d events from seq %d on, with %d taken and a log that ends at %d", k.Key, k.Count, k.First, free, r.Next)
		}
		free = k.First + k.Count
	}
	return nil
}

func (r *Record) validateGenerations() error {
	n := len(r.Generations)
	if n == 0 || n > MaxGenerations {
		return fmt.Errorf("%d generations, 1 … %d are kept", n, MaxGenerations)
	}
	var before Takeover
	for i, t := range r.Generations {
		if err := cmp.Or(checkToken("writer of a generation", t.Writer), checkKind(t.Kind), checkTime("generation", t.At)); err != nil {
			return err
		}
		switch {
		case t.Generation < 1 || !safe(t.Generation):
			return fmt.Errorf("generation %d", t.Generation)
		case i > 0 && t.Generation != before.Generation+1:
			return fmt.Errorf("generation %d follows %d", t.Generation, before.Generation)
		case t.First < before.First || t.First > r.Next:
			return fmt.Errorf("generation %d began at seq %d, the one before at %d, the log ends at %d", t.Generation, t.First, before.First, r.Next)
		}
		before = t
	}
	if o := r.Owner; o.Generation != before.Generation || o.Writer != before.Writer {
		return fmt.Errorf("owner is %q of generation %d, the newest generation is %d of %q", o.Writer, o.Generation, before.Generation, before.Writer)
	}
	return nil
}

// validateContent checks what only an open log has.
func (r *Record) validateContent() error {
	if err := checkHeader(r.Header); err != nil {
		return err
	}
	if err := r.Content.Validate(r.Next); err != nil {
		return err
	}
	if r.ActivityRule == "" {
		return errors.New("no activity rule")
	}
	if err := checkText("activity rule", r.ActivityRule, MaxRule); err != nil {
		return err
	}
	if r.Lease != nil {
		if err := checkTime("lease", r.Lease.Until); err != nil {
			return err
		}
	}
	if err := r.validateHistory(); err != nil {
		return err
	}
	return r.validateObjects()
}

// validateHistory checks origin and lifecycle.
func (r *Record) validateHistory() error {
	o, l := r.Origin, r.Lifecycle
	if o == nil || l == nil {
		return errors.New("no origin or no lifecycle")
	}
	if err := cmp.Or(checkKind(o.Kind), checkKind(l.Kind), checkTime("lifecycle", l.At)); err != nil {
		return err
	}
	if o.Inherited < 0 || o.Inherited > r.Next {
		return fmt.Errorf("origin: %d events inherited, the log has %d", o.Inherited, r.Next)
	}
	if p := o.Parent; p != nil {
		if err := cmp.Or(CheckID(p.Log), checkToken("uid of the parent", p.UID)); err != nil {
			return err
		}
		if p.UpTo < 0 || !safe(p.UpTo) {
			return fmt.Errorf("parent up to %d", p.UpTo)
		}
	}
	switch {
	case o.Kind == KindFresh && (o.Inherited != 0 || o.Parent != nil):
		return errors.New("a fresh log inherits nothing and has no parent")
	case o.Kind == KindFork && o.Parent == nil:
		return errors.New("a fork without a parent")
	case o.Kind == KindFork && o.Parent.UpTo != o.Inherited:
		return fmt.Errorf("a fork of %d events inherited %d", o.Parent.UpTo, o.Inherited)
	}
	if l.Inherited < 0 || l.Closers < 0 || l.First < 0 || l.Inherited > r.Next || l.Closers > r.Next || l.First > r.Next {
		return fmt.Errorf("lifecycle: %d events inherited, %d closers, from seq %d on, in a log of %d", l.Inherited, l.Closers, l.First, r.Next)
	}
	return nil
}

// validateObjects checks segments, retired and tail.
func (r *Record) validateObjects() error {
	if n := len(r.Segments); n > MaxSegments {
		return fmt.Errorf("%d segments: %w (at most %d)", n, segment.ErrTooLarge, MaxSegments)
	}
	sealed := int64(0)
	for i := range r.Segments {
		s := &r.Segments[i]
		switch {
		case s.Name.First != sealed:
			return fmt.Errorf("segment %s follows %d sealed events", s.Name, sealed)
		case s.Name.Epoch < 1 || s.Name.Epoch > r.Epoch:
			return fmt.Errorf("segment %s is of another epoch than 1 … %d", s.Name, r.Epoch)
		case s.Count < 1 || s.Count > r.Next-sealed:
			return fmt.Errorf("segment %s has %d events, the log ends at %d", s.Name, s.Count, r.Next)
		case s.Bytes < 1 || !safe(s.Bytes) || s.Raw < 1 || !safe(s.Raw):
			return fmt.Errorf("segment %s has %d bytes for %d", s.Name, s.Bytes, s.Raw)
		}
		sealed += s.Count
	}
	if n := base64.StdEncoding.EncodedLen(len(r.Tail)); n > MaxTail {
		return tooLarge("tail", n, MaxTail)
	}
	if (len(r.Tail) == 0) != (sealed == r.Next) {
		return fmt.Errorf("a tail of %d bytes, with %d of %d events sealed", len(r.Tail), sealed, r.Next)
	}
	if n := len(r.Retired); n > MaxRetired {
		return fmt.Errorf("%d retired segments, at most %d are kept", n, MaxRetired)
	}
	for _, t := range r.Retired {
		if t.Name.First < 0 || t.Name.First >= r.Next || t.Name.Epoch < 1 || t.Name.Epoch > r.Epoch {
			return fmt.Errorf("retired segment %s in a log of %d events in epoch %d", t.Name, r.Next, r.Epoch)
		}
		if r.names(t.Name) {
			return fmt.Errorf("segment %s is in use and retired", t.Name)
		}
		if err := checkTime("retired segment", t.At); err != nil {
			return err
		}
	}
	return nil
}

// names reports whether r's segments, which are in order, include n.
func (r *Record) names(n Name) bool {
	i, ok := slices.BinarySearchFunc(r.Segments, n.First, func(s SegmentRef, first int64) int {
		return int(min(1, max(-1, s.Name.First-first)))
	})
	return ok && r.Segments[i].Name == n
}

// checkCritical refuses extensions that this version does not know: all.
func checkCritical(names []string) error {
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the manifest needs a program that knows %.80q; upgrade this one", segment.ErrUnsupportedVersion, names[0])
}

// checkHeader checks that a header is one JSON object on one line.
func checkHeader(h []byte) error {
	if h == nil {
		return nil
	}
	if len(h) > MaxHeader {
		return tooLarge("header", len(h), MaxHeader)
	}
	switch {
	case len(h) == 0 || h[0] != '{' || h[len(h)-1] != '}':
		return errors.New("header is not a JSON object, or has white space around it")
	case bytes.IndexByte(h, '\n') >= 0:
		return errors.New("header holds a newline")
	}
	return checkJSON("header", h, 1)
}

// checkJSON checks that v is valid JSON as far as it is kept verbatim: lone
// surrogate escapes and duplicate names may be in it. above is the depth that
// it is stored at.
func checkJSON(what string, v []byte, above int) error {
	switch {
	case !utf8.Valid(v):
		return fmt.Errorf("%s is not valid UTF-8", what)
	case !jsontext.Value(v).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)):
		return fmt.Errorf("%s is not valid JSON, or too deep", what)
	case depth(v)+above > segment.MaxDepth:
		return fmt.Errorf("%s is too deep", what)
	}
	return nil
}

// depth is how deep objects and arrays nest in a valid JSON text.
func depth(v []byte) int {
	if n := bytes.Count(v, []byte{'['}) + bytes.Count(v, []byte{'{'}); n < segment.MaxDepth/2 {
		return n // at most, which will do
	}
	level, deepest, quoted := 0, 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			level++
			deepest = max(deepest, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return deepest
}

// checkUnknown checks that raw is a list of members that this version does not
// know, spelled as Decode reads them.
func checkUnknown(raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	object := slices.Concat([]byte{'{'}, raw, []byte{'}'})
	if err := checkJSON("unknown members", object, 0); err != nil {
		return err
	}
	d := newDecoder(slices.Concat([]byte{'{'}, raw, []byte(sumStart+`"}`)))
	d.begin('{')
	switch again := d.unknown("sum"); {
	case d.err != nil:
		return fmt.Errorf("unknown members: %w", d.err)
	case !bytes.Equal(again, raw):
		return errors.New("unknown members with white space between them")
	}
	return nil
}

// checkToken checks an id that we or another writer made up.
func checkToken(what, s string) error {
	if s == "" {
		return fmt.Errorf("no %s", what)
	}
	return checkText(what, s, MaxToken)
}

// checkText checks a text whose JSON encoding is bounded.
func checkText(what, s string, limit int) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s is not valid UTF-8", what)
	}
	if 6*len(s) <= limit { // no byte needs more than \u00xx
		return nil
	}
	if n := len(segment.AppendString(nil, s)) - len(`""`); n > limit {
		return tooLarge(what, n, limit)
	}
	return nil
}

// checkKind checks the name of a kind, known or not.
func checkKind(kind string) error {
	ok := kind != "" && len(kind) <= MaxKind
	for i := range len(kind) {
		c := kind[i]
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if !ok {
		return fmt.Errorf("kind %.40q is not 1 … %d of [a-z0-9-]", kind, MaxKind)
	}
	return nil
}

func checkTime(what string, ms int64) error {
	if ms < 0 || !safe(ms) {
		return fmt.Errorf("time %d of the %s", ms, what)
	}
	return nil
}

// safe reports whether every JSON reader represents v exactly.
func safe(v int64) bool { return -segment.MaxSeq <= v && v <= segment.MaxSeq }

func tooLarge(what string, n, limit int) error {
	return fmt.Errorf("%s of %d bytes: %w (at most %d)", what, n, segment.ErrTooLarge, limit)
}
