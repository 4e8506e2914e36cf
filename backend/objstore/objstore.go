// Package objstore is the contract between s3log and the place where its
// objects live: five methods, conditions on every write, and errors that say
// what a caller may conclude. Drivers (s3store, filestore, memstore) implement
// it, decorators (faultstore, tracestore) wrap it, and objstoretest checks all
// of them. It knows no driver, no SDK, and nothing of manifests or segments.
package objstore

import (
	"context"
	"iter"
	"time"
)

// Version is the opaque compare-and-swap token of one state of one object (the
// ETag on S3). The zero Version means "none". Only a read or a write yields
// one; callers compare versions and hand them back, and never look inside.
type Version struct{ token string }

// NewVersion is for drivers: it wraps the store's own token. An empty token is
// the zero Version.
func NewVersion(token string) Version { return Version{token} }

// Token is for drivers: the store's own token, to be sent back in a condition.
func (v Version) Token() string { return v.token }

// IsZero reports whether v is "none": the object was absent, or the store gave
// no token that a condition could use (a weak or missing ETag).
func (v Version) IsZero() bool { return v.token == "" }

// String shows the token in messages.
func (v Version) String() string {
	if v.token == "" {
		return "none"
	}
	return v.token
}

// Condition is what must hold at the instant a Put takes effect. There is no
// unconditional write: the zero Condition is refused by every driver.
type Condition struct {
	absent bool
	match  Version
}

// IfAbsent lets a Put succeed only where no object is (If-None-Match: *).
func IfAbsent() Condition { return Condition{absent: true} }

// IfVersion lets a Put succeed only on exactly this version (If-Match). With
// the zero Version the condition is invalid and every driver refuses it.
func IfVersion(v Version) Condition { return Condition{match: v} }

// Absent reports whether the condition is IfAbsent.
func (c Condition) Absent() bool { return c.absent }

// Match is the version of an IfVersion condition, else the zero Version.
func (c Condition) Match() Version { return c.match }

// Valid reports whether c was made by IfAbsent, or by IfVersion with a version.
func (c Condition) Valid() bool { return c.absent != !c.match.IsZero() }

// String shows the condition in messages and traces.
func (c Condition) String() string {
	switch {
	case !c.Valid():
		return "invalid"
	case c.absent:
		return "if-absent"
	}
	return "if-version " + c.match.String()
}

// Info describes one object at one moment.
type Info struct {
	Key      string
	Size     int64     // bytes of the whole object, also for a ranged Get
	Version  Version   // zero where the store gave none fit for a condition
	Modified time.Time // by the store's clock; zero after a Put that did not say
	// Metadata are the object's user metadata, keys in lower case. Get and Head
	// fill it, List does not. A store may have lost it (a copied directory, a
	// restored bucket): nothing may depend on its presence.
	Metadata map[string]string
	// Date is the store's clock when it answered, to the precision it has (whole
	// seconds on S3); zero where it did not say.
	Date time.Time
}

// Object is an object's content: all of it, or the range that was asked for.
type Object struct {
	Info
	Body []byte
}

// GetOptions narrows a Get. The zero value reads the whole object.
type GetOptions struct {
	// Offset and Length select an explicit range in bytes; Length 0 means the
	// whole object (Offset must then be 0). A range that ends beyond the object
	// is cut at its end; one that starts at or beyond its end is ErrRange.
	Offset, Length int64
	// IfNot, unless zero, makes Get answer ErrNotModified while the object still
	// has this version.
	IfNot Version
	// Limit, unless 0, bounds the bytes that Get will hold in memory: a larger
	// body is ErrTooLarge, before it is read.
	Limit int64
}

// PutOptions are the parts of a Put beside key, body and condition.
type PutOptions struct {
	// Metadata is stored beside the object where the store can. Keys are lower
	// case letters, digits and '-'; values are printable ASCII.
	Metadata map[string]string
	// ContentType is a media type; empty means application/octet-stream.
	ContentType string
}

// Reader is the part of a store that only reads. GetObject permission alone is
// enough for Get and Head.
//
// All methods may be called concurrently, honour ctx, and return an *Error
// (nil on success) that matches one of this package's sentinels.
type Reader interface {
	// Get reads an object, or a range of it. There are no partial results: the
	// body has the announced length, or there is an error. Drivers repeat reads
	// that failed in passing. Errors: ErrNotExist, ErrNotModified, ErrRange,
	// ErrTooLarge, ErrDenied, ErrRefused, ErrUndecided; ErrRejected where key or
	// opt make no sense.
	Get(ctx context.Context, key string, opt GetOptions) (Object, error)
	// Head is Get without a body. Errors: ErrNotExist, ErrDenied, ErrRefused,
	// ErrUndecided.
	Head(ctx context.Context, key string) (Info, error)
	// List yields the objects whose key starts with prefix, in byte order of
	// their keys, beginning after the key after. A failure is yielded last, with
	// a zero Info; what came before it is then not the whole list. An object
	// written before List was called is in it.
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]
}

// Store is what s3log needs of a place for its objects.
type Store interface {
	Reader
	// Put writes a whole object if cond holds. When it returns nil the object is
	// durable and visible to every later Get, Head and List; Info has at least
	// Key, Size and, where the store gave it, Version. On an error Classify says
	// what may be concluded. A Put is never repeated by the driver: whoever
	// called it decides, with identical bytes and the same condition.
	// The body is not kept after Put returned, and is never changed.
	Put(ctx context.Context, key string, body []byte, cond Condition, opt PutOptions) (Info, error)
	// Delete removes an object; removing what is not there is no error.
	// Errors: ErrDenied, ErrRefused, ErrUndecided.
	Delete(ctx context.Context, key string) error
}

// Copier is an optional ability of a Store: to copy an object inside the store
// without its bytes passing through the caller. The copy is created only if dst
// is absent; errors are those of Put, and ErrNotExist where src is not there.
type Copier interface {
	Copy(ctx context.Context, src, dst string) (Info, error)
}
