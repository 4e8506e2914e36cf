package s3store

import (
	"crypto/fips140"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Some servers answer a read that meets an overwrite with the ETag of one
// version and the body of the other. A writer that takes such a pair for a
// version conditions its next write on something that was never there. Where
// ETags are MD5s, which the store's own writes show, such a reply can be told
// from a sound one. Only objects that are overwritten can be read so; those are
// the manifests.

const (
	tornTries  = 3            // further reads after one that was torn
	tornPrefix = "manifests/" // keys of objects that change

	hintTorn = "the server, or a proxy in front of it, answers with the ETag of one version and the body of another; docs/providers.md says which servers are sound"
)

// errTorn marks a body that is not the ETag's.
var errTorn = errors.New("ETag and body are those of different versions")

// tags is what the ETags of a store's own writes have shown. The zero value
// knows nothing.
type tags struct {
	md5   atomic.Bool // one was its body's MD5
	other atomic.Bool // one was not: nothing can be said of any
	// doubt is an ETag that a write was answered with where they were MD5s.
	doubt atomic.Pointer[string]
	// read is what was read last before a write has shown anything. It is looked at
	// only where the reply to the first write is no MD5.
	read atomic.Pointer[reading]
}

// reading is a body that was read, with its ETag.
type reading struct {
	body []byte
	etag string
}

// shown reports whether the object that was read last has its MD5 for an ETag.
func (t *tags) shown() bool {
	r := t.read.Load()
	return r != nil && isMD5(md5Of(r.body), r.etag)
}

// matter reports whether anything can be learned from the ETag of key. MD5
// serves no security here, but is not to be had in FIPS mode.
func (*tags) matter(key string) bool {
	return strings.HasPrefix(key, tornPrefix) && !fips140.Enabled()
}

// learn takes the reply to a write of ours into account. sum is the body's MD5,
// or nil if nobody has made it. It reports whether the reply is not to be believed:
// where ETags are MD5s, one that is another's belongs to another request, as on a
// connection whose replies have come out of step.
func (t *tags) learn(key string, body, sum []byte, out *s3.PutObjectOutput) (doubtful bool) {
	changes, etag := t.matter(key), aws.ToString(out.ETag)
	if t.other.Load() || versionOf(out.ETag).IsZero() { // no ETag at all says nothing
		return false
	}
	if sum == nil {
		if !changes {
			return false
		}
		sum = md5Of(body)
	}
	switch {
	case isMD5(sum, etag):
		if changes {
			t.md5.Store(true)
			t.read.Store(nil)
		}
		return false
	case !t.md5.Load() && (encrypted(out.SSECustomerAlgorithm, out.ServerSideEncryption) || !t.shown()):
		if changes {
			t.other.Store(true)
			t.read.Store(nil)
		}
		return false
	case encrypted(out.SSECustomerAlgorithm, out.ServerSideEncryption):
		return false
	}
	t.doubt.Store(&etag)
	return true
}

// torn reports whether a reply to a read of a whole object cannot be sound.
// Objects that others have written may be encrypted where ours are not, and
// copies of large objects are made in parts: their ETags are no MD5s.
func (t *tags) torn(key string, body []byte, out *s3.GetObjectOutput) bool {
	if !t.matter(key) || t.other.Load() || encrypted(out.SSECustomerAlgorithm, out.ServerSideEncryption) {
		return false
	}
	etag := aws.ToString(out.ETag)
	if doubt := t.doubt.Load(); doubt != nil && *doubt == etag {
		t.other.Store(true) // it was the store's: ETags are no MD5s any more
		return false
	}
	if !t.md5.Load() {
		t.read.Store(&reading{body, etag})
		return false
	}
	return looksLikeMD5(etag) && !isMD5(md5Of(body), etag)
}

// encrypted reports whether an object is encrypted in a way in which its ETag is
// no MD5.
func encrypted(customer *string, sse types.ServerSideEncryption) bool {
	return customer != nil || sse != "" && sse != types.ServerSideEncryptionAes256
}

func md5Of(body []byte) []byte {
	sum := md5.Sum(body)
	return sum[:]
}

func isMD5(sum []byte, etag string) bool {
	return strings.EqualFold(strings.Trim(etag, `"`), hex.EncodeToString(sum))
}

func looksLikeMD5(etag string) bool {
	b, err := hex.DecodeString(strings.Trim(etag, `"`))
	return err == nil && len(b) == md5.Size
}
