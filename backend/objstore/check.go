package objstore

import "fmt"

// MaxKey is the longest key in bytes, the limit of S3.
const MaxKey = 1024

// CheckKey is for drivers: it reports why key is not one that every store can
// hold. A key is 1 to MaxKey bytes of visible ASCII without '\', its elements
// are separated by '/', and none of them is empty, "." or "..".
func CheckKey(key string) error {
	if key == "" {
		return fmt.Errorf("empty key")
	}
	if len(key) > MaxKey {
		return fmt.Errorf("key of %d bytes, the limit is %d", len(key), MaxKey)
	}
	start := 0
	for i := 0; i <= len(key); i++ {
		if i < len(key) && key[i] != '/' {
			if c := key[i]; c <= ' ' || c > '~' || c == '\\' {
				return fmt.Errorf("key %q: byte 0x%02x at %d is not allowed", key, c, i)
			}
			continue
		}
		switch key[start:i] {
		case "", ".", "..":
			return fmt.Errorf("key %q: element %q is not allowed", key, key[start:i])
		}
		start = i + 1
	}
	return nil
}

// CheckMetadata is for drivers: it reports why m breaks the rule of
// PutOptions.Metadata.
func CheckMetadata(m map[string]string) error {
	for k, v := range m {
		if k == "" {
			return fmt.Errorf("metadata with an empty key")
		}
		for i := range len(k) {
			if c := k[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return fmt.Errorf("metadata key %q: lower case letters, digits and '-' only", k)
			}
		}
		for i := range len(v) {
			if c := v[i]; c < ' ' || c > '~' {
				return fmt.Errorf("metadata %s: value %q is not printable ASCII", k, v)
			}
		}
	}
	return nil
}

// Span is for drivers that know the object's size before they read it: the
// part of an object of size bytes that o asks for. The error is ErrRejected (o
// makes no sense), ErrRange or ErrTooLarge.
func (o GetOptions) Span(size int64) (offset, length int64, err error) {
	switch {
	case o.Offset < 0 || o.Length < 0 || o.Limit < 0 || o.Length == 0 && o.Offset != 0:
		return 0, 0, ErrRejected
	case o.Length == 0:
		offset, length = 0, size
	case o.Offset >= size:
		return 0, 0, ErrRange
	default:
		offset, length = o.Offset, min(o.Length, size-o.Offset)
	}
	if o.Limit > 0 && length > o.Limit {
		return 0, 0, ErrTooLarge
	}
	return offset, length, nil
}
