package tracestore

import (
	"fmt"
	"regexp"
	"sync"

	"github.com/s3log/s3log/backend/objstore"
)

// Masker gives what differs from run to run a name that does not: versions
// become v1, v2, …, nonces in keys n1, n2, … and UUIDs u1, u2, … in the order
// in which they appear. One Masker may serve several stores and further texts,
// so that a name means the same in all of them. It is safe for concurrent use.
type Masker struct {
	mu    sync.Mutex
	names map[string]string // kind + original → name
	count map[byte]int
}

// NewMasker makes a Masker that has seen nothing yet.
func NewMasker() *Masker {
	return &Masker{names: map[string]string{}, count: map[byte]int{}}
}

// random is what Mask looks for: UUIDs; the nonce of a segment's name, which is
// known by its place, for a nonce may well look like a number; and the nonce of
// a probe.
var random = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}` +
	`|-[0-9a-f]{16}\.jsonl\.zst\b` +
	`|\bprobe/[0-9a-f]+`)

// Mask replaces the nonces and UUIDs in text.
func (m *Masker) Mask(text string) string {
	return random.ReplaceAllStringFunc(text, func(s string) string {
		const dash, probe, suffix = "-", "probe/", ".jsonl.zst"
		switch {
		case s[0] == '-':
			return dash + m.name('n', s[len(dash):len(s)-len(suffix)]) + suffix
		case s[0] == 'p':
			return probe + m.name('n', s[len(probe):])
		}
		return m.name('u', s)
	})
}

// Version names a version; the zero Version is "none".
func (m *Masker) Version(v objstore.Version) string {
	if v.IsZero() {
		return v.String()
	}
	return m.name('v', v.Token())
}

func (m *Masker) name(kind byte, s string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := string(kind) + s
	name, ok := m.names[key]
	if !ok {
		m.count[kind]++
		name = fmt.Sprintf("%c%d", kind, m.count[kind])
		m.names[key] = name
	}
	return name
}
