package manifest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/s3log/s3log/segment"
)

// Trees of keys on a store. Every key of a log is in one of the first two.
const (
	ManifestPrefix = "manifests/"
	SegmentTree    = "segments/"
	ProbePrefix    = "probe/" // write proofs, never part of a log
)

const (
	// MaxID is the longest id of a log, in bytes.
	MaxID = 1024

	manifestSuffix = ".json"
	segmentSuffix  = ".jsonl.zst"

	maxEscaped = 200 // bytes of an escaped id that stands for itself
	cutEscaped = 120 // bytes of a longer one that its key shows
	hashMark   = "=="
	hashDigits = 32
)

// CheckID reports what is wrong with an id: it must be valid UTF-8 of 1 to
// MaxID bytes.
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("log id is empty")
	case len(id) > MaxID:
		return fmt.Errorf("log id of %d bytes: %w (at most %d)", len(id), segment.ErrTooLarge, MaxID)
	case !utf8.ValidString(id):
		return errors.New("log id is not valid UTF-8")
	}
	return nil
}

const upperHex = "0123456789ABCDEF"

// EscapeID is the part of a log's keys that stands for its id. Bytes of
// [A-Za-z0-9._-] stay, any other byte and a leading '.' become =XX (upper-case
// hex). If that has more than 200 bytes, it is cut after exactly 120, even
// inside an =XX, and followed by "==" and the first 32 hex digits of the id's
// SHA-256; "==" occurs in no other escaped id, so the result is injective.
// It contains no '/', does not begin with '.', and has at most 200 bytes.
func EscapeID(id string) string {
	b := make([]byte, 0, len(id)+16)
	for i := range len(id) {
		if c := id[i]; plainByte(c) && (c != '.' || i > 0) {
			b = append(b, c)
		} else {
			b = append(b, '=', upperHex[c>>4], upperHex[c&15])
		}
	}
	if len(b) > maxEscaped {
		sum := sha256.Sum256([]byte(id))
		b = append(b[:cutEscaped], hashMark...)
		b = hex.AppendEncode(b, sum[:hashDigits/2])
	}
	return string(b)
}

// UnescapeID undoes EscapeID. exact is false, and id empty, for an id that was
// too long to stand for itself: then only the manifest knows it. ok is false
// for what EscapeID never makes of a valid id.
func UnescapeID(esc string) (id string, exact, ok bool) {
	if len(esc) == cutEscaped+len(hashMark)+hashDigits && esc[cutEscaped:cutEscaped+len(hashMark)] == hashMark {
		return "", false, hashedID(esc)
	}
	if len(esc) > maxEscaped {
		return "", false, false
	}
	b := make([]byte, 0, len(esc))
	for i := 0; i < len(esc); i++ {
		if c := esc[i]; c != '=' {
			b = append(b, c)
			continue
		}
		if i+2 >= len(esc) {
			return "", false, false
		}
		hi, lo := strings.IndexByte(upperHex, esc[i+1]), strings.IndexByte(upperHex, esc[i+2])
		if hi < 0 || lo < 0 {
			return "", false, false
		}
		b = append(b, byte(hi<<4|lo))
		i += 2
	}
	id = string(b)
	// Only the one spelling that EscapeID makes is accepted: not "=41" for 'A',
	// and nothing raw that had to be escaped.
	if CheckID(id) != nil || EscapeID(id) != esc {
		return "", false, false
	}
	return id, true, true
}

// hashedID reports whether esc, of the right length and with its "==" in place,
// looks like the cut form of some id.
func hashedID(esc string) bool {
	head := esc[:cutEscaped]
	for i := 0; i < len(head); i++ {
		switch c := head[i]; {
		case c == '=':
			// An escape may be cut off by the end of the head.
			for k := 1; k <= 2 && i+k < len(head); k++ {
				if strings.IndexByte(upperHex, head[i+k]) < 0 {
					return false
				}
			}
			i += 2
		case !plainByte(c), c == '.' && i == 0:
			return false
		}
	}
	return lowerHex(esc[cutEscaped+len(hashMark):])
}

// plainByte reports whether c stands for itself in a key.
func plainByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// hexDigits has the value of each lower-case hex digit, and 16 for all else.
var hexDigits = func() (t [256]byte) {
	for c := range t {
		t[c] = 16
	}
	for v, c := range []byte("0123456789abcdef") {
		t[c] = byte(v)
	}
	return t
}()

// lowerHex reports whether s has lower-case hex digits only.
func lowerHex(s string) bool {
	for i := range len(s) {
		if hexDigits[s[i]] > 15 {
			return false
		}
	}
	return true
}

// unhex reads lower-case hex digits, two for each byte of dst; ok is false where
// there is anything else.
func unhex[T string | []byte](dst []byte, s T) (ok bool) {
	for i := range dst {
		hi, lo := hexDigits[s[2*i]], hexDigits[s[2*i+1]]
		if hi|lo > 15 {
			return false
		}
		dst[i] = hi<<4 | lo
	}
	return true
}

// Key is the key of a log's manifest.
func Key(id string) string { return ManifestPrefix + EscapeID(id) + manifestSuffix }

// ParseKey finds the id in the key of a manifest. exact is false, and id
// empty, where only the manifest itself knows the id (UnescapeID); ok is false
// for a key that is no manifest's.
func ParseKey(key string) (id string, exact, ok bool) {
	esc, ok := strings.CutPrefix(key, ManifestPrefix)
	if !ok {
		return "", false, false
	}
	if esc, ok = strings.CutSuffix(esc, manifestSuffix); !ok {
		return "", false, false
	}
	return UnescapeID(esc)
}

// SegmentPrefix is what the keys of all segments of a log begin with.
func SegmentPrefix(id string) string { return SegmentTree + EscapeID(id) + "/" }

// SegmentKey is the key of one segment of a log.
func SegmentKey(id string, n Name) string { return SegmentPrefix(id) + n.String() }

// Nonce makes the name of one upload unlike any other; its text form is 16
// lower-case hex digits.
type Nonce [8]byte

// NewNonce returns a random nonce.
func NewNonce() Nonce {
	var n Nonce
	rand.Read(n[:]) // never fails
	return n
}

// String is the text form.
func (n Nonce) String() string { return hex.EncodeToString(n[:]) }

// Name is the name of a segment, unique within its log. Names are comparable.
type Name struct {
	First int64  // seq of the first event, 0 … segment.MaxSeq
	Epoch uint32 // epoch of the commit that was to name it
	Nonce Nonce
}

// nameLen is the length of a name's text form.
const nameLen = 16 + 1 + 8 + 1 + 16 + len(segmentSuffix)

// AppendTo appends the text form, <first, 16 digits>-<epoch, 8 hex>-<nonce,
// 16 hex>.jsonl.zst.
func (n Name) AppendTo(dst []byte) []byte {
	var num [16]byte
	s := strconv.AppendInt(num[:0], n.First, 10)
	for range 16 - len(s) {
		dst = append(dst, '0')
	}
	dst = append(dst, s...)
	e := [4]byte{byte(n.Epoch >> 24), byte(n.Epoch >> 16), byte(n.Epoch >> 8), byte(n.Epoch)}
	dst = hex.AppendEncode(append(dst, '-'), e[:])
	dst = hex.AppendEncode(append(dst, '-'), n.Nonce[:])
	return append(dst, segmentSuffix...)
}

// String is the text form.
func (n Name) String() string { return string(n.AppendTo(make([]byte, 0, nameLen))) }

// ParseName is the inverse of String and accepts nothing else.
func ParseName(s string) (Name, error) {
	n, ok := parseName(s)
	if !ok {
		return Name{}, fmt.Errorf("%w: %.80q is not the name of a segment", segment.ErrCorrupt, s)
	}
	return n, nil
}

func parseName[T string | []byte](s T) (n Name, ok bool) {
	if len(s) != nameLen || s[16] != '-' || s[25] != '-' || string(s[42:]) != segmentSuffix {
		return n, false
	}
	for i := range 16 {
		if s[i] < '0' || s[i] > '9' {
			return n, false
		}
		n.First = n.First*10 + int64(s[i]-'0')
	}
	var epoch [4]byte
	if n.First > segment.MaxSeq || !unhex(epoch[:], s[17:25]) || !unhex(n.Nonce[:], s[26:42]) {
		return n, false
	}
	n.Epoch = binary.BigEndian.Uint32(epoch[:])
	return n, true
}
